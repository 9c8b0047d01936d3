#include "relay_agents.h"

#include "holdfast/intake.h"

#include <jansson.h>
#include <stdlib.h>

void relay_recover_turn(struct agent_host *agents, struct session *session)
{
	if (agents) {
		agents->ops->recover(agents, session);
	} else if (session_agent_is_running(session) || session_is_turn_of_prompt(session)) {
		json_t *data = json_pack("{s:s, s:s}", "reason", "server_restart", "detail",
			"the server was started again, without agents");
		char *text = json_dumps(data, JSON_COMPACT);
		intake_event(session, "agent_stopped", data, text);
		free(text);
		json_decref(data);
	}
}

#if HOLDFAST_HAS_AGENTS

#include "config_trust.h"

#include "holdfast/acp_host.h"
#include "holdfast/cgroup.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIGNALS_SINCE 6 /* the version of Landlock that confines signals */

/** Lists paths that agents must not read; the data directory comes first. */
static char **list_secrets(const struct config *config)
{
	char **secrets = NULL;
	const char *paths[] = {config->data_dir, config->auth_secret, config->tls_key,
		config->webhooks.secret_file};
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char *path = paths[i] ? absolute_path(paths[i]) : NULL;
		if (path) {
			list_add_text(&secrets, path);
		}
		free(path);
	}
	return secrets;
}

/** Lists paths that agents must not change: they could escape by changing them. */
static char **list_trusted(const struct config *config)
{
	char **trusted = NULL;
	char *self = realpath("/proc/self/exe", NULL);
	const char *paths[] = {self, config->web_dir, config->highlight_dir,
		config->auth_public_key, config->tls_cert, config->push.ca_file,
		config->webhooks.ca_file};
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char *path = paths[i] ? absolute_path(paths[i]) : NULL;
		if (path) {
			list_add_text(&trusted, path);
		}
		free(path);
	}
	free(self);
	return trusted;
}

static char *find_fault(const struct config *config, const struct sandbox *sandbox)
{
	if (access("/proc/self/exe", X_OK) < 0) {
		return xstrdup("--sandbox needs /proc: the server cannot start itself again");
	}
	if (sandbox->namespaces && geteuid() == 0) {
		return xstrdup(
			"--sandbox-user-namespaces would let agents write to the kernel's settings in /proc, because the server runs as root: run it as another user");
	}
	for (size_t i = 0; i < config->listen_count && sandbox->sockets; i++) {
		if (config->listen[i].scheme == LISTEN_UNIX) {
			return xprintf(
				"--sandbox-sockets would let agents connect to unix:%s, which needs no token",
				config->listen[i].host);
		}
	}
	char **secrets = list_secrets(config);
	char **trusted = list_trusted(config);
	char *fault = sandbox_fault(sandbox, secrets, trusted);
	list_free_texts(secrets);
	list_free_texts(trusted);
	return fault;
}

static char *make_tmp(void)
{
	const char *dir = getenv("TMPDIR");
	char *given = xprintf("%s/holdfast-XXXXXX", dir && *dir ? dir : "/tmp");
	char *path = mkdtemp(given) ? realpath(given, NULL) : NULL;
	free(given);
	return path;
}

static void announce(const struct config *config)
{
	int version = sandbox_version();
	diag(DIAG_INFO, "agents are in a sandbox (Landlock %d)", version);
	if (version < SIGNALS_SINCE) {
		diag(DIAG_WARN,
			"this kernel does not keep agents from sending signals to other processes of this user, including the server; Linux 6.12 and newer do");
	}
	if (config->auth_off) {
		diag(DIAG_WARN,
			"--auth off: agents in the sandbox can connect to this server, too, and prompt others");
	}
}

/**
 * Finds the directory for the control groups of agents (cgroup.h); *ret_dir (caller frees) is NULL
 * if they are not used. Returns 0, or -1 and *ret_why (caller frees).
 */
static int find_cgroup(const struct config *config, char **ret_dir, char **ret_why)
{
	const struct cgroup_wish wish = {.memory = config->limits.agent_memory > 0,
		.processes = config->limits.agent_processes > 0};
	bool is_named = strcmp(config->agent_cgroup, "auto") != 0;
	*ret_dir = NULL;
	if (strcmp(config->agent_cgroup, "off") == 0 || (!wish.memory && !wish.processes)) {
		return 0;
	}
	char *why = NULL;
	*ret_dir = cgroup_find(is_named ? config->agent_cgroup : NULL, &wish, NULL, NULL, &why);
	if (*ret_dir) {
		diag(DIAG_INFO, "agents get control groups in %s", *ret_dir);
	} else if (is_named) {
		*ret_why = xprintf("--agent-cgroup: %s", why);
	} else {
		diag(DIAG_DEBUG, "agents get no control groups: %s", why);
	}
	free(why);
	return *ret_dir || !is_named ? 0 : -1;
}

/**
 * Makes the sandbox of agents, with a directory `tmp` for temporary files; without --sandbox `tmp`
 * is NULL. Returns 0, or -1 and *ret_why (caller frees) if agents would not be confined.
 */
static int make_sandbox(const struct config *config, struct sandbox *sandbox, char **ret_why)
{
	*sandbox = (struct sandbox){
		.sockets = config->sandbox_sockets, .namespaces = config->sandbox_namespaces};
	if (!config->sandbox) {
		return 0;
	}
	for (char **path = config->sandbox_reads; path && *path; path++) {
		list_add_text(&sandbox->reads, *path);
	}
	for (size_t i = 0; i < config->agents.count; i++) {
		for (char **root = config->agents.entries[i].roots; *root; root++) {
			list_add_text(&sandbox->roots, *root);
		}
	}
	if (!config->agents.count) { /* check the sandbox even if no agent is configured */
		list_add_text(&sandbox->roots, config->cwd);
	}
	for (char **path = config->sandbox_writes; path && *path; path++) {
		list_add_text(&sandbox->writes, *path);
	}
	*ret_why = find_fault(config, sandbox);
	if (*ret_why) {
		return -1;
	}
	sandbox->tmp = make_tmp();
	if (!sandbox->tmp) {
		*ret_why = xprintf(
			"--sandbox: cannot create a directory for temporary files in TMPDIR or /tmp: %s",
			strerror(errno));
		return -1;
	}
	sandbox_shield();
	announce(config);
	return 0;
}

int relay_open_agents(
	const struct relay_agents_config *wanted, struct agent_host **ret, char **ret_why)
{
	const struct config *config = wanted->config;
	struct sandbox sandbox;
	char *cgroup = NULL;
	int r = make_sandbox(config, &sandbox, ret_why);
	r = r < 0 ? r : find_cgroup(config, &cgroup, ret_why);
	if (r < 0) {
		sandbox_finish(&sandbox);
		return r;
	}
	char *data_dir = absolute_path(config->data_dir);
	r = acp_host_create(&(struct acp_host_config){.life = wanted->life,
				    .loop = wanted->loop,
				    .limits = &config->limits,
				    .list = &config->agents,
				    .private_dir = data_dir,
				    .cgroup = cgroup,
				    .sandbox = sandbox,
				    .env = config->agent_env,
				    .has_deadline = config->node_address != NULL,
				    .lost = wanted->lost,
				    .owner = wanted->owner},
		ret, ret_why);
	free(data_dir);
	return r;
}

#else

int relay_open_agents(
	const struct relay_agents_config *wanted, struct agent_host **ret, char **ret_why)
{
	return 0;
}

#endif
