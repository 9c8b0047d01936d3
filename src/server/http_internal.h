/* Shared by the files of src/server, and still by nodes: HTTP, reading requests, sending answers, and the handlers of each path. */
#ifndef HOLDFAST_HTTP_INTERNAL_H
#define HOLDFAST_HTTP_INTERNAL_H

#include "holdfast/http_exchange.h"
#include "server/net_internal.h"

/* http_request.c */
/** Takes bytes from the peer, also once the connection has become a WebSocket. */
void http_receive(struct conn *conn, char *bytes, size_t len);
/** Routes a parked request again. */
void http_route_again(struct conn *conn);
/**
 * Resumes a request that was parked while the node that owns its session was looked up, or
 * connected to.
 */
void http_go_on(struct conn *conn);
/** Sends the prepared answer, if any, and then starts on the next pipelined request. */
void http_end_tick(struct conn *conn);
/**
 * Whether the connection must close after this answer, because too much of the request's body is
 * still to come, or it is unknown how much.
 */
bool http_body_must_close(const struct conn *conn);
/** Ends the connection because its deadline has passed. */
void http_time_out(struct conn *conn);
/** Calls `serve` now or, if this tick has no time left for pages, when the request's turn comes. */
void http_in_turn(struct conn *conn, void (*serve)(struct conn *conn));
/** Ends a connection whose request is incomplete; if it has begun, with this refusal. */
void http_end_unfinished(struct conn *conn, enum limit limit, const char *message);
/** Sets the deadline by which the peer must have taken `size` bytes of an answer. */
void http_expect_taken(struct conn *conn, uint64_t size);
/**
 * The answer is over, or nobody waits for it: cancels its turn and calls `drop`. Does nothing if
 * there is none.
 */
void http_drop_answer(struct conn *conn);
/** Detaches the answer from its exchange, if it still has one, without calling `drop`. */
void http_detach_answer(struct answer *answer);
/** The exchange's answer if it is of this kind, else NULL; also if the connection is a socket. */
struct answer *http_answer_of(const struct conn *conn, const struct answer_ops *ops);
/** Ends the answer early, if there is one that ends for this reason. */
void http_refuse_answer(struct conn *conn, enum answer_end end, const struct refusal *refusal);
/** For a new connection. */
struct http_exchange *http_create(struct conn *conn);
/** Frees conn.http: the connection is gone, or becomes a WebSocket or an event stream. */
void http_finish(struct conn *conn);

/* ws_observer.c */
/** Streams the events of conn.session_id, which exists and which the token can see. */
void http_open_sse(struct conn *conn);

/* route.c */
/** No path is known: the request is about to begin, or is over. */
void http_reset_route(struct http_exchange *http);
/** Looks up the route of the request, whose head has been parsed. */
void http_find_route(struct conn *conn);
/**
 * Calls the route's handler, or refuses the request. The body has arrived, does not matter, or is
 * taken as it comes.
 */
void http_route(struct conn *conn);
/** The session id in the path, and its length. Returns NULL if the path has none. */
const char *http_find_session(const struct conn *conn, size_t *ret_len);
/** The kind of WebSocket at the path; NULL: none. */
const struct conn_ops *http_find_socket(const struct conn *conn);
bool http_needs_token(const struct conn *conn);
/**
 * Whether the path is served by the listener that accepted the connection; one for metrics serves
 * only a few paths.
 */
bool http_is_served_here(const struct conn *conn);
/** Whether it asks for the stream of a session or of the feed, as EventSource does. */
bool http_is_event_source(const struct conn *conn);
/** Whether the body is events, one on each line. */
bool http_is_stream(const struct conn *conn);
/** Whether the body is an image or a file. Such a request is routed before its body has arrived. */
bool http_is_upload(const struct conn *conn);
/** Whether the request appends and is allowed to, so that the rate limits of producers apply. */
bool http_is_append(const struct conn *conn);
/**
 * Whether the outcome depends on the request's body; if not, a client that expects 100-continue is
 * answered without it.
 */
bool http_wants_body(struct conn *conn);

/* trace.c */
/** Remembers the traceparent of the request that begins. */
void trace_take(struct conn *conn);
/** Logs an answered request, at the debug level. */
void trace_log(const struct conn *conn, unsigned status);

/* http_admit.c */
/** Whether the request has been refused or answered already. */
bool http_is_refused(const struct conn *conn);
/** The most bytes of its body. */
size_t http_body_max(const struct conn *conn);
/** Refuses a body that is larger than http_body_max(). */
void http_refuse_size(struct conn *conn);
/** The method as it is written in a request; "" for HTTP_OTHER. */
const char *http_method_name(enum http_method method);
/** The request target as it was sent. The caller frees it. */
char *http_copy_target(const struct http_head *head);
/** Identifies the sender of a request, and refuses what can be refused without its body. */
void http_admit(struct conn *conn);

