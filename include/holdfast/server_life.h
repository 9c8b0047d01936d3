/*
 * The states of a server, and what it may do in each. The table in server_life.c is the only place
 * that decides it: every request, lease, take-over, timer and callback asks it with server_may().
 *
 *   starting   The store is read, and rooms are built. Nobody is served yet.
 *   serving    Everything.
 *   draining   It has been told to stop. Clients are sent away, and agents end. Sessions without an
 *              agent are handed to other nodes.
 *   closing    No agent is left, and all sessions have been given up. The loop still runs, so that
 *              clients get the last bytes.
 *   closed     The loop has ended, and the rooms are taken down. What was acknowledged is still
 *              written, but nobody is told anything.
 *
 * A server goes through the states in this order, may leave some out, and never goes back.
 */
#ifndef HOLDFAST_SERVER_LIFE_H
#define HOLDFAST_SERVER_LIFE_H

#include <stdatomic.h>
#include <stdbool.h>

enum server_state {
	SERVER_STARTING,
	SERVER_SERVING,
	SERVER_DRAINING,
	SERVER_CLOSING,
	SERVER_CLOSED,
};
#define SERVER_STATES (SERVER_CLOSED + 1)

/** What a server may do in some states only. */
enum server_act {
	/** Accept connections. Those that come too late are told so. */
	MAY_ACCEPT,
	/** Serve requests. Otherwise all but probes of its health get shutting_down. */
	MAY_SERVE,
	/**
	 * Say of a session that is not here that it does not exist. Otherwise it may just have been
	 * handed over. What the store was asked for, or was deleted here, may always be said.
	 */
	MAY_JUDGE,
	/** Create sessions. */
	MAY_CREATE,
	/** Give sessions inputs: events, prompts, answers, labels, deletions. */
	MAY_INPUT,
	/** Make sessions its own: take them over, or have them back that could not be read. */
	MAY_TAKE,
	/** Renew its lease, or take it anew. */
	MAY_LEASE,
	/** Give sessions up for other nodes. */
	MAY_HAND_OVER,
	/** Start agents, give them prompts and settings, and repeat inputs of theirs. */
	MAY_RUN_AGENTS,
	/** Let timers of sessions fire. */
	MAY_RUN_TIMERS,
	/** Begin to write what was gathered. A store that is closed does it itself, and blocks. */
	MAY_WRITE,
	/** Start work that can wait: checkpoints, pruning, sweeps, measuring, rendering, retries. */
	MAY_KEEP_UP,
	/** Tell what happens to sessions: to clients, webhooks and push services. */
	MAY_TELL,
};

/** The state of one server; of a command, that of the store it opens. {0}: starting. */
struct server_life {
	atomic_int state; /* enum server_state */
};

/** Moves on to a state; does nothing if that, or a later one, has been reached. On the loop. */
void server_reach(struct server_life *life, enum server_state state);
/** Whether this state, or a later one, has been reached. On any thread. */
bool server_has_reached(const struct server_life *life, enum server_state state);
/** Whether a server may do this now. On any thread. */
bool server_may(const struct server_life *life, enum server_act act);

#endif
