/* Shared by node_mirror.c and node_mirrors.c: sessions of other nodes that are watched here. */
#ifndef HOLDFAST_MIRROR_INTERNAL_H
#define HOLDFAST_MIRROR_INTERNAL_H

#include "node_internal.h"

#include "node_socket.h"

struct mirror {
	struct list link; /* nodes.mirrors */
	struct list due_link; /* nodes.mirrors_due; self otherwise */
	struct server *server;
	char *id;
	char *address;
	struct node_socket *socket; /* NULL: the mirror has ended */
	struct list viewers; /* struct conn.kind_link */
	struct hash *by_number; /* the same, keyed by the bytes of their numbers */
	uint64_t viewer_count; /* viewers so far, which is the number of the last one */
	uint64_t begun; /* viewers up to this number are watching */
	/*
	 * Viewers up to `reached` may begin once event `reached_seq` is here: it had been shown
	 * when they came.
	 */
	uint64_t reached;
	uint64_t reached_seq;
	bool has_previews; /* previews were requested from the owner */
	struct session_log *log; /* NULL: no `welcome` yet */
	struct channel channel; /* valid once `log` is set */
	/* Strings that the channel points to. */
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
/**
 * Schedules the end of the tick: shared frames are dropped, and the mirror too if it has no
 * viewers.
 */
void mirror_at_end_of_tick(struct mirror *mirror);
/**
 * Asks the owner for the newest event that it has shown. A new viewer waits for that event, as its
 * position at another node may already include it.
 */
void mirror_ask_reach(struct mirror *mirror);
/** Makes a viewer's socket or stream an observer of the mirror. */
void mirror_begin(struct mirror *mirror, struct conn *conn);
/** Ends the mirror: all viewers are closed with this code, or refused. */
void mirror_end(struct mirror *mirror, unsigned code, const char *reason);
void mirror_destroy(struct mirror *mirror);

/* node_mirrors.c */
/** The mirror is ready: resumes an HTTP request that waited for it. */
void mirror_go_on_request(struct conn *conn);
/** The mirror has ended: refuses an HTTP request that waited for it. */
void mirror_lose_request(struct conn *conn, bool is_gone);

#endif
