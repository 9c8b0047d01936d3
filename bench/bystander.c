#include "relay.h"

#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RATE 200

/** Shared by the two processes. */
struct bystander {
	pid_t pid;
	_Atomic bool is_live;
	_Atomic uint64_t from;
	_Atomic uint64_t until;
	struct relay_result result;
};

static void be_live(void *owner)
{
	struct bystander *bystander = owner;
	atomic_store(&bystander->is_live, true);
}

static void run(struct bystander *bystander, enum wire_peer peer, unsigned port)
{
	char name[32];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(name, sizeof(name), "by%d", (int)getpid());
	const struct relay_options options = {
		.peer = peer,
		.port = port,
		.name = name,
		.sessions = 1,
		.observers = 1,
		.window = 4096,
		.rate = RATE,
		.measure_from = &bystander->from,
		.until = &bystander->until,
		.live = be_live,
		.owner = bystander,
	};
	relay_run(&options, &bystander->result);
}

struct bystander *bystander_start(enum wire_peer peer, unsigned port)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct bystander *bystander = mmap(NULL, sizeof(*bystander), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bystander == MAP_FAILED) {
		die("mmap: %s", strerror(errno));
	}
	atomic_store(&bystander->from, UINT64_MAX);
	atomic_store(&bystander->until, UINT64_MAX);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		run(bystander, peer, port);
		_exit(0);
	}
	bystander->pid = pid;
	while (!atomic_load(&bystander->is_live)) {
		if (bystander->pid < 0 || waitpid(bystander->pid, NULL, WNOHANG) != 0) {
			die("the bystander could not begin");
		}
		nanosleep(&pause, NULL);
	}
	return bystander;
}

void bystander_measure(struct bystander *bystander, uint64_t until)
{
	atomic_store(&bystander->until, until);
	atomic_store(&bystander->from, now_ns());
}

void bystander_print(struct bystander *bystander)
{
	int status;
	uint64_t open = UINT64_MAX;
	atomic_compare_exchange_strong(&bystander->until, &open, now_ns());
	if (waitpid(bystander->pid, &status, 0) != bystander->pid || status != 0) {
		die("the bystander did not end well");
	}
	relay_print_times("by", &bystander->result.latency);
	munmap(bystander, sizeof(*bystander));
}
