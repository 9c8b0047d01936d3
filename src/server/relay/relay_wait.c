#include "relay_wait.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <signal.h>
#include <string.h>

/* No time limit: `is_over` has its own. */
#define ROUND_MS 3600000

static void handle_signal(uv_signal_t *handle, int number)
{
	struct relay_wait *wait = handle->data;
	if (!wait->is_stopped) {
		diag(DIAG_INFO, "stopping (SIG%s)", sigabbrev_np(number));
	}
	wait->is_stopped = true;
	server_reach(wait->life, SERVER_DRAINING);
}

/** Only while it waits: the rest of the start blocks, and a signal ends the process there. */
static uv_signal_t *watch(struct relay_wait *wait, int number)
{
	uv_signal_t *handle = xmalloc(sizeof(*handle));
	uv_signal_init(wait->loop, handle);
	handle->data = wait;
	uv_signal_start(handle, handle_signal, number);
	return handle;
}

void relay_wait(void *waits, bool (*is_over)(void *arg), void *arg)
{
	struct relay_wait *wait = waits;
	uv_signal_t *term = watch(wait, SIGTERM);
	uv_signal_t *interrupt = watch(wait, SIGINT);
	while (!loop_run_until(wait->loop, is_over, arg, ROUND_MS)) {
	}
	loop_close(term);
	loop_close(interrupt);
}
