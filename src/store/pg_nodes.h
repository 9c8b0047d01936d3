/* What pg_nodes.c and pg_seek.c share: this server as one of those that use a database. */
#ifndef HOLDFAST_STORE_PG_NODES_H
#define HOLDFAST_STORE_PG_NODES_H

#include "pg.h"

/** What the thread of the lease was told, and its answer. */
struct pg_lease {
	char owner[PG_OWNER_SIZE];
	bool is_in; /* it is renewed; else taken anew */
	int64_t asked_ms;
	int status;
};

struct pg_nodes {
	char *address; /* where other nodes reach this one; NULL: there are none */
	char name[PG_OWNER_SIZE]; /* of its row in holdfast_node, from DIR/node */
	int name_fd; /* of that file, locked; -1 */
	char owner[PG_OWNER_SIZE]; /* who it is as long as it has not lost its lease */
	unsigned char key[NODE_KEY_SIZE];
	bool is_in; /* it has a lease */
	bool has_left; /* it gave its lease back */
	atomic_llong lease_end_ms; /* when it lets go of everything, on CLOCK_BOOTTIME */
	atomic_llong *lease_told; /* where others read that; NULL: nobody does */
	struct worker *keeper; /* of the lease */
	bool is_keeping; /* it is at work; then these are its own */
	struct pg_conn conn;
	struct pg_lease kept;
	atomic_bool is_older; /* the database is an older copy, and that has been said */
	bool is_taking; /* a round is under way */
	bool is_leaving; /* it takes no sessions any more */
	uv_timer_t *timer;
	/* Sessions that may be this server's, which it has not read. */
	int64_t *unsure;
	size_t unsure_count;
	struct hash *seeks; /* struct pg_seek, by id */
};

/** They are to be taken again, with what they are to be taken for. */
void pg_nodes_add_unsure(struct pg_nodes *nodes, const struct pg_taken *taken);
/** A copy of them; the caller frees it. */
int64_t *pg_nodes_copy_unsure(const struct pg_nodes *nodes, size_t *ret_count);
/** Whether this server is still who it was when the work began. */
bool pg_nodes_is(const struct pg_nodes *nodes, const char *owner);
/**
 * After pg_take() by another thread: makes logs of them, unless this server has lost its lease
 * meanwhile. Returns `status`, or what follows from that.
 */
int pg_nodes_land(struct pg *pg, const char *owner, int status, struct pg_taken *taken);
/** Says that inputs wait, and why; NULL: it does not answer. On any thread. */
void pg_say_unusable(const char *why);

#endif
