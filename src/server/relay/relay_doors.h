/* All doors of the program, and the server's own routes, in the order in which they are searched. */
#ifndef HOLDFAST_RELAY_DOORS_H
#define HOLDFAST_RELAY_DOORS_H

#include "holdfast/door.h"
#include "holdfast/push.h"
#include "holdfast/raw.h"

/* Room for all of them, and for the end. */
#define RELAY_DOORS 20

/** Fills the server_config.doors. `push` and `raw` may be NULL. */
void relay_list_doors(struct door doors[RELAY_DOORS], struct push *push, struct raw_store *raw);

#endif