/* http_answer.c */
/** Appends the CORS headers that let an allowed page of another origin read the answer. */
void http_append_cors(struct conn *conn, struct buffer *out);
/** Answers a CORS preflight. */
void http_answer_preflight(struct conn *conn);
/** 200 with a page of events, sessions or prompts, compressed if the client accepts that. */
void http_respond_page(struct conn *conn, const struct buffer *json);
/** 200 with text of this content type. */
void http_respond_text(struct conn *conn, const char *type, const char *text, size_t len);
/** Sends the head of an answer that ends with the connection; `headers` are whole lines. */
void http_begin_stream(struct conn *conn, const char *type, const char *headers);
/*
 * Most bytes of a body or message whose sender has not shown a token yet, so that strangers cannot
 * use up the memory that all connections share.
 */
#define WITHOUT_TOKEN_MAX ((size_t)16 * 1024)
/* The header that every 401 carries. */
#define WANTS_TOKEN "www-authenticate: Bearer\r\n"

/* files.c */
/** Sends a part of an open file; `headers` includes the content type. Takes ownership of `fd`. */
void http_send_opened(struct conn *conn, unsigned status, const char *headers, int fd,
	uint64_t from, uint64_t size);

/* http_api.c */
/** How many streams and the like the doors cannot read. */
size_t server_count_damaged(const struct server *server);
#define NO_SESSION \
	"there is no session with this id; POST /api/sessions makes one, and so does ?create=1 with the first events"
/** Whether the session exists for clients; refuses the request if not. */
bool http_has_session(struct conn *conn, const struct session *session);
/** Appends the session's REST object. */
void http_append_session(
	const struct conn *conn, struct buffer *out, const struct session *session);

/* http_create.c */
/** POST /api/sessions. */
void http_create_session(struct conn *conn);

/* http_events.c */
void http_get_events(struct conn *conn, struct session *session);
/** `session` is NULL if it does not exist. */
void http_post_events(struct conn *conn, struct session *session);
void http_post_snapshot(struct conn *conn, struct session *session);

/* http_login.c */

/* http_search.c */
/** Searches a session or, if it is NULL, all sessions that the token can see. */
void http_search(struct conn *conn, struct session *session);
/** Detaches the searches that still run on the thread pool from the server, which is going away. */
void server_forget_searches(struct server *server);

/* http_sse.c */
/**
 * Answers with a stream that says why it ends: `error` is an error's JSON. A status would stop
 * EventSource for good, whereas this one comes back.
 */
void http_respond_ended(struct conn *conn, const char *error, size_t len);
/** Whether the request asks for server-sent events. */
bool http_wants_sse(const struct conn *conn);
/** Refuses a request for a stream with a body, which would arrive after the stream has begun. */
bool http_refuses_body_of_stream(struct conn *conn);
/**
 * Opens a stream that only says when to reconnect, and ends it: after a refusal EventSource would
 * not reconnect.
 */
void http_drain_sse(struct conn *conn);

/* http_stream.c */
void http_stream_begin(struct conn *conn);

/* identity.c */
/**
 * Checks the token again, which may have ended while the body arrived; refuses the request if it
 * has.
 */
bool http_still_may(struct conn *conn);

/* refuse_later.c */
/** conn_refuse_storage() over HTTP. */
void http_refuse_failed(struct conn *conn, int status);
/** conn_refuse_later() over HTTP; at once if `session` is NULL. */
void http_refuse_later(struct conn *conn, struct session *session, const struct refusal *refusal);

/* query.c */
/* Room for any value, with its NUL. */
#define QUERY_MAX (HTTP_TARGET_MAX + 1)
/** Reads a number from 1 to `most`. False if it is not one; *ret stays if it is not given. */
bool query_count(struct conn *conn, const char *name, size_t most, size_t *ret);
/** Reads `create` and `title` into the connection. Returns NULL, or a message. */
const char *query_append(struct conn *conn);
/**
 * Reads the query of an event stream, and its Last-Event-ID, which takes precedence over `after`.
 * Returns NULL, or a message.
 */
const char *query_read_stream(
	struct conn *conn, struct observer_config *ret_config, struct load_request *ret_load);
/** Reads `format`, `deltas` and `client_id` of an observer's WebSocket. Returns NULL, or a message. */
const char *query_read_observer(struct conn *conn);

/* server_keys.c */
/**
 * Reads the certificate and the key, if they are configured. Returns false if that fails, with
 * *ret_why for the caller to free. Blocks.
 */
bool server_load_keys(struct server *server, char **ret_why);
/** Detaches a reload that still runs on the thread pool from the server, which is going away. */
void server_forget_keys(struct server *server);

#endif
