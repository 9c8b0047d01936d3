/*
 * The comparing load tool: the same load, and the same checks, for Holdfast and for its peers. See
 * bench/run.sh --peers.
 */
#include "relay.h"
#include "replay.h"
#include "screen.h"
#include "tool.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] =
	"Usage: holdfast-bench-compare MODE --to PEER --port P [OPTION...]\n"
	"\n"
	"PEER is holdfast, epoll, nats, jetstream or nchan.\n"
	"\n"
	"  relay      events to all observers: deliveries and their latency. Without observers:\n"
	"             acknowledgements and theirs, and everything is read back at the end\n"
	"  alone      the bystander with nothing beside it\n"
	"  catchup    1, 10, … clients load all events of a session (holdfast, jetstream)\n"
	"  reconnect  clients that lack 100 events come at once (holdfast, nchan)\n"
	"  idle       memory of the server for each observer that waits\n"
	"  screen     text that is still growing, and finished blocks (holdfast)\n"
	"\n"
	"  --pid PID      the server's process, for its CPU time and its memory\n"
	"  --sessions N   relay: each with a producer; default 1\n"
	"  --observers N  relay, screen: of each session; default 100\n"
	"  --window N     relay: events in flight in all sessions together; default 1\n"
	"  --rate N       relay: events a second; default: as fast as the window lets\n"
	"  --live FILE    relay: is made when everybody is live\n"
	"  --http         relay: producers send requests (holdfast)\n"
	"  --clients N    catchup, reconnect, idle; default 100\n"
	"  --events N     catchup, reconnect; default 100000\n"
	"  --html         catchup: the format html and not markdown\n"
	"  --limit S      catchup: seconds for each number of clients; default 20\n"
	"  --seconds S    relay, alone, screen: default 3, after 0.5 s of warming up (1.5 s with many sessions)\n"
	"\n"
	"The result is name=value on stdout, times in microseconds; by_… is a bystander: 200 events a second\n"
	"to one observer in a session of its own, from a process of its own. The exit status is 0 only if all\n"
	"events were there once, in order and byte for byte.\n";

struct options {
	struct relay_options relay;
	struct replay_options replay;
	uint64_t seconds;
	const char *live;
};

/** What a run has in the beginning, when everybody is live. */
struct start {
	struct bystander *bystander;
	uint64_t duration;
	uint64_t warm_up;
	const char *live; /* a file to make, or NULL */
	_Atomic uint64_t from;
	_Atomic uint64_t until;
};

