/*
 * The options of `holdfast serve`. Each can be given as a flag, as an environment variable or in a
 * file; a flag wins over the variable, and that over the file.
 */
#ifndef HOLDFAST_CONFIG_H
#define HOLDFAST_CONFIG_H

#include "holdfast/agent_list.h"
#include "holdfast/diag.h"
#include "holdfast/limits.h"
#include "holdfast/push.h"
#include "holdfast/server.h"
#include "holdfast/store.h"
#include "holdfast/webhook.h"

enum seccomp_wish { SECCOMP_AUTO, SECCOMP_ON, SECCOMP_OFF };

struct config {
	struct listen_address *listen; /* at least one for clients; owned */
	size_t listen_count;
	struct server_trust trust; /* owned */
	struct push_rules push; /* owned */
	struct webhook_rules webhooks; /* owned */
	const char *tls_cert; /* NULL: none */
	const char *tls_key;
	bool tls_off; /* plain HTTP for other machines too: a proxy handles TLS */
	bool compression_off;
	const char *url; /* the public URL; NULL: the address it listens on */
	bool qr; /* show the login link as a QR code */
	const char *data_dir;
	const char *store; /* the address of a database; NULL: sessions are in data_dir */
	const struct store_engine *engine; /* of that database; NULL: the embedded one */
	const char *max_disk; /* of --max-disk, which is also in `limits`; NULL: not given */
	const char *node_listen; /* of --node-listen and --node-address; NULL: not given */
	const char *node_reached_at;
	char *node_address; /* HOST:PORT where other nodes reach this one; NULL: no nodes; owned */
	const char *agent_command; /* of --agent and --agents; NULL: not given */
	const char *agents_file;
	struct agent_list agents; /* of --agents or --agent; owned */
	char **agent_env; /* entries for agent_env_make(); NULL: none; owned */
	char *cwd; /* absolute; owned */
	const char *agent_cgroup; /* "auto", "off", or a directory */
	bool sandbox; /* confine agents */
	/* Paths granted besides cwd: absolute; NULL-terminated, or NULL; owned. */
	char **sandbox_reads;
	char **sandbox_writes;
	bool sandbox_sockets;
	bool sandbox_namespaces;
	enum seccomp_wish seccomp; /* for the server itself (server_filter.h) */
	bool auth_off; /* anyone who can connect may do everything */
	/* For the tokens of an application; NULL: not given. */
	const char *auth_secret;
	const char *auth_public_key;
	const char *auth_issuer;
	const char *auth_audience;
	char *web_dir; /* absolute; NULL: no page; owned */
	char *highlight_dir; /* absolute; NULL: no highlight.js; owned */
	enum store_durability durability;
	struct limits limits;
	enum diag_level log_level;
	bool is_log_level_given; /* the command line has --log-level */
	struct config_file *file; /* of --config, or empty; owned */
};

/**
 * Reads the options from the arguments after `serve`, the environment, the file and the defaults,
 * in this order of precedence. Strings that are not owned point into the arguments, the environment
 * or `config->file`. Returns 0; 1 if --help was given and has been answered; or a negative errno
 * after reporting the error. After 0 call config_finish().
 */
int config_parse(struct config *config, int argc, char **argv);
void config_finish(struct config *config);
/**
 * Runs `holdfast check-config`: reads the same options, and prints each with its value and source.
 * Returns the exit code.
 */
int config_check(int argc, char **argv);
/**
 * Reads the log level again from the file of --config, after SIGHUP. Returns 0; -ENOENT if an
 * argument or the environment sets it, or without a file; or another negative errno after reporting
 * the error. Reads a file: not for the loop's thread.
 */
int config_read_log_level(const struct config *config, enum diag_level *ret_level);
/** Makes a path absolute; it need not exist. The caller frees the result. */
char *absolute_path(const char *path);

#endif
