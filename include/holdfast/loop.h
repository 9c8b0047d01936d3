/* Helpers for libuv loops: running one until a deadline, and handles with memory of their own. */
#ifndef HOLDFAST_LOOP_H
#define HOLDFAST_LOOP_H

#include <stdbool.h>
#include <uv.h>

/**
 * Runs the loop until `is_over` returns true, at most `ms` milliseconds. Returns whether it did.
 * Leaves a closing handle to the loop's next iteration.
 */
bool loop_run_until(uv_loop_t *loop, bool (*is_over)(void *arg), void *arg, int64_t ms);

/** Closes a file on the thread pool, because its file system may be slow. */
void loop_close_file(uv_loop_t *loop, int fd);

/**
 * Allocates an unreferenced timer (it does not keep the loop alive). Stop and free it with
 * loop_close().
 */
uv_timer_t *loop_timer(uv_loop_t *loop, void *data);
/** Closes a handle that was allocated by itself, and frees it. */
void loop_close(void *handle);

#endif
