#include "holdfast/config.h"

#include "config_trust.h"

#include "holdfast/agent_env.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/options.h"

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
/* So many addresses may be listened on. */
#define LISTEN_MAX 16

enum {
	LISTEN,
	URL,
	TLS_CERT,
	TLS_KEY,
	TLS,
	ALLOW_HOST,
	ALLOW_ORIGIN,
	TRUST_PROXY,
	DATA,
	AGENT,
	AGENT_ENV,
	AGENT_MEMORY,
	AGENT_PROCESSES,
	AGENT_CGROUP,
	CWD,
	SANDBOX,
	SANDBOX_READ,
	SANDBOX_WRITE,
	SANDBOX_SOCKETS,
	AUTH,
	AUTH_SECRET,
	AUTH_PUBLIC_KEY,
	AUTH_ISSUER,
	AUTH_AUDIENCE,
	WEB,
	HIGHLIGHT,
	DURABILITY,
	KEEP_EVENTS,
	KEEP_DAYS,
	MAX_DISK,
	LIMIT,
	LOG_LEVEL,
	OPTION_COUNT
};

static const struct option options[OPTION_COUNT + 1] = {
	[LISTEN] = {"--listen", "[https://]HOST:PORT|unix:PATH", "HOLDFAST_LISTEN",
		"127.0.0.1:8080",
		"address to listen on; port 0 takes a free one. An address that other machines reach speaks TLS, one of\n"
		"      loopback only with https:// before it. unix: makes a socket that only its owner may open, and that\n"
		"      wants no token. May be repeated (in HOLDFAST_LISTEN: with commas between them)"},
	[TLS_CERT] = {"--tls-cert", "FILE", "HOLDFAST_TLS_CERT", NULL,
		"the certificate for TLS, with those that lead to its root (PEM); SIGHUP reads it and the key again"},
	[TLS_KEY] = {"--tls-key", "FILE", "HOLDFAST_TLS_KEY", NULL,
		"its private key (PEM, without a pass phrase)"},
	[TLS] = {"--tls", "on|off", "HOLDFAST_TLS", "on",
		"off: other machines reach plain HTTP, as a proxy in front speaks TLS"},
	[URL] = {"--url", "URL", "HOLDFAST_URL", NULL,
		"how people reach the server, for the links of holdfast url and holdfast token create; by default as it\n"
		"      listens"},
	[ALLOW_HOST] = {"--allow-host", "NAME", "HOLDFAST_ALLOW_HOST", NULL,
		"a name that the server is asked for, besides localhost, 127.0.0.1 and [::1]; for a proxy on this machine.\n"
		"      May be repeated, as the next two (in the environment: with commas between them)"},
	[ALLOW_ORIGIN] = {"--allow-origin", "ORIGIN", "HOLDFAST_ALLOW_ORIGIN", NULL,
		"pages of this origin, such as https://app.example.org, may use the API with a token"},
	[TRUST_PROXY] = {"--trust-proxy", "ADDRESS[/BITS]|unix", "HOLDFAST_TRUST_PROXY", NULL,
		"a proxy whose X-Forwarded-For and X-Forwarded-Proto count; unix: whoever comes by a unix socket"},
	[DATA] = {"--data", "DIR", "HOLDFAST_DATA", "./data",
		"where sessions are kept; made if missing"},
	[AGENT] = {"--agent", "CMD", "HOLDFAST_AGENT", NULL,
		"command that runs an ACP agent on its stdin and stdout; started with a session's first prompt"},
	[AGENT_ENV] = {"--agent-env", "NAME|NAME=VALUE|*", "HOLDFAST_AGENT_ENV", NULL,
		"a variable that agents and their commands get, from Holdfast's environment or with this value; may\n"
		"      be repeated (in HOLDFAST_AGENT_ENV: with commas between them); * passes all. Default: PATH HOME\n"
		"      USER LOGNAME SHELL LANG LC_* TZ TERM TMPDIR"},
	[AGENT_MEMORY] = {"--agent-memory", "SIZE", "HOLDFAST_AGENT_MEMORY", NULL,
		"memory that an agent may use, with its commands and all that they start, such as 2G; beyond it they are killed"},
	[AGENT_PROCESSES] = {"--agent-processes", "N", "HOLDFAST_AGENT_PROCESSES", NULL,
		"processes and threads that they may have at once, 4096 unless it is set; 0: any number"},
	[AGENT_CGROUP] = {"--agent-cgroup", "auto|off|DIR", "HOLDFAST_AGENT_CGROUP", "auto",
		"how these two are kept: by control groups (version 2) made in DIR, which is delegated to the server; off: the\n"
		"      server looks once a second; auto: by groups if its own group is delegated to it, else by looking"},
	[CWD] = {"--cwd", "DIR", "HOLDFAST_CWD", ".",
		"the agent's working directory; through Holdfast it can read and write only there"},
	[SANDBOX] = {"--sandbox", NULL, "HOLDFAST_SANDBOX", NULL,
		"agents and their commands can use the files below --cwd and a TMPDIR of their own, read the system's programs, and\n"
		"      reach no other file (Landlock); docs/sandbox.md says what this protects"},
	[SANDBOX_READ] = {"--sandbox-read", "PATH", "HOLDFAST_SANDBOX_READ", NULL,
		"what they can read and run besides; may be repeated (in HOLDFAST_SANDBOX_READ: with commas between them)"},
	[SANDBOX_WRITE] = {"--sandbox-write", "PATH", "HOLDFAST_SANDBOX_WRITE", NULL,
		"what they can read, run and change besides; the same"},
	[SANDBOX_SOCKETS] = {"--sandbox-sockets", NULL, "HOLDFAST_SANDBOX_SOCKETS", NULL,
		"they can use Unix sockets, also of what runs outside of the sandbox, such as D-Bus or Docker"},
	[AUTH] = {"--auth", "on|off", "HOLDFAST_AUTH", "on",
		"off: whoever can connect may do everything, and have the agent run commands; on loopback only"},
	[AUTH_SECRET] = {"--auth-secret", "FILE", "HOLDFAST_AUTH_SECRET", NULL,
		"the secret of an application that makes tokens itself (JWT, HS256); at least 32 bytes"},
	[AUTH_PUBLIC_KEY] = {"--auth-public-key", "FILE", "HOLDFAST_AUTH_PUBLIC_KEY", NULL,
		"or its public key in PEM: RSA for RS256, P-256 for ES256"},
	[AUTH_ISSUER] = {"--auth-issuer", "NAME", "HOLDFAST_AUTH_ISSUER", NULL,
		"\"iss\" that the application's tokens must have"},
	[AUTH_AUDIENCE] = {"--auth-audience", "NAME", "HOLDFAST_AUTH_AUDIENCE", NULL,
		"\"aud\" that they must have"},
	[WEB] = {"--web", "DIR", "HOLDFAST_WEB", HOLDFAST_WEB_DIR,
		"static files to serve at /; by default the installed page, which is looked for beside the program's folder"},
	[HIGHLIGHT] = {"--highlight", "DIR", "HOLDFAST_HIGHLIGHT",
		"/usr/share/javascript/highlight.js",
		"highlight.js, which colours the page's code; without it code is plain"},
	[DURABILITY] = {"--durability", "fsync|write", "HOLDFAST_DURABILITY", "fsync",
		"fsync: acknowledged and shown means on disk; write: survives a crash of the process only"},
	[KEEP_EVENTS] = {"--keep-events", "N", "HOLDFAST_KEEP_EVENTS", NULL,
		"keep the newest N events of each session and prune older ones, from the front; none are renumbered"},
	[KEEP_DAYS] = {"--keep-days", "N", "HOLDFAST_KEEP_DAYS", NULL,
		"prune events that are older than N days; with both options an event is pruned when either applies"},
	[MAX_DISK] = {"--max-disk", "SIZE", "HOLDFAST_MAX_DISK", NULL,
		"how large the data directory may become, such as 500M; then new input is refused with disk_full, and all can still be read"},
	[LIMIT] = {"--limit", "NAME=VALUE[,NAME=VALUE]...", "HOLDFAST_LIMIT", NULL,
		"sets a threshold or bound, such as soft_flush_ms=500,block_size=128K; may be repeated; holdfast limits lists them with their defaults"},
	[LOG_LEVEL] = {"--log-level", "error|warn|info|debug", "HOLDFAST_LOG_LEVEL", "info",
		"how much to say on stderr"},
};

