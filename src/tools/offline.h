/* The sessions of a data directory that no server uses, for the commands that change it. */
#ifndef HOLDFAST_OFFLINE_H
#define HOLDFAST_OFFLINE_H

#include "holdfast/clock.h"
#include "holdfast/session.h"

#include <uv.h>

struct offline {
	uv_loop_t loop;
	struct clock clock;
	struct session_table *sessions; /* NULL: it could not be opened */
	char *own_dir; /* for what a server has beside a database; NULL: not needed */
};

/** Whether it is the address of a database, and no directory. */
bool offline_is_address(const char *place);

/** Opens a directory, or a database, as a start of the server does, or to repair it; says why not. offline_close() in any case. */
int offline_open(struct offline *opened, const char *place, const struct store_repair *repair);
/** Opens a database though it is an older copy: all sessions get new epochs (proto/store-format.md#sessions-in-postgresql). */
int offline_open_older(struct offline *opened, const char *address);
void offline_close(struct offline *opened);
/** A directory that is none of ours is not to become one: says so, and returns a negative errno. */
int offline_check_dir(const char *dir);

#endif
