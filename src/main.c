#include "holdfast/config.h"
#include "holdfast/diag.h"
#include "holdfast/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(void)
{
	printf("holdfast " HOLDFAST_VERSION
	       ": a WebSocket relay with reconnect sync for AI agents\n\n"
	       "Usage:\n"
	       "  holdfast serve [OPTIONS]   run the relay (holdfast serve --help lists the "
	       "options)\n"
	       "  holdfast limits            list the thresholds and bounds that serve --limit "
	       "sets\n"
	       "  holdfast --version\n"
	       "  holdfast --help\n");
}

static int serve(int argc, char **argv)
{
	struct config config;
	char *why;
	int r = config_parse(&config, argc, argv, &why);
	if (r > 0) {
		return 0;
	}
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why ? why : "bad options");
		free(why);
		return 2;
	}
	int code = relay_run(&config);
	config_finish(&config);
	return code;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "serve") == 0) {
		return serve(argc - 2, argv + 2);
	}
	if (argc == 2 && strcmp(argv[1], "limits") == 0) {
		limits_print(limits_default());
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		printf("holdfast " HOLDFAST_VERSION "\n");
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		print_help();
		return 0;
	}
	diag(DIAG_ERROR, "%s%s%s; see holdfast --help",
		argc > 1 ? "there is no command \"" : "a command is needed",
		argc > 1 ? argv[1] : "", argc > 1 ? "\"" : "");
	return 2;
}
