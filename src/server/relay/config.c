#include "holdfast/config.h"

#include "config_file.h"
#include "config_internal.h"
#include "config_trust.h"

#include "holdfast/agent_env.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/options.h"
#include "holdfast/parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Sets a limit. An error names the option and the value as they were given. */
static int set_limit(struct config *config, const char *text, int option, const char *given)
{
	char *why;
	int r = limits_set(&config->limits, text, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s \"%s\": %s%s", config_options[option].flag, given, why,
			option == LIMIT ? "; holdfast limits lists them all" : "");
		free(why);
	}
	return r;
}

static int take_limit(struct config *config, const char *text)
{
	return set_limit(config, text, LIMIT, text);
}

static int take_agent_env(struct config *config, const char *entry)
{
	const char *fault = agent_env_fault(entry);
	if (fault) {
		return options_refuse(&config_options[AGENT_ENV], entry, fault);
	}
	if (!strpbrk(entry, "=*") && !getenv(entry)) {
		diag(DIAG_WARN, "--agent-env %s: there is no such variable in the environment",
			entry);
	}
	list_add_text(&config->agent_env, entry);
	return 0;
}

static int take_sandbox_read(struct config *config, const char *text)
{
	return config_take_path(SANDBOX_READ, &config->sandbox_reads, text);
}

static int take_sandbox_write(struct config *config, const char *text)
{
	return config_take_path(SANDBOX_WRITE, &config->sandbox_writes, text);
}

static int take_host(struct config *config, const char *text)
{
	const char *fault = trust_take_host(&config->trust, text);
	return fault ? options_refuse(&config_options[ALLOW_HOST], text, fault) : 0;
}

static int take_origin(struct config *config, const char *text)
{
	const char *fault = trust_take_origin(&config->trust, text);
	return fault ? options_refuse(&config_options[ALLOW_ORIGIN], text, fault) : 0;
}

static int take_proxy(struct config *config, const char *text)
{
	const char *fault = trust_take_proxy(&config->trust, text);
	return fault ? options_refuse(&config_options[TRUST_PROXY], text, fault) : 0;
}

static int take_push_host(struct config *config, const char *text)
{
	const char *fault = push_take_host(&config->push, text);
	config->is_push_given = true;
	return fault ? options_refuse(&config_options[PUSH_HOST], text, fault) : 0;
}

static int take_push_address(struct config *config, const char *text)
{
	const char *fault = push_take_address(&config->push, text);
	return fault ? options_refuse(&config_options[PUSH_ADDRESS], text, fault) : 0;
}

typedef config_take_fn take_fn;

/** Takes the values of a list, between which there is any of `separators`. Accepts NULL. */
static int take_list(struct config *config, const char *list, const char *separators, take_fn *take)
{
	int r = 0;
	while (list && *(list += strspn(list, separators)) && r == 0) {
		size_t len = strcspn(list, separators);
		char *one = xstrndup(list, len);
		r = take(config, one);
		free(one);
		list += len;
	}
	return r;
}

static int take_limits(struct config *config, const char *list)
{
	return take_list(config, list, ",", take_limit);
}

/** Takes a repeatable option from the environment. Paths and variables may contain blanks. */
static int take_env(struct config *config, int option, take_fn *take)
{
	bool may_have_blanks =
		option == AGENT_ENV || option == SANDBOX_READ || option == SANDBOX_WRITE;
	return take_list(
		config, getenv(config_options[option].env), may_have_blanks ? "," : ", \t\n", take);
}

static int take_file(struct config *config, int option, take_fn *take)
{
	const struct config_line *line;
	size_t at = 0;
	int r = 0;
	while (r == 0 && (line = config_file_next(config->file, (size_t)option, &at))) {
		r = take(config, line->value);
	}
	return r;
}

/** Takes a repeatable option from the first of environment, file and default that has it. */
static int take_outside(struct config *config, int option, take_fn *take)
{
	const char *env = getenv(config_options[option].env);
	size_t at = 0;
	if (env && *env) {
		return take_env(config, option, take);
	}
	if (config_file_next(config->file, (size_t)option, &at)) {
		return take_file(config, option, take);
	}
	return take_list(config, config_options[option].fallback, ",", take);
}

