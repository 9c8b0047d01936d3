/* Waits during the start, when the loop does not run yet, for what is not ready. */
#ifndef HOLDFAST_RELAY_WAIT_H
#define HOLDFAST_RELAY_WAIT_H

#include "holdfast/server_life.h"

#include <stdbool.h>
#include <uv.h>

struct relay_wait {
	uv_loop_t *loop;
	struct server_life *life;
	bool is_stopped; /* by a signal */
};

/** Runs the loop until `is_over`; SIGTERM and SIGINT end the start: the server is then draining. */
void relay_wait(void *waits, bool (*is_over)(void *arg), void *arg);

#endif
