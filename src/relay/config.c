#include "holdfast/config.h"

#include "holdfast/agent_env.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the page is installed, seen from the program's folder; the build knows better. */
#ifndef HOLDFAST_WEB_DIR
#define HOLDFAST_WEB_DIR "../share/holdfast/web"
#endif

enum option {
	LISTEN,
	DATA,
	AGENT,
	AGENT_ENV,
	CWD,
	WEB,
	HIGHLIGHT,
	DURABILITY,
	KEEP_EVENTS,
	KEEP_DAYS,
	LIMIT,
	LOG_LEVEL,
	OPTION_COUNT
};

static const struct {
	const char *flag;
	const char *env;
	const char *argument;
	const char *fallback; /* NULL: none */
	const char *help;
} options[OPTION_COUNT] = {
	[LISTEN] = {"--listen", "HOLDFAST_LISTEN", "HOST:PORT", "127.0.0.1:8080",
		"address to listen on; port 0 takes a free one"},
	[DATA] = {"--data", "HOLDFAST_DATA", "DIR", "./data",
		"where sessions are kept; made if missing"},
	[AGENT] = {"--agent", "HOLDFAST_AGENT", "CMD", NULL,
		"command that runs an ACP agent on its stdin and stdout; started with a session's first prompt"},
	[AGENT_ENV] = {"--agent-env", "HOLDFAST_AGENT_ENV", "NAME|NAME=VALUE|*", NULL,
		"a variable that agents and their commands get, from Holdfast's environment or with this value; may\n"
		"      be repeated (in HOLDFAST_AGENT_ENV: with commas between them); * passes all. Default: PATH HOME\n"
		"      USER LOGNAME SHELL LANG LC_* TZ TERM TMPDIR"},
	[CWD] = {"--cwd", "HOLDFAST_CWD", "DIR", ".",
		"the agent's working directory; through Holdfast it can read and write only there"},
	[WEB] = {"--web", "HOLDFAST_WEB", "DIR", HOLDFAST_WEB_DIR,
		"static files to serve at /; by default the installed page, which is looked for beside the program's folder"},
	[HIGHLIGHT] = {"--highlight", "HOLDFAST_HIGHLIGHT", "DIR",
		"/usr/share/javascript/highlight.js",
		"highlight.js, which colours the page's code; without it code is plain"},
	[DURABILITY] = {"--durability", "HOLDFAST_DURABILITY", "fsync|write", "fsync",
		"fsync: acknowledged and shown means on disk; write: survives a crash of the process only"},
	[KEEP_EVENTS] = {"--keep-events", "HOLDFAST_KEEP_EVENTS", "N", NULL,
		"keep the newest N events of each session and prune older ones, from the front; none are renumbered"},
	[KEEP_DAYS] = {"--keep-days", "HOLDFAST_KEEP_DAYS", "N", NULL,
		"prune events that are older than N days; with both options an event is pruned when either applies"},
	[LIMIT] = {"--limit", "HOLDFAST_LIMIT", "NAME=VALUE[,NAME=VALUE]...", NULL,
		"sets a threshold or bound, such as soft_flush_ms=500,block_size=128K; may be repeated; holdfast limits lists them with their defaults"},
	[LOG_LEVEL] = {"--log-level", "HOLDFAST_LOG_LEVEL", "error|warn|info|debug", "info",
		"how much to say on stderr"},
};

static void print_help(void)
{
	printf("Usage: holdfast serve [OPTIONS]\n\n"
	       "Runs the relay. Stops cleanly on SIGTERM and SIGINT.\n\nOptions:\n");
	for (int i = 0; i < OPTION_COUNT; i++) {
		printf("  %s %s\n      %s\n      %s, default: %s\n", options[i].flag,
			options[i].argument, options[i].help, options[i].env,
			options[i].fallback ? options[i].fallback : "none");
	}
	printf("  --help\n      this text\n");
}

static int fail(char **ret_why, const char *what, const char *value, const char *hint)
{
	if (asprintf(ret_why, "%s \"%s\": %s", what, value, hint) < 0) {
		*ret_why = NULL;
	}
	return -EINVAL;
}

