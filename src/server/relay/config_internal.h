/* Shared by the files that read the options of serve. */
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
	SANDBOX_NAMESPACES,
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

/** The table of options, ended by one without a flag. */
extern const struct option config_options[OPTION_COUNT + 1];

/* Functions that return an int return 0, or a negative errno after reporting the error. */

/* config_agents.c */
/** Takes the command of --agent or the file of --agents; NULL if not given. */
int config_take_agents(struct config *config, const char *command, const char *file);

/* config.c */
/** Returns the index of `text` in a NULL-terminated list of words, or -EINVAL. */
int config_parse_word(int option, const char *text, const char *const words[]);
bool config_may_repeat(size_t option);

/* config_log.c */
int config_take_log(struct config *config, const char *level, const char *format);

/* config_webhook.c */
typedef int config_take_fn(struct config *config, const char *text);
int config_take_webhook(struct config *config, const char *text);
int config_take_webhook_address(struct config *config, const char *text);
/**
 * Takes the other options of webhooks. To be called after --store has been taken. `take_outside`
 * takes a repeatable option from the environment or the file.
 */
int config_take_webhooks(struct config *config, const char *values[],
	int (*take_outside)(struct config *config, int option, config_take_fn *take));

/* config_store.c */
/** To be called after --durability has been taken. */
int config_take_store(struct config *config, const char *values[]);

/* config_listen.c */
/** Parses HOST:PORT or [HOST]:PORT. Returns whether it is valid. The caller frees *ret_host. */
bool config_read_host_port(const char *text, char **ret_host, int *ret_port);
/** Adds an address of --listen. */
int config_take_listen(struct config *config, const char *text);
/** Adds the address of --metrics-listen. To be called after all of --listen. */
int config_take_metrics_listen(struct config *config, const char *text);
/** Takes --node-listen and --node-address. To be called after --store has been taken. */
int config_take_node(struct config *config, const char *values[]);

/* config_paths.c */
/** Adds a path, which must exist, to a list. */
int config_take_path(int option, char ***list, const char *text);
/** Resolves a directory, which must exist; the caller frees *ret_path, also after an error. */
int config_parse_dir(int option, const char *text, char **ret_path);
/** The same for --highlight. *ret_path stays as it is if `text` is empty, or a missing default. */
int config_parse_highlight(const char *text, char **ret_path);
/** Returns the page that was installed with this program (caller frees), or NULL. */
char *config_installed_page(void);

#endif
