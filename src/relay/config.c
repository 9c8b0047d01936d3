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
	COMPRESSION,
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
	SECCOMP,
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
		"an address to listen on; port 0 picks a free port. An address that other machines can reach uses TLS; a\n"
		"      loopback address uses TLS only if it begins with https://. unix: creates a socket that only its owner\n"
		"      can open and that needs no token. May be repeated; separate addresses in HOLDFAST_LISTEN with commas"},
	[TLS_CERT] = {"--tls-cert", "FILE", "HOLDFAST_TLS_CERT", NULL,
		"the TLS certificate and its chain (PEM); SIGHUP reloads it and the key"},
	[TLS_KEY] = {"--tls-key", "FILE", "HOLDFAST_TLS_KEY", NULL,
		"the certificate's private key (PEM, no passphrase)"},
	[TLS] = {"--tls", "on|off", "HOLDFAST_TLS", "on",
		"off: serve plain HTTP to other machines, for use behind a proxy that handles TLS"},
	[URL] = {"--url", "URL", "HOLDFAST_URL", NULL,
		"the server's public URL, used in the links of holdfast url and holdfast token create; by default the\n"
		"      address it listens on"},
	[ALLOW_HOST] = {"--allow-host", "NAME", "HOLDFAST_ALLOW_HOST", NULL,
		"accept requests for this host name, besides localhost, 127.0.0.1 and [::1]; needed behind a proxy on this\n"
		"      machine. This and the next two may be repeated; separate values in the variable with commas"},
	[ALLOW_ORIGIN] = {"--allow-origin", "ORIGIN", "HOLDFAST_ALLOW_ORIGIN", NULL,
		"let pages of this origin, such as https://app.example.org, use the API with a token"},
	[TRUST_PROXY] = {"--trust-proxy", "ADDRESS[/BITS]|unix", "HOLDFAST_TRUST_PROXY", NULL,
		"trust X-Forwarded-For and X-Forwarded-Proto from this proxy; unix: from clients of a unix socket,\n"
		"      which then need a token"},
	[COMPRESSION] = {"--compression", "on|off", "HOLDFAST_COMPRESSION", "on",
		"off: do not compress messages, pages and files, for use behind a proxy that does"},
	[DATA] = {"--data", "DIR", "HOLDFAST_DATA", "./data",
		"the directory for sessions; created if it does not exist"},
	[AGENT] = {"--agent", "CMD", "HOLDFAST_AGENT", NULL,
		"a command that speaks ACP on its stdin and stdout; started with a session's first prompt"},
	[AGENT_ENV] = {"--agent-env", "NAME|NAME=VALUE|*", "HOLDFAST_AGENT_ENV", NULL,
		"pass this environment variable to agents, or set it for them; * passes all. May be repeated; separate\n"
		"      entries in HOLDFAST_AGENT_ENV with commas. Agents always get PATH HOME USER LOGNAME SHELL LANG LC_*\n"
		"      TZ TERM TMPDIR"},
	[AGENT_MEMORY] = {"--agent-memory", "SIZE", "HOLDFAST_AGENT_MEMORY", NULL,
		"the memory that an agent and everything it starts may use together, such as 2G; beyond it they are killed"},
	[AGENT_PROCESSES] = {"--agent-processes", "N", "HOLDFAST_AGENT_PROCESSES", NULL,
		"the processes and threads that they may have at once; 0: no limit. 4096 if not set"},
	[AGENT_CGROUP] = {"--agent-cgroup", "auto|off|DIR", "HOLDFAST_AGENT_CGROUP", "auto",
		"how the two limits are enforced. DIR: by control groups (v2) that the server creates in this delegated\n"
		"      directory; off: by a check once a second; auto: by control groups if the server's own is delegated to\n"
		"      it, otherwise by the check"},
	[CWD] = {"--cwd", "DIR", "HOLDFAST_CWD", ".",
		"the agents' working directory, and the only place where they can read and write files through Holdfast"},
	[SANDBOX] = {"--sandbox", NULL, "HOLDFAST_SANDBOX", NULL,
		"confine agents and their commands to the files below --cwd, a TMPDIR of their own and the system's programs,\n"
		"      read-only (Landlock); docs/sandbox.md says what this protects"},
	[SANDBOX_READ] = {"--sandbox-read", "PATH", "HOLDFAST_SANDBOX_READ", NULL,
		"also let them read and run this. May be repeated; separate paths in HOLDFAST_SANDBOX_READ with commas"},
	[SANDBOX_WRITE] = {"--sandbox-write", "PATH", "HOLDFAST_SANDBOX_WRITE", NULL,
		"also let them read, run and change this. May be repeated, in the same way"},
	[SANDBOX_SOCKETS] = {"--sandbox-sockets", NULL, "HOLDFAST_SANDBOX_SOCKETS", NULL,
		"let them use Unix sockets, including those of programs outside the sandbox, such as D-Bus or Docker"},
	[SECCOMP] = {"--seccomp", "auto|on|off", "HOLDFAST_SECCOMP", "auto",
		"whether the kernel forbids the server itself to start programs, signal other processes and more, once it has\n"
		"      started; auto: if the kernel can; on: do not start without it"},
	[AUTH] = {"--auth", "on|off", "HOLDFAST_AUTH", "on",
		"off: anyone who can connect may do everything, including running commands through the agent; loopback only"},
	[AUTH_SECRET] = {"--auth-secret", "FILE", "HOLDFAST_AUTH_SECRET", NULL,
		"the secret of an application that issues its own tokens (JWT, HS256); at least 32 bytes"},
	[AUTH_PUBLIC_KEY] = {"--auth-public-key", "FILE", "HOLDFAST_AUTH_PUBLIC_KEY", NULL,
		"or the application's public key (PEM): RSA for RS256, P-256 for ES256"},
	[AUTH_ISSUER] = {"--auth-issuer", "NAME", "HOLDFAST_AUTH_ISSUER", NULL,
		"the \"iss\" that the application's tokens must have"},
	[AUTH_AUDIENCE] = {"--auth-audience", "NAME", "HOLDFAST_AUTH_AUDIENCE", NULL,
		"the \"aud\" that they must have"},
	[WEB] = {"--web", "DIR", "HOLDFAST_WEB", HOLDFAST_WEB_DIR,
		"the static files to serve at /; by default the installed page, found relative to the program. '' serves none"},
	[HIGHLIGHT] = {"--highlight", "DIR", "HOLDFAST_HIGHLIGHT",
		"/usr/share/javascript/highlight.js",
		"the directory of highlight.js, which colours code in the page; without it code is plain"},
	[DURABILITY] = {"--durability", "fsync|write", "HOLDFAST_DURABILITY", "fsync",
		"fsync: events are on disk before they are acknowledged or shown; write: they survive a crash of the server, but\n"
		"      not of the machine"},
	[KEEP_EVENTS] = {"--keep-events", "N", "HOLDFAST_KEEP_EVENTS", NULL,
		"keep the newest N events of each session and prune older ones; no event is renumbered"},
	[KEEP_DAYS] = {"--keep-days", "N", "HOLDFAST_KEEP_DAYS", NULL,
		"prune events older than N days; if both options are given, an event is pruned when either applies"},
	[MAX_DISK] = {"--max-disk", "SIZE", "HOLDFAST_MAX_DISK", NULL,
		"the maximum size of the data directory, such as 500M; beyond it new input is refused with disk_full, and\n"
		"      everything can still be read"},
	[LIMIT] = {"--limit", "NAME=VALUE[,NAME=VALUE]...", "HOLDFAST_LIMIT", NULL,
		"set a limit, such as soft_flush_ms=500,block_size=128K. May be repeated; holdfast limits lists all limits and\n"
		"      their defaults"},
	[LOG_LEVEL] = {"--log-level", "error|warn|info|debug", "HOLDFAST_LOG_LEVEL", "info",
		"how much to log on stderr"},
};

