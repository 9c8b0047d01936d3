#include "agent.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_DEFAULT = 50 };

static const char usage[] =
	"Usage: holdfast-demo-agent [--rate N]\n"
	"\n"
	"An agent without a model that speaks the Agent Client Protocol, version 1, over stdin\n"
	"and stdout, for trying out and testing a client. The words of a prompt choose what it\n"
	"replies:\n"
	"\n"
	"  tour                                 everything, in 60 to 90 seconds\n"
	"  list nested table code thought plan  one kind of content each\n"
	"  tool read write permission usage     what an agent does besides talking\n"
	"  long long=N                          a reply of N tokens (default 3000)\n"
	"  slow rate=N                          the rate of this reply\n"
	"  hang refuse error noise crash exit   an agent in trouble\n"
	"\n"
	"Some of them are its commands too, such as /tour. A client may set its mode (talk: at\n"
	"its rate; quick: all at once) and whether its thoughts are shown.\n"
	"\n"
	"  --rate N   tokens per second (default 50; 0: as fast as they are read)\n"
	"  --help     this text\n"
	"  --version  the version\n";

static int parse_rate(const char *text, long *ret_rate)
{
	char *end;
	errno = 0;
	long rate = strtol(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || rate < 0 || rate > DEMO_RATE_MAX) {
		return -EINVAL;
	}
	*ret_rate = rate;
	return 0;
}

/* Returns -1 to go on, else the code to exit with. */
static int parse_options(int argc, char **argv, long *ret_rate)
{
	static const struct option options[] = {
		{"rate", required_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	int option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'r':
			if (parse_rate(optarg, ret_rate)) {
				fprintf(stderr,
					"holdfast-demo-agent: --rate takes a number from 0 to %d\n",
					DEMO_RATE_MAX);
				return 2;
			}
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'v':
			puts("holdfast-demo-agent " HOLDFAST_VERSION);
			return 0;
		default:
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "holdfast-demo-agent: unexpected argument: %s\n", argv[optind]);
		return 2;
	}
	return -1;
}

int main(int argc, char **argv)
{
	long rate = RATE_DEFAULT;
	int code = parse_options(argc, argv, &rate);
	if (code >= 0) {
		return code;
	}
	signal(SIGPIPE, SIG_IGN);
	uv_loop_t loop;
	uv_loop_init(&loop);
	struct demo_agent agent;
	int r = demo_agent_start(&agent, &loop, rate);
	if (r) {
		fprintf(stderr,
			"holdfast-demo-agent: stdin and stdout must be pipes or a terminal: %s\n",
			uv_strerror(r));
		return 1;
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	demo_agent_finish(&agent);
	uv_loop_close(&loop);
	return agent.exit_code;
}
