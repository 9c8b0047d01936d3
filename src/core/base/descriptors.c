#include "holdfast/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

int descriptors_check(size_t kept)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY) {
		return 0;
	}
	size_t all = (size_t)limit.rlim_cur;
	kept = kept < all / 4 ? kept : all / 4;
	/* The kernel hands out the lowest free number, so all below it are in use. */
	int fd = open("/", O_PATH | O_CLOEXEC);
	if (fd < 0) {
		return errno == ENFILE ? -EMFILE : -errno;
	}
	close(fd);
	return (size_t)fd < all - kept ? 0 : -EMFILE;
}

int descriptors_of_signals(sigset_t *ret_mask)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, ret_mask);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}
