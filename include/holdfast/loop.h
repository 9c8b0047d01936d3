#ifndef HOLDFAST_LOOP_H
#define HOLDFAST_LOOP_H

#include <stdbool.h>
#include <uv.h>

/**
 * Runs the loop until `is_over` says so, but no longer than so many ms; whether it is over. Leaves
 * a closed handle to the loop's next tick.
 */
bool loop_run_until(uv_loop_t *loop, bool (*is_over)(void *arg), void *arg, int64_t ms);

/** Closes a file on the thread pool: its file system may be slow. */
void loop_close_file(uv_loop_t *loop, int fd);

/** A timer of its own memory that keeps no loop alive. */
uv_timer_t *loop_timer(uv_loop_t *loop, void *data);
/** Closes a handle of its own memory, and frees it. */
void loop_close(void *handle);

#endif
