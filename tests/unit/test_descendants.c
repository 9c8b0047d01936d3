/* What has come from a process, and what it uses. */
#include "agents/process/process_internal.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TAKEN ((size_t)64 << 20)
#define FORKS 4

static void *fork_in_thread(void *arg)
{
	pid_t *pid = arg;
	*pid = fork();
	for (; *pid == 0;) {
		pause();
	}
	pause();
	return NULL;
}

/** A child that takes memory, has children that share it, and a grandchild from a thread. */
static pid_t start_family(int ready[2])
{
	pid_t pid = fork();
	if (pid != 0) {
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	char *taken = mmap(NULL, TAKEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(taken, 1, TAKEN);
	for (int i = 0; i < FORKS; i++) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			setsid();
			for (;;) {
				pause();
			}
		}
	}
	pid_t grandchild = -1;
	pthread_t thread;
	pthread_create(&thread, NULL, fork_in_thread, &grandchild);
	while (*(volatile pid_t *)&grandchild < 0) {
		usleep(1000);
	}
	(void)!write(ready[1], "", 1);
	for (;;) {
		pause();
	}
}

struct found {
	size_t count;
	pid_t first;
	pid_t pids[64];
};

static void note(pid_t pid, void *arg)
{
	struct found *found = arg;
	assert_true(found->count < 64);
	found->first = found->count ? found->first : pid;
	found->pids[found->count++] = pid;
}

static void what_shares_memory_and_has_left_the_group_is_found(void **state)
{
	char byte;
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	pid_t pid = start_family(ready);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	struct found found = {0};
	descendants_each(getpid(), note, &found);
	assert_int_equal(found.count, 1 + FORKS + 1);
	assert_int_equal(found.first, pid);
	struct usage rough = descendants_measure(getpid(), 0);
	struct usage exact = descendants_measure(getpid(), 1);
	/* One of them has a second thread. */
	assert_int_equal(rough.processes, 1 + FORKS + 1 + 1);
	assert_int_equal(exact.processes, rough.processes);
	assert_true(rough.memory > (1 + FORKS) * TAKEN);
	assert_true(exact.memory >= TAKEN && exact.memory < 2 * TAKEN);
	for (size_t i = 0; i < found.count; i++) {
		kill(found.pids[i], SIGKILL);
	}
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(descendants_measure(pid, 1).processes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_shares_memory_and_has_left_the_group_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
