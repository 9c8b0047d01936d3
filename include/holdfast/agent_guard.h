/*
 * The guard of an agent: a process between the server and the agent (or a command that the agent
 * has us run), which sees to it that nothing of the agent is left when the agent or the server is
 * gone, also if the server was killed. It is this program, which the spawner (spawner.h) starts again
 * as `holdfast agent-guard [RULE VALUE]…`; process_internal.h has the rules. What it is to run comes
 * in a file, descriptor 4, its variables too: the guard itself has those of the server, so that an
 * agent cannot choose what is loaded into it before the sandbox is there. The program runs in a
 * directory that the guard itself does not enter: it may be on a file system that does not answer.
 *
 * Descriptor 3 is the lifeline: a socket whose other end only the server has. When that is closed,
 * or on SIGTERM, the agent's process group gets SIGTERM, and what is left of the agent after the
 * grace, in its group or out of it, SIGKILL. The server can shorten the grace to the milliseconds
 * that it writes, an int32_t: 0 kills at once. When the agent has ended by itself, the rest is killed
 * at once. The guard then ends as the agent did.
 * It does not touch what goes through stdin and stdout.
 *
 * With a deadline (descriptor 5: a file with a number that the server moves on, spawner.h) the guard
 * kills the agent when that is over, also while the server is stopped: another server may start its
 * own from then on.
 *
 * With a limit of memory or processes the guard looks once a second what the agent and all that has
 * come from it use, and writes it to the lifeline if it has changed. What is too much the server
 * decides (box.h): an agent may have several guards.
 */
#ifndef HOLDFAST_AGENT_GUARD_H
#define HOLDFAST_AGENT_GUARD_H

#define AGENT_GUARD_COMMAND  "agent-guard"
#define AGENT_GUARD_LIFELINE 3
#define AGENT_GUARD_ORDERS   4
#define AGENT_GUARD_DEADLINE 5

/** Gets the arguments after the command; returns the exit code if it could not start. */
int agent_guard_run(int argc, char **argv);

#endif
