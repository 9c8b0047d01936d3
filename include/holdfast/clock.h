/*
 * The two clocks. The wall clock gives the time of day; people and NTP set it, in either direction
 * and by any amount. The elapsed clock counts since the machine booted, including time suspended,
 * and cannot be set: use it for durations and deadlines.
 *
 * A session reads the clock when it records an input; the state machine is given that time, and
 * reads no clock. libuv's timers use a third clock, CLOCK_MONOTONIC, which stops during a suspend.
 * That is right for waiting on a child process, which was suspended as well.
 */
#ifndef HOLDFAST_CLOCK_H
#define HOLDFAST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_BOOT_ID_SIZE 37

/** All zeros: the real clocks. Tests set the members. */
struct clock {
	int64_t wall_shift_ms; /* added to the wall clock */
	int64_t elapsed_shift_ms; /* added to the elapsed clock */
	const char *boot_id;
	enum { CLOCK_SYNC_ASK, CLOCK_SYNC_YES, CLOCK_SYNC_NO } sync;
};

void clock_init(struct clock *c);
/** Returns the wall clock in ms since 1970 (UTC). It can go backwards. */
int64_t clock_now_ms(const struct clock *c);
/** Returns ms since the machine booted, including time suspended. Never goes backwards. */
int64_t clock_elapsed_ms(const struct clock *c);
/** Returns CLOCK_MONOTONIC in ms, the clock of libuv's timers. */
int64_t clock_steady_ms(void);
/** Whether the kernel considers the wall clock synchronised (by NTP). */
bool clock_is_synchronised(const struct clock *c);
/** Writes an id of the current boot of the machine; "" if it is unknown. */
void clock_get_boot_id(const struct clock *c, char ret_id[CLOCK_BOOT_ID_SIZE]);
/**
 * Returns a descriptor to poll, which the caller closes, or a negative errno. It becomes readable
 * when the wall clock is set or the machine wakes from a suspend; clock_watch_take() clears that.
 */
int clock_watch_open(void);
void clock_watch_take(int fd);

#endif
