#include "holdfast/call_filter.h"
#include "process_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/*
 * Refuses, with seccomp, the system calls that would lead around Landlock: those that reach other
 * processes, or something that is no file (call_filter_refuse_common()); Unix sockets, which
 * Landlock does not treat as files; io_uring, which makes sockets without a call that a filter
 * sees; namespaces; typing into a terminal; and, where Landlock is too old to control it, truncating
 * a file that is not open for writing.
 */

/* The newest call that was decided on. Whatever comes later is as if the kernel did not have it. */
#define NEWEST_CALL 467 /* open_tree_attr, Linux 6.15 */

#define SOCKET_TYPE   0xfU /* the others are flags */
#define SOCKET_FAMILY 45 /* the highest: AF_MCTP */

#define REFUSE_IF(filter, call, error, ...)                                                       \
	call_filter_refuse_if(filter, SCMP_SYS(call), error,                                      \
		sizeof((const struct scmp_arg_cmp[]){__VA_ARGS__}) / sizeof(struct scmp_arg_cmp), \
		(const struct scmp_arg_cmp[]){__VA_ARGS__})

/** A filter of its own: the other one has no place for what it does not name. */
static int forbid_unknown_calls(void)
{
	static const int missing[] = {
		SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register)};
	struct call_filter filter = call_filter_begin(ENOSYS);
	for (int call = 0; call <= NEWEST_CALL; call++) {
		bool is_missing = false;
		for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
			is_missing = is_missing || call == missing[i];
		}
		if (!is_missing) {
			call_filter_allow(&filter, call);
		}
	}
	return call_filter_end(&filter, false);
}

/**
 * Unix sockets, except pairs. A pair for datagrams can be connected anew, to any name. Of the other
 * families programs get those of the network, and netlink, which tells them of it.
 */
static void forbid_sockets(struct call_filter *filter, bool unix_sockets)
{
	if (!unix_sockets) {
		REFUSE_IF(filter, socket, EACCES, CALL_IS(0, AF_UNIX));
		REFUSE_IF(filter, socketpair, EACCES, CALL_HAS(1, SOCKET_TYPE, SOCK_DGRAM));
		REFUSE_IF(filter, socketpair, EACCES, CALL_HAS(1, SOCKET_TYPE, SOCK_RAW));
	}
	for (int family = 0; family <= SOCKET_FAMILY; family++) {
		if (family != AF_UNIX && family != AF_INET && family != AF_INET6 &&
			family != AF_NETLINK) {
			REFUSE_IF(filter, socket, EAFNOSUPPORT, CALL_IS(0, (scmp_datum_t)family));
		}
	}
}

/** clone3() has its flags in memory, where a filter cannot see them. The C library then uses clone(). */
static void forbid_namespaces(struct call_filter *filter)
{
	static const scmp_datum_t flags[] = {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS,
		CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET};
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		REFUSE_IF(filter, clone, EPERM, CALL_HAS(0, flags[i], flags[i]));
		REFUSE_IF(filter, unshare, EPERM, CALL_HAS(0, flags[i], flags[i]));
	}
	REFUSE_IF(filter, unshare, EPERM, CALL_HAS(0, CLONE_NEWTIME, CLONE_NEWTIME));
	call_filter_refuse(filter, (const int[]){SCMP_SYS(clone3)}, 1, ENOSYS);
	call_filter_refuse(filter, (const int[]){SCMP_SYS(chroot)}, 1, EPERM);
}

/**
 * Truncating files that are not opened for writing. Opening for writing is controlled by every
 * version of Landlock.
 */
static void forbid_truncating(struct call_filter *filter)
{
	static const scmp_datum_t modes[] = {O_RDONLY, O_ACCMODE};
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		scmp_datum_t flags = O_TRUNC | modes[i];
		REFUSE_IF(filter, open, EACCES, CALL_HAS(1, O_TRUNC | O_ACCMODE, flags));
		REFUSE_IF(filter, openat, EACCES, CALL_HAS(2, O_TRUNC | O_ACCMODE, flags));
	}
	call_filter_refuse(filter, (const int[]){SCMP_SYS(truncate)}, 1, EACCES);
	/* A filter cannot see its flags. */
	call_filter_refuse(filter, (const int[]){SCMP_SYS(openat2)}, 1, ENOSYS);
}

int sandbox_filter(const struct sandbox *sandbox, bool truncating)
{
	int err = forbid_unknown_calls();
	if (err == 0) {
		struct call_filter filter = call_filter_begin(0);
		call_filter_refuse_common(&filter);
		forbid_sockets(&filter, sandbox->sockets);
		if (!sandbox->namespaces) {
			forbid_namespaces(&filter);
		}
		REFUSE_IF(&filter, ioctl, EPERM, CALL_IS(1, TIOCSTI));
		REFUSE_IF(&filter, ioctl, EPERM, CALL_IS(1, TIOCLINUX));
		if (!truncating) {
			forbid_truncating(&filter);
		}
		err = call_filter_end(&filter, false);
	}
	errno = -err;
	return err == 0 ? 0 : -1;
}
