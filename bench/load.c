/*
 * The load tool: what the server (or the peer, which speaks as much of the protocol as it takes)
 * can carry.
 */
#include "crowd.h"
#include "fanout.h"
#include "payload.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static const char usage_text[] =
	"Usage: holdfast-bench MODE [OPTION...]\n"
	"\n"
	"  throughput  one producer, N observers, as many events as all of them take\n"
	"  latency     the same with one event in flight, or with --rate\n"
	"  idle        resident memory of the server for each observer that waits\n"
	"  sync        what fdatasync() takes after a small append to a file\n"
	"\n"
	"  --port P       where the server listens on 127.0.0.1 (all but sync)\n"
	"  --elsewhere P  where another node listens: observers come in there, too, in turn; may be repeated\n"
	"  --pid PID      the server's process, for its CPU time and its memory (idle: needed); given again, those of --elsewhere\n"
	"  --observers N  default 100\n"
	"  --checkers N   so many observers check what comes, the others only count its bytes; default: all check\n"
	"  --door D       how they come in: websocket (default), sse, or both in turn\n"
	"  --batch N      events in one append; default 1, throughput 16\n"
	"  --window N     appends in flight at most; default 1, throughput 8, with --rate 4096\n"
	"  --rate N       appends a second; default: as fast as the window lets\n"
	"  --pad N        bytes added to each event of about 100; default 32\n"
	"  --seconds S    how long to measure; default 3, after 0.5 s of warming up\n"
	"  --dir DIR      where sync puts its file; default the current directory\n"
	"\n"
	"The result is one line of name=value on stdout, times in microseconds. The exit status is 0 only if\n"
	"every observer that checks got every event once, in order and byte for byte.\n";

struct options {
	struct fanout_options fanout;
	const char *dir;
};

/* --- throughput, latency --- */

static double micros(uint64_t ns)
{
	return (double)ns / 1000.0;
}

static void print_times(const char *name, const struct histogram *h)
{
	printf(" %s_p50=%.0f %s_p90=%.0f %s_p99=%.0f %s_p999=%.0f %s_max=%.0f", name,
		micros(histogram_quantile(h, 0.5)), name, micros(histogram_quantile(h, 0.9)), name,
		micros(histogram_quantile(h, 0.99)), name, micros(histogram_quantile(h, 0.999)),
		name, micros(h->max));
}

/** Of one CPU. */
static double percent(uint64_t cpu_ns, double seconds)
{
	return (double)cpu_ns / (double)NS_PER_SECOND / seconds * 100;
}

static void run_fanout(const char *mode, const struct options *options)
{
	const struct fanout_options *in = &options->fanout;
	struct fanout_result out;
	fanout_run(in, &out);
	printf("mode=%s observers=%zu batch=%llu window=%llu rate=%llu seconds=%.2f events=%llu",
		mode, in->observers, (unsigned long long)in->batch, (unsigned long long)in->window,
		(unsigned long long)in->rate, out.seconds, (unsigned long long)out.events);
	printf(" events_per_s=%.0f deliveries_per_s=%.0f", (double)out.events / out.seconds,
		(double)out.deliveries / out.seconds);
	if (in->pid && out.deliveries) {
		printf(" cpu_percent=%.0f own_cpu_percent=%.0f other_cpu_percent=%.0f cpu_ns_per_delivery=%.0f",
			percent(out.cpu_ns, out.seconds), percent(out.own_cpu_ns, out.seconds),
			percent(out.other_cpu_ns, out.seconds),
			(double)out.cpu_ns / (double)out.deliveries);
	}
	if (in->elsewhere_count) {
		printf(" published=%llu", (unsigned long long)out.published);
	}
	if (in->pids_elsewhere_count) {
		printf(" elsewhere_cpu_percent=%.0f", percent(out.elsewhere_cpu_ns, out.seconds));
	}
	print_times("latency", &out.latency);
	if (in->elsewhere_count) {
		print_times("elsewhere", &out.latency_elsewhere);
	}
	print_times("ack", &out.ack);
	printf("\n");
}