char *absolute_path(const char *path)
{
	char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);
	char *absolute = xprintf("%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path);
	free(cwd);
	return absolute;
}

/** Sets a limit; if that fails, names the option and the value that were given. */
static int set_limit(struct config *config, const char *text, int option, const char *given)
{
	char *why;
	int r = limits_set(&config->limits, text, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s \"%s\": %s%s", options[option].flag, given, why,
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
		return options_refuse(&options[LISTEN], text, "too many addresses");
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
			"expected HOST:PORT, such as 127.0.0.1:8080, optionally after https://; or unix:PATH");
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
	.help = "Runs the relay. SIGTERM and SIGINT stop it cleanly.\n",
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
			"expected http:// or https:// and a host without a path, such as https://holdfast.example.org");
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
		r = value ? set_limit(config, text, own[i].option, value) : 0;
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
	if (r == 0) {
		r = parse_word(
			COMPRESSION, values[COMPRESSION], (const char *const[]){"on", "off", NULL});
		config->compression_off = r == 1;
		r = r < 0 ? r : 0;
	}
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
	if (r == 0) {
		r = parse_word(
			SECCOMP, values[SECCOMP], (const char *const[]){"auto", "on", "off", NULL});
		config->seccomp = r >= 0 ? (enum seccomp_wish)r : SECCOMP_AUTO;
		r = r < 0 ? r : 0;
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
