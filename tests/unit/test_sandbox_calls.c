/*
 * What a process in the sandbox can do to others of its user, and to what is no file: each call of
 * the table in SECURITY.md, as root and as another user. The target is a process outside.
 */
#include "holdfast/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

/* Calls that the C library of Debian 12 has no name for; the numbers are those of all machines. */
#define PROCESS_MRELEASE 448
#define CACHESTAT        451
#define OPEN_TREE_ATTR   467
#define NEWER            468

static int failed(long result)
{
	return result < 0 ? errno : 0;
}

#define EXPECT(what, error)                                                           \
	do {                                                                          \
		int found = (what);                                                   \
		if (found != (error)) {                                               \
			fprintf(stderr, "line %d: %s: %s, not %s\n", __LINE__, #what, \
				strerror(found), strerror(error));                    \
			wrong++;                                                      \
		}                                                                     \
	} while (0)

#define CALL(...) failed(syscall(__VA_ARGS__))

/* --- other processes --- */

static int look_at_limits(pid_t other)
{
	int wrong = 0;
	static const int which[] = {RLIMIT_CPU, RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS};
	for (size_t i = 0; i < sizeof(which) / sizeof(which[0]); i++) {
		struct rlimit limit;
		EXPECT(CALL(SYS_prlimit64, other, which[i], &(struct rlimit){0}, NULL), EPERM);
		EXPECT(CALL(SYS_prlimit64, other, which[i], NULL, &limit), EPERM);
		EXPECT(failed(getrlimit((__rlimit_resource_t)which[i], &limit)), 0);
		EXPECT(failed(setrlimit((__rlimit_resource_t)which[i], &limit)), 0);
	}
	return wrong;
}

static int look_at_scheduling(pid_t other)
{
	int wrong = 0;
	cpu_set_t cpus;
	struct sched_param param = {0};
	EXPECT(failed(sched_getaffinity(other, sizeof(cpus), &cpus)), 0);
	EXPECT(failed(sched_setaffinity(other, sizeof(cpus), &cpus)), EPERM);
	EXPECT(failed(sched_setaffinity(0, sizeof(cpus), &cpus)), 0);
	EXPECT(failed(sched_setscheduler(other, SCHED_BATCH, &param)), EPERM);
	EXPECT(failed(sched_setscheduler(0, SCHED_BATCH, &param)), 0);
	EXPECT(failed(sched_setparam(other, &param)), EPERM);
	EXPECT(failed(sched_setparam(0, &param)), 0);
	EXPECT(CALL(SYS_sched_setattr, other, NULL, 0), EPERM);
	EXPECT(CALL(SYS_sched_setattr, 0, NULL, 0), EINVAL);
	EXPECT(failed(setpriority(PRIO_PROCESS, (id_t)other, 10)), EPERM);
	EXPECT(failed(setpriority(PRIO_PGRP, 0, 10)), EPERM);
	EXPECT(failed(setpriority(PRIO_USER, 0, 10)), EPERM);
	EXPECT(CALL(SYS_setpriority, 0x100000002L, 0, 10), EPERM);
	EXPECT(CALL(SYS_setpriority, PRIO_PROCESS, 0x100000000L | other, 10), EPERM);
	EXPECT(failed(setpriority(PRIO_PROCESS, 0, 19)), 0);
	EXPECT(CALL(SYS_ioprio_set, IOPRIO_WHO_PROCESS, other, 0), EPERM);
	EXPECT(CALL(SYS_ioprio_set, IOPRIO_WHO_PGRP, 0, 0), EPERM);
	EXPECT(CALL(SYS_ioprio_set, IOPRIO_WHO_USER, 0, 0), EPERM);
	EXPECT(CALL(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0), 0);
	EXPECT(failed(prctl(PR_SCHED_CORE, PR_SCHED_CORE_SHARE_TO, other, 0, 0)), EPERM);
	EXPECT(CALL(SYS_prctl, 0x100000000L | PR_SCHED_CORE, 0, other, 0, 0), EPERM);
	return wrong;
}