/** A list of NAME=VALUE with commas between them. */
static int take_limits(struct limits *limits, const char *list, char **ret_why)
{
	while (*list) {
		size_t len = strcspn(list, ",");
		char *one = xstrndup(list, len);
		int r = limits_set(limits, one, ret_why);
		free(one);
		if (r < 0) {
			return r;
		}
		list += len + (list[len] == ',');
	}
	return 0;
}

/** One entry; `list`: several, with commas between them. */
static int take_agent_env(struct config *config, const char *text, bool list, char **ret_why)
{
	while (*text || !list) {
		size_t len = list ? strcspn(text, ",") : strlen(text);
		char *entry = xstrndup(text, len);
		const char *fault = agent_env_fault(entry);
		if (fault) {
			int r = fail(ret_why, "--agent-env", entry, fault);
			free(entry);
			return r;
		}
		if (!strpbrk(entry, "=*") && !getenv(entry)) {
			diag(DIAG_WARN,
				"--agent-env %s: there is no such variable in the environment",
				entry);
		}
		config->agent_env = xrealloc(config->agent_env,
			(config->agent_env_count + 2) * sizeof(*config->agent_env));
		config->agent_env[config->agent_env_count++] = entry;
		config->agent_env[config->agent_env_count] = NULL;
		if (!list) {
			return 0;
		}
		text += len + (text[len] == ',');
	}
	return 0;
}

/** An option that was given; all but --limit and --agent-env keep their last value. */
static int take_value(
	struct config *config, const char *values[], int option, const char *text, char **ret_why)
{
	if (option == LIMIT) {
		return take_limits(&config->limits, text, ret_why);
	}
	if (option == AGENT_ENV) {
		return take_agent_env(config, text, false, ret_why);
	}
	values[option] = text;
	return 0;
}

/** Takes "--flag value" and "--flag=value". Returns how many arguments were used, or -EINVAL. */
static int take_flag(
	struct config *config, char **argv, int left, const char *values[], char **ret_why)
{
	for (int i = 0; i < OPTION_COUNT; i++) {
		size_t len = strlen(options[i].flag);
		if (strncmp(argv[0], options[i].flag, len) != 0) {
			continue;
		}
		if (argv[0][len] == '=') {
			int r = take_value(config, values, i, argv[0] + len + 1, ret_why);
			return r < 0 ? r : 1;
		}
		if (!argv[0][len] && left > 1) {
			int r = take_value(config, values, i, argv[1], ret_why);
			return r < 0 ? r : 2;
		}
		if (!argv[0][len]) {
			return fail(ret_why, "option", argv[0],
				"needs a value; see holdfast serve --help");
		}
	}
	return fail(ret_why, "option", argv[0], "is not known; see holdfast serve --help");
}

static int parse_listen(struct config *config, const char *text, char **ret_why)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char *end;
	long port = colon && colon[1] ? strtol(colon + 1, &end, 10) : -1;
	bool bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']';
	const char *host = bracketed ? text + 1 : text;
	len -= bracketed ? 2 : 0;
	if (!colon || !len || len >= sizeof(config->host) || port < 0 || port > 65535 || *end) {
		return fail(ret_why, "--listen", text, "give HOST:PORT, such as 127.0.0.1:8080");
	}
	memcpy(config->host, host, len);
	config->host[len] = '\0';
	config->port = (int)port;
	return 0;
}

static int parse_dir(const char *flag, const char *text, char **ret_path, char **ret_why)
{
	struct stat st;
	*ret_path = realpath(text, NULL);
	if (!*ret_path || stat(*ret_path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		return fail(ret_why, flag, text, "there is no such directory");
	}
	return 0;
}

/** The default may be missing; what was named must be there. */
static int parse_highlight(const char *text, char **ret_path, char **ret_why)
{
	bool is_default = strcmp(text, options[HIGHLIGHT].fallback) == 0;
	if (!*text || (is_default && access(text, R_OK) < 0)) {
		return 0;
	}
	return parse_dir("--highlight", text, ret_path, ret_why);
}

/** The page that was installed with this program; NULL: there is none. */
static char *installed_page(void)
{
	char *self = realpath("/proc/self/exe", NULL);
	char *slash = self ? strrchr(self, '/') : NULL;
	struct buffer path = {0};
	if (slash && *HOLDFAST_WEB_DIR != '/') {
		buffer_append(&path, self, (size_t)(slash + 1 - self));
	}
	buffer_append_str(&path, HOLDFAST_WEB_DIR);
	char *page = realpath(buffer_cstr(&path), NULL);
	buffer_finish(&path);
	free(self);
	return page;
}

static int parse_word(const char *flag, const char *text, const char *const words[], char **ret_why)
{
	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], text) == 0) {
			return i;
		}
	}
	return fail(ret_why, flag, text, "is not one of its values; see holdfast serve --help");
}

