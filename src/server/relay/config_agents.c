/* The options of serve for agents: which there are, and how they are confined. */
#include "config_internal.h"
#include "config_trust.h"

#include "holdfast/agent_env.h"
#include "holdfast/beneath.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)1024 * 1024)

static const char *add_variable(const struct option_row *row, void *place, const char *entry)
{
	const char *fault = agent_env_fault(entry);
	if (fault) {
		return fault;
	}
	if (!strpbrk(entry, "=*") && !getenv(entry)) {
		diag(DIAG_WARN, "--agent-env %s: there is no such variable in the environment",
			entry);
	}
	list_add_text(place, entry);
	return NULL;
}

static const struct option_row rows[] = {
	{{"--agent", "CMD", "HOLDFAST_AGENT", NULL,
		 "a command that speaks ACP on its stdin and stdout; started with a session's first prompt"},
		.apply = option_set_text, .offset = offsetof(struct config, agent_command)},
	{{"--agents", "FILE", "HOLDFAST_AGENTS", NULL,
		 "instead of --agent: a file (JSON) of named agents with their directories, from which a new session\n"
		 "      chooses; docs/agents.md has the format"},
		.apply = option_set_text, .offset = offsetof(struct config, agents_file)},
	{{"--agent-env", "NAME|NAME=VALUE|PREFIX*|*", "HOLDFAST_AGENT_ENV", NULL,
		 "pass this environment variable to agents, or set it for them; * passes all. May be repeated; separate\n"
		 "      entries in HOLDFAST_AGENT_ENV with commas. Agents always get PATH HOME USER LOGNAME SHELL LANG LC_*\n"
		 "      TZ TERM TMPDIR"},
		.apply = add_variable, .offset = offsetof(struct config, agent_env),
		.flags = OPTION_REPEATS | OPTION_ADDS_UP | OPTION_HAS_BLANKS | OPTION_IS_SECRET},
	{{"--agent-memory", "SIZE", "HOLDFAST_AGENT_MEMORY", NULL,
		 "the memory that an agent and everything it starts may use together, such as 2G; beyond it they are killed"},
		.limit = "agent_memory"},
	{{"--agent-processes", "N", "HOLDFAST_AGENT_PROCESSES", NULL,
		 "the processes and threads that they may have at once; 0: no limit. 4096 if not set"},
		.limit = "agent_processes"},
	{{"--agent-cgroup", "auto|off|DIR", "HOLDFAST_AGENT_CGROUP", "auto",
		 "how the two limits are enforced. DIR: by control groups (v2) that the server creates in this delegated\n"
		 "      directory; off: by a check once a second; auto: by control groups if the server's own is delegated to\n"
		 "      it, otherwise by the check"},
		.apply = option_set_text, .offset = offsetof(struct config, agent_cgroup)},
	{{"--cwd", "DIR", "HOLDFAST_CWD", ".",
		 "the agents' working directory, and the only place where they can read and write files through Holdfast"},
		.apply = config_set_dir, .offset = offsetof(struct config, cwd)},
	{{"--sandbox", NULL, "HOLDFAST_SANDBOX", NULL,
		 "confine agents and their commands to the files below --cwd, a TMPDIR of their own and the system's programs,\n"
		 "      read-only (Landlock); docs/sandbox.md says what this protects"},
		.apply = option_set_switch, .offset = offsetof(struct config, sandbox)},
	{{"--sandbox-read", "PATH", "HOLDFAST_SANDBOX_READ", NULL,
		 "also let them read and run this. May be repeated; separate paths in HOLDFAST_SANDBOX_READ with commas"},
		.apply = config_add_path, .offset = offsetof(struct config, sandbox_reads),
		.flags = OPTION_REPEATS | OPTION_HAS_BLANKS},
	{{"--sandbox-write", "PATH", "HOLDFAST_SANDBOX_WRITE", NULL,
		 "also let them read, run and change this. May be repeated, in the same way"},
		.apply = config_add_path, .offset = offsetof(struct config, sandbox_writes),
		.flags = OPTION_REPEATS | OPTION_HAS_BLANKS},
	{{"--sandbox-sockets", NULL, "HOLDFAST_SANDBOX_SOCKETS", NULL,
		 "let them use Unix sockets, including those of programs outside the sandbox, such as D-Bus or Docker"},
		.apply = option_set_switch, .offset = offsetof(struct config, sandbox_sockets)},
	{{"--sandbox-user-namespaces", NULL, "HOLDFAST_SANDBOX_USER_NAMESPACES", NULL,
		 "let them make user namespaces, for sandboxes of their own such as Chromium's; docs/sandbox.md says what that\n"
		 "      opens. Not for a server that runs as root"},
		.apply = option_set_switch, .offset = offsetof(struct config, sandbox_namespaces)},
	{.apply = NULL},
};

