#ifndef HOLDFAST_LOOP_H
#define HOLDFAST_LOOP_H

#include <stdbool.h>
#include <uv.h>

/**
 * Runs the loop until `is_over` says so, but no longer than so many ms; whether it is over. Leaves
 * a closed handle to the loop's next tick.
 */
bool loop_run_until(uv_loop_t *loop, bool (*is_over)(void *arg), void *arg, int64_t ms);

#endif
