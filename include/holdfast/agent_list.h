/*
 * The agents that a server offers: those of the file that --agents names, or the one of --agent.
 * A session remembers by name which one it has, and its directory. docs/agents.md has the format.
 */
#ifndef HOLDFAST_AGENT_LIST_H
#define HOLDFAST_AGENT_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define AGENT_NAME_MAX ((size_t)64) /* bytes */

struct agent_entry {
	char *name;
	char *title; /* for people; not empty */
	char *command;
	char **env; /* entries for agent_env_make(); NULL: none */
	char **roots; /* absolute, without symlinks; at least one, the first is the default */
	json_t *mcp_servers; /* an array, in ACP's words */
	bool is_demo; /* the demo agent that comes with the server */
};

/* Zeroed: none. The first entry is the default. */
struct agent_list {
	struct agent_entry *entries;
	size_t count;
	bool is_named; /* sessions remember the name: it is that of a file */
};

/**
 * Reads the text of a file; `cwd` is the root of an agent that has none. 0, or -1 and *ret_why
 * (caller frees).
 */
int agent_list_read(
	struct agent_list *list, const char *text, size_t len, const char *cwd, char **ret_why);
/** Makes a list of one agent that has no name of its own. */
void agent_list_make(struct agent_list *list, const char *command, const char *cwd);
void agent_list_finish(struct agent_list *list);
/** `name` NULL: the default. NULL: there is none. */
const struct agent_entry *agent_list_find(const struct agent_list *list, const char *name);
/**
 * Its environment: of `from` (the server's) what `common` (--agent-env; NULL: nothing) says, and then what its own entry does: the
 * later one counts. To be freed with agent_env_free().
 */
char **agent_entry_env(const struct agent_entry *entry, char *const *from, char *const *common);
/** Whether a directory is one of the roots or below one: absolute, without "." and "..". */
bool agent_entry_has(const struct agent_entry *entry, const char *path);

#endif
