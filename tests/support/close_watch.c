/*
 * Stands in front of close() and of what makes descriptors, in a real server (LD_PRELOAD), and finds
 * descriptors that are closed twice.
 *
 * The kernel gives the lowest free number, so a number that is closed twice mostly belongs to
 * another file by then, and the mistake shows nowhere. Here each new descriptor moves to a number
 * that was not used for long: the second close fails with EBADF. Each close that does so is a
 * line of the file that HOLDFAST_CLOSE_WATCH names: the program, the number, and who called.
 *
 * What the C library opens for itself (fopen(), opendir()) keeps its number.
 */
#undef _FILE_OFFSET_BITS /* it would give open() the name of open64() */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define FIRST  32 /* lower ones belong to what a process begins with */
#define FRAMES 16

static atomic_int next_fd = FIRST;

/** Sets `*next` to the function that would be called without us. */
static void find(const char *name, void *next)
{
	if (!*(void **)next && !(*(void **)next = dlsym(RTLD_NEXT, name))) {
		abort();
	}
}

static long bare(long number, long a, long b, long c, long d, long e, long f)
{
	static long (*next)(long, ...);
	find("syscall", &next);
	return next(number, a, b, c, d, e, f);
}

/** Moves a new descriptor to the next number. One that cannot be moved stays where it is. */
static int move(int fd)
{
	int saved = errno;
	if (fd < 0) {
		return fd;
	}
	long how =
		bare(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0) & FD_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD;
	long moved = bare(SYS_fcntl, fd, how, atomic_load(&next_fd), 0, 0, 0);
	if (moved < 0) { /* no number is left below the limit */
		moved = bare(SYS_fcntl, fd, how, FIRST, 0, 0, 0);
	}
	if (moved >= 0) {
		atomic_store(&next_fd, (int)moved + 1);
		bare(SYS_close, fd, 0, 0, 0, 0, 0);
		fd = (int)moved;
	}
	errno = saved;
	return fd;
}

/* --- closing --- */

static void tell(int fd)
{
	const char *path = getenv("HOLDFAST_CLOSE_WATCH");
	char line[4096];
	void *callers[FRAMES];
	int count = backtrace(callers, FRAMES);
	int len = snprintf(line, sizeof(line), "%s %d", program_invocation_short_name, fd);
	for (int i = 2; i < count; i++) { /* without us */
		Dl_info at = {0};
		dladdr(callers[i], &at);
		const char *file = at.dli_fname ? strrchr(at.dli_fname, '/') : NULL;
		len += snprintf(line + len, sizeof(line) - (size_t)len, " %.40s:%.60s",
			file ? file + 1 : "?", at.dli_sname ? at.dli_sname : "?");
	}
	line[len++] = '\n';
	long to = path ? bare(SYS_openat, AT_FDCWD, (long)path,
				 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666, 0, 0)
		       : -1;
	if (to >= 0) {
		bare(SYS_write, to, (long)line, len, 0, 0, 0);
		bare(SYS_close, to, 0, 0, 0, 0, 0);
	}
}

/* Not by the name of close(): an interposer in front of us has that name, and calls syscall(). */
static int close_watched(int fd)
{
	int result = (int)bare(SYS_close, fd, 0, 0, 0, 0, 0);
	if (result < 0 && errno == EBADF) {
		tell(fd);
		errno = EBADF;
	}
	return result;
}

int close(int fd)
{
	return close_watched(fd);
}

/** libuv closes by it. */
long syscall(long number, ...)
{
	va_list list;
	long args[6];
	va_start(list, number);
	for (int i = 0; i < 6; i++) {
		args[i] = va_arg(list, long);
	}
	va_end(list);
	if (number == SYS_close) {
		return close_watched((int)args[0]);
	}
	long result = bare(number, args[0], args[1], args[2], args[3], args[4], args[5]);
	switch (number) {
	case SYS_openat:
	case SYS_openat2:
	case SYS_memfd_create:
	case SYS_pidfd_open:
	case SYS_io_uring_setup:
		return move((int)result);
	default:
		return result;
	}
}

/* --- opening --- */

#define MAKER(name, declared, given)        \
	int name declared                   \
	{                                   \
		static int(*next) declared; \
		find(#name, &next);         \
		return move(next given);    \
	}

MAKER(accept, (int fd, __SOCKADDR_ARG at, socklen_t *restrict len), (fd, at, len))
MAKER(accept4, (int fd, __SOCKADDR_ARG at, socklen_t *restrict len, int flags),
	(fd, at, len, flags))
MAKER(dup, (int fd), (fd))
MAKER(epoll_create, (int size), (size))
MAKER(epoll_create1, (int flags), (flags))
MAKER(eventfd, (unsigned count, int flags), (count, flags))
MAKER(inotify_init1, (int flags), (flags))
MAKER(memfd_create, (const char *name, unsigned flags), (name, flags))
MAKER(mkstemp64, (char *path), (path))
MAKER(socket, (int domain, int type, int protocol), (domain, type, protocol))
MAKER(timerfd_create, (clockid_t clock, int flags), (clock, flags))

#define PAIR_MAKER(name, declared, given, fds)     \
	int name declared                          \
	{                                          \
		static int(*next) declared;        \
		find(#name, &next);                \
		int result = next given;           \
		if (result == 0) {                 \
			(fds)[0] = move((fds)[0]); \
			(fds)[1] = move((fds)[1]); \
		}                                  \
		return result;                     \
	}

PAIR_MAKER(pipe2, (int fds[2], int flags), (fds, flags), fds)
PAIR_MAKER(socketpair, (int domain, int type, int protocol, int fds[2]),
	(domain, type, protocol, fds), fds)

#define OPENER(name, declared, given)               \
	int name declared                           \
	{                                           \
		static int(*next) declared;         \
		va_list list;                       \
		va_start(list, flags);              \
		mode_t mode = va_arg(list, mode_t); \
		va_end(list);                       \
		find(#name, &next);                 \
		return move(next given);            \
	}

OPENER(open, (const char *path, int flags, ...), (path, flags, mode))
OPENER(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENER(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
OPENER(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))

int signalfd(int fd, const sigset_t *mask, int flags)
{
	static int (*next)(int, const sigset_t *, int);
	find("signalfd", &next);
	int result = next(fd, mask, flags);
	return fd < 0 ? move(result) : result;
}

#define CONTROL(name)                                                                            \
	int name(int fd, int command, ...)                                                       \
	{                                                                                        \
		static int (*next)(int, int, ...);                                               \
		va_list list;                                                                    \
		va_start(list, command);                                                         \
		long arg = va_arg(list, long);                                                   \
		va_end(list);                                                                    \
		find(#name, &next);                                                              \
		int result = next(fd, command, arg);                                             \
		return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? move(result) : result; \
	}

CONTROL(fcntl)
CONTROL(fcntl64)

/** Descriptors that another process has sent. */
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	static ssize_t (*next)(int, struct msghdr *, int);
	find("recvmsg", &next);
	ssize_t result = next(fd, message, flags);
	struct cmsghdr *part = result < 0 ? NULL : CMSG_FIRSTHDR(message);
	for (; part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		for (size_t at = CMSG_LEN(0); at < part->cmsg_len; at += sizeof(int)) {
			int sent;
			memcpy(&sent, (char *)part + at, sizeof(sent));
			sent = move(sent);
			memcpy((char *)part + at, &sent, sizeof(sent));
		}
	}
	return result;
}