static int look_at_memory(pid_t other, bool is_scoped)
{
	int wrong = 0;
	char byte;
	struct iovec local = {&byte, 1};
	int fd = (int)syscall(SYS_pidfd_open, other, 0);
	EXPECT(failed(fd), 0);
	EXPECT(CALL(SYS_pidfd_getfd, fd, 0, 0), EPERM);
	EXPECT(CALL(SYS_pidfd_send_signal, fd, 0, NULL, 0), is_scoped ? EPERM : 0);
	EXPECT(CALL(PROCESS_MRELEASE, fd, 0), EPERM);
	EXPECT(CALL(SYS_process_madvise, fd, &local, 1, MADV_COLD, 0), EPERM);
	EXPECT(CALL(SYS_process_vm_readv, other, &local, 1, &local, 1, 0), EPERM);
	EXPECT(CALL(SYS_process_vm_writev, other, &local, 1, &local, 1, 0), EPERM);
	EXPECT(failed(ptrace(PTRACE_ATTACH, other, NULL, NULL)), EPERM);
	EXPECT(failed(ptrace(PTRACE_SEIZE, other, NULL, NULL)), EPERM);
	EXPECT(CALL(SYS_kcmp, getpid(), other, 0, 0, 0), EPERM);
	EXPECT(CALL(SYS_get_robust_list, other, &local, &local), EPERM);
	EXPECT(CALL(SYS_migrate_pages, other, 0, NULL, NULL), EPERM);
	EXPECT(CALL(SYS_move_pages, other, 0, NULL, NULL, NULL, 0), EPERM);
	EXPECT(CALL(SYS_perf_event_open, NULL, other, 0, 0, 0), EPERM);
	EXPECT(failed(kill(other, 0)), is_scoped ? EPERM : 0);
	EXPECT(CALL(SYS_tkill, other, 0), is_scoped ? EPERM : 0);
	EXPECT(CALL(SYS_tgkill, other, other, 0), is_scoped ? EPERM : 0);
	close(fd);
	return wrong;
}

/** Its files in /proc, among them those that need no more than the same user. */
static int look_at_proc(pid_t other)
{
	static const char *const files[] = {"oom_score_adj", "coredump_filter", "clear_refs",
		"timerslack_ns", "autogroup", "comm", "mem", "environ", "sched"};
	int wrong = 0;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/%d/%s", other, files[i]);
		int fd = open(path, O_WRONLY);
		if (fd >= 0 && write(fd, "1", 1) > 0) {
			fprintf(stderr, "%s can be written\n", path);
			wrong++;
		}
		close(fd);
	}
	return wrong;
}

/* --- what is no file --- */

static int look_at_shared(void)
{
	int wrong = 0;
	struct sembuf op = {0};
	char message[16] = {1};
	EXPECT(CALL(SYS_keyctl, 0, -4, 0, 0, 0), EPERM); /* the user's keyring */
	EXPECT(CALL(SYS_add_key, "user", "x", "y", 1, -4), EPERM);
	EXPECT(CALL(SYS_request_key, "user", "x", NULL, 0), EPERM);
	EXPECT(failed(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600)), EPERM);
	EXPECT(shmat(0, NULL, 0) == (void *)-1 ? errno : 0, EPERM);
	EXPECT(failed(shmctl(0, IPC_RMID, NULL)), EPERM);
	EXPECT(failed(shmdt(NULL)), EPERM);
	EXPECT(failed(semget(IPC_PRIVATE, 1, IPC_CREAT | 0600)), EPERM);
	EXPECT(failed(semop(0, &op, 1)), EPERM);
	EXPECT(failed(semtimedop(0, &op, 1, NULL)), EPERM);
	EXPECT(failed(semctl(0, 0, IPC_RMID)), EPERM);
	EXPECT(failed(msgget(IPC_PRIVATE, IPC_CREAT | 0600)), EPERM);
	EXPECT(failed(msgsnd(0, message, 1, IPC_NOWAIT)), EPERM);
	EXPECT(failed(msgrcv(0, message, 1, 0, IPC_NOWAIT)), EPERM);
	EXPECT(failed(msgctl(0, IPC_RMID, NULL)), EPERM);
	EXPECT(CALL(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, NULL), EPERM);
	EXPECT(CALL(SYS_mq_unlink, "x"), EPERM);
	EXPECT(failed(memfd_create("x", 0)), 0);
	return wrong;
}