/** An option that is a limit of its own. */
static int take_limit(struct config *config, const char *name, const char *value, char **ret_why)
{
	char text[96];
	if (!value) {
		return 0;
	}
	snprintf(text, sizeof(text), "%s=%.64s", name, value);
	return limits_set(&config->limits, text, ret_why);
}

static int take_values(struct config *config, const char *values[], char **ret_why)
{
	int r = parse_listen(config, values[LISTEN], ret_why);
	if (r < 0) {
		return r;
	}
	config->data_dir = values[DATA];
	config->agent = values[AGENT];
	if (config->agent && !config->agent[strspn(config->agent, " \t\r\n")]) {
		return fail(ret_why, "--agent", config->agent,
			"give a command, or leave the option out; then sessions take no prompts");
	}
	r = parse_dir("--cwd", values[CWD], &config->cwd, ret_why);
	if (r == 0 && values[WEB] == options[WEB].fallback) {
		config->web_dir = installed_page();
	} else if (r == 0 && *values[WEB]) {
		r = parse_dir("--web", values[WEB], &config->web_dir, ret_why);
	}
	if (r == 0) {
		r = parse_highlight(values[HIGHLIGHT], &config->highlight_dir, ret_why);
	}
	if (r < 0) {
		return r;
	}
	r = parse_word("--durability", values[DURABILITY],
		(const char *const[]){"fsync", "write", NULL}, ret_why);
	if (r < 0) {
		return r;
	}
	config->durability = r == 0 ? DURABILITY_FSYNC : DURABILITY_WRITE;
	r = take_limit(config, "keep_events", values[KEEP_EVENTS], ret_why);
	if (r == 0) {
		r = take_limit(config, "keep_days", values[KEEP_DAYS], ret_why);
	}
	if (r < 0) {
		return r;
	}
	r = parse_word("--log-level", values[LOG_LEVEL],
		(const char *const[]){"error", "warn", "info", "debug", NULL}, ret_why);
	if (r < 0) {
		return r;
	}
	diag_set_level((enum diag_level)r);
	return 0;
}

int config_parse(struct config *config, int argc, char **argv, char **ret_why)
{
	const char *values[OPTION_COUNT] = {0};
	*config = (struct config){.limits = *limits_default()};
	*ret_why = NULL;
	/* The environment first, so that an option on the command line wins. */
	const char *limits = getenv(options[LIMIT].env);
	const char *agent_env = getenv(options[AGENT_ENV].env);
	int r = limits ? take_limits(&config->limits, limits, ret_why) : 0;
	if (r == 0 && agent_env) {
		r = take_agent_env(config, agent_env, true, ret_why);
	}
	if (r < 0) {
		config_finish(config);
		return r;
	}
	for (int i = 0; i < argc;) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_help();
			config_finish(config);
			return 1;
		}
		int used = take_flag(config, argv + i, argc - i, values, ret_why);
		if (used < 0) {
			config_finish(config);
			return used;
		}
		i += used;
	}
	for (int i = 0; i < OPTION_COUNT; i++) {
		const char *env = getenv(options[i].env);
		values[i] = values[i] ? values[i] : env && *env ? env : options[i].fallback;
	}
	r = take_values(config, values, ret_why);
	if (r < 0) {
		config_finish(config);
	}
	return r;
}

void config_finish(struct config *config)
{
	agent_env_free(config->agent_env);
	config->agent_env = NULL;
	free(config->cwd);
	free(config->web_dir);
	free(config->highlight_dir);
	config->cwd = NULL;
	config->web_dir = NULL;
	config->highlight_dir = NULL;
}