static void be_live(void *owner)
{
	struct start *start = owner;
	int fd = start->live ? open(start->live, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (fd >= 0) {
		close(fd);
	}
	atomic_store(&start->from, now_ns() + start->warm_up);
	atomic_store(&start->until, start->from + start->duration);
	bystander_measure(start->bystander, start->until); /* before all its clients go at once */
}

static void run_relay(struct options *options)
{
	static struct relay_result out;
	char name[32];
	struct relay_options *relay = &options->relay;
	/* A session costs more with its first event than later. */
	struct start start = {.duration = options->seconds * NS_PER_SECOND,
		.warm_up = (relay->sessions > 1 ? 3 : 1) * NS_PER_SECOND / 2,
		.live = options->live};
	atomic_store(&start.from, UINT64_MAX);
	atomic_store(&start.until, UINT64_MAX);
	snprintf(name, sizeof(name), "run%d", (int)getpid());
	relay->name = name;
	relay->measure_from = &start.from;
	relay->until = &start.until;
	relay->live = be_live;
	relay->owner = &start;
	start.bystander = bystander_start(relay->peer, relay->port);
	relay_run(relay, &out);
	double deliveries = (double)out.events * (double)relay->observers;
	printf("mode=relay sessions=%zu observers=%zu window=%zu events_per_s=%.0f deliveries_per_s=%.0f cpu_percent=%.0f",
		relay->sessions, relay->observers, relay->window, (double)out.events / out.seconds,
		deliveries / out.seconds, (double)out.cpu_ns / out.seconds / 1e7);
	relay_print_times("latency", &out.latency);
	relay_print_times("ack", &out.ack);
	bystander_print(start.bystander);
	printf("\n");
}

static void run_alone(const struct options *options)
{
	struct bystander *bystander = bystander_start(options->relay.peer, options->relay.port);
	usleep(300000);
	bystander_measure(bystander, UINT64_MAX);
	sleep((unsigned)options->seconds);
	printf("mode=alone");
	bystander_print(bystander);
	printf("\n");
}

/* --- options --- */

enum option_code {
	TO = 1,
	PORT,
	PID,
	SESSIONS,
	OBSERVERS,
	WINDOW,
	RATE,
	LIVE,
	HTTP,
	CLIENTS,
	EVENTS,
	HTML,
	LIMIT,
	SECONDS
};

static void take_replay_option(struct options *options, int code, const char *text)
{
	struct replay_options *replay = &options->replay;
	switch (code) {
	case CLIENTS:
		replay->clients = parse_number("--clients", text, 1, 100000);
		break;
	case EVENTS:
		replay->events = parse_number("--events", text, 100, 10000000);
		break;
	case HTML:
		replay->is_html = true;
		break;
	case LIMIT:
		replay->limit = parse_number("--limit", text, 1, 3600) * NS_PER_SECOND;
		break;
	default:
		fputs(usage_text, stderr);
		exit(2);
	}
}

static void take_option(struct options *options, int code, const char *text)
{
	struct relay_options *relay = &options->relay;
	switch (code) {
	case TO:
		relay->peer = options->replay.peer = wire_parse_peer(text);
		break;
	case PORT:
		relay->port = (unsigned)parse_number("--port", text, 1, 65535);
		options->replay.port = relay->port;
		break;
	case PID:
		relay->pid = (pid_t)parse_number("--pid", text, 1, INT32_MAX);
		options->replay.pid = relay->pid;
		break;
	case SESSIONS:
		relay->sessions = parse_number("--sessions", text, 1, 10000);
		break;
	case OBSERVERS:
		relay->observers = parse_number("--observers", text, 0, 100000);
		break;
	case WINDOW:
		relay->window = parse_number("--window", text, 1, 1000000);
		break;
	case RATE:
		relay->rate = parse_number("--rate", text, 1, 1000000);
		break;
	case LIVE:
		options->live = text;
		break;
	case HTTP:
		relay->is_http = true;
		break;
	case SECONDS:
		options->seconds = parse_number("--seconds", text, 1, 3600);
		break;
	default:
		take_replay_option(options, code, text);
	}
}

static void parse_options(struct options *options, int argc, char **argv)
{
	static const struct option list[] = {
		{"to", required_argument, NULL, TO},
		{"port", required_argument, NULL, PORT},
		{"pid", required_argument, NULL, PID},
		{"sessions", required_argument, NULL, SESSIONS},
		{"observers", required_argument, NULL, OBSERVERS},
		{"window", required_argument, NULL, WINDOW},
		{"rate", required_argument, NULL, RATE},
		{"live", required_argument, NULL, LIVE},
		{"http", no_argument, NULL, HTTP},
		{"clients", required_argument, NULL, CLIENTS},
		{"events", required_argument, NULL, EVENTS},
		{"html", no_argument, NULL, HTML},
		{"limit", required_argument, NULL, LIMIT},
		{"seconds", required_argument, NULL, SECONDS},
		{NULL, 0, NULL, 0},
	};
	int code;
	while ((code = getopt_long(argc, argv, "", list, NULL)) != -1) {
		take_option(options, code, optarg);
	}
	if (optind != argc || !options->relay.port) {
		take_option(options, 0, NULL);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	struct options options = {
		.relay = {.sessions = 1, .observers = 100, .window = 1},
		.replay = {.clients = 100, .events = 100000, .limit = 20 * NS_PER_SECOND},
		.seconds = 3,
	};
	if (strcmp(mode, "--help") == 0) {
		fputs(usage_text, stdout);
		return 0;
	}
	parse_options(&options, argc - (argc > 1), argv + (argc > 1));
	if (strcmp(mode, "relay") == 0) {
		run_relay(&options);
	} else if (strcmp(mode, "alone") == 0) {
		run_alone(&options);
	} else if (strcmp(mode, "catchup") == 0) {
		replay_catch_up(&options.replay);
	} else if (strcmp(mode, "reconnect") == 0) {
		replay_reconnect(&options.replay);
	} else if (strcmp(mode, "idle") == 0) {
		replay_idle(&options.replay);
	} else if (strcmp(mode, "screen") == 0) {
		screen_run(options.relay.port, options.relay.observers,
			options.seconds * NS_PER_SECOND);
	} else {
		die("there is no mode \"%s\" (see --help)", mode);
	}
	return 0;
}
