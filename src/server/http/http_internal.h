/* HTTP inside the server, and still in doors and nodes: reading requests, sending answers, and the handlers of each path. */
#ifndef HOLDFAST_HTTP_INTERNAL_H
#define HOLDFAST_HTTP_INTERNAL_H

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
/** Makes this the answer to the current request, which has none yet. */
void http_begin_answer(struct conn *conn, struct answer *answer, const struct answer_ops *ops);
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
/** Takes an answer to an elicitation, whose content goes to the agent. */
int conn_take_elicited(struct conn *conn, struct session *session, const struct request *request,
	struct refusal *refusal);

/* http_create.c */
/**
 * Creates a session as the request says and announces it to the feeds. `cwd` is the agent's working
 * directory, which the caller has checked (NULL: the default). Returns 0, -EEXIST with `refusal`
 * not filled in if the id is taken, or another negative value with `refusal` filled in.
 */
int conn_create_session(struct conn *conn, const struct session_request *request,
	const struct agent_entry *entry, const char *cwd, struct session **ret_session,
	struct refusal *refusal);

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
/** Copies that id, which must be valid, to conn->session_id. */
void http_copy_session_id(struct conn *conn);
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
/**
 * Answers with JSON, or without a body if the status is 204. `headers` are whole lines, with CRLF.
 */
void http_respond_with(
	struct conn *conn, unsigned status, const char *headers, const char *body, size_t len);
void http_respond(struct conn *conn, unsigned status, const char *json, size_t len);
/** 200 with a page of events, sessions or prompts, compressed if the client accepts that. */
void http_respond_page(struct conn *conn, const struct buffer *json);
/** Whether answers to the request are to be compressed. */
bool http_takes_gzip(const struct conn *conn);
/** Whether If-None-Match says that the client has the answer with this ETag already. */
bool http_has_etag(const struct conn *conn, const char *etag);
/** 200 with text of this content type. */
void http_respond_text(struct conn *conn, const char *type, const char *text, size_t len);
/**
 * Answers with a body of `size` bytes whose first `len` are given; the caller sends the rest.
 * `headers` includes the content type.
 */
void http_respond_file(struct conn *conn, unsigned status, const char *headers, const char *body,
	size_t len, uint64_t size);
/** Sends the head of an answer that ends with the connection; `headers` are whole lines. */
void http_begin_stream(struct conn *conn, const char *type, const char *headers);
void http_refuse(struct conn *conn, enum error_code code, const char *message);
/** Refuses because the session does not exist, or the token is not for it. */
void http_refuse_no_session(struct conn *conn);
/** Refuses because the session has just left this server: somebody has it, or will. */
void http_refuse_moved(struct conn *conn);
/** Refuses because the session was deleted while it was served, or if that is not so, has left. */
void http_refuse_lost(struct conn *conn);
/*
 * Most bytes of a body or message whose sender has not shown a token yet, so that strangers cannot
 * use up the memory that all connections share.
 */
#define WITHOUT_TOKEN_MAX ((size_t)16 * 1024)
/* The header that every 401 carries. */
#define WANTS_TOKEN "www-authenticate: Bearer\r\n"
void http_refuse_with(struct conn *conn, unsigned status, const char *headers, enum error_code code,
	const char *message);
/** Refuses because a limit was reached, with the limit's code, and counts it in the metrics. */
void http_refuse_limit(struct conn *conn, enum limit limit, const char *message);
/** Refuses with everything in `refusal`, including its details. */
void http_refuse_event(struct conn *conn, const struct refusal *refusal);
void http_refuse_method(struct conn *conn, const char *allow);
void http_refuse_storage(struct conn *conn);

/* files.c */
/** Serves static files, at every path that is not of the API. */
void http_get_file(struct conn *conn);
/** Sends a part of an open file; `headers` includes the content type. Takes ownership of `fd`. */
void http_send_opened(struct conn *conn, unsigned status, const char *headers, int fd,
	uint64_t from, uint64_t size);

