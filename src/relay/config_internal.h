/* The options of serve: what the files that read them share. */
#ifndef HOLDFAST_CONFIG_INTERNAL_H
#define HOLDFAST_CONFIG_INTERNAL_H

#include "holdfast/config.h"
#include "holdfast/options.h"

enum {
	CONFIG,
	LISTEN,
	METRICS_LISTEN,
	URL,
	QR,
	TLS_CERT,
	TLS_KEY,
	TLS,
	ALLOW_HOST,
	ALLOW_ORIGIN,
	TRUST_PROXY,
	AI_SDK_COOKIE,
	PUSH_HOST,
	PUSH_ADDRESS,
	PUSH_CA,
	WEBHOOK,
	WEBHOOK_SECRET,
	WEBHOOK_ADDRESS,
	WEBHOOK_CA,
	WEBHOOK_HTTP,
	COMPRESSION,
	DATA,
	STORE,
	NODE_LISTEN,
	NODE_ADDRESS,
	AGENT,
	AGENTS,
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
	KEEP_BYTES,
	KEEP_DAYS,
	MAX_DISK,
	DRAIN_TIMEOUT,
	LIMIT,
	LOG_LEVEL,
	LOG_FORMAT,
	OPTION_COUNT
};

/** Ended by one without a flag. */
extern const struct option config_options[OPTION_COUNT + 1];

/* config_agents.c: the same as below. The command of --agent, or the file of --agents; both may be NULL. */
int config_take_agents(struct config *config, const char *command, const char *file);

/* config.c */
/** Which of the words it is, or -EINVAL after saying that it is none. */
int config_parse_word(int option, const char *text, const char *const words[]);
bool config_may_repeat(size_t option);

/* config_log.c */
/** -EINVAL after saying what is wrong. */
int config_take_log(struct config *config, const char *level, const char *format);

/* config_webhook.c: the same. */
typedef int config_take_fn(struct config *config, const char *text);
int config_take_webhook(struct config *config, const char *text);
int config_take_webhook_address(struct config *config, const char *text);
/** After --store. `take_outside` adds what the environment or the file has of an option that may be repeated. */
int config_take_webhooks(struct config *config, const char *values[],
	int (*take_outside)(struct config *config, int option, config_take_fn *take));

/* config_store.c: the same. After --durability and --listen. */
int config_take_store(struct config *config, const char *values[]);

/* config_listen.c */
/** HOST:PORT, or [HOST]:PORT; false if it is none. *ret_host is the caller's. */
bool config_read_host_port(const char *text, char **ret_host, int *ret_port);
/** Adds an address to listen on; -EINVAL after saying what is wrong. */
int config_take_listen(struct config *config, const char *text);
/** The same of --metrics-listen. Behind all others: it is nothing for people. */
int config_take_metrics_listen(struct config *config, const char *text);
/** --node-listen and --node-address: the same. After --store. */
int config_take_node(struct config *config, const char *values[]);

/* config_paths.c; those that return an int say what is wrong, and return a negative errno then. */
/** Adds a path that must be there to a list. */
int config_take_path(int option, char ***list, const char *text);
/** A directory that must be there; the caller frees it. */
int config_parse_dir(int option, const char *text, char **ret_path);
/** The default may be missing; what was named must be there. */
int config_parse_highlight(const char *text, char **ret_path);
/** The page that was installed with this program, which the caller frees; NULL: there is none. */
char *config_installed_page(void);

#endif