char *absolute_path(const char *path)
{
	char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);
	char *absolute = xprintf("%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path);
	free(cwd);
	return absolute;
}

static int take_limit(struct config *config, const char *text)
{
	char *why;
	int r = limits_set(&config->limits, text, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
		free(why);
	}
	return r;
}

static int take_agent_env(struct config *config, const char *entry)
{
	const char *fault = agent_env_fault(entry);
	if (fault) {
		return options_refuse(&options[AGENT_ENV], entry, fault);
	}
	if (!strpbrk(entry, "=*") && !getenv(entry)) {
		diag(DIAG_WARN, "--agent-env %s: there is no such variable in the environment",
			entry);
	}
	list_add_text(&config->agent_env, entry);
	return 0;
}

static int take_path(int option, char ***list, const char *text)
{
	char *path = realpath(text, NULL);
	if (!path) {
		return options_refuse(&options[option], text, "there is no such file or directory");
	}
	list_add_text(list, path);
	free(path);
	return 0;
}

static int take_sandbox_read(struct config *config, const char *text)
{
	return take_path(SANDBOX_READ, &config->sandbox_reads, text);
}

static int take_sandbox_write(struct config *config, const char *text)
{
	return take_path(SANDBOX_WRITE, &config->sandbox_writes, text);
}

