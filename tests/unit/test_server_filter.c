/*
 * The filter of the server, with all its threads, in a process of its own, because there is no way
 * out: what is refused, and what goes on.
 */
#include "holdfast/server_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static sem_t begun;
static sem_t may_look;

static int failed(long result)
{
	return result < 0 ? errno : 0;
}

#define EXPECT(what, error)                                                  \
	do {                                                                 \
		int found = (what);                                          \
		if (found != (error)) {                                      \
			fprintf(stderr, "%s: %s\n", #what, strerror(found)); \
			wrong++;                                             \
		}                                                            \
	} while (0)

/** As a thread has it: 2 is a filter. */
static int mode(void)
{
	char line[256];
	int mode = -1;
	FILE *file = fopen("/proc/thread-self/status", "r");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "Seccomp: %d", &mode);
	}
	if (file) {
		fclose(file);
	}
	return mode;
}

/** A program that fails: where it may start, it is the end of this process, and the test must see it. */
static int exec_false(void)
{
	return failed(execl("/bin/false", "false", NULL));
}

static int spawn_true(void)
{
	pid_t pid;
	char *args[] = {(char *)"true", NULL};
	return posix_spawn(&pid, "/bin/true", NULL, NULL, args, environ);
}

static int fork_one(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		_exit(0);
	}
	return failed(pid);
}

/** What a thread, old or new, finds. */
static void *look(void *arg)
{
	int wrong = 0;
	sem_post(&begun);
	if (arg) {
		sem_wait(&may_look);
	}
	EXPECT(mode(), 2);
	EXPECT(exec_false(), EPERM);
	EXPECT(fork_one(), EPERM);
	return (void *)(intptr_t)wrong;
}

static int look_in_thread(void)
{
	pthread_t thread;
	void *wrong = (void *)1;
	if (pthread_create(&thread, NULL, look, NULL) != 0) {
		return 1;
	}
	pthread_join(thread, &wrong);
	return (int)(intptr_t)wrong;
}

static int look_at_refused(void)
{
	int wrong = 0;
	EXPECT(exec_false(), EPERM);
	EXPECT(spawn_true(), EPERM);
	EXPECT(fork_one(), EPERM);
	EXPECT(failed(syscall(SYS_execveat, AT_FDCWD, "/bin/true", NULL, NULL, 0)), EPERM);
	EXPECT(failed(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)), EPERM);
	EXPECT(failed(syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)), EPERM);
	EXPECT(failed(syscall(SYS_clone3, NULL, (size_t)0)), ENOSYS);
#ifdef SYS_vfork
	EXPECT(failed(syscall(SYS_fork)), EPERM);
	EXPECT(failed(syscall(SYS_vfork)), EPERM);
	EXPECT(failed(syscall(0x40000000 + SYS_getpid)), ENOSYS);
#endif
	EXPECT(failed(kill(getppid(), SIGCONT)), EPERM);
	EXPECT(failed(kill(-getpgrp(), SIGCONT)), EPERM);
	EXPECT(failed(kill(0, SIGCONT)), EPERM);
	EXPECT(failed(kill(-1, SIGCONT)), EPERM);
	EXPECT(failed(kill(getppid(), 0)), 0);
	EXPECT(failed(syscall(SYS_tgkill, getppid(), getppid(), SIGCONT)), EPERM);
	EXPECT(failed(syscall(SYS_tkill, getppid(), SIGCONT)), EPERM);
	EXPECT(failed(sigqueue(getppid(), SIGCONT, (union sigval){0})), EPERM);
	EXPECT(failed(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL)), EPERM);
	EXPECT(failed(mount("none", "/tmp", "tmpfs", 0, NULL)), EPERM);
	EXPECT(failed(unshare(CLONE_NEWUSER)), EPERM);
	EXPECT(failed(setns(STDIN_FILENO, 0)), EPERM);
	EXPECT(failed(personality(0xffffffff)), EPERM);
	EXPECT(failed(setuid(getuid())), EPERM);
	EXPECT(failed(syscall(SYS_bpf, 0, NULL, 0)), EPERM);
	EXPECT(failed(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0)), EPERM);
	EXPECT(failed(syscall(SYS_userfaultfd, 0)), EPERM);
	EXPECT(failed(syscall(SYS_keyctl, 0, 0, 0, 0, 0)), EPERM);
	EXPECT(failed(syscall(SYS_io_uring_setup, 1, NULL)), EPERM);
	/* The kernel takes an int without its upper half, and a filter compares all of it. */
	EXPECT(failed(syscall(SYS_kill, 0x100000000L | getppid(), SIGCONT)), EPERM);
	EXPECT(failed(syscall(SYS_kill, getppid(), 0x100000000L | SIGCONT)), EPERM);
	EXPECT(failed(syscall(SYS_kill, getppid(), 0x100000000L)), EPERM);
	return wrong;
}

