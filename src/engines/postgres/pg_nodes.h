/* This server as one of the nodes of a database: state that pg_nodes.c shares with other files. */
#ifndef HOLDFAST_STORE_PG_NODES_H
#define HOLDFAST_STORE_PG_NODES_H

#include "pg.h"

/** A job of the lease's thread, and its result. */
struct pg_lease {
	char owner[PG_OWNER_SIZE];
	bool is_in; /* renew the lease; if false, take it anew */
	int64_t asked_ms; /* result: when the request was sent, on CLOCK_BOOTTIME */
	int status; /* result: 0 or a negative errno */
};

struct pg_nodes {
	char *address; /* where other nodes reach this one; NULL: this server works alone */
	char name[PG_OWNER_SIZE]; /* of its row in holdfast_node, from DIR/node */
	int name_fd; /* of that file, locked; -1 */
	char owner[PG_OWNER_SIZE]; /* its name as owner; another one after it has lost its lease */
	unsigned char key[NODE_KEY_SIZE]; /* signs requests between nodes */
	bool is_in; /* it has a lease */
	atomic_llong lease_end_ms; /* when it has to let go of its sessions, on CLOCK_BOOTTIME */
	atomic_llong *lease_told; /* a copy of that for others to read; or NULL */
	struct worker *keeper; /* its thread renews the lease */
	bool is_keeping; /* the thread is at work; it owns the next two members meanwhile */
	struct pg_conn conn;
	struct pg_lease kept;
	atomic_bool is_older; /* the database is an older copy, and this has been logged */
	bool is_taking; /* a round is under way */
	uv_timer_t *timer;
	/* sids of sessions that may be this server's, but that it has not read. */
	int64_t *unsure;
	size_t unsure_count;
	struct hash *seeks; /* struct pg_seek, by session id */
};

/** Remembers a session as unsure: a later pg_take() takes it again, if it is this server's. */
void pg_nodes_doubt(struct pg_nodes *nodes, int64_t sid);
/** The same for all sessions in `taken`. */
void pg_nodes_add_unsure(struct pg_nodes *nodes, const struct pg_taken *taken);
/** Copies the unsure sids; the caller frees the array. */
int64_t *pg_nodes_copy_unsure(const struct pg_nodes *nodes, size_t *ret_count);
/** Whether this server's name as owner is still `owner`: it has not lost its lease meanwhile. */
bool pg_nodes_is(const struct pg_nodes *nodes, const char *owner);
/**
 * Handles the result of pg_take() on the loop: makes logs of the sessions, unless this server has
 * lost its lease meanwhile. Frees `taken`. Returns `status`, or -EAGAIN if the sessions cannot be
 * used now.
 */
int pg_nodes_land(struct pg *pg, const char *owner, int status, struct pg_taken *taken);
/** Logs that inputs wait for the database, and why (or NULL: no answer). On any thread. */
void pg_say_unusable(const char *why);

#endif
