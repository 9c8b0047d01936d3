/*
 * Checks whether the command of an agent can be run, as far as that can be told without running it.
 */
#ifndef HOLDFAST_AGENT_COMMAND_H
#define HOLDFAST_AGENT_COMMAND_H

/**
 * Checks a command that /bin/sh -c will run in `cwd` with the environment `env`. If its program
 * does not exist or is not executable, returns the reason, for people, which the caller frees.
 * Returns NULL if nothing is wrong, or if it cannot be told. Accesses the disk.
 */
char *agent_command_fault(const char *command, const char *cwd, char *const *env);

#endif
