/*
 * A connection, as those see it who serve it: doors, nodes, what is told to others. It is one client:
 * a request over HTTP (http_exchange.h), a WebSocket or a stream of events (websocket.h). Its struct
 * is the server's own. All functions are called on the loop's thread; what they return is borrowed,
 * and valid while the connection does not change.
 */
#ifndef HOLDFAST_CONNECTION_H
#define HOLDFAST_CONNECTION_H

#include "holdfast/door.h"

#include "holdfast/access.h"
#include "holdfast/agent_host.h"
#include "holdfast/intake.h"
#include "holdfast/list.h"
#include "holdfast/metrics.h"
#include "holdfast/server_life.h"
#include "holdfast/session.h"
#include "holdfast/session_list.h"

struct server;

/* --- what its server works with --- */

struct server *conn_server(const struct conn *conn);
uv_loop_t *conn_loop(const struct conn *conn);
const struct limits *conn_limits(const struct conn *conn);
const struct clock *conn_clock(const struct conn *conn);
const struct server_life *conn_life(const struct conn *conn);
struct session_table *conn_sessions(const struct conn *conn);
/** NULL: built without agents. */
struct agent_host *conn_agents(const struct conn *conn);
/** Refuses with no_agent if the session has none. Returns 0 or -EINVAL. */
int conn_check_agent(const struct conn *conn, struct session *session, struct refusal *refusal);
/** Has the session's agent cancel its turn. Returns -ESRCH if none is running. */
int conn_cancel_turn(struct conn *conn, struct session *session);
/** NULL: no authentication. */
struct access *conn_access(const struct conn *conn);
/** NULL: nothing is counted. The functions of metrics.h accept that. */
struct metrics *conn_metrics(const struct conn *conn);

/* --- its peer, and what that may do --- */

/** Why a request or socket is not authenticated. */
enum denial {
	DENIED_NOTHING,
	DENIED_NO_TOKEN,
	DENIED_WRONG,
	DENIED_EXPIRED,
	DENIED_REVOKED,
	DENIED_TOO_MANY, /* too many wrong tokens from this address */
};
/** The peer's rights; NULL: it is not authenticated yet. */
const struct grant *conn_grant(const struct conn *conn);
/** Whether it came to the listener for other nodes. */
bool conn_is_node(const struct conn *conn);
/** Whether the client sees HTTPS, here or at a proxy that is trusted. */
bool conn_is_https(const struct conn *conn);
/** Who acts on a WebSocket, for the log. Valid as long as the connection does not change. */
struct author conn_author(const struct conn *conn);
bool conn_may(const struct conn *conn, enum right right);
bool conn_sees(const struct conn *conn, const char *id);
/** What its token hides: see hide.h. */
unsigned conn_hides(const struct conn *conn);
/** conn_sees(), for a list. */
struct session_filter conn_filter(const struct conn *conn);
/** Whether its token shows permission requests; needed to answer one. */
bool conn_sees_questions(const struct conn *conn);
/** refuse() with forbidden, because its role has not the right. */
int refuse_role(const struct conn *conn, struct refusal *refusal);

/* --- its session --- */

/** The session that it holds; NULL: none, or that is gone. */
struct session *conn_session(const struct conn *conn);
/** The id in its path, also if there is no such session; "": none. */
const char *conn_session_id(const struct conn *conn);
/** Copies the id in the path of the request, which must be valid: it is conn_session_id() then. */
void http_copy_session_id(struct conn *conn);
/** Binds the connection to the session, which is held until conn_drop_session(). */
void conn_hold_session(struct conn *conn, struct session *session);
void conn_drop_session(struct conn *conn);
/**
 * The session in the socket's path. Returns NULL, after refusing and closing the socket, if that
 * has none or the query was invalid.
 */
