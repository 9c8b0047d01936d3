/*
 * The guard of an agent: a process between the server and the agent (or a command that the agent
 * has the server run). It makes sure that no process of the agent survives when the agent ends or
 * the server is gone, even if the server was killed. It is this program, which the spawner
 * (spawner.h) starts again as `holdfast agent-guard [RULE VALUE]…`; process_internal.h lists the
 * rules. The program to run and its environment come in a file, descriptor 4. The guard itself
 * keeps the server's environment, so that an agent cannot choose what is loaded into the guard
 * before the sandbox is set up. The program runs in a directory that the guard itself does not
 * enter, because its file system may hang.
 *
 * Descriptor 3 is the lifeline: a socket whose other end only the server has. When that end is
 * closed, or on SIGTERM, the agent's process group gets SIGTERM; after the grace period, whatever
 * is left of the agent, in its group or outside of it, gets SIGKILL. The server can shorten the
 * grace period by writing the new one, an int32_t in milliseconds; 0 kills at once. When the agent
 * has ended by itself, the rest is killed at once. The guard then ends the way the agent did. It
 * does not touch what goes through stdin and stdout.
 *
 * With a deadline (descriptor 5: a file with a number that the server keeps moving ahead, see
 * spawner.h) the guard kills the agent once the deadline is over, even while the server is stopped:
 * from then on another server may start its own agent.
 *
 * With a limit on memory or processes, the guard measures once a second what the agent and all its
 * descendants use, and writes it to the lifeline if it has changed. The server decides whether that
 * is too much (box.h), because an agent can have several guards.
 */
#ifndef HOLDFAST_AGENT_GUARD_H
#define HOLDFAST_AGENT_GUARD_H

#define AGENT_GUARD_COMMAND  "agent-guard"
#define AGENT_GUARD_LIFELINE 3
#define AGENT_GUARD_ORDERS   4
#define AGENT_GUARD_DEADLINE 5

/**
 * Runs `holdfast agent-guard`. Takes the arguments after the command; returns the exit code of the
 * agent, or 2 or 127 if it could not be started.
 */
int agent_guard_run(int argc, char **argv);

#endif
