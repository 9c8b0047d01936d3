/*
 * The environment of agents and of the commands that they have the server run. They get what a
 * program needs to work at all, and what the operator names (`--agent-env`); the rest of the
 * server's environment may contain secrets that are not meant for them.
 */
#ifndef HOLDFAST_AGENT_ENV_H
#define HOLDFAST_AGENT_ENV_H

#include "holdfast/buffer.h"

/**
 * Checks an entry NAME, NAME=VALUE, PREFIX* or *. Returns what is wrong with it, for people, or
 * NULL if it is valid.
 */
const char *agent_env_fault(const char *entry);
/**
 * Builds the environment of an agent, a list of NAME=VALUE ended by NULL. `from` is the server's
 * environment; `entries` are valid entries (NULL: none); both end with NULL. A NAME that `from`
 * does not have is left out; if several entries set one name, the last one counts. Free the result
 * with agent_env_free().
 */
char **agent_env_make(char *const *from, char *const *entries);
/**
 * Appends `text` with *** in place of the values of those variables in `env` that agents do not get
 * by default, because they may be secrets. A value that is cut off at the end of a line is replaced
 * too. Values shorter than 6 bytes are kept.
 */
void agent_env_hide(char *const *env, const char *text, size_t len, struct buffer *out);
/** Accepts NULL. */
void agent_env_free(char **env);

#endif
