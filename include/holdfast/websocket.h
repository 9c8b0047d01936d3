/*
 * WebSockets, and streams of server-sent events, as those see them who serve them (conn_ops in
 * door.h): how they begin, what is sent, and what they share with the sockets of observers.
 */
#ifndef HOLDFAST_WEBSOCKET_H
#define HOLDFAST_WEBSOCKET_H

#include "holdfast/connection.h"

#include "holdfast/observer.h"
#include "holdfast/requests.h"
#include "holdfast/ws_frame.h"

/* --- the start --- */

/** The id of the client: from the query, or made up. */
const char *conn_client_id(const struct conn *conn);
/** Returns false, after refusing and closing the socket, if its query was invalid. */
bool conn_check_query(struct conn *conn);
/** If the session exists but is not served, refuses and closes the socket and returns true. */
bool ws_refuse_absent(struct conn *conn);
/** room_in_session() for a WebSocket, which is refused and closed if there is none. */
bool ws_room_in_session(struct conn *conn, const struct session *session);

/* --- sending --- */

/** Starts the closing handshake. `code` 0: a close frame without a code. */
void conn_close(struct conn *conn, unsigned code, const char *reason);
/** conn_close() with the close code of an error code, which is the reason. */
void conn_close_refused(struct conn *conn, enum error_code code);
/** Sends a WebSocket's frame as an event. */
void sse_write(struct conn *conn, struct frame *frame);
/**
 * conn_ops.tell of streams of another protocol: drops a frame that is meant for every socket, such
 * as `draining`.
 */
void sse_drop_frame(struct conn *conn, struct frame *frame);

/* --- observers --- */

/** Its observer, through which frames for every socket are sent in order with events; NULL: none. */
struct observer *conn_observer(const struct conn *conn);
void conn_set_observer(struct conn *conn, struct observer *observer);
/** What its observers have of its query, its token and its name. Borrows from the connection. */
struct observer_config ws_observer_config(const struct conn *conn);

/* --- prompts and answers --- */

/** Passes a setting or a login on to the session's agent. Returns 0 or -EINVAL. */
int conn_apply_setting(struct conn *conn, const struct request *request, struct refusal *refusal);
/** Gives the session a prompt whose images and files have been checked. */
int conn_take_prompt(struct conn *conn, const struct request *request, uint64_t *ret_seq,
	bool *ret_duplicate, struct refusal *refusal);
/** False for a queued prompt of another user, unless the client is an administrator. */
bool conn_may_change(const struct conn *conn, const struct session *session, const char *prompt_id);
/** Takes an answer to an elicitation, whose content goes to the agent. */
int conn_take_elicited(struct conn *conn, struct session *session, const struct request *request,
	struct refusal *refusal);
/**
 * Whether a prompt has to wait until its images and files are checked: then the connection is
 * parked, and handles the message again later.
 */
bool ws_waits_for_content(
	struct conn *conn, const struct request *request, const char *text, size_t len);
/** Cancels the check. Does nothing if none is running. */
void ws_content_drop(struct conn *conn);
/**
 * Notes that input was refused. If the same may be taken later, no input behind it is taken, and
 * the socket is closed as soon as everything in front of it is answered. Does nothing for HTTP.
 */
void conn_break_order(struct conn *conn, enum error_code code);

#endif