static int look_at_sockets(bool sockets)
{
	static const int families[] = {AF_PACKET, AF_ALG, AF_VSOCK, AF_BLUETOOTH, AF_TIPC, AF_KEY};
	int wrong = 0;
	int pair[2];
	EXPECT(failed(socket(AF_UNIX, SOCK_DGRAM, 0)), sockets ? 0 : EACCES);
	EXPECT(CALL(SYS_socket, 0x100000000L | AF_UNIX, SOCK_STREAM, 0), sockets ? 0 : EACCES);
	EXPECT(failed(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)), 0);
	EXPECT(failed(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)), 0);
	/* One of a pair for datagrams can be connected to any name. */
	EXPECT(failed(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair)),
		sockets ? 0 : EACCES);
	EXPECT(failed(socketpair(AF_UNIX, SOCK_RAW, 0, pair)), sockets ? 0 : EACCES);
	EXPECT(failed(socket(AF_INET, SOCK_STREAM, 0)), 0);
	EXPECT(failed(socket(AF_INET6, SOCK_DGRAM, 0)), 0);
	EXPECT(failed(socket(AF_NETLINK, SOCK_RAW, 0)), 0);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		EXPECT(failed(socket(families[i], SOCK_RAW, 0)), EAFNOSUPPORT);
	}
	return wrong;
}

/* --- the kernel and the system --- */

static int make_with_flags(unsigned long flags)
{
	pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		_exit(0);
	}
	if (pid > 0) {
		waitpid(pid, NULL, 0);
	}
	return failed(pid);
}

static int make_thread_process(void)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		_exit(0);
	}
	if (pid > 0) {
		waitpid(pid, NULL, 0);
	}
	return failed(pid);
}

static int look_at_namespaces(bool namespaces)
{
	static const unsigned long others[] = {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS,
		CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET};
	int wrong = 0;
	EXPECT(make_with_flags(0), 0);
	EXPECT(make_with_flags(CLONE_NEWUSER), namespaces ? 0 : EPERM);
	EXPECT(make_with_flags(CLONE_NEWUSER | CLONE_NEWPID), namespaces ? 0 : EPERM);
	EXPECT(make_thread_process(), namespaces ? 0 : ENOSYS);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		EXPECT(make_with_flags(others[i]), EPERM);
		EXPECT(failed(unshare((int)others[i])), EPERM);
	}
	EXPECT(failed(unshare(CLONE_FS | CLONE_FILES)), 0);
	EXPECT(failed(unshare(CLONE_NEWTIME)), EPERM);
	EXPECT(failed(setns(0, 0)), EPERM);
	EXPECT(failed(chroot("/")), EPERM);
	EXPECT(failed(unshare(CLONE_NEWUSER)), namespaces ? 0 : EPERM);
	/* With the rights that a namespace of its own gives it, it mounts nothing all the same. */
	EXPECT(failed(unshare(CLONE_NEWNS)), namespaces ? 0 : EPERM);
	EXPECT(failed(mount("none", "/mnt", "tmpfs", 0, NULL)), EPERM);
	EXPECT(failed(mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL)), EPERM);
	EXPECT(failed(umount2("/proc", MNT_DETACH)), EPERM);
	EXPECT(CALL(SYS_pivot_root, "/", "/"), EPERM);
	EXPECT(CALL(SYS_move_mount, -1, "", -1, "", 0), EPERM);
	EXPECT(CALL(SYS_open_tree, AT_FDCWD, "/", 1), EPERM);
	EXPECT(CALL(OPEN_TREE_ATTR, AT_FDCWD, "/", 1, NULL, 0), EPERM);
	EXPECT(CALL(SYS_fsopen, "tmpfs", 0), EPERM);
	EXPECT(CALL(SYS_fsconfig, -1, 0, NULL, NULL, 0), EPERM);
	EXPECT(CALL(SYS_fsmount, -1, 0, 0), EPERM);
	EXPECT(CALL(SYS_fspick, AT_FDCWD, "/", 0), EPERM);
	EXPECT(CALL(SYS_mount_setattr, -1, "", 0, NULL, 0), EPERM);
	return wrong;
}

#ifdef __x86_64__
/** A call of i386, whose getpid() has another number; a kernel without them ends the process. */
static int call_of_i386(void)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		long result = 20;
		__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
		_exit(result > 0 ? 0 : (int)-result);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : ENOSYS;
}
#endif

