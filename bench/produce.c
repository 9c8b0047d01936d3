/*
 * The producers' bench: small durable inputs, and how long the acknowledgement takes, on a real
 * disk.
 */
#include "produce_load.h"
#include "store_data.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] =
	"Usage: holdfast-bench-produce MODE --server PROGRAM --dir DIR [OPTION...]\n"
	"\n"
	"  ws     appends of --batch events over WebSockets, --window of them in flight on each\n"
	"  http   requests of one event over connections that are kept, one in flight on each\n"
	"  lines  one request whose body is --events lines\n"
	"\n"
	"  --server PROGRAM  the holdfast to measure\n"
	"  --dir DIR         where to put the data directory; it is removed again\n"
	"  --sockets N       ws, http: connections, default 1; each has a session of its own\n"
	"  --window N        ws: default 1\n"
	"  --batch N         ws: default 1\n"
	"  --events N        lines: default 300000\n"
	"  --seconds S       ws, http: default 3, after 0.5 s of warming up\n"
	"\n"
	"Before and after, appends of 256 bytes to a file are made and synced one by one: raw_… tells\n"
	"what the disk does without us. The result is one line of name=value on stdout.\n";

struct options {
	const char *mode;
	const char *server;
	const char *dir;
	struct produce_options load;
};

static double micros(uint64_t ns)
{
	return (double)ns / 1e3;
}

static void time_raw_syncs(const char *dir, uint64_t duration_ns, struct histogram *syncs)
{
	char path[4200];
	char record[256];
	memset(record, 'x', sizeof(record));
	snprintf(path, sizeof(path), "%s/raw", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (uint64_t end = now_ns() + duration_ns, at; (at = now_ns()) < end;) {
		if (write(fd, record, sizeof(record)) != (ssize_t)sizeof(record) ||
			fdatasync(fd) < 0) {
			die("cannot write to %s: %s", path, strerror(errno));
		}
		histogram_add(syncs, now_ns() - at);
	}
	close(fd);
	unlink(path);
}

static void run_load(const struct options *options, struct produce_result *ret)
{
	if (strcmp(options->mode, "ws") == 0) {
		produce_over_sockets(&options->load, ret);
	} else if (strcmp(options->mode, "http") == 0) {
		produce_over_http(&options->load, ret);
	} else {
		produce_lines(&options->load, ret);
	}
}

static void run(struct options *options)
{
	static struct produce_result result;
	static struct histogram raw;
	char dir[4096];
	struct server server;
	snprintf(dir, sizeof(dir), "%s/produce.XXXXXX", options->dir);
	if (!mkdtemp(dir)) {
		die("cannot make a directory in %s", options->dir);
	}
	time_raw_syncs(dir, NS_PER_SECOND, &raw);
	server_start(&server, options->server, dir, NULL);
	options->load.port = server.port;
	uint64_t cpu = process_cpu_ns(server.pid);
	uint64_t start = now_ns();
	run_load(options, &result);
	cpu = process_cpu_ns(server.pid) - cpu;
	double cpu_percent = 100 * (double)cpu / (double)(now_ns() - start);
	server_stop(&server);
	time_raw_syncs(dir, NS_PER_SECOND, &raw);
	printf("mode=%s sockets=%zu window=%zu inputs_per_s=%.0f ack_p50_us=%.0f ack_p99_us=%.0f raw_per_s=%.0f raw_p50_us=%.0f raw_p99_us=%.0f cpu_percent=%.0f\n",
		options->mode, options->load.sockets, options->load.window,
		(double)result.inputs * 1e9 / (double)result.took_ns,
		micros(histogram_quantile(&result.acks, 0.5)),
		micros(histogram_quantile(&result.acks, 0.99)), (double)raw.count / 2,
		micros(histogram_quantile(&raw, 0.5)), micros(histogram_quantile(&raw, 0.99)),
		cpu_percent);
	data_remove(dir);
}

/* --- options --- */

enum option_code { SERVER = 1, DIR, SOCKETS, WINDOW, BATCH, EVENTS, SECONDS };

static void take_option(struct options *options, int code, const char *text)
{
	struct produce_options *load = &options->load;
	switch (code) {
	case SERVER:
		options->server = text;
		break;
	case DIR:
		options->dir = text;
		break;
	case SOCKETS:
		load->sockets = parse_number("--sockets", text, 1, 10000);
		break;
	case WINDOW:
		load->window = parse_number("--window", text, 1, 1000000);
		break;
	case BATCH:
		load->batch = parse_number("--batch", text, 1, 500);
		break;
	case EVENTS:
		load->events = parse_number("--events", text, 1, 100000000);
		break;
	case SECONDS:
		load->duration_ns = parse_number("--seconds", text, 1, 3600) * NS_PER_SECOND;
		break;
	default:
		fputs(usage_text, stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static const struct option list[] = {
		{"server", required_argument, NULL, SERVER},
		{"dir", required_argument, NULL, DIR},
		{"sockets", required_argument, NULL, SOCKETS},
		{"window", required_argument, NULL, WINDOW},
		{"batch", required_argument, NULL, BATCH},
		{"events", required_argument, NULL, EVENTS},
		{"seconds", required_argument, NULL, SECONDS},
		{NULL, 0, NULL, 0},
	};
	struct options options = {.mode = argc > 1 ? argv[1] : "",
		.load = {.sockets = 1,
			.window = 1,
			.batch = 1,
			.events = 300000,
			.duration_ns = 3 * NS_PER_SECOND}};
	int code;
	if (strcmp(options.mode, "--help") == 0) {
		fputs(usage_text, stdout);
		return 0;
	}
	while ((code = getopt_long(argc - 1, argv + 1, "", list, NULL)) != -1) {
		take_option(&options, code, optarg);
	}
	bool is_mode = strcmp(options.mode, "ws") == 0 || strcmp(options.mode, "http") == 0 ||
		       strcmp(options.mode, "lines") == 0;
	if (!is_mode || optind != argc - 1 || !options.server || !options.dir) {
		take_option(&options, 0, NULL);
	}
	need_descriptors(options.load.sockets + 64);
	run(&options);
	return 0;
}
