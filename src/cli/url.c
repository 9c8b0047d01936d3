/* holdfast url: prints the link that logs a browser in. Also finds the tokens of other commands. */
#include "holdfast/command.h"

#include "holdfast/access.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA, URL, OPTION_COUNT };

static const struct option options[] = {
	[DATA] = {"--data", "DIR", "HOLDFAST_DATA", "./data", "the server's data directory"},
	[URL] = {"--url", "URL", NULL, NULL,
		"the address at which the browser reaches the server, if it differs from the one it listens on"},
	{0},
};

static const struct command command = {
	.usage = "url [--data DIR] [--url URL]",
	.help = "Prints the link that logs a browser in. It contains the access token, so anyone who has the link can do\n"
		"everything: keep it secret. holdfast token create issues tokens that allow less.\n\n"
		"Exit codes: 0 done, 2 failed.\n",
	.options = options,
};

int tool_find_token(const char *token_file, const char *data_dir, char **ret_token)
{
	char *why = NULL;
	const char *env = getenv("HOLDFAST_TOKEN");
	*ret_token = NULL;
	if (token_file) {
		*ret_token = access_read_file(token_file, &why);
	} else if (data_dir) {
		*ret_token = access_read_token(data_dir, &why);
	} else if (env && *env) {
		*ret_token = xstrdup(env);
	} else {
		return 0;
	}
	if (*ret_token && strspn(*ret_token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					     "0123456789-_.") != strlen(*ret_token)) {
		diag(DIAG_ERROR, "%s is not a token", token_file ? token_file : "HOLDFAST_TOKEN");
		free(*ret_token);
		*ret_token = NULL;
		return -EINVAL;
	}
	if (!*ret_token) {
		diag(DIAG_ERROR, "%s", why ? why : "the token cannot be read");
	}
	free(why);
	return *ret_token ? 0 : -EINVAL;
}

int tool_url(int argc, char **argv)
{
	const char *values[OPTION_COUNT] = {0};
	char *token = NULL;
	int r = options_parse(&command, argc, argv, NULL, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	char *url = values[URL] ? xstrdup(values[URL]) : access_read_url(values[DATA]);
	if (!url) {
		diag(DIAG_ERROR,
			"no server has been started with the data directory %s, or it listens on a unix socket only. Give the directory of serve --data, or --url URL",
			values[DATA]);
	} else if (tool_find_token(NULL, values[DATA], &token) == 0) {
		diag_print("%s/#token=%s", url, token);
	}
	r = token ? 0 : TOOL_FAILED;
	free(token);
	free(url);
	return r;
}
