/*
 * The two clocks. The wall clock tells the time of day; people and NTP set it, in either direction
 * and by any amount. The other one counts since the machine was started, also while it is
 * suspended, and nobody sets it: durations and deadlines go by it.
 *
 * Only the edge (relay, net, agent) asks, and the session where it writes an input down; the state
 * machine is told. libuv's timers go by a third clock, CLOCK_MONOTONIC, which stands still in a
 * suspend. That is right for the patience with a child process, which slept as well.
 */
#ifndef HOLDFAST_CLOCK_H
#define HOLDFAST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_BOOT_ID_SIZE 37

/** Zeros ask the system; with anything else a test pretends. */
struct clock {
	int64_t wall_shift_ms; /* the wall clock was set by so much */
	int64_t elapsed_shift_ms; /* the machine slept so long */
	const char *boot_id;
	enum { CLOCK_SYNC_ASK, CLOCK_SYNC_YES, CLOCK_SYNC_NO } sync;
};

void clock_init(struct clock *c);
/** The wall clock: ms since 1970 (UTC). It may run backwards. */
int64_t clock_now_ms(const struct clock *c);
/** Ms since the machine was started, with the time it was suspended. It never runs backwards. */
int64_t clock_elapsed_ms(const struct clock *c);
/** Ms of the clock that libuv's timers go by. */
int64_t clock_steady_ms(void);
/** Whether the kernel has been told by NTP that the wall clock is right. */
bool clock_is_synchronised(const struct clock *c);
/** What names this start of the machine; "" if that cannot be known. */
void clock_get_boot_id(const struct clock *c, char ret_id[CLOCK_BOOT_ID_SIZE]);
/**
 * A descriptor to poll: it becomes readable when the wall clock is set, and when the machine wakes
 * from a suspend. clock_watch_take() makes it unreadable again. A negative errno if there is no
 * such thing.
 */
int clock_watch_open(void);
void clock_watch_take(int fd);

#endif
