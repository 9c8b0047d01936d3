/*
 * The deadline until which guards let their agents live: one number in memory that the server and
 * the guards share.
 */
#include "process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int deadline_make(int *ret_fd, atomic_llong **ret_at_ms)
{
	int fd = memfd_create("deadline", MFD_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	void *page = ftruncate(fd, sizeof(**ret_at_ms)) < 0
			     ? MAP_FAILED
			     : mmap(NULL, sizeof(**ret_at_ms), PROT_READ | PROT_WRITE, MAP_SHARED,
				       fd, 0);
	if (page == MAP_FAILED) {
		int err = -errno;
		close(fd);
		return err;
	}
	*ret_fd = fd;
	*ret_at_ms = page;
	return 0;
}

void deadline_free(atomic_llong *at_ms)
{
	if (at_ms) {
		munmap(at_ms, sizeof(*at_ms));
	}
}

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/** Makes `timer` readable from `at_ms` on. Returns 0, or -1 with errno. */
static int set_timer(int timer, int64_t at_ms)
{
	at_ms = at_ms > 0 ? at_ms : 1; /* 0 would disarm the timer */
	const struct itimerspec wanted = {
		.it_value = {.tv_sec = at_ms / 1000, .tv_nsec = (at_ms % 1000) * 1000000}};
	return timerfd_settime(timer, TFD_TIMER_ABSTIME, &wanted, NULL);
}

int deadline_watch(int fd, struct deadline *deadline)
{
	void *page = mmap(NULL, sizeof(*deadline->at_ms), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		return -1;
	}
	deadline->at_ms = page;
	/*
	 * CLOCK_BOOTTIME advances during suspend, so a timer that expired meanwhile fires at once.
	 */
	deadline->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	return deadline->timer < 0 ? -1 : set_timer(deadline->timer, atomic_load(deadline->at_ms));
}

bool deadline_is_over(const struct deadline *deadline)
{
	int64_t at_ms = atomic_load(deadline->at_ms);
	return now_ms() >= at_ms || set_timer(deadline->timer, at_ms) < 0;
}
