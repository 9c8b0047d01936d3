#include "player.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_DEFAULT_S 60
#define NUMBER_MAX     1e6

static const char usage[] =
	"Usage: holdfast-replay-agent [--speed N] [--proc N] [--wait SECONDS] [--commands] FILE\n"
	"\n"
	"An agent that speaks the Agent Client Protocol, version 1, over stdin and stdout: it says\n"
	"what the agent of a recording said, for tests and bug reports. A line of FILE is\n"
	"{\"t\": ms, \"dir\": \"c2a\" or \"a2c\", \"proc\": n, \"line\": the raw line}.\n"
	"\n"
	"It answers each request as the recorded agent did, then goes on with the timing of the\n"
	"recording up to where the client has to say something. A request that the recording does\n"
	"not have is refused; session/new opens the session of the next recorded prompt.\n"
	"\n"
	"  --speed N       how many times as fast (default 1; 0: without pauses)\n"
	"  --proc N        which of the recorded processes (default: the first with a prompt)\n"
	"  --wait SECONDS  how long to wait for an answer of the client (default 60)\n"
	"  --commands      also have the client run the commands that the recorded one was asked to\n"
	"                  run; by default these are left out, since they may do anything here\n"
	"  --help          this text\n"
	"  --version       the version\n";

struct options {
	double speed;
	double wait_s;
	double proc;
	bool commands;
	const char *file;
};

static int complain(const char *what, const char *about)
{
	fprintf(stderr, "holdfast-replay-agent: %s%s\n", what, about);
	return 2;
}

/* Returns -1 to go on, else the code to exit with. */
static int parse_number(const char *name, const char *text, double *ret_number)
{
	char *end;
	errno = 0;
	double number = strtod(text, &end);
	if (errno || end == text || *end || text[strspn(text, "0123456789.")] ||
		!(number >= 0 && number <= NUMBER_MAX)) {
		return complain(name, " takes a number from 0 to 1000000");
	}
	*ret_number = number;
	return -1;
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {
		{"speed", required_argument, NULL, 's'},
		{"proc", required_argument, NULL, 'p'},
		{"wait", required_argument, NULL, 'w'},
		{"commands", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	int option;
	int code = -1;
	while (code < 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			code = parse_number("--speed", optarg, &o->speed);
			break;
		case 'p':
			code = parse_number("--proc", optarg, &o->proc);
			if (code < 0 && (o->proc < 1 || o->proc != (double)(long)o->proc)) {
				code = complain("--proc", " takes a whole number from 1");
			}
			break;
		case 'w':
			code = parse_number("--wait", optarg, &o->wait_s);
			break;
		case 'c':
			o->commands = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'v':
			puts("holdfast-replay-agent " HOLDFAST_VERSION);
			return 0;
		default:
			return 2;
		}
	}
	if (code < 0 && optind == argc) {
		return complain("a recording is missing; see --help", "");
	}
	if (code < 0 && optind + 1 < argc) {
		return complain("unexpected argument: ", argv[optind + 1]);
	}
	o->file = argv[optind];
	return code;
}

static int load(struct replay_recording *recording, const struct options *o)
{
	int err = replay_recording_load(recording, o->file, (long)o->proc);
	if (err == -ENODATA) {
		fprintf(stderr, "holdfast-replay-agent: %s: no recording%s\n", o->file,
			o->proc ? " of this process" : "");
	} else if (err < 0) {
		fprintf(stderr, "holdfast-replay-agent: %s: %s\n", o->file, strerror(-err));
	} else if (!o->commands) {
		replay_recording_drop_commands(recording);
	}
	if (err == 0 && recording->bad_lines) {
		fprintf(stderr, "holdfast-replay-agent: %s: %zu invalid lines were skipped\n",
			o->file, recording->bad_lines);
	}
	return err;
}

/* Returns the exit code; dies of the signal that killed the recorded agent in mid-turn, if any. */
static int run(struct replay_recording *recording, const struct options *o)
{
	uv_loop_t loop;
	uv_loop_init(&loop);
	struct replay_player player;
	int r = replay_player_start(&player, &loop, recording, o->speed, o->wait_s * 1000);
	if (r) {
		fprintf(stderr,
			"holdfast-replay-agent: stdin and stdout must be pipes or a terminal: %s\n",
			uv_strerror(r));
		return 1;
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	replay_player_finish(&player);
	uv_loop_close(&loop);
	if (player.exit_signal) {
		signal(player.exit_signal, SIG_DFL);
		raise(player.exit_signal);
	}
	return player.exit_code;
}

int main(int argc, char **argv)
{
	struct options o = {.speed = 1, .wait_s = WAIT_DEFAULT_S};
	int code = parse_options(argc, argv, &o);
	if (code >= 0) {
		return code;
	}
	signal(SIGPIPE, SIG_IGN);
	struct replay_recording recording;
	code = load(&recording, &o) < 0 ? 1 : run(&recording, &o);
	replay_recording_finish(&recording);
	return code;
}
