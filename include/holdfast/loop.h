/*
 * Helpers for libuv loops: running one until a deadline, handles with memory of their own, and a
 * clock for deadlines of others.
 *
 * A process that was stopped (SIGSTOP, a pause of its virtual machine), or got no processor, finds
 * all deadlines passed when it goes on, and the bytes that kept them unread. So who judges others by
 * the time reads loop_now_ms(), which leaves such gaps out, and judges nobody while
 * loop_missed_ms() is not 0.
 */
#ifndef HOLDFAST_LOOP_H
#define HOLDFAST_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/** What a loop knows of gaps in its time, for loop_watch(). All of it is for loop.c. */
struct loop_watch {
	uint64_t due_ms; /* when it was to go on, at the latest */
	uint64_t lost_ms; /* all gaps together */
	uint64_t missed_ms; /* the last gap, if what came in it may be unread; 0: all is read */
};

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

/**
 * Watches a loop for gaps; NULL ends that. Takes uv_loop_t.data, which must be NULL before:
 * uv_loop_init() leaves it as it is.
 */
void loop_watch(uv_loop_t *loop, struct loop_watch *watch);
/** To be called by the last uv_prepare_t: the loop is about to sleep. */
void loop_note_sleep(uv_loop_t *loop);
/** To be called by the first uv_check_t: the loop has read what there was. */
void loop_note_wake(uv_loop_t *loop);
/** Like uv_now(), without gaps of more than a second. Without loop_watch(): uv_now(). */
int64_t loop_now_ms(uv_loop_t *loop);
/** The length of a gap whose input may not have been read yet; 0: none. */
int64_t loop_missed_ms(uv_loop_t *loop);
/**
 * For a timer that is about to give somebody up. If the loop has missed something, it starts the
 * timer again, for as long as that was but at most 10 s, and returns true.
 */
bool loop_put_off(uv_timer_t *timer, uv_timer_cb callback);

#endif