static bool read_host_port(const char *text, struct listen_address *ret)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
	bool bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']';
	if (!len || len >= 256 || !digits || digits > 5 || colon[1 + digits] ||
		memchr(text, '/', len) || atoi(colon + 1) > 65535) {
		return false;
	}
	ret->host = xstrndup(text + bracketed, len - (bracketed ? 2 : 0));
	ret->port = atoi(colon + 1);
	return true;
}

static int take_listen(struct config *config, const char *text)
{
	struct listen_address address = {0};
	const char *host = text;
	if (config->listen_count == LISTEN_MAX) {
		return options_refuse(&options[LISTEN], text, "these are too many");
	}
	if (strncmp(text, "unix:", 5) == 0 && text[5]) {
		address.scheme = LISTEN_UNIX;
		address.host = absolute_path(text + 5);
		host = NULL;
	} else if (strncmp(text, "https://", 8) == 0) {
		address.scheme = LISTEN_HTTPS;
		host += 8;
	} else if (strncmp(text, "http://", 7) == 0) {
		address.scheme = LISTEN_HTTP;
		host += 7;
	}
	if (host && !read_host_port(host, &address)) {
		return options_refuse(&options[LISTEN], text,
			"give HOST:PORT, such as 127.0.0.1:8080, with https:// before it or nothing; or unix:PATH");
	}
	config->listen =
		xrealloc(config->listen, (config->listen_count + 1) * sizeof(*config->listen));
	config->listen[config->listen_count++] = address;
	return 0;
}

static int take_host(struct config *config, const char *text)
{
	const char *fault = trust_take_host(&config->trust, text);
	return fault ? options_refuse(&options[ALLOW_HOST], text, fault) : 0;
}

static int take_origin(struct config *config, const char *text)
{
	const char *fault = trust_take_origin(&config->trust, text);
	return fault ? options_refuse(&options[ALLOW_ORIGIN], text, fault) : 0;
}