/** Reads the file of --agents. Returns 0, or a negative errno after reporting the error. */
static int read_file(const char *path, struct buffer *ret)
{
	struct stat st;
	int fd = open_named(path, O_RDONLY | O_NONBLOCK, 0);
	int err = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
	const char *fault = err < 0                         ? strerror(-err)
			    : !S_ISREG(st.st_mode)          ? "it is not a regular file"
			    : (size_t)st.st_size > FILE_MAX ? "it is larger than 1 MiB"
							    : NULL;
	ssize_t n = 1;
	while (!fault && n > 0 && ret->len <= FILE_MAX) {
		buffer_reserve(ret, 65536);
		n = read(fd, ret->data + ret->len, 65536);
		ret->len += n > 0 ? (size_t)n : 0;
		fault = n < 0 ? strerror(errno) : NULL;
	}
	if (fd >= 0) {
		close(fd);
	}
	return fault ? options_refuse(&option_row_find(rows, "--agents")->option, path, fault) : 0;
}

static int read_list(struct config *config, const char *path)
{
	struct buffer text = {0};
	char *why = NULL;
	int r = read_file(path, &text);
	if (r == 0 && agent_list_read(&config->agents, buffer_cstr(&text), text.len, config->cwd,
			      &why) < 0) {
		r = options_refuse(&option_row_find(rows, "--agents")->option, path, why);
	}
	free(why);
	buffer_finish(&text);
	return r;
}

static int check_agents(struct config *config)
{
	const char *command = config->agent_command;
	const char *file = config->agents_file;
	if (command && !command[strspn(command, " \t\r\n")]) {
		return options_refuse(&option_row_find(rows, "--agent")->option, command,
			"give a command, or leave the option out; then sessions take no prompts");
	}
	if (command && file) {
		return options_refuse(&option_row_find(rows, "--agents")->option, file,
			"--agent and --agents exclude each other: put the command into the file");
	}
	if (command) {
		agent_list_make(&config->agents, command, config->cwd);
	}
	return file ? read_list(config, file) : 0;
}

static int check(void *state)
{
	struct config *config = state;
	bool has_more = config->sandbox_reads || config->sandbox_writes ||
			config->sandbox_sockets || config->sandbox_namespaces;
	if (has_more && !config->sandbox) {
		diag(DIAG_ERROR,
			"--sandbox-read, --sandbox-write, --sandbox-sockets and --sandbox-user-namespaces need --sandbox");
		return -EINVAL;
	}
	return check_agents(config);
}

static void finish(void *state)
{
	struct config *config = state;
	agent_list_finish(&config->agents);
	list_free_texts(config->agent_env);
	list_free_texts(config->sandbox_reads);
	list_free_texts(config->sandbox_writes);
	free(config->cwd);
	config->agent_env = config->sandbox_reads = config->sandbox_writes = NULL;
	config->cwd = NULL;
}

const struct option_group agent_options = {.rows = rows, .check = check, .finish = finish};