static int look_at_kernel(void)
{
	static const int system_calls[] = {
		SYS_kexec_load,
		SYS_kexec_file_load,
		SYS_init_module,
		SYS_finit_module,
		SYS_delete_module,
		SYS_reboot,
		SYS_swapon,
		SYS_swapoff,
		SYS_acct,
		SYS_quotactl,
		SYS_quotactl_fd,
		SYS_syslog,
		SYS_sethostname,
		SYS_setdomainname,
		SYS_settimeofday,
		SYS_clock_settime,
		SYS_clock_adjtime,
		SYS_adjtimex,
		SYS_vhangup,
		SYS_open_by_handle_at,
		SYS_fanotify_init,
		SYS_bpf,
		SYS_userfaultfd,
#ifdef SYS_iopl
		SYS_iopl,
		SYS_ioperm,
		SYS_modify_ldt,
#endif
	};
	int wrong = 0;
	for (size_t i = 0; i < sizeof(system_calls) / sizeof(system_calls[0]); i++) {
		if (CALL(system_calls[i], 0, 0, 0, 0, 0) != EPERM) {
			fprintf(stderr, "call %d: %s\n", system_calls[i], strerror(errno));
			wrong++;
		}
	}
	EXPECT(CALL(SYS_io_uring_setup, 1, NULL), ENOSYS);
	EXPECT(CALL(SYS_io_uring_enter, -1, 0, 0, 0, NULL), ENOSYS);
	EXPECT(CALL(SYS_io_uring_register, -1, 0, NULL, 0), ENOSYS);
	EXPECT(CALL(NEWER, 0, 0, 0, 0), ENOSYS);
	EXPECT(CALL(1000, 0, 0, 0, 0), ENOSYS);
#ifdef SYS_vfork
	EXPECT(CALL(0x40000000 + SYS_getpid), ENOSYS); /* x32 */
#endif
#ifdef __x86_64__
	EXPECT(call_of_i386(), ENOSYS);
#endif
	EXPECT(failed(ioctl(0, TIOCSTI, "x")), EPERM);
	EXPECT(CALL(SYS_ioctl, 0, 0x100000000L | TIOCSTI, "x"), EPERM);
	EXPECT(failed(ioctl(0, TIOCLINUX, "\2")), EPERM);
	return wrong;
}

/* --- the processes of the test --- */

static void become(uid_t user)
{
	if (user != getuid()) {
		assert_int_equal(setgroups(0, NULL), 0);
		assert_int_equal(setresgid(user, user, user), 0);
		assert_int_equal(setresuid(user, user, user), 0);
	}
}

static pid_t start_target(uid_t user)
{
	pid_t pid = fork();
	if (pid == 0) {
		become(user);
		setpgid(0, 0);
		sandbox_shield();
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if the test fails */
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

/** How a process is limited, as the kernel tells. */
static void read_limits(pid_t pid, char *ret_text, size_t size)
{
	char path[64];
	memset(ret_text, 0, size);
	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	int fd = open(path, O_RDONLY);
	assert_true(read(fd, ret_text, size - 1) > 0);
	close(fd);
}

static int enter_and_look(uid_t user, pid_t other, bool sockets, bool namespaces)
{
	const char *what;
	struct sandbox sandbox = {.sockets = sockets, .namespaces = namespaces};
	become(user);
	prctl(PR_SET_DUMPABLE, 1); /* as a program that it starts is */
	if (sandbox_enter(&sandbox, sandbox_version(), &what) < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		return 1;
	}
	return look_at_limits(other) + look_at_scheduling(other) +
	       look_at_memory(other, sandbox_version() >= 6) + look_at_proc(other) +
	       look_at_shared() + look_at_sockets(sockets) + look_at_kernel() +
	       look_at_namespaces(namespaces);
}

static void look_as(uid_t user, bool sockets, bool namespaces)
{
	char before[4096];
	char after[4096];
	int status;
	pid_t other = start_target(user);
	read_limits(other, before, sizeof(before));
	pid_t pid = fork();
	if (pid == 0) {
		_exit(enter_and_look(user, other, sockets, namespaces) != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	read_limits(other, after, sizeof(after));
	assert_string_equal(before, after);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)other), getpriority(PRIO_PROCESS, 0));
	assert_int_equal(kill(other, SIGKILL), 0);
	assert_int_equal(waitpid(other, NULL, 0), other);
	assert_int_equal(status, 0);
}

static void other_processes_and_what_is_no_file_are_out_of_reach(void **state)
{
	if (sandbox_version() == 0) {
		print_message("this kernel has no Landlock: nothing can be confined here\n");
		return;
	}
	look_as(getuid(), false, false);
	look_as(getuid(), true, false);
	if (getuid() == 0) {
		look_as(NOBODY, false, false);
	}
}

static void user_namespaces_give_no_way_there(void **state)
{
	uid_t user = getuid() ? getuid() : NOBODY;
	if (sandbox_version() > 0) {
		look_as(user, false, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_processes_and_what_is_no_file_are_out_of_reach),
		cmocka_unit_test(user_namespaces_give_no_way_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