static int take_each(void *owner, size_t option, const char *value)
{
	int r;
	switch (option) {
	case LIMIT:
		r = take_limits(owner, value);
		break;
	case AGENT_ENV:
		r = take_agent_env(owner, value);
		break;
	case LISTEN:
		r = config_take_listen(owner, value);
		break;
	case ALLOW_HOST:
		r = take_host(owner, value);
		break;
	case ALLOW_ORIGIN:
		r = take_origin(owner, value);
		break;
	case SANDBOX_READ:
		r = take_sandbox_read(owner, value);
		break;
	case SANDBOX_WRITE:
		r = take_sandbox_write(owner, value);
		break;
	case TRUST_PROXY:
		r = take_proxy(owner, value);
		break;
	case PUSH_HOST:
		r = take_push_host(owner, value);
		break;
	case PUSH_ADDRESS:
		r = take_push_address(owner, value);
		break;
	case WEBHOOK:
		r = config_take_webhook(owner, value);
		break;
	case WEBHOOK_ADDRESS:
		r = config_take_webhook_address(owner, value);
		break;
	default:
		return 0;
	}
	return r < 0 ? r : 1;
}

bool config_may_repeat(size_t option)
{
	return option == LIMIT || option == AGENT_ENV || option == LISTEN || option == ALLOW_HOST ||
	       option == ALLOW_ORIGIN || option == SANDBOX_READ || option == SANDBOX_WRITE ||
	       option == TRUST_PROXY || option == PUSH_HOST || option == PUSH_ADDRESS ||
	       option == WEBHOOK || option == WEBHOOK_ADDRESS;
}

static const char *look_up(void *owner, size_t option)
{
	const struct config *config = owner;
	size_t at = 0;
	const struct config_line *line =
		config_may_repeat(option) ? NULL : config_file_next(config->file, option, &at);
	return line ? line->value : NULL;
}

static char *explain(const char *name)
{
	const struct part *part = parts_lack_option(name);
	char *flag = xprintf("--%s", name);
	char *why = part ? part_refusal(part, flag) : NULL;
	free(flag);
	return why;
}

static const struct command command = {
	.usage = "serve [OPTIONS]",
	.help = "Runs the relay. SIGTERM and SIGINT stop it cleanly.\n\n"
		"Exit codes: 0 stopped, 1 it could not start or has failed, 2 its options are invalid.\n",
	.options = config_options,
	.take = take_each,
	.lookup = look_up,
	.explain = explain,
};

/** Accepts scheme, host and port only, since the page is at the root of its server. */
static int parse_url(const char *text)
{
	const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
			   : strncmp(text, "https://", 8) == 0 ? text + 8
							       : "";
	if (!*host || strpbrk(host, "/?#@ \t\r\n\"\\")) {
		return options_refuse(&config_options[URL], text,
			"expected http:// or https:// and a host without a path, such as https://holdfast.example.org");
	}
	return 0;
}

int config_parse_word(int option, const char *text, const char *const words[])
{
	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], text) == 0) {
			return i;
		}
	}
	return options_refuse(&config_options[option], text, NULL);
}

/** Takes the options that each set one limit. */
static int take_own_limits(struct config *config, const char *values[])
{
	static const struct {
		int option;
		const char *limit;
	} own[] = {
		{KEEP_EVENTS, "keep_events"},
		{KEEP_BYTES, "keep_bytes"},
		{KEEP_DAYS, "keep_days"},
		{MAX_DISK, "max_disk"},
		{DRAIN_TIMEOUT, "drain_ms"},
		{AGENT_MEMORY, "agent_memory"},
		{AGENT_PROCESSES, "agent_processes"},
	};
	int r = 0;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]) && r == 0; i++) {
		const char *value = values[own[i].option];
		char *text = xprintf("%s=%s", own[i].limit, value ? value : "");
		r = value ? set_limit(config, text, own[i].option, value) : 0;
		free(text);
	}
	return r;
}

static int take_tls(struct config *config, const char *values[])
{
	int r = config_parse_word(TLS, values[TLS], (const char *const[]){"on", "off", NULL});
	if (r >= 0 && !values[TLS_CERT] != !values[TLS_KEY]) {
		int given = values[TLS_CERT] ? TLS_CERT : TLS_KEY;
		return options_refuse(&config_options[given], values[given],
			"--tls-cert and --tls-key go together");
	}
	config->tls_cert = values[TLS_CERT];
	config->tls_key = values[TLS_KEY];
	config->tls_off = r == 1;
	return r < 0 ? r : 0;
}

