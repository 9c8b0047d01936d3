#include "holdfast/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

/* The watch's timer must never expire; only being cancelled matters. This is the year 2255. */
#define FAR_OFF_SECS 9000000000

static int64_t read_ms(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void clock_init(struct clock *c)
{
	*c = (struct clock){0};
}

int64_t clock_now_ms(const struct clock *c)
{
	return read_ms(CLOCK_REALTIME) + c->wall_shift_ms;
}

int64_t clock_elapsed_ms(const struct clock *c)
{
	return read_ms(CLOCK_BOOTTIME) + c->elapsed_shift_ms;
}

int64_t clock_steady_ms(void)
{
	return read_ms(CLOCK_MONOTONIC);
}

bool clock_is_synchronised(const struct clock *c)
{
	if (c->sync != CLOCK_SYNC_ASK) {
		return c->sync == CLOCK_SYNC_YES;
	}
	struct timex state = {.modes = 0};
	int r = adjtimex(&state);
	return r >= 0 && r != TIME_ERROR && !(state.status & STA_UNSYNC);
}

void clock_get_boot_id(const struct clock *c, char ret_id[CLOCK_BOOT_ID_SIZE])
{
	memset(ret_id, 0, CLOCK_BOOT_ID_SIZE);
	if (c->boot_id) {
		snprintf(ret_id, CLOCK_BOOT_ID_SIZE, "%s", c->boot_id);
		return;
	}
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret_id, CLOCK_BOOT_ID_SIZE - 1);
	if (n != CLOCK_BOOT_ID_SIZE - 1) {
		ret_id[0] = '\0';
	}
	if (fd >= 0) {
		close(fd);
	}
}

int clock_watch_open(void)
{
	const struct itimerspec far_off = {.it_value = {.tv_sec = FAR_OFF_SECS}};
	int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	int flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
	if (timerfd_settime(fd, flags, &far_off, NULL) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

void clock_watch_take(int fd)
{
	uint64_t expirations;
	(void)!read(fd, &expirations, sizeof(expirations));
}