static int look_at_others(void)
{
	int wrong = 0;
	cpu_set_t cpus;
	pid_t other = getppid();
	EXPECT(failed(prlimit(other, RLIMIT_CPU, NULL, &(struct rlimit){0})), EPERM);
	EXPECT(failed(prlimit(0, RLIMIT_CPU, NULL, &(struct rlimit){0})), 0);
	EXPECT(failed(sched_getaffinity(0, sizeof(cpus), &cpus)), 0);
	EXPECT(failed(sched_setaffinity(other, sizeof(cpus), &cpus)), EPERM);
	EXPECT(failed(sched_setaffinity(0, sizeof(cpus), &cpus)), 0);
	EXPECT(failed(setpriority(PRIO_PROCESS, (id_t)other, 10)), EPERM);
	EXPECT(failed(setpriority(PRIO_USER, 0, 10)), EPERM);
	EXPECT(failed(setpriority(PRIO_PROCESS, 0, 19)), 0);
	EXPECT(failed(syscall(SYS_ioprio_set, 1, other, 0)), EPERM);
	EXPECT(failed(syscall(SYS_process_mrelease, -1, 0)), EPERM);
	EXPECT(failed(syscall(SYS_move_pages, other, 0, NULL, NULL, NULL, 0)), EPERM);
	EXPECT(failed(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600)), EPERM);
	EXPECT(failed(syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, NULL)), EPERM);
	return wrong;
}

static int look_at_allowed(void)
{
	int wrong = 0;
	char path[] = "/tmp/holdfast-filter-XXXXXX";
	char bytes[8];
	int pair[2];
	int fd = mkstemp(path);
	EXPECT(failed(fd), 0);
	EXPECT(failed(write(fd, "text", 4)), 0);
	EXPECT(failed(fdatasync(fd)), 0);
	EXPECT(failed(close(fd)), 0);
	EXPECT(failed(unlink(path)), 0);
	EXPECT(failed(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)), 0);
	EXPECT(failed(send(pair[0], "text", 4, MSG_NOSIGNAL)), 0);
	EXPECT(failed(recv(pair[1], bytes, sizeof(bytes), 0)), 0);
	EXPECT(failed(socket(AF_INET, SOCK_STREAM, 0)), 0);
	EXPECT(failed(epoll_create1(0)), 0);
	EXPECT(failed(memfd_create("test", 0)), 0);
	EXPECT(failed(getrandom(bytes, sizeof(bytes), 0)), 0);
	signal(SIGUSR1, SIG_IGN);
	EXPECT(failed(raise(SIGUSR1)), 0);
	EXPECT(failed(kill(getpid(), SIGUSR1)), 0);
	EXPECT(pthread_kill(pthread_self(), SIGUSR1), 0);
	EXPECT(look_in_thread(), 0);
	return wrong;
}

static int enter_and_look(void)
{
	int wrong = 0;
	pthread_t thread;
	void *others = (void *)1;
	sem_init(&begun, 0, 0);
	sem_init(&may_look, 0, 0);
	pthread_create(&thread, NULL, look, &may_look);
	sem_wait(&begun);
	EXPECT(-server_filter(), 0);
	EXPECT(mode(), 2);
	sem_post(&may_look);
	pthread_join(thread, &others);
	return wrong + (int)(intptr_t)others + look_at_refused() + look_at_others() +
	       look_at_allowed();
}

static void all_threads_lose_what_they_do_not_need_and_go_on(void **state)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(enter_and_look() != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_threads_lose_what_they_do_not_need_and_go_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
