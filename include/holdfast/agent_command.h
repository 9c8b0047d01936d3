/* Whether the command of an agent can be run, as far as that can be told without running it. */
#ifndef HOLDFAST_AGENT_COMMAND_H
#define HOLDFAST_AGENT_COMMAND_H

/**
 * What is wrong with a command that /bin/sh -c will run in `cwd` with the environment `env`: its program is not there, or is no
 * program. In words, which the caller frees; NULL: nothing, or it cannot be told. Asks the disk.
 */
char *agent_command_fault(const char *command, const char *cwd, char *const *env);

#endif
