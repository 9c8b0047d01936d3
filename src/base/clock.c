#include "holdfast/clock.h"

#include <time.h>

static int64_t read_ms(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void clock_init(struct clock *c)
{
	c->wall_at_start_ms = read_ms(CLOCK_REALTIME);
	c->mono_at_start_ms = read_ms(CLOCK_MONOTONIC);
}

int64_t clock_now_ms(const struct clock *c)
{
	return c->wall_at_start_ms + read_ms(CLOCK_MONOTONIC) - c->mono_at_start_ms;
}