/* --- idle --- */

static bool has_first(const struct crowd *crowd)
{
	for (size_t i = 0; i < crowd->opened; i++) {
		if (crowd->members[i].last != 1) {
			return false;
		}
	}
	return true;
}

/** One event to everyone: they are observers, not only sockets, and what it costs them stays. */
static void send_one(struct crowd *crowd)
{
	char path[160];
	struct buffer text = {0};
	uint64_t deadline = now_ns() + 20 * NS_PER_SECOND;
	snprintf(path, sizeof(path), "/api/sessions/%s/events", crowd->session);
	payload_append(&text, &(struct payload){.n = 1, .sent = now_ns()}, crowd->pad);
	client_post(crowd->port, path, buffer_cstr(&text), 200);
	while (!has_first(crowd)) {
		if (now_ns() >= deadline) {
			die("an event did not reach all observers");
		}
		client_wait(crowd->epoll, deadline);
	}
	buffer_finish(&text);
}

static void run_idle(const struct options *options)
{
	const struct fanout_options *in = &options->fanout;
	struct crowd crowd;
	if (!in->pid) {
		die("idle needs --pid");
	}
	need_descriptors(in->observers + 16);
	client_post(in->port, "/api/sessions", "{\"id\":\"bench-idle\"}", 201);
	crowd_init(&crowd, epoll_create1(EPOLL_CLOEXEC), in->port, "bench-idle", in->pad,
		in->observers + 1);
	crowd.door = in->door;
	/* The first one stands for what is there once, however many follow. */
	crowd_gather(&crowd, 1);
	uint64_t before = process_rss(in->pid);
	crowd_gather(&crowd, in->observers + 1);
	uint64_t joined = process_rss(in->pid);
	send_one(&crowd);
	uint64_t after = process_rss(in->pid);
	printf("mode=idle observers=%zu rss_before=%llu rss_joined=%llu rss_after_event=%llu bytes_per_observer=%.0f bytes_per_observer_after_event=%.0f\n",
		in->observers, (unsigned long long)before, (unsigned long long)joined,
		(unsigned long long)after,
		((double)joined - (double)before) / (double)in->observers,
		((double)after - (double)before) / (double)in->observers);
	crowd_finish(&crowd);
	close(crowd.epoll);
}

/* --- sync --- */

static void run_sync(const struct options *options)
{
	struct histogram took = {0};
	char path[4096];
	char record[256];
	memset(record, 'x', sizeof(record));
	snprintf(path, sizeof(path), "%s/holdfast-bench.sync", options->dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) {
		die("cannot open %s: %s", path, strerror(errno));
	}
	uint64_t end = now_ns() + options->fanout.duration;
	for (uint64_t start = now_ns(); start < end; start = now_ns()) {
		if (write(fd, record, sizeof(record)) != (ssize_t)sizeof(record) ||
			fdatasync(fd) < 0) {
			die("cannot write to %s: %s", path, strerror(errno));
		}
		histogram_add(&took, now_ns() - start);
	}
	close(fd);
	unlink(path);
	printf("mode=sync count=%llu", (unsigned long long)took.count);
	print_times("sync", &took);
	printf("\n");
}

/* --- options --- */

enum option_code {
	PORT = 1,
	ELSEWHERE,
	PID,
	OBSERVERS,
	CHECKERS,
	DOOR,
	BATCH,
	WINDOW,
	RATE,
	PAD,
	SECONDS,
	DIR
};

static void take_pid(struct fanout_options *f, pid_t pid)
{
	if (!f->pid) {
		f->pid = pid;
	} else if (f->pids_elsewhere_count < CROWD_ELSEWHERE_MAX) {
		f->pids_elsewhere[f->pids_elsewhere_count++] = pid;
	} else {
		die("--pid comes %d times at most", 1 + CROWD_ELSEWHERE_MAX);
	}
}

