/*
 * The environment of agents and of the commands that they have us run. They get what a program
 * needs to find its way, and what the operator names (`--agent-env`); the rest of the server's
 * environment may hold secrets that are not for them.
 */
#ifndef HOLDFAST_AGENT_ENV_H
#define HOLDFAST_AGENT_ENV_H

#include "holdfast/buffer.h"

/** What is wrong with an entry NAME, NAME=VALUE, PREFIX* or *, in words; NULL: nothing. */
const char *agent_env_fault(const char *entry);
/**
 * The variables NAME=VALUE of agents, ended by NULL, as is `from` (the server's environment) and
 * `entries` (NULL: none), each without fault. A NAME that `from` has not is left out; of several
 * entries for one name the last one counts. To be freed with agent_env_free().
 */
char **agent_env_make(char *const *from, char *const *entries);
/**
 * Appends `text` with *** for the values of the variables in `env` that agents do not get by
 * default: they may be secrets. So is a part that is cut off at the end of a line. Values shorter
 * than 6 bytes remain.
 */
void agent_env_hide(char *const *env, const char *text, size_t len, struct buffer *out);
/** Accepts NULL. */
void agent_env_free(char **env);

#endif
