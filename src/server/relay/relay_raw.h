/* Opens raw streams for the server. */
#ifndef HOLDFAST_RELAY_RAW_H
#define HOLDFAST_RELAY_RAW_H

#include "holdfast/config.h"
#include "holdfast/raw.h"
#include "holdfast/session.h"

/** They are files of one server: NULL with --store. All arguments are borrowed. */
struct raw_store *relay_open_raw(const struct config *config, uv_loop_t *loop,
	const struct clock *clock, struct session_table *sessions);

#endif