struct session *conn_find_session(struct conn *conn);
/** Whether the session has room for one more connection. */
bool room_in_session(const struct server *server, const struct session *session);
/** Whether a session exists that is not served; `refusal` says why. */
bool conn_session_is_absent(
	const struct conn *conn, const char *id, size_t len, struct refusal *refusal);
/**
 * Whether a request has to wait for the session's names to be loaded: then the connection is
 * parked, and takes the request again later. `text` is a WebSocket's message.
 */
bool conn_waits_for_names(struct conn *conn, struct session *session, const char *text, size_t len);
/** Where its sessions are stored, for the words of a refusal. */
enum storage_kind conn_storage(const struct conn *conn);

/* --- the state of whoever serves it --- */

/** What conn_set_state() set; NULL: nothing. For the kind of socket that serves it, and nobody else. */
void *conn_state(const struct conn *conn);
void conn_set_state(struct conn *conn, void *state);

/* --- reading and writing --- */

/** It will be closed at the end of the tick: nothing may be sent or expected any more. */
bool conn_is_dead(const struct conn *conn);
/** Of a WebSocket or a stream: the end was sent, and no more is. */
bool conn_is_closing(const struct conn *conn);
/** Whether it is a stream of server-sent events. */
bool conn_is_stream(const struct conn *conn);
/**
 * Stops reading until conn_unpark(), which handles this message again: a WebSocket's, or (without
 * `text`) the HTTP request.
 */
void conn_park(struct conn *conn, const char *text, size_t len);
void conn_unpark(struct conn *conn);
/** Whether it is parked, or held. */
bool conn_is_parked(const struct conn *conn);
/** Stops reading, without a message to be handled again, until conn_unhold(). */
void conn_hold(struct conn *conn);
/** Reads again, and handles what was received meanwhile. */
void conn_unhold(struct conn *conn);
/** Pauses or resumes reading from the peer, as the connection's state demands. */
void conn_update_flow(struct conn *conn);
/** Calls `end_tick` of the kind of socket at the end of the tick. */
void conn_at_end_of_tick(struct conn *conn);
/**
 * Sends bytes as they are at the end of the tick, together with those of other connections. `done`
 * is called once they are no longer needed. The connection is dead if that fails.
 */
void conn_put_later(
	struct conn *conn, const void *bytes, size_t len, void (*done)(void *arg), void *arg);
/** Whether the peer has taken enough of what was sent to be sent more. */
bool conn_is_writable(struct conn *conn);
/** Calls `writable` of whoever serves it, once the socket takes more. */
void conn_want_writable(struct conn *conn);
/** Whether bytes are kept that the peer has not taken. */
bool conn_is_choked(struct conn *conn);
/** How many they are. */
size_t conn_kept(const struct conn *conn);
/** Counts again what is kept for the connection; cuts connections off if the limit is exceeded. */
void sending_count(struct conn *conn);
/** The peer has shown who it is: it has no longer a place among those that have yet to. */
void room_note_known(struct conn *conn);

/* --- answers that wait until what they confirm is durable --- */

/** An answer that is sent once the session's input is durable. */
struct conn_wait {
	struct durable_wait wait; /* first */
	struct list link;
	struct conn *conn;
	void (*answer)(struct conn_wait *wait, int status);
	uint64_t seq;
	bool duplicate;
	char *text; /* prompt_id, request_id, ref, … */
	struct append_ack *acks;
	size_t ack_count;
	struct snapshot_counts *counts; /* of a snapshot; NULL: not a snapshot */
	struct refusal *refusal; /* see refuse_later.c; NULL: not a refusal */
	bool is_append; /* its duration is measured */
	bool is_ordered; /* for an event or prompt: if it is not stored, conn_break_order() follows */
	uint64_t begun_ns;
};

/**
 * Creates a wait for the session's newest input. `answer` is called once, with the status of a
 * durable_wait, unless the connection is destroyed first.
 */
struct conn_wait *conn_wait_create(struct conn *conn, struct session *session,
	void (*answer)(struct conn_wait *wait, int status));

#endif
