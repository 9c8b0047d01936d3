/* The sessions that other nodes watch (ws_tap.c). */
#ifndef HOLDFAST_DOOR_TAP_H
#define HOLDFAST_DOOR_TAP_H

#include "holdfast/door.h"

/** Before the server's own routes: a node asks for the same address as an observer. */
extern const struct door door_tap;

#endif
