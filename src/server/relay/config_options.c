/* The options of the server itself, and the table of all options (option_rows.h). */
#include "config_internal.h"

#include "config_trust.h"

#include "holdfast/ai_options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Where the page is installed, relative to the program's folder; the build normally sets it. */
#ifndef HOLDFAST_WEB_DIR
#define HOLDFAST_WEB_DIR "../share/holdfast/web"
#endif

/** Accepts scheme, host and port only, since the page is at the root of its server. */
static const char *apply_url(const struct option_row *row, void *place, const char *value)
{
	const char *host = strncmp(value, "http://", 7) == 0    ? value + 7
			   : strncmp(value, "https://", 8) == 0 ? value + 8
								: "";
	*(const char **)place = value;
	return !*host || strpbrk(host, "/?#@ \t\r\n\"\\")
		       ? "expected http:// or https:// and a host without a path, such as https://holdfast.example.org"
		       : NULL;
}

static const struct option_row network_rows[] = {
	{{"--config", "FILE", "HOLDFAST_CONFIG", NULL,
		 "read options from this file: lines NAME = VALUE, named as the options without their dashes. An option given\n"
		 "      here or in the environment wins over the file; holdfast check-config prints the result"},
		.apply = NULL}, /* it is read before the others are applied */
	{{"--listen", "[https://]HOST:PORT|unix:PATH", "HOLDFAST_LISTEN", "127.0.0.1:8080",
		 "an address to listen on; port 0 picks a free port. An address that other machines can reach uses TLS; a\n"
		 "      loopback address uses TLS only if it begins with https://. unix: creates a socket that only its owner\n"
		 "      can open and that needs no token. May be repeated; separate addresses in HOLDFAST_LISTEN with blanks"},
		.apply = config_add_listen, .flags = OPTION_REPEATS},
	{{"--metrics-listen", "HOST:PORT", "HOLDFAST_METRICS_LISTEN", NULL,
		 "also serve GET /metrics here, without a token and without TLS, with /healthz and /readyz and nothing else.\n"
		 "      Choose an address that only machines can reach that may read them"},
		.apply = config_add_metrics_listen},
	{{"--url", "URL", "HOLDFAST_URL", NULL,
		 "the server's public URL, used in the links of holdfast url and holdfast token create; by default the\n"
		 "      address it listens on"},
		.apply = apply_url, .offset = offsetof(struct config, url)},
	{{"--qr", NULL, "HOLDFAST_QR", NULL,
		 "print a QR code of the link that logs in, for a phone; only on a terminal. Needs an address that the phone\n"
		 "      reaches: one of --listen, or --url"},
		.apply = option_set_switch, .offset = offsetof(struct config, qr)},
	{{"--tls-cert", "FILE", "HOLDFAST_TLS_CERT", NULL,
		 "the TLS certificate and its chain (PEM); SIGHUP reloads it and the key"},
		.apply = option_set_text, .offset = offsetof(struct config, tls_cert)},
	{{"--tls-key", "FILE", "HOLDFAST_TLS_KEY", NULL,
		 "the certificate's private key (PEM, no passphrase)"},
		.apply = option_set_text, .offset = offsetof(struct config, tls_key)},
	{{"--tls", "on|off", "HOLDFAST_TLS", "on",
		 "off: serve plain HTTP to other machines, for use behind a proxy that handles TLS"},
		.apply = option_set_off, .offset = offsetof(struct config, tls_off)},
	{{"--allow-host", "NAME", "HOLDFAST_ALLOW_HOST", NULL,
		 "accept requests for this host name, besides localhost, 127.0.0.1 and [::1]; needed behind a proxy on this\n"
		 "      machine. This and the next two may be repeated; separate values in the variable with blanks"},
		.apply = trust_add_host, .offset = offsetof(struct config, trust),
		.flags = OPTION_REPEATS},
	{{"--allow-origin", "ORIGIN", "HOLDFAST_ALLOW_ORIGIN", NULL,
		 "let pages of this origin, such as https://app.example.org, use the API with a token"},
		.apply = trust_add_origin, .offset = offsetof(struct config, trust),
		.flags = OPTION_REPEATS},
	{{"--trust-proxy", "ADDRESS[/BITS]|unix", "HOLDFAST_TRUST_PROXY", NULL,
		 "trust X-Forwarded-For and X-Forwarded-Proto from this proxy; unix: from clients of a unix socket,\n"
		 "      which then need a token"},
		.apply = trust_add_proxy, .offset = offsetof(struct config, trust),
		.flags = OPTION_REPEATS},
	{.apply = NULL},
};

