/*
 * Shared by the files that serve editors (editor.c, editor_session.c, editor_prompt.c,
 * editor_line.c).
 */
#ifndef HOLDFAST_EDITOR_INTERNAL_H
#define HOLDFAST_EDITOR_INTERNAL_H

#include "holdfast/websocket.h"

#include "editor_request.h"
#include "editor_view.h"

/* Most sessions that one editor can have open. */
#define EDITOR_SESSIONS_MAX 64

struct editor_session;

/** State of an editor's connection: conn.state. */
struct editor_door {
	struct conn *conn;
	struct list sessions; /* struct editor_session */
	size_t count;
	bool is_initialized;
	bool is_read_only;
	bool takes_forms;
	bool takes_urls;
	uint64_t prompts; /* prompts named here so far, because the editor gave no name */
	struct agent_dirs_job *looking; /* check of a new session's directory; NULL: none */
	bool has_looked;
	char *found; /* the checked directory; NULL: not usable */
	/* Sessions of other nodes (editor_line.c). */
	struct list lines; /* struct editor_line */
	size_t line_count;
	char sought[129]; /* the session whose node is being looked up */
	struct place_wait place_wait; /* that lookup */
	int64_t until_ms; /* give up then, on the clock of loop_now_ms() */
	uv_timer_t *again; /* repeats the lookup; NULL: not created yet */
	bool is_placed; /* the lookup for the parked message has ended */
	enum error_code unplaced; /* what it ended with */
};

/** NULL: the socket is not open yet, or is closed. */
static inline struct editor_door *editor_of(const struct conn *conn)
{
	return conn_state(conn);
}

/* editor.c */
/** Sends messages, each terminated by a newline; finishes `out`. */
void editor_send(struct conn *conn, struct buffer *out);
/**
 * Encodes messages, each terminated by a newline, as frames of a WebSocket, the same for all editors.
 * Finishes `out`. One reference, the caller's.
 */
struct frame *editor_make_wire(struct buffer *out);
/** Sends them. `wire` is borrowed. */
void editor_send_wire(struct conn *conn, struct frame *wire);
void editor_result(struct conn *conn, const char *id, const char *result, size_t len);
/**
 * Sends an error. `id` NULL: the request had none, so the error has the id null if `must_tell`, and
 * is dropped otherwise.
 */
void editor_refuse(
	struct conn *conn, const char *id, bool must_tell, const struct refusal *refusal);
/** Whether the editor may control sessions; if not, fills `refusal`. */
bool editor_may_control(const struct conn *conn, struct refusal *refusal);

/* editor_session.c */
/**
 * Opens `session` for the editor. The request is answered once the events that it asked for are
 * sent. Returns a negative errno if it is refused.
 */
int editor_open(struct conn *conn, const struct editor_request *request, struct session *session,
	struct refusal *refusal);
/** Returns NULL if the session is not open, or is gone. */
struct editor_session *editor_find(struct conn *conn, const char *session_id);
struct session *editor_session_of(const struct editor_session *at);
struct editor_view *editor_view_of(const struct editor_session *at);
const char *editor_session_id(const struct editor_session *at);
struct conn *editor_conn(const struct editor_session *at);
/** The element of a link of editor_door.sessions. */
struct editor_session *editor_session_at(struct list *link);
/** Loads events again from `seq` on, unless they are still to come. Its session must exist. */
void editor_load_from(struct editor_session *at, uint64_t seq);
/** Closes the session for the editor; waiting requests are answered. */
void editor_close(struct editor_session *at);
void editor_pump(struct conn *conn);
void editor_close_all(struct conn *conn);
/* Of editor_conn_ops. */
/** Frees sessions that are closed. */
void editor_end_tick(struct conn *conn);
size_t editor_kept(const struct conn *conn);
void editor_session_lost(struct conn *conn, const struct session *session, bool is_deleted);

/* editor_line.c */
/**
 * Passes a request about a session of another node on. Returns 1 if it is passed on, or waits for
 * the lookup of its node and is handled again; 0 if it is for this node; a negative errno if it is
 * refused.
 */
int editor_pass_on(struct conn *conn, const struct editor_request *request, const char *text,
	size_t len, struct refusal *refusal);
/** Passes a message on to all other nodes, because it names no session. */
void editor_pass_to_all(struct conn *conn, const char *text, size_t len);
/** The editor can take more. */
void editor_lines_writable(struct conn *conn);
/** Bytes of incomplete messages. */
size_t editor_lines_kept(const struct editor_door *door);
void editor_lines_close(struct conn *conn);
/** Checks whether the other nodes are alive; of editor_conn_ops. */
void editor_sweep(struct conn *conn);

/* editor_prompt.c */
int editor_prompt(struct conn *conn, struct editor_session *at, struct editor_request *request,
	struct refusal *refusal);
/** Stops the turn and removes the editor's prompts from the queue. */
void editor_cancel(struct conn *conn, struct editor_session *at);
/** Cancels the request, if it is a prompt. */
void editor_take_back(struct conn *conn, const char *id);
int editor_set(struct conn *conn, struct editor_session *at, const struct editor_request *request,
	struct refusal *refusal);
void editor_take_answer(struct conn *conn, const struct editor_request *request);
/** Answers prompts that were removed from the queue. */
void editor_look_for_removed(struct editor_session *at);

#endif