static void take_option(struct options *options, int code, const char *text)
{
	struct fanout_options *f = &options->fanout;
	switch (code) {
	case PORT:
		f->port = (unsigned)parse_number("--port", text, 1, 65535);
		break;
	case ELSEWHERE:
		if (f->elsewhere_count == CROWD_ELSEWHERE_MAX) {
			die("--elsewhere comes %d times at most", CROWD_ELSEWHERE_MAX);
		}
		f->elsewhere[f->elsewhere_count++] =
			(unsigned)parse_number("--elsewhere", text, 1, 65535);
		break;
	case PID:
		take_pid(f, (pid_t)parse_number("--pid", text, 1, INT32_MAX));
		break;
	case OBSERVERS:
		f->observers = parse_number("--observers", text, 1, 100000);
		break;
	case CHECKERS:
		f->checkers = parse_number("--checkers", text, 1, 100000);
		break;
	case DOOR:
		f->door = strcmp(text, "sse") == 0    ? DOOR_SSE
			  : strcmp(text, "both") == 0 ? DOOR_BOTH
						      : DOOR_WEBSOCKET;
		break;
	case BATCH:
		f->batch = parse_number("--batch", text, 1, 1000);
		break;
	case WINDOW:
		f->window = parse_number("--window", text, 1, 1000000);
		break;
	case RATE:
		f->rate = parse_number("--rate", text, 1, 1000000);
		break;
	case PAD:
		f->pad = parse_number("--pad", text, 0, PAYLOAD_PAD_MAX);
		break;
	case SECONDS:
		f->duration = parse_number("--seconds", text, 1, 3600) * NS_PER_SECOND;
		break;
	case DIR:
		options->dir = text;
		break;
	default:
		fputs(usage_text, stderr);
		exit(2);
	}
}

static void parse_options(struct options *options, int argc, char **argv)
{
	static const struct option list[] = {
		{"port", required_argument, NULL, PORT},
		{"elsewhere", required_argument, NULL, ELSEWHERE},
		{"pid", required_argument, NULL, PID},
		{"observers", required_argument, NULL, OBSERVERS},
		{"checkers", required_argument, NULL, CHECKERS},
		{"door", required_argument, NULL, DOOR},
		{"batch", required_argument, NULL, BATCH},
		{"window", required_argument, NULL, WINDOW},
		{"rate", required_argument, NULL, RATE},
		{"pad", required_argument, NULL, PAD},
		{"seconds", required_argument, NULL, SECONDS},
		{"dir", required_argument, NULL, DIR},
		{NULL, 0, NULL, 0},
	};
	int code;
	while ((code = getopt_long(argc, argv, "", list, NULL)) != -1) {
		take_option(options, code, optarg);
	}
	if (optind != argc) {
		take_option(options, 0, NULL);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	bool is_throughput = strcmp(mode, "throughput") == 0;
	struct options options = {.dir = ".",
		.fanout = {.observers = 100,
			.pad = 32,
			.warm_up = NS_PER_SECOND / 2,
			.duration = 3 * NS_PER_SECOND}};
	struct fanout_options *fanout = &options.fanout;
	if (strcmp(mode, "--help") == 0) {
		fputs(usage_text, stdout);
		return 0;
	}
	parse_options(&options, argc - (argc > 1), argv + (argc > 1));
	fanout->batch = fanout->batch ? fanout->batch : is_throughput ? 16 : 1;
	fanout->window = fanout->window  ? fanout->window
			 : is_throughput ? 8
			 : fanout->rate  ? 4096
					 : 1;
	if (strcmp(mode, "sync") == 0) {
		run_sync(&options);
	} else if (!fanout->port) {
		die("%s needs --port, and a mode to come first (see --help)", mode);
	} else if (strcmp(mode, "idle") == 0) {
		run_idle(&options);
	} else if (is_throughput || strcmp(mode, "latency") == 0) {
		run_fanout(mode, &options);
	} else {
		die("there is no mode \"%s\" (see --help)", mode);
	}
	return 0;
}
