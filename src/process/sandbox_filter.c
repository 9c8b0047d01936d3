#include "process_internal.h"

#include "bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/*
 * Refuses, with seccomp, the system calls that would lead around Landlock: Unix sockets, which
 * Landlock does not treat as files; io_uring, which creates sockets without a system call that a
 * filter sees; and, where Landlock is too old to control it, truncating a file that is not open for
 * writing.
 */

#ifdef ARCH

static int install(struct sock_filter *filter, size_t count)
{
	struct sock_fprog program = {.len = (unsigned short)count, .filter = filter};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/** Forbids the system calls of 32-bit programs, x32, and io_uring. */
static int forbid_side_doors(void)
{
	struct sock_filter filter[] = {
		LOAD(arch),
		SKIP_IF(BPF_JEQ, ARCH, 1),
		ANSWER(ENOSYS),
		LOAD(nr),
		SKIP_UNLESS(BPF_JGE, X32_BIT, 1),
		ANSWER(ENOSYS),
		SKIP_UNLESS(BPF_JEQ, SYS_io_uring_setup, 1),
		ANSWER(ENOSYS),
		ALLOW,
	};
	return install(filter, sizeof(filter) / sizeof(filter[0]));
}

static int forbid_sockets(void)
{
	struct sock_filter filter[] = {
		LOAD(nr),
		SKIP_UNLESS(BPF_JEQ, SYS_socket, 3),
		LOAD(args[0]),
		SKIP_UNLESS(BPF_JEQ, AF_UNIX, 1),
		ANSWER(EACCES),
		ALLOW,
	};
	return install(filter, sizeof(filter) / sizeof(filter[0]));
}

/**
 * Forbids truncating files that are not opened for writing. Opening for writing is controlled by
 * every version of Landlock.
 */
static int forbid_truncating(void)
{
	struct sock_filter filter[] = {
		LOAD(nr),
		SKIP_UNLESS(BPF_JEQ, SYS_truncate, 1),
		ANSWER(EACCES),
		SKIP_UNLESS(BPF_JEQ, SYS_openat2, 1), /* a filter cannot see its flags */
		ANSWER(ENOSYS),
#ifdef SYS_open
		SKIP_UNLESS(BPF_JEQ, SYS_open, 2),
		LOAD(args[1]),
		BPF_STMT(BPF_JMP | BPF_JA, 2), /* to O_TRUNC */
#endif
		SKIP_UNLESS(BPF_JEQ, SYS_openat, 6),
		LOAD(args[2]),
		SKIP_UNLESS(BPF_JSET, O_TRUNC, 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_ACCMODE),
		SKIP_IF(BPF_JEQ, O_WRONLY, 2),
		SKIP_IF(BPF_JEQ, O_RDWR, 1),
		ANSWER(EACCES),
		ALLOW,
	};
	return install(filter, sizeof(filter) / sizeof(filter[0]));
}

int sandbox_filter(bool sockets, bool truncating)
{
	int r = forbid_side_doors();
	r = r == 0 && !sockets ? forbid_sockets() : r;
	return r == 0 && !truncating ? forbid_truncating() : r;
}

#else

int sandbox_filter(bool sockets, bool truncating)
{
	errno = ENOSYS;
	return -1;
}

#endif
