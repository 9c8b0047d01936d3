/* What the files of mirrors share (node_mirror.c, node_mirrors.c). */
#ifndef HOLDFAST_MIRROR_INTERNAL_H
#define HOLDFAST_MIRROR_INTERNAL_H

#include "node_internal.h"

#include "node_socket.h"

struct mirror {
	struct list link; /* server.mirrors */
	struct list due_link; /* server.mirrors_due; self otherwise */
	struct server *server;
	char *id;
	char *address;
	struct node_socket *socket; /* NULL: it is over */
	struct list viewers; /* struct conn.kind_link */
	struct hash *by_number; /* the same, by the bytes of their numbers */
	uint64_t viewer_count; /* so far: the last one's number */
	uint64_t begun; /* those up to this number watch */
	/* Those up to `reached` may begin when `reached_seq` is here, which was shown when they came. */
	uint64_t reached;
	uint64_t reached_seq;
	bool has_previews; /* the owner has been asked for them */
	struct session_log *log; /* NULL: nothing has come yet */
	struct channel channel; /* from then on */
	/* What the channel lends. */
	struct agent_state agent_state;
	struct session_labels labels;
	char *title;
	char *last_prompt_id;
	char *usage;
	char *queue;
};

/* node_mirror.c */
extern const struct conn_ops mirror_viewer_ops;
extern const struct node_socket_ops mirror_socket_ops;
/** Its frames of the tick go at the end of it, and so does it if nobody watches. */
void mirror_at_end_of_tick(struct mirror *mirror);
/**
 * Asks the owner how far the session is: what anybody has been shown has to be here before whoever
 * has come begins, or the position of a client that was elsewhere would be ahead.
 */
void mirror_ask_reach(struct mirror *mirror);
/** A socket, or a stream, is an observer from here on. */
void mirror_begin(struct mirror *mirror, struct conn *conn);
/** Nobody watches any more: those who did have been told, or are told here. */
void mirror_end(struct mirror *mirror, unsigned code, const char *reason);
void mirror_destroy(struct mirror *mirror);

/* node_mirrors.c */
/** It can be watched: a request that has waited for that goes on. */
void mirror_go_on_request(struct conn *conn);
/** It cannot any more: the same is refused, unless it has its answer. */
void mirror_lose_request(struct conn *conn, bool is_gone);

#endif
