#include "relay_sandbox.h"

#include "config_trust.h"

#include "holdfast/agent_files.h"
#include "holdfast/buffer.h"
#include "holdfast/cgroup.h"
#include "holdfast/diag.h"
#include "holdfast/server_filter.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors for everything but connections: files of sessions, agents and their terminals. */
#define FILES_WANTED 8192

/* Settings of the allocator (bytes). */
#define HEAP_KEPT_MAX (8 << 20) /* free memory kept at the end of the heap */
#define MAPPED_MIN    (1 << 20) /* larger blocks are mappings of their own */

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

int relay_find_cgroup(const struct config *config, char **ret_dir, char **ret_why)
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

int relay_make_sandbox(const struct config *config, struct sandbox *sandbox, char **ret_why)
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

int relay_make_data_dir(const struct config *config, char **ret_why)
{
	if (!config->store || mkdir(config->data_dir, 0700) == 0 || errno == EEXIST) {
		return 0;
	}
	*ret_why =
		xprintf("cannot make the data directory %s: %s", config->data_dir, strerror(errno));
	return -1;
}

int relay_start_spawner(const struct config *config, const struct box_rules *rules, uv_loop_t *loop,
	void (*lost)(void *owner), void *owner, struct spawner **ret_spawner, char **ret_why)
{
	bool has_proc = access("/proc/self/exe", X_OK) == 0;
	const struct spawner_config wanted = {.is_program = has_proc,
		.has_guards = has_proc,
		.rules = rules,
		.has_deadline = has_proc && config->node_address,
		.helper = AGENT_FILES_COMMAND};
	int err =
		config->agents.count ? spawner_create(loop, &wanted, lost, owner, ret_spawner) : 0;
	if (err < 0) {
		*ret_why = xprintf(
			"the process that starts agents cannot be started: %s", strerror(-err));
		return -1;
	}
	return 0;
}

int relay_confine(const struct config *config, char **ret_why)
{
	const char *lack = config->seccomp == SECCOMP_OFF ? "--seccomp off" : server_filter_lack();
	int err = lack ? 0 : server_filter();
	if (err < 0) {
		bool is_old = err == -EINVAL || err == -ENOSYS || err == -EOPNOTSUPP;
		lack = is_old ? "this kernel does not have it" : strerror(-err);
	}
	if (lack && config->seccomp == SECCOMP_ON) {
		*ret_why = xprintf("--seccomp on: %s", lack);
		return -1;
	}
	if (lack) {
		diag(DIAG_INFO, "the server itself is not under seccomp: %s", lack);
	} else {
		diag(DIAG_INFO,
			"the server itself is under seccomp: it starts no program, and signals no other process");
	}
	return 0;
}

void relay_finish_sandbox(struct sandbox *sandbox)
{
	if (sandbox->tmp) {
		rmdir(sandbox->tmp);
	}
	list_free_texts(sandbox->reads);
	list_free_texts(sandbox->writes);
	list_free_texts(sandbox->roots);
	free((char *)sandbox->tmp);
}

/** Disables core files, which would contain tokens. */
static void forbid_core_files(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_CORE, &limit) == 0) {
		limit.rlim_cur = 0;
		setrlimit(RLIMIT_CORE, &limit);
	}
}

/**
 * Raises the limit of descriptors as far as it can be of use and the system allows. It is not
 * higher because Debian's libwebsockets searches a table of that size for each socket that closes.
 */
static void set_descriptor_limit(const struct limits *limits)
{
	struct rlimit limit;
	rlim_t wanted = (rlim_t)limits->connections + limits->descriptor_reserve + FILES_WANTED;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

void relay_limit_process(const struct limits *limits)
{
	forbid_core_files();
	set_descriptor_limit(limits);
}

void relay_keep_heap(void)
{
	mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_MAX);
	mallopt(M_MMAP_THRESHOLD, MAPPED_MIN);
}