static int check_network(void *state)
{
	const struct config *config = state;
	if (!config->tls_cert == !config->tls_key) {
		return 0;
	}
	const char *flag = config->tls_cert ? "--tls-cert" : "--tls-key";
	return options_refuse(&option_row_find(network_rows, flag)->option,
		config->tls_cert ? config->tls_cert : config->tls_key,
		"--tls-cert and --tls-key go together");
}

static void finish_network(void *state)
{
	struct config *config = state;
	while (config->listen_count) {
		free(config->listen[--config->listen_count].host);
	}
	free(config->listen);
	config->listen = NULL;
	trust_finish(&config->trust);
}

static const struct option_group network_options = {
	.rows = network_rows,
	.check = check_network,
	.finish = finish_network,
};

static const struct option_row data_rows[] = {
	{{"--compression", "on|off", "HOLDFAST_COMPRESSION", "on",
		 "off: do not compress messages, pages and files, for use behind a proxy that does"},
		.apply = option_set_off, .offset = offsetof(struct config, compression_off)},
	{{"--data", "DIR", "HOLDFAST_DATA", "./data",
		 "the directory for sessions; created if it does not exist"},
		.apply = option_set_text, .offset = offsetof(struct config, data_dir)},
	{.apply = NULL},
};

static const struct option_group data_options = {.rows = data_rows};

static const struct option_row other_rows[] = {
	{{"--seccomp", "auto|on|off", "HOLDFAST_SECCOMP", "auto",
		 "whether the kernel forbids the server itself to start programs, signal other processes and more, once it has\n"
		 "      started; auto: if the kernel can; on: do not start without it"},
		.apply = option_set_word, .offset = offsetof(struct config, seccomp)},
	{{"--auth", "on|off", "HOLDFAST_AUTH", "on",
		 "off: anyone who can connect may do everything, including running commands through the agent; loopback only"},
		.apply = option_set_off, .offset = offsetof(struct config, auth_off)},
	{{"--auth-secret", "FILE", "HOLDFAST_AUTH_SECRET", NULL,
		 "the secret of an application that issues its own tokens (JWT, HS256); at least 32 bytes"},
		.apply = option_set_text, .offset = offsetof(struct config, auth_secret)},
	{{"--auth-public-key", "FILE", "HOLDFAST_AUTH_PUBLIC_KEY", NULL,
		 "or the application's public key (PEM): RSA for RS256, P-256 for ES256"},
		.apply = option_set_text, .offset = offsetof(struct config, auth_public_key)},
	{{"--auth-issuer", "NAME", "HOLDFAST_AUTH_ISSUER", NULL,
		 "the \"iss\" that the application's tokens must have"},
		.apply = option_set_text, .offset = offsetof(struct config, auth_issuer)},
	{{"--auth-audience", "NAME", "HOLDFAST_AUTH_AUDIENCE", NULL,
		 "the \"aud\" that they must have"},
		.apply = option_set_text, .offset = offsetof(struct config, auth_audience)},
	{{"--web", "DIR", "HOLDFAST_WEB", HOLDFAST_WEB_DIR,
		 "the static files to serve at /; by default the installed page, found relative to the program. '' serves none"},
		.apply = config_set_page, .offset = offsetof(struct config, web_dir)},
	{{"--highlight", "DIR", "HOLDFAST_HIGHLIGHT", "/usr/share/javascript/highlight.js",
		 "the directory of highlight.js, which colours code in the page; without it code is plain"},
		.apply = config_set_highlight, .offset = offsetof(struct config, highlight_dir)},
	{{"--durability", "fsync|write", "HOLDFAST_DURABILITY", "fsync",
		 "fsync: events are on disk before they are acknowledged or shown; write: they survive a crash of the server, but\n"
		 "      not of the machine"},
		.apply = option_set_word, .offset = offsetof(struct config, durability)},
	{{"--keep-events", "N", "HOLDFAST_KEEP_EVENTS", NULL,
		 "keep the newest N events of each session and prune older ones; no event is renumbered"},
		.limit = "keep_events"},
	{{"--keep-bytes", "SIZE", "HOLDFAST_KEEP_BYTES", NULL,
		 "keep the newest events of each session as far as their lines in the log take SIZE, such as 10M, and prune older ones"},
		.limit = "keep_bytes"},
	{{"--keep-days", "N", "HOLDFAST_KEEP_DAYS", NULL,
		 "prune events older than N days; if several of the three options are given, an event is pruned when any of them applies"},
		.limit = "keep_days"},
	{{"--max-disk", "SIZE", "HOLDFAST_MAX_DISK", NULL,
		 "the maximum size of the data directory, such as 500M; beyond it new input is refused with disk_full, and\n"
		 "      everything can still be read"},
		.apply = option_set_text, .offset = offsetof(struct config, max_disk),
		.limit = "max_disk"},
	{{"--drain-timeout", "TIME", "HOLDFAST_DRAIN_TIMEOUT", NULL,
		 "how long the server may take to stop, such as 30s (10s if not set); agents that have not ended by then are killed"},
		.limit = "drain_ms"},
	{{"--limit", "NAME=VALUE[,NAME=VALUE]...", "HOLDFAST_LIMIT", NULL,
		 "set a limit, such as soft_flush_ms=500,block_size=128K. May be repeated; holdfast limits lists all limits and\n"
		 "      their defaults"},
		.limit = "", .flags = OPTION_REPEATS | OPTION_ADDS_UP},
	{{"--log-level", "error|warn|info|debug", "HOLDFAST_LOG_LEVEL", "info",
		 "how much to log on stderr; SIGHUP reads it again from the file of --config"},
		.apply = config_set_log_level, .offset = offsetof(struct config, log_level)},
	{{"--log-format", "text|json", "HOLDFAST_LOG_FORMAT", "text",
		 "json: each line on stderr is an object with ts, level, msg and, if it is about a session, session"},
		.apply = config_set_log_format},
	{.apply = NULL},
};