/* http_api.c */
#define NOTHING_HERE    "there is nothing at this address"
#define SESSION_DELETED "the session has been deleted"
#define SHUTTING_DOWN   "the server is shutting down; try again in a moment"
#define NO_SESSION \
	"there is no session with this id; POST /api/sessions makes one, and so does ?create=1 with the first events"
/** Whether the session exists for clients; refuses the request if not. */
bool http_has_session(struct conn *conn, const struct session *session);
/** Appends the session's REST object. */
void http_append_session(
	const struct conn *conn, struct buffer *out, const struct session *session);

/* http_raw.c */
/*
 * Sent with all bytes that may come from others: agents, producers, whoever writes to a raw stream.
 * Where a browser shows them as a document, that is a document of no origin, without scripts and
 * forms.
 */
#define CONTENT_OF_OTHERS \
	"content-security-policy: default-src 'none'; frame-ancestors 'none'; sandbox\r\n"
/* The same where no page plays or shows it inline. */
#define FILE_OF_OTHERS CONTENT_OF_OTHERS "content-disposition: attachment\r\n"

/* http_create.c */
/** POST /api/sessions. */
void http_create_session(struct conn *conn);

/* http_events.c */
void http_get_events(struct conn *conn, struct session *session);
/** `session` is NULL if it does not exist. */
void http_post_events(struct conn *conn, struct session *session);
void http_post_snapshot(struct conn *conn, struct session *session);

/* http_login.c */
/** Reads both halves of the request's login: cookie and header. Returns false if one is missing. */
bool http_login_halves(struct conn *conn, struct login_cookie *cookie, char half[LOGIN_HALF_SIZE]);
struct login_answer;
/**
 * Creates an answer that waits for the disk. It is the argument of the callback, which frees it.
 */
struct login_answer *http_await(struct conn *conn);
/** Frees it instead: no callback will come. */
void http_await_nothing(struct login_answer *answer);
/** Such a callback: answers 204 when the change is durable, or refuses with storage_failed. */
void http_answer_kept(void *arg, int status);

/* http_search.c */
/** Searches a session or, if it is NULL, all sessions that the token can see. */
void http_search(struct conn *conn, struct session *session);
/** Detaches the searches that still run on the thread pool from the server, which is going away. */
void server_forget_searches(struct server *server);

/* http_sse.c */
/** Turns the connection into a stream of server-sent events (sse_stream.c) and frees conn.http; `headers` are whole lines. */
void http_begin_sse(
	struct conn *conn, const struct conn_ops *ops, const char *headers, bool says_retry);
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
/** Whether the sender has the right; refuses the request if not. */
bool http_may(struct conn *conn, enum right right);
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
/*
 * Room for a value, with its NUL, other than a title, path, prefix, prompt_id, cursor or q; these
 * need QUERY_MAX.
 */
#define QUERY_VALUE_MAX 128
/**
 * Checks the whole query. Returns NULL, or a message: a name is not among `names` (NULL-terminated)
 * or is repeated, or a value is too long or wrongly escaped.
 */
const char *query_check(struct conn *conn, const char *const names[]);
/** Like query_check(), but ignores other names. */
const char *query_check_known(struct conn *conn, const char *const names[]);
/** Decodes a value into `buf`. Returns `buf`, or NULL if it is absent. Check the query first. */
const char *query_get(struct conn *conn, const char *name, char *buf, size_t size);
/** Reads a number from 1 to `most`. False if it is not one; *ret stays if it is not given. */
bool query_count(struct conn *conn, const char *name, size_t most, size_t *ret);
/** Parses a format; `text` NULL means `fallback`. Returns -1 if it is not a format. */
int query_format(const char *text, enum event_format fallback, enum event_format *ret);
/** Reads `create` and `title` into the connection. Returns NULL, or a message. */
const char *query_append(struct conn *conn);
/**
 * Reads the query of an event stream, and its Last-Event-ID, which takes precedence over `after`.
 * Returns NULL, or a message.
 */
const char *query_read_stream(
	struct conn *conn, struct observer_config *ret_config, struct load_request *ret_load);
/** Reads `client_id` into the WebSocket. Returns NULL, or a message. */
const char *query_read_client_id(struct conn *conn);
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