static int take_proxy(struct config *config, const char *text)
{
	const char *fault = trust_take_proxy(&config->trust, text);
	return fault ? options_refuse(&options[TRUST_PROXY], text, fault) : 0;
}

/** Several, with commas between them; NULL: none. */
static int take_list(struct config *config, const char *list,
	int (*take)(struct config *config, const char *text))
{
	int r = 0;
	while (list && *list && r == 0) {
		size_t len = strcspn(list, ",");
		char *one = xstrndup(list, len);
		r = take(config, one);
		free(one);
		list += len + (list[len] == ',');
	}
	return r;
}

static int take_each(void *owner, size_t option, const char *value)
{
	int r;
	switch (option) {
	case LIMIT:
		r = take_list(owner, value, take_limit);
		break;
	case AGENT_ENV:
		r = take_agent_env(owner, value);
		break;
	case LISTEN:
		r = take_listen(owner, value);
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
	default:
		return 0;
	}
	return r < 0 ? r : 1;
}

static const struct command command = {
	.usage = "serve [OPTIONS]",
	.help = "Runs the relay. Stops cleanly on SIGTERM and SIGINT.\n",
	.options = options,
	.take = take_each,
};

/** Only scheme, host and port: a page lies at the root of its server. */
static int parse_url(const char *text)
{
	const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
			   : strncmp(text, "https://", 8) == 0 ? text + 8
							       : "";
	if (!*host || strpbrk(host, "/?#@ \t\r\n\"\\")) {
		return options_refuse(&options[URL], text,
			"give http:// or https://, a name and no path, such as https://holdfast.example.org");
	}
	return 0;
}

static int parse_dir(int option, const char *text, char **ret_path)
{
	struct stat st;
	*ret_path = realpath(text, NULL);
	if (!*ret_path || stat(*ret_path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		return options_refuse(&options[option], text, "there is no such directory");
	}
	return 0;
}

/** The default may be missing; what was named must be there. */
static int parse_highlight(const char *text, char **ret_path)
{
	bool is_default = strcmp(text, options[HIGHLIGHT].fallback) == 0;
	if (!*text || (is_default && access(text, R_OK) < 0)) {
		return 0;
	}
	return parse_dir(HIGHLIGHT, text, ret_path);
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

static int parse_word(int option, const char *text, const char *const words[])
{
	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], text) == 0) {
			return i;
		}
	}
	return options_refuse(&options[option], text, NULL);
}

/** Options that are limits of their own. */
static int take_own_limits(struct config *config, const char *values[])
{
	static const struct {
		int option;
		const char *limit;
	} own[] = {
		{KEEP_EVENTS, "keep_events"},
		{KEEP_DAYS, "keep_days"},
		{MAX_DISK, "max_disk"},
		{AGENT_MEMORY, "agent_memory"},
		{AGENT_PROCESSES, "agent_processes"},
	};
	int r = 0;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]) && r == 0; i++) {
		char text[96];
		const char *value = values[own[i].option];
		snprintf(text, sizeof(text), "%s=%.64s", own[i].limit, value ? value : "");
		r = value ? take_limit(config, text) : 0;
	}
	return r;
}

static int take_tls(struct config *config, const char *values[])
{
	int r = parse_word(TLS, values[TLS], (const char *const[]){"on", "off", NULL});
	if (r >= 0 && !values[TLS_CERT] != !values[TLS_KEY]) {
		int given = values[TLS_CERT] ? TLS_CERT : TLS_KEY;
		return options_refuse(
			&options[given], values[given], "--tls-cert and --tls-key go together");
	}
	config->tls_cert = values[TLS_CERT];
	config->tls_key = values[TLS_KEY];
	config->tls_off = r == 1;
	return r < 0 ? r : 0;
}

