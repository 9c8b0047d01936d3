/*
 * The guard of an agent: a process between the server and the agent (or a command that the agent
 * has us run), which sees to it that nothing of the agent is left when the agent or the server is
 * gone, also if the server was killed. It is this program, started again as
 * `holdfast agent-guard GRACE_MS DIR PROGRAM ARGUMENT…`. The program runs in DIR, which the guard
 * itself does not enter: it may be on a file system that does not answer.
 *
 * Descriptor 3 is the lifeline: a pipe whose other end only the server has. When that is closed, or
 * on SIGTERM, the agent's process group gets SIGTERM, and what is left of the agent after GRACE_MS,
 * in its group or out of it, SIGKILL. When the agent has ended by itself, the rest is killed at
 * once. The guard then ends as the agent did. It does not touch what goes through stdin and stdout.
 */
#ifndef HOLDFAST_AGENT_GUARD_H
#define HOLDFAST_AGENT_GUARD_H

#define AGENT_GUARD_COMMAND  "agent-guard"
#define AGENT_GUARD_LIFELINE 3

/** Gets the arguments after the command; returns the exit code if it could not start. */
int agent_guard_run(int argc, char **argv);

#endif
