/*
 * The options of `holdfast serve`: flags, for each one an environment variable, and a file. What a
 * flag says counts before the variable, and that before the file.
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
	struct listen_address *listen; /* at least one that is not for nodes; owned */
	size_t listen_count;
	struct server_trust trust; /* owned */
	struct push_rules push; /* owned */
	bool is_push_given; /* its hosts were, on the command line */
	struct webhook_rules webhooks; /* owned */
	const char *tls_cert; /* NULL: none */
	const char *tls_key;
	bool tls_off; /* a proxy ends TLS */
	bool compression_off;
	const char *url; /* how people reach it; NULL: as it listens */
	bool qr; /* the link is shown as a code */
	const char *data_dir;
	const char *store; /* the address of a database; NULL: sessions are in data_dir */
	char *node_address; /* HOST:PORT where other nodes on it reach this one; NULL: there are none; owned */
	struct agent_list agents; /* of --agents or --agent; owned */
	char **agent_env; /* entries for agent_env_make(); NULL: none; owned */
	char *cwd; /* absolute; owned */
	const char *agent_cgroup; /* "auto", "off", or a directory */
	bool sandbox; /* of agents */
	/* What is granted besides cwd: absolute, NULL-terminated; NULL: nothing; owned. */
	char **sandbox_reads;
	char **sandbox_writes;
	bool sandbox_sockets;
	enum seccomp_wish seccomp; /* of the server itself (server_filter.h) */
	bool auth_off; /* everybody may do everything */
	/* Of an application that makes tokens; NULL: none. */
	const char *auth_secret;
	const char *auth_public_key;
	const char *auth_issuer;
	const char *auth_audience;
	char *web_dir; /* absolute, NULL: none; owned */
	char *highlight_dir; /* the same */
	enum store_durability durability;
	struct limits limits;
	enum diag_level log_level;
	bool is_log_level_given; /* as an argument */
	struct config_file *file; /* that --config names; owned */
};

/**
 * Reads the arguments after `serve`, then what they leave open from the environment, then from the
 * file, then defaults.
 * Returns 0, 1 if --help was asked for and has been answered, or a negative errno after
 * saying what is wrong.
 */
int config_parse(struct config *config, int argc, char **argv);
void config_finish(struct config *config);
/**
 * `holdfast check-config`: reads the same, and prints each option with where its value is from.
 * Returns the exit code.
 */
int config_check(int argc, char **argv);
/**
 * Reads the log level again, from the file of --config: after SIGHUP. -ENOENT if another source
 * decides it, or there is no file; other errors after saying what is wrong. Blocks.
 */
int config_read_log_level(const struct config *config, enum diag_level *ret_level);
/** A path from the root, of something that may not be there yet. The caller frees it. */
char *absolute_path(const char *path);

#endif