/** Lists of the environment count as far as the command line has none of them. */
static int take_network(struct config *config, const char *values[])
{
	const struct server_trust given = config->trust;
	int r = config->listen_count ? 0 : take_list(config, values[LISTEN], take_listen);
	if (r == 0 && !given.hosts) {
		r = take_list(config, values[ALLOW_HOST], take_host);
	}
	if (r == 0 && !given.origins) {
		r = take_list(config, values[ALLOW_ORIGIN], take_origin);
	}
	if (r == 0 && !given.proxy_count && !given.trusts_unix) {
		r = take_list(config, values[TRUST_PROXY], take_proxy);
	}
	r = r < 0 ? r : take_tls(config, values);
	config->url = values[URL];
	return r == 0 && config->url ? parse_url(config->url) : r;
}

static int take_sandbox(struct config *config, const char *values[])
{
	int r = 0;
	if (!config->sandbox_reads) {
		r = take_list(config, values[SANDBOX_READ], take_sandbox_read);
	}
	if (r == 0 && !config->sandbox_writes) {
		r = take_list(config, values[SANDBOX_WRITE], take_sandbox_write);
	}
	config->sandbox = values[SANDBOX] != NULL;
	config->sandbox_sockets = values[SANDBOX_SOCKETS] != NULL;
	bool has_more = config->sandbox_reads || config->sandbox_writes || config->sandbox_sockets;
	if (r == 0 && has_more && !config->sandbox) {
		diag(DIAG_ERROR,
			"--sandbox-read, --sandbox-write and --sandbox-sockets need --sandbox");
		r = -EINVAL;
	}
	return r;
}

static int take_values(struct config *config, const char *values[])
{
	int r = take_network(config, values);
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
	config->agent = values[AGENT];
	if (config->agent && !config->agent[strspn(config->agent, " \t\r\n")]) {
		return options_refuse(&options[AGENT], config->agent,
			"give a command, or leave the option out; then sessions take no prompts");
	}
	r = parse_dir(CWD, values[CWD], &config->cwd);
	if (r == 0 && values[WEB] == options[WEB].fallback) {
		config->web_dir = installed_page();
	} else if (r == 0 && *values[WEB]) {
		r = parse_dir(WEB, values[WEB], &config->web_dir);
	}
	if (r == 0) {
		r = parse_highlight(values[HIGHLIGHT], &config->highlight_dir);
	}
	if (r < 0) {
		return r;
	}
	r = parse_word(
		DURABILITY, values[DURABILITY], (const char *const[]){"fsync", "write", NULL});
	if (r < 0) {
		return r;
	}
	config->durability = r == 0 ? DURABILITY_FSYNC : DURABILITY_WRITE;
	r = parse_word(AUTH, values[AUTH], (const char *const[]){"on", "off", NULL});
	if (r < 0) {
		return r;
	}
	config->auth_off = r == 1;
	r = take_own_limits(config, values);
	if (r < 0) {
		return r;
	}
	r = parse_word(LOG_LEVEL, values[LOG_LEVEL],
		(const char *const[]){"error", "warn", "info", "debug", NULL});
	if (r < 0) {
		return r;
	}
	diag_set_level((enum diag_level)r);
	return 0;
}

int config_parse(struct config *config, int argc, char **argv)
{
	const char *values[OPTION_COUNT] = {0};
	*config = (struct config){.limits = *limits_default()};
	/* The environment first, so that an option on the command line wins. */
	int r = take_list(config, getenv(options[LIMIT].env), take_limit);
	if (r == 0) {
		r = take_list(config, getenv(options[AGENT_ENV].env), take_agent_env);
	}
	if (r == 0) {
		r = options_parse(&command, argc, argv, NULL, values, config);
	}
	if (r == 0) {
		r = take_values(config, values);
	}
	if (r != 0) {
		config_finish(config);
	}
	return r;
}

void config_finish(struct config *config)
{
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
	free(config->cwd);
	free(config->web_dir);
	free(config->highlight_dir);
	config->cwd = NULL;
	config->web_dir = NULL;
	config->highlight_dir = NULL;
}
