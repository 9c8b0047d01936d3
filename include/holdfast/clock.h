/*
 * The time of inputs: milliseconds since 1970 (UTC) that never run backwards, even when the
 * system's clock is set. Only the edge (relay, net, agent) asks; the state machine is told.
 */
#ifndef HOLDFAST_CLOCK_H
#define HOLDFAST_CLOCK_H

#include <stdint.h>

struct clock {
	int64_t wall_at_start_ms;
	int64_t mono_at_start_ms;
};

void clock_init(struct clock *c);
int64_t clock_now_ms(const struct clock *c);

#endif
