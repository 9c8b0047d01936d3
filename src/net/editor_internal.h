/* What the files of the editors' door share (editor.c, editor_session.c, editor_prompt.c). */
#ifndef HOLDFAST_EDITOR_INTERNAL_H
#define HOLDFAST_EDITOR_INTERNAL_H

#include "net_internal.h"

#include "holdfast/editor_request.h"
#include "holdfast/editor_view.h"

/* Sessions that one editor has open at once. */
#define EDITOR_SESSIONS_MAX 64

struct editor_session;

/** Of a connection. */
struct editor_door {
	struct list sessions; /* struct editor_session */
	size_t count;
	bool is_initialized;
	bool is_read_only;
	bool takes_forms;
	bool takes_urls;
	uint64_t prompts; /* that were given a name here */
	struct agent_dirs_job
		*looking; /* at the directory of a session that is to be made; NULL: at none */
	bool has_looked;
	char *found; /* the directory; NULL: it is none for a session */
	/* Sessions of other nodes (editor_line.c). */
	struct list lines; /* struct editor_line */
	size_t line_count;
	char sought[129]; /* the session whose node is looked for */
	uint64_t until_ms; /* as long as that, on the loop's clock */
	uv_timer_t *again; /* looks for it again; NULL: it was not needed yet */
	bool is_placed; /* of the message that has waited for that: it is known */
	const char *unplaced; /* the same: the code of the refusal; NULL: none */
};

/* editor.c */
/** Sends messages, each with a newline behind it; finishes `out`. */
void editor_send(struct conn *conn, struct buffer *out);
/** The same of what several are sent. */
void editor_send_shared(struct conn *conn, struct shared_frame *shared);
void editor_result(struct conn *conn, const char *id, const char *result, size_t len);
/** `id` NULL: a notification, of which nobody hears; null if `must_tell`. */
void editor_refuse(
	struct conn *conn, const char *id, bool must_tell, const struct refusal *refusal);
/** Whether the connection may control sessions; else refuses. */
bool editor_may_control(const struct conn *conn, struct refusal *refusal);

/* editor_session.c */
/** Shows the session `session` to the editor; the request is answered when it has what it asked for. */
int editor_open(struct conn *conn, const struct editor_request *request, struct session *session,
	struct refusal *refusal);
/** NULL: it is not open, or is gone. */
struct editor_session *editor_find(struct conn *conn, const char *session_id);
struct session *editor_session_of(const struct editor_session *at);
struct editor_view *editor_view_of(const struct editor_session *at);
const char *editor_session_id(const struct editor_session *at);
struct conn *editor_conn(const struct editor_session *at);
/** Of a link of editor_door.sessions. */
struct editor_session *editor_session_at(struct list *link);
/** Its events come again from this one on, as far as they are needed; it must be there. */
void editor_load_from(struct editor_session *at, uint64_t seq);
/** It is shown no more; what waits is answered. */
void editor_close(struct editor_session *at);
/** Frees what is over. */
void editor_end_tick(struct conn *conn);
void editor_pump(struct conn *conn);
void editor_close_all(struct conn *conn);

/* editor_line.c */
/**
 * 1: the request is for another node, and on its way there, or it waits until it is known who has its session; then it is
 * taken again. 0: it is for this node.
 */
int editor_pass_on(struct conn *conn, const struct editor_request *request, const char *text,
	size_t len, struct refusal *refusal);
/** Of what does not say which session it is about. */
void editor_pass_to_all(struct conn *conn, const char *text, size_t len);
/** The editor takes more. */
void editor_lines_writable(struct conn *conn);
/** Bytes that are kept of what is not whole. */
size_t editor_lines_kept(const struct conn *conn);
void editor_lines_close(struct conn *conn);

/* editor_prompt.c */
int editor_prompt(struct conn *conn, struct editor_session *at, struct editor_request *request,
	struct refusal *refusal);
/** Stops the turn, and takes the editor's prompts out of the queue. */
void editor_cancel(struct conn *conn, struct editor_session *at);
/** Takes the request back, if it is a prompt. */
void editor_take_back(struct conn *conn, const char *id);
int editor_set(struct conn *conn, struct editor_session *at, const struct editor_request *request,
	struct refusal *refusal);
void editor_take_answer(struct conn *conn, const struct editor_request *request);
/** Prompts that somebody has taken out of the queue are answered. */
void editor_look_for_removed(struct editor_session *at);

#endif
