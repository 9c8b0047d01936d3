/*
 * An agent, a command and a file process whose start fails, at every call of the system that takes
 * part in it, of the server or of the spawner: who asked hears why, and nothing is left open.
 */
#include "acp_agent_fixture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define REQUESTS                                                            \
	"{'id':7,'method':'terminal/create','params':{'command':'true'}}\n" \
	"{'id':8,'method':'fs/read_text_file','params':{'path':'/nowhere'}}\n"

/*
 * What stands here in front of the system's, also for libuv: the n-th call from now on fails. The
 * spawner is a copy of this process, which shares these.
 */
struct faults {
	int countdown;
	int error;
	pid_t self; /* a child that has not become another program yet is not meant */
	pid_t spawner;
};
static struct faults *faults;

static bool fails(void)
{
	pid_t self = faults ? getpid() : -1;
	if (self < 0 || (self != faults->self && self != faults->spawner) ||
		faults->countdown < 0 || faults->countdown-- > 0) {
		return false;
	}
	errno = faults->error;
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

int memfd_create(const char *name, unsigned flags)
{
	int (*next)(const char *, unsigned);
	FIND(next, "memfd_create");
	return fails() ? -1 : next(name, flags);
}

pid_t fork(void)
{
	pid_t (*next)(void);
	FIND(next, "fork");
	pid_t pid = fails() ? -1 : next();
	if (pid > 0 && getpid() == faults->self) {
		faults->spawner = pid;
	}
	return pid;
}

pid_t _Fork(void)
{
	pid_t (*next)(void);
	FIND(next, "_Fork");
	return fails() ? -1 : next();
}

static int setup_with_copy(void **state)
{
	int r = setup(state);
	struct fixture *f = *state;
	spawner_close(f->spawner);
	open_spawner(f, false);
	return r;
}

static size_t count_open(const char *place)
{
	size_t count = 0;
	DIR *dir = opendir(place);
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

/** Of the descriptors of this process and of the spawner, how many there are. */
struct open {
	size_t here;
	size_t there;
};

static struct open count_all(void)
{
	char place[64];
	snprintf(place, sizeof(place), "/proc/%d/fd", (int)faults->spawner);
	return (struct open){.here = count_open("/proc/self/fd"), .there = count_open(place)};
}

/** The spawner may still be at what it has answered. */
static void expect_nothing_left(struct open open)
{
	char place[64];
	struct open now = count_all();
	for (int i = 0; i < 5000 && now.there != open.there; i++) {
		usleep(1000);
		now = count_all();
	}
	assert_int_equal(now.here, open.here);
	assert_int_equal(now.there, open.there);
	snprintf(place, sizeof(place), "/proc/%d/task/%d/children", (int)faults->spawner,
		(int)faults->spawner);
	FILE *children = fopen(place, "r");
	assert_non_null(children);
	assert_int_equal(fgetc(children), EOF);
	fclose(children);
}

static void each_call_may_fail(void **state)
{
	static const int errors[] = {EMFILE, EAGAIN, ENOMEM};
	struct fixture *f = *state;
	write_requests(f, REQUESTS);
	assert_true(run_turn(f));
	struct open open = count_all();
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		int calls = 0;
		for (bool good = false; !good; calls++) {
			faults->error = errors[i];
			faults->countdown = calls;
			good = run_turn(f) && faults->countdown >= 0;
			faults->countdown = -1;
			expect_nothing_left(open);
		}
		assert_true(calls > 14);
	}
}

static void at_the_descriptor_limit_nothing_breaks(void **state)
{
	struct fixture *f = *state;
	struct rlimit limit;
	write_requests(f, REQUESTS);
	assert_true(run_turn(f));
	struct open open = count_all();
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

static void a_spawner_that_is_gone_is_told_of(void **state)
{
	struct fixture *f = *state;
	write_requests(
		f, "{'id':7,'method':'terminal/create','params':{'command':'sleep 1000'}}\n");
	start(f, "terminal");
	run_until(f, "x-acp-terminal");
	assert_int_equal(kill(faults->spawner, SIGKILL), 0);
	run_until(f, "stopped");
	assert_true(f->lost_spawner);
	prompt(f, "again");
	run_until(f, "stopped spawn_failed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_call_may_fail, setup_with_copy, teardown),
		cmocka_unit_test_setup_teardown(
			at_the_descriptor_limit_nothing_breaks, setup_with_copy, teardown),
		cmocka_unit_test_setup_teardown(
			a_spawner_that_is_gone_is_told_of, setup_with_copy, teardown),
	};
	faults = mmap(
		NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(faults != MAP_FAILED);
	*faults = (struct faults){.countdown = -1, .self = getpid()};
	signal(SIGPIPE, SIG_IGN);
	diag_set_level(DIAG_SILENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