/** Takes the options about the network. The command line's lists replace those of other sources. */
static int take_network(struct config *config, const char *values[])
{
	const struct server_trust given = config->trust;
	int r = config->listen_count ? 0 : take_outside(config, LISTEN, config_take_listen);
	if (r == 0 && values[METRICS_LISTEN]) {
		r = config_take_metrics_listen(config, values[METRICS_LISTEN]);
	}
	if (r == 0 && !given.hosts) {
		r = take_outside(config, ALLOW_HOST, take_host);
	}
	if (r == 0 && !given.origins) {
		r = take_outside(config, ALLOW_ORIGIN, take_origin);
	}
	if (r == 0 && !given.proxy_count && !given.trusts_unix) {
		r = take_outside(config, TRUST_PROXY, take_proxy);
	}
	r = r < 0 ? r : take_tls(config, values);
	if (r == 0) {
		r = config_parse_word(
			COMPRESSION, values[COMPRESSION], (const char *const[]){"on", "off", NULL});
		config->compression_off = r == 1;
		r = r < 0 ? r : 0;
	}
	config->url = values[URL];
	config->trust.ai_takes_cookie = values[AI_SDK_COOKIE] != NULL;
	config->qr = values[QR] != NULL;
	return r == 0 && config->url ? parse_url(config->url) : r;
}

static int take_push(struct config *config, const char *values[])
{
	int r = config->is_push_given ? 0 : take_outside(config, PUSH_HOST, take_push_host);
	if (r == 0 && !config->push.address_count) {
		r = take_outside(config, PUSH_ADDRESS, take_push_address);
	}
	config->push.ca_file = values[PUSH_CA];
	return r;
}

static int take_sandbox(struct config *config, const char *values[])
{
	int r = 0;
	if (!config->sandbox_reads) {
		r = take_outside(config, SANDBOX_READ, take_sandbox_read);
	}
	if (r == 0 && !config->sandbox_writes) {
		r = take_outside(config, SANDBOX_WRITE, take_sandbox_write);
	}
	if (r == 0) {
		r = config_parse_word(
			SECCOMP, values[SECCOMP], (const char *const[]){"auto", "on", "off", NULL});
		config->seccomp = r >= 0 ? (enum seccomp_wish)r : SECCOMP_AUTO;
		r = r < 0 ? r : 0;
	}
	config->sandbox = values[SANDBOX] != NULL;
	config->sandbox_sockets = values[SANDBOX_SOCKETS] != NULL;
	config->sandbox_namespaces = values[SANDBOX_NAMESPACES] != NULL;
	bool has_more = config->sandbox_reads || config->sandbox_writes ||
			config->sandbox_sockets || config->sandbox_namespaces;
	if (r == 0 && has_more && !config->sandbox) {
		diag(DIAG_ERROR,
			"--sandbox-read, --sandbox-write, --sandbox-sockets and --sandbox-user-namespaces need --sandbox");
		r = -EINVAL;
	}
	return r;
}

static int take_values(struct config *config, const char *values[])
{
	int r = take_network(config, values);
	r = r < 0 ? r : take_push(config, values);
	if (r == 0) {
		r = take_sandbox(config, values);
	}
	if (r < 0) {
		return r;
	}
	config->data_dir = values[DATA];
	config->auth_secret = values[AUTH_SECRET];
	config->auth_public_key = values[AUTH_PUBLIC_KEY];
	config->auth_issuer = values[AUTH_ISSUER];
	config->auth_audience = values[AUTH_AUDIENCE];
	config->agent_cgroup = values[AGENT_CGROUP];
	r = config_parse_dir(CWD, values[CWD], &config->cwd);
	r = r < 0 ? r : config_take_agents(config, values[AGENT], values[AGENTS]);
	if (r == 0 && values[WEB] == config_options[WEB].fallback) {
		config->web_dir = config_installed_page();
	} else if (r == 0 && *values[WEB]) {
		r = config_parse_dir(WEB, values[WEB], &config->web_dir);
	}
	if (r == 0) {
		r = config_parse_highlight(values[HIGHLIGHT], &config->highlight_dir);
	}
	if (r < 0) {
		return r;
	}
	r = config_parse_word(
		DURABILITY, values[DURABILITY], (const char *const[]){"fsync", "write", NULL});
	if (r < 0) {
		return r;
	}
	config->durability = r == 0 ? DURABILITY_FSYNC : DURABILITY_WRITE;
	r = config_take_store(config, values);
	r = r < 0 ? r : config_take_node(config, values);
	r = r < 0 ? r : config_take_webhooks(config, values, take_outside);
	if (r < 0) {
		return r;
	}
	r = config_parse_word(AUTH, values[AUTH], (const char *const[]){"on", "off", NULL});
	if (r < 0) {
		return r;
	}
	config->auth_off = r == 1;
	r = take_own_limits(config, values);
	if (r < 0) {
		return r;
	}
	return config_take_log(config, values[LOG_LEVEL], values[LOG_FORMAT]);
}

/* The options among the arguments, as text. */
struct given {
	const char **values; /* the last value of each option; NULL: not given */
	struct buffer *texts; /* all values of each option; NULL: not needed */
};

