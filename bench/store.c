/* The store's bench: how a server starts, loads, catches up and appends on a real disk. */
#include "client.h"
#include "store_data.h"
#include "store_load.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] =
	"Usage: holdfast-bench-store MODE --server PROGRAM --dir DIR [OPTION...]\n"
	"\n"
	"  restart  the start of a server with N idle sessions, and its memory for each\n"
	"  load     load_events {after_seq} near the end of a session of N events, from a cold disk\n"
	"  catchup  a session of N events, loaded from its beginning\n"
	"  append   N producers, each with one append in flight to a session of its own\n"
	"\n"
	"  --server PROGRAM  the holdfast to measure\n"
	"  --dir DIR         where to put data directories; they are removed again\n"
	"  --sessions N      restart: default 10000\n"
	"  --events N        restart: default 10; load: 1000000; catchup: 100000\n"
	"  --producers N     append: default 1\n"
	"  --batch N         append: events in one, default 1\n"
	"  --seconds S       append: default 2, after 0.5 s of warming up\n"
	"\n"
	"The result is one line of name=value on stdout.\n";

struct options {
	const char *server;
	const char *dir;
	uint64_t sessions;
	uint64_t events;
	uint64_t producers;
	uint64_t batch;
	uint64_t seconds;
};

static double millis(uint64_t ns)
{
	return (double)ns / 1e6;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/** A data directory of its own below --dir. */
static void make_dir(const struct options *options, char path[4096])
{
	snprintf(path, 4096, "%s/store.XXXXXX", options->dir);
	if (!mkdtemp(path)) {
		die("cannot make a directory in %s", options->dir);
	}
}

static uint64_t empty_rss(const struct options *options)
{
	char dir[4096];
	struct server server;
	make_dir(options, dir);
	server_start(&server, options->server, dir, NULL);
	uint64_t rss = process_rss(server.pid);
	server_stop(&server);
	data_remove(dir);
	return rss;
}

/** Every session takes an event, and is idle again for long enough to leave memory. */
static uint64_t rss_after_use(const struct options *options, const char *dir)
{
	struct server server;
	server_start(&server, options->server, dir, "evict_ms=1s");
	for (uint64_t i = 0; i < options->sessions; i++) {
		char path[80];
		snprintf(path, sizeof(path), "/api/sessions/s%llu/events", (unsigned long long)i);
		client_post(server.port, path, "{\"type\":\"x-bench\",\"data\":{}}", 200);
	}
	sleep(4);
	uint64_t rss = process_rss(server.pid);
	server_stop(&server);
	return rss;
}

static void run_restart(const struct options *options)
{
	char dir[4096];
	struct server server;
	make_dir(options, dir);
	uint64_t empty = empty_rss(options);
	data_fill(dir, options->sessions, options->events);
	/* The first start makes what filling has left to do; then warm, and then cold. */
	server_start(&server, options->server, dir, NULL);
	server_stop(&server);
	server_start(&server, options->server, dir, NULL);
	uint64_t warm = server.start_ns;
	uint64_t rss = process_rss(server.pid);
	uint64_t stop = server_stop(&server);
	data_make_cold(dir);
	server_start(&server, options->server, dir, NULL);
	uint64_t cold = server.start_ns;
	server_stop(&server);
	uint64_t used = rss_after_use(options, dir);
	printf("mode=restart sessions=%llu events=%llu start_ms=%.0f start_cold_ms=%.0f stop_ms=%.0f bytes_per_session=%.0f bytes_per_session_after_use=%.0f\n",
		(unsigned long long)options->sessions, (unsigned long long)options->events,
		millis(warm), millis(cold), millis(stop),
		((double)rss - (double)empty) / (double)options->sessions,
		((double)used - (double)empty) / (double)options->sessions);
	data_remove(dir);
}

#define LOADS 11

static void run_load(const struct options *options)
{
	char dir[4096];
	struct server server;
	struct load_result load;
	uint64_t loads[LOADS];
	uint64_t opens[LOADS];
	make_dir(options, dir);
	data_fill(dir, 1, options->events);
	for (size_t i = 0; i < LOADS; i++) {
		server_start(&server, options->server, dir, NULL);
		data_make_cold(dir);
		store_load(server.port, "s0", options->events - 50, options->events, &load);
		server_stop(&server);
		loads[i] = load.load_ns;
		opens[i] = load.open_ns;
	}
	qsort(loads, LOADS, sizeof(loads[0]), compare_u64);
	qsort(opens, LOADS, sizeof(opens[0]), compare_u64);
	printf("mode=load events=%llu load_ms=%.2f load_max_ms=%.2f open_ms=%.2f\n",
		(unsigned long long)options->events, millis(loads[LOADS / 2]),
		millis(loads[LOADS - 1]), millis(opens[LOADS / 2]));
	data_remove(dir);
}

static void run_catchup(const struct options *options)
{
	char dir[4096];
	struct server server;
	struct load_result load;
	uint64_t took[LOADS];
	make_dir(options, dir);
	data_fill(dir, 1, options->events);
	server_start(&server, options->server, dir, NULL);
	for (size_t i = 0; i < LOADS; i++) {
		store_load(server.port, "s0", 0, options->events, &load);
		took[i] = load.load_ns;
	}
	server_stop(&server);
	qsort(took, LOADS, sizeof(took[0]), compare_u64);
	printf("mode=catchup events=%llu catchup_ms=%.0f events_per_s=%.0f\n",
		(unsigned long long)options->events, millis(took[LOADS / 2]),
		(double)options->events * 1e9 / (double)took[LOADS / 2]);
	data_remove(dir);
}

/** Appends of 256 bytes and their syncs that this disk takes in a second, one after the other. */
static double raw_rate(const char *dir, uint64_t duration_ns)
{
	char path[4200];
	char record[256];
	uint64_t count = 0;
	memset(record, 'x', sizeof(record));
	snprintf(path, sizeof(path), "%s/raw", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t start = now_ns();
	while (now_ns() - start < duration_ns) {
		if (write(fd, record, sizeof(record)) != (ssize_t)sizeof(record) ||
			fdatasync(fd) < 0) {
			die("cannot write to %s: %s", path, strerror(errno));
		}
		count++;
	}
	double seconds = (double)(now_ns() - start) / (double)NS_PER_SECOND;
	close(fd);
	unlink(path);
	return (double)count / seconds;
}

static void run_append(const struct options *options)
{
	char dir[4096];
	struct server server;
	struct append_result result;
	make_dir(options, dir);
	double raw = raw_rate(dir, options->seconds * NS_PER_SECOND / 2);
	server_start(&server, options->server, dir, NULL);
	uint64_t own = process_cpu_ns(server.pid);
	store_append_run(server.port, options->producers, options->batch,
		options->seconds * NS_PER_SECOND, &result);
	own = process_cpu_ns(server.pid) - own;
	server_stop(&server);
	raw = (raw + raw_rate(dir, options->seconds * NS_PER_SECOND / 2)) / 2;
	printf("mode=append producers=%llu batch=%llu appends_per_s=%.0f events_per_s=%.0f raw_per_s=%.0f cpu_percent=%.0f\n",
		(unsigned long long)options->producers, (unsigned long long)options->batch,
		(double)result.events / (double)options->batch / result.seconds,
		(double)result.events / result.seconds, raw,
		(double)own / 1e7 / (result.seconds + 0.5));
	data_remove(dir);
}

/* --- options --- */

enum option_code { SERVER = 1, DIR, SESSIONS, EVENTS, PRODUCERS, BATCH, SECONDS };

static void take_option(struct options *options, int code, const char *text)
{
	switch (code) {
	case SERVER:
		options->server = text;
		break;
	case DIR:
		options->dir = text;
		break;
	case SESSIONS:
		options->sessions = parse_number("--sessions", text, 1, 1000000);
		break;
	case EVENTS:
		options->events = parse_number("--events", text, 2, 100000000);
		break;
	case PRODUCERS:
		options->producers = parse_number("--producers", text, 1, 10000);
		break;
	case BATCH:
		options->batch = parse_number("--batch", text, 1, 1000);
		break;
	case SECONDS:
		options->seconds = parse_number("--seconds", text, 1, 3600);
		break;
	default:
		fputs(usage_text, stderr);
		exit(2);
	}
}

static void parse_options(struct options *options, int argc, char **argv)
{
	static const struct option list[] = {
		{"server", required_argument, NULL, SERVER},
		{"dir", required_argument, NULL, DIR},
		{"sessions", required_argument, NULL, SESSIONS},
		{"events", required_argument, NULL, EVENTS},
		{"producers", required_argument, NULL, PRODUCERS},
		{"batch", required_argument, NULL, BATCH},
		{"seconds", required_argument, NULL, SECONDS},
		{NULL, 0, NULL, 0},
	};
	int code;
	while ((code = getopt_long(argc, argv, "", list, NULL)) != -1) {
		take_option(options, code, optarg);
	}
	if (optind != argc || !options->server || !options->dir) {
		take_option(options, 0, NULL);
	}
}

struct mode {
	const char *name;
	uint64_t events; /* the default */
	void (*run)(const struct options *options);
};

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		{"restart", 10, run_restart},
		{"load", 1000000, run_load},
		{"catchup", 100000, run_catchup},
		{"append", 0, run_append},
	};
	const char *name = argc > 1 ? argv[1] : "";
	if (strcmp(name, "--help") == 0) {
		fputs(usage_text, stdout);
		return 0;
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(name, modes[i].name) == 0) {
			struct options options = {.sessions = 10000,
				.events = modes[i].events,
				.producers = 1,
				.batch = 1,
				.seconds = 2};
			parse_options(&options, argc - 1, argv + 1);
			need_descriptors(options.producers + 64);
			modes[i].run(&options);
			return 0;
		}
	}
	die("there is no mode \"%s\" (see --help)", name);
}