static void finish_other(void *state)
{
	struct config *config = state;
	free(config->web_dir);
	free(config->highlight_dir);
	config->web_dir = config->highlight_dir = NULL;
}

static const struct option_group other_options = {.rows = other_rows, .finish = finish_other};

/* --- the table --- */

/* In the order of serve --help. */
static const struct {
	const struct option_group *group;
	size_t state; /* where its state is in struct config */
} groups[] = {
	{&network_options, 0},
#if HOLDFAST_HAS_AI
	{&ai_options, offsetof(struct config, trust)},
#endif
#if HOLDFAST_HAS_NOTIFY
	{&push_options, offsetof(struct config, push)},
	{&webhook_options, offsetof(struct config, webhooks)},
#endif
	{&data_options, 0},
#if HOLDFAST_HAS_POSTGRES
	{&database_options, 0},
#endif
#if HOLDFAST_HAS_AGENTS
	{&agent_options, 0},
#endif
	{&other_options, 0},
};

#define GROUP_COUNT (sizeof(groups) / sizeof(groups[0]))

void config_table_make(struct config_table *table)
{
	*table = (struct config_table){0};
	for (size_t i = 0; i < GROUP_COUNT; i++) {
		const struct option_row *row = groups[i].group->rows;
		for (; row->option.flag; row++) {
			assert(table->count < CONFIG_OPTIONS_MAX);
			table->rows[table->count] = row;
			table->states[table->count] = groups[i].state;
			table->options[table->count++] = row->option;
		}
	}
}

size_t config_table_find(const struct config_table *table, const char *name)
{
	long option = options_find(table->options, name);
	assert(option >= 0);
	return (size_t)option;
}

int config_check_groups(struct config *config)
{
	int r = 0;
	for (size_t i = 0; i < GROUP_COUNT && r == 0; i++) {
		const struct option_group *group = groups[i].group;
		r = group->check ? group->check((char *)config + groups[i].state) : 0;
	}
	return r;
}

void config_finish_groups(struct config *config)
{
	for (size_t i = 0; i < GROUP_COUNT; i++) {
		if (groups[i].group->finish) {
			groups[i].group->finish((char *)config + groups[i].state);
		}
	}
}
