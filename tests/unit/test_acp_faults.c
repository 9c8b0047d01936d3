/*
 * An agent, a command and a file process whose start fails, at every call of the system that takes
 * part in it: who asked hears why, and nothing is left open.
 */
#include "acp_agent_fixture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define REQUESTS                                                            \
	"{'id':7,'method':'terminal/create','params':{'command':'true'}}\n" \
	"{'id':8,'method':'fs/read_text_file','params':{'path':'/nowhere'}}\n"

/* These stand in front of the system's, also for libuv: the n-th call from now on fails. */
static int countdown = -1;
static int error;
static pid_t self; /* a child that has not become another program yet is not meant */

static bool fails(void)
{
	if (getpid() != self || countdown < 0 || countdown-- > 0) {
		return false;
	}
	errno = error;
	return true;
}

/* A pointer to data is no pointer to a function, says ISO C. */
#define FIND(next, name)                                \
	do {                                            \
		void *found = dlsym(RTLD_NEXT, name);   \
		memcpy(&(next), &found, sizeof(found)); \
	} while (0)

int socketpair(int domain, int type, int protocol, int fds[2])
{
	int (*next)(int, int, int, int *);
	FIND(next, "socketpair");
	return fails() ? -1 : next(domain, type, protocol, fds);
}

int pipe2(int fds[2], int flags)
{
	int (*next)(int *, int);
	FIND(next, "pipe2");
	return fails() ? -1 : next(fds, flags);
}

pid_t fork(void)
{
	pid_t (*next)(void);
	FIND(next, "fork");
	return fails() ? -1 : next();
}

static size_t count_open(void)
{
	size_t count = 0;
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while (readdir(dir)) {
		count++;
	}
	closedir(dir);
	return count;
}

/** A turn in which the agent starts a command and asks for a file. Whether all three started. */
static bool run_turn(struct fixture *f)
{
	buffer_clear(&f->log);
	f->freed = false;
	start(f, "terminal");
	while (!log_has_line(f, "turn_end") && !log_has_line(f, "stopped")) {
		assert_true(uv_run(&f->loop, UV_RUN_DEFAULT) || log_has_line(f, "turn_end") ||
			    log_has_line(f, "stopped"));
	}
	destroy_agent(f);
	bool good = strstr(buffer_cstr(&f->log), "'terminalId'") &&
		    strstr(buffer_cstr(&f->log), "only absolute paths below");
	bool told = strstr(buffer_cstr(&f->log), "stopped spawn_failed") ||
		    strstr(buffer_cstr(&f->log), "cannot be started") ||
		    strstr(buffer_cstr(&f->log), "no process can be started") || good;
	if (!told) {
		fail_msg("nobody was told; the log is:\n%s", buffer_cstr(&f->log));
	}
	return good;
}

static void expect_nothing_left(size_t open)
{
	assert_int_equal(count_open(), open);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void each_call_may_fail(void **state)
{
	static const int errors[] = {EMFILE, EAGAIN, ENOMEM};
	struct fixture *f = *state;
	write_requests(f, REQUESTS);
	assert_true(run_turn(f));
	size_t open = count_open();
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		int calls = 0;
		for (bool good = false; !good; calls++) {
			error = errors[i];
			countdown = calls;
			good = run_turn(f) && countdown >= 0;
			countdown = -1;
			expect_nothing_left(open);
		}
		assert_true(calls > 8);
	}
}

static void at_the_descriptor_limit_nothing_breaks(void **state)
{
	struct fixture *f = *state;
	struct rlimit limit;
	write_requests(f, REQUESTS);
	assert_true(run_turn(f));
	size_t open = count_open();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	bool good = false;
	for (rlim_t most = 4; !good; most++) {
		struct rlimit low = {.rlim_cur = most, .rlim_max = limit.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		good = run_turn(f);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		expect_nothing_left(open);
		assert_true(most < 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(each_call_may_fail),
		AGENT_TEST(at_the_descriptor_limit_nothing_breaks),
	};
	self = getpid();
	signal(SIGPIPE, SIG_IGN);
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