static int note(void *owner, size_t option, const char *value)
{
	const struct given *given = owner;
	given->values[option] = value;
	if (given->texts) {
		config_append_value(&given->texts[option], option == AGENT_ENV, value);
	}
	return 1;
}

static int note_given(const struct command *of, int argc, char **argv, struct given *given)
{
	const char *values[OPTION_COUNT] = {0};
	struct command noting = *of;
	noting.take = note;
	noting.lookup = NULL;
	return options_parse(&noting, argc, argv, NULL, values, given);
}

static int read_file(struct config *config, const char *given)
{
	const char *env = getenv(config_options[CONFIG].env);
	const char *path = given ? given : env && *env ? env : NULL;
	config->file = xcalloc(1, sizeof(*config->file));
	return path ? config_file_read(path, config_options, config_may_repeat, config->file) : 0;
}

/**
 * Takes the options whose values add up over all sources. Of the same name, a later value wins: so
 * the file comes first, then the environment; the arguments follow.
 */
static int take_outer_lists(struct config *config)
{
	int r = take_file(config, LIMIT, take_limits);
	r = r < 0 ? r : take_env(config, LIMIT, take_limit);
	r = r < 0 ? r : take_file(config, AGENT_ENV, take_agent_env);
	return r < 0 ? r : take_env(config, AGENT_ENV, take_agent_env);
}

static int check_environment(void)
{
	char *why = parts_refuse_environment();
	if (!why) {
		return 0;
	}
	diag(DIAG_ERROR, "%s", why);
	free(why);
	return -EINVAL;
}

static int parse(const struct command *of, struct config *config, int argc, char **argv)
{
	const char *given[OPTION_COUNT] = {0};
	const char *values[OPTION_COUNT] = {0};
	*config = (struct config){.limits = *limits_default()};
	int r = note_given(of, argc, argv, &(struct given){.values = given});
	config->is_log_level_given = given[LOG_LEVEL] != NULL;
	if (r == 0) {
		r = check_environment();
	}
	if (r == 0) {
		r = read_file(config, given[CONFIG]);
	}
	if (r == 0) {
		r = take_outer_lists(config);
	}
	if (r == 0) {
		r = options_parse(of, argc, argv, NULL, values, config);
	}
	if (r == 0) {
		r = take_values(config, values);
	}
	if (r != 0) {
		config_finish(config);
	}
	return r;
}

int config_parse(struct config *config, int argc, char **argv)
{
	return parse(&command, config, argc, argv);
}

static const struct command check_command = {
	.usage = "check-config [OPTIONS of serve]",
	.help = "Reads the options, the environment and the file of --config as holdfast serve does, and prints each\n"
		"option with its value and its source.\n\n"
		"Exit codes: 0 serve would run with them, 2 it would refuse them.\n",
	.options = config_options,
	.take = take_each,
	.lookup = look_up,
	.explain = explain,
};

int config_check(int argc, char **argv)
{
	struct config config;
	const char *values[OPTION_COUNT] = {0};
	struct buffer texts[OPTION_COUNT] = {0};
	int r = parse(&check_command, &config, argc, argv);
	if (r == 0) {
		note_given(&check_command, argc, argv,
			&(struct given){.values = values, .texts = texts});
		for (size_t i = 0; i < OPTION_COUNT; i++) {
			config_print_option(&config_options[i], i == AGENT_ENV,
				i == LIMIT || i == AGENT_ENV, &texts[i], config.file, i);
			buffer_finish(&texts[i]);
		}
		config_finish(&config);
	}
	return r > 0 ? 0 : r < 0 ? 2 : 0;
}

void config_finish(struct config *config)
{
	if (config->file) {
		config_file_finish(config->file);
		free(config->file);
		config->file = NULL;
	}
	agent_list_finish(&config->agents);
	list_free_texts(config->agent_env);
	config->agent_env = NULL;
	list_free_texts(config->sandbox_reads);
	list_free_texts(config->sandbox_writes);
	config->sandbox_reads = config->sandbox_writes = NULL;
	while (config->listen_count) {
		free(config->listen[--config->listen_count].host);
	}
	free(config->listen);
	config->listen = NULL;
	trust_finish(&config->trust);
	push_rules_finish(&config->push);
	webhook_rules_finish(&config->webhooks);
	free(config->node_address);
	config->node_address = NULL;
	free(config->cwd);
	free(config->web_dir);
	free(config->highlight_dir);
	config->cwd = NULL;
	config->web_dir = NULL;
	config->highlight_dir = NULL;
}
