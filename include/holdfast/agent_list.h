/*
 * The agents that a server offers: those in the --agents file, or the one given with --agent. A
 * session remembers the name of its agent, and its directory. docs/agents.md describes the format.
 */
#ifndef HOLDFAST_AGENT_LIST_H
#define HOLDFAST_AGENT_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define AGENT_NAME_MAX ((size_t)64) /* bytes */

struct agent_entry {
	char *name;
	char *title; /* shown to people; not empty */
	char *command;
	char **env; /* entries for agent_env_make(); NULL: none */
	char **roots; /* absolute, without symlinks; at least one, the first is the default */
	json_t *mcp_servers; /* an array, in ACP's form */
	bool is_demo; /* it is the demo agent that comes with the server */
};

/* Zeroed: an empty list. The first entry is the default. */
struct agent_list {
	struct agent_entry *entries;
	size_t count;
	bool is_named; /* the names come from a file, and sessions remember them */
};

/**
 * Parses the text of an --agents file; `cwd` is the root of agents that have none. Returns 0, or -1
 * with the reason in *ret_why, which the caller frees.
 */
int agent_list_read(
	struct agent_list *list, const char *text, size_t len, const char *cwd, char **ret_why);
/** Makes a list of one agent, which gets its name from its program. */
void agent_list_make(struct agent_list *list, const char *command, const char *cwd);
/** Frees what the list holds and empties it. */
void agent_list_finish(struct agent_list *list);
/**
 * Builds the agent's environment from `from` (the server's), the entries `common` (--agent-env;
 * NULL: none) and the agent's own entries; of several entries for one name, the last one counts.
 * Free it with agent_env_free().
 */
char **agent_entry_env(const struct agent_entry *entry, char *const *from, char *const *common);

#endif
