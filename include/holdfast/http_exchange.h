/*
 * A request over HTTP and its answer, as those see it who serve a route (door.h). A request is
 * answered once: by one of the functions that respond or refuse, at once or through a struct answer,
 * or by a stream of events, which begins a kind of socket (websocket.h).
 */
#ifndef HOLDFAST_HTTP_EXCHANGE_H
#define HOLDFAST_HTTP_EXCHANGE_H

#include "holdfast/connection.h"

#include "holdfast/http_head.h"
#include "holdfast/requests.h"

/* --- the request --- */

/** The state of the door that has the route of the current request; NULL: it has none. */
void *http_door_state(const struct conn *conn);
enum http_method http_method_of(const struct conn *conn);
const struct http_head *http_head_of(const struct conn *conn);
/** The path, decoded. */
const char *http_path_of(const struct conn *conn);
/** What the route's pattern matched: the part with this index, below ROUTE_PARTS. */
const struct path_part *http_part(const struct conn *conn, size_t i);
/** Whether it has a body. */
bool http_has_body(const struct conn *conn);
/** Whether that is still to come. */
bool http_awaits_body(const struct conn *conn);
/** The whole body, of a route that has it gathered. */
const struct buffer *http_body(const struct conn *conn);
/** The same; the caller frees it. */
struct buffer http_take_body(struct conn *conn);
/** Whether the peer has sent its next request. */
bool http_has_next(const struct conn *conn);
/** Whether the sender has the right; refuses the request if not. */
bool http_may(struct conn *conn, enum right right);

/* --- its query --- */

/* Room for a value, with its NUL, other than a title, path, prefix, prompt_id, cursor or q. */
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
/** Parses a format; `text` NULL means `fallback`. Returns -1 if it is not a format. */
int query_format(const char *text, enum event_format fallback, enum event_format *ret);
/** Reads `client_id`, which is conn_client_id() then. Returns NULL, or a message. */
const char *query_read_client_id(struct conn *conn);

/* --- its login --- */

/**
 * Reads both halves of the login: the cookie and the header of its page. Returns false if one is
 * missing.
 */
bool http_login_halves(struct conn *conn, char cookie[LOGIN_HALF_SIZE], char half[LOGIN_HALF_SIZE]);
struct login_answer;
/**
 * Creates an answer that waits until a change of the login is durable. It is the argument of the
 * callback (http_answer_kept()), which frees it.
 */
struct login_answer *http_await(struct conn *conn);
/** Frees it instead: no callback will come. */
void http_await_nothing(struct login_answer *answer);
/** The callback: answers 204 when the change is durable, or refuses with storage_failed. */
void http_answer_kept(void *arg, int status);

/* --- answers that take more than one call --- */

/** Makes this the answer to the current request, which has none yet. */
void http_begin_answer(struct conn *conn, struct answer *answer, const struct answer_ops *ops);
/** The answer that was begun; NULL: none. */
struct answer *http_answer(const struct conn *conn);
/** Waits for news: answer_ops.time_out() is called when a long poll has lasted long enough. */
void http_begin_poll(struct conn *conn);
void http_end_poll(struct conn *conn);

/* --- answers --- */

/** Answers with JSON. */
void http_respond(struct conn *conn, unsigned status, const char *json, size_t len);
/**
 * Answers with JSON, or without a body if the status is 204. `headers` are whole lines, with CRLF.
 */
void http_respond_with(
	struct conn *conn, unsigned status, const char *headers, const char *body, size_t len);
/**
 * Answers with a body of `size` bytes whose first `len` are given; the caller sends the rest.
 * `headers` includes the content type.
 */
void http_respond_file(struct conn *conn, unsigned status, const char *headers, const char *body,
	size_t len, uint64_t size);
/** Whether answers to the request are to be compressed. */
bool http_takes_gzip(const struct conn *conn);
/** Compresses the body of an answer that http_takes_gzip(). */
void http_gzip(const struct conn *conn, const char *bytes, size_t len, struct buffer *out);
/** Whether If-None-Match says that the client has the answer with this ETag already. */
bool http_has_etag(const struct conn *conn, const char *etag);
/**
 * Turns the connection into a stream of server-sent events of this kind; `headers` are whole lines.
 * The request is over: none of the functions above may be called any more.
 */
void http_begin_sse(
	struct conn *conn, const struct conn_ops *ops, const char *headers, bool says_retry);
/*
 * Sent with all bytes that may come from others: agents, producers, whoever writes to a raw stream.
 * Where a browser shows them as a document, that is a document of no origin, without scripts and
 * forms.
 */
#define CONTENT_OF_OTHERS \
	"content-security-policy: default-src 'none'; frame-ancestors 'none'; sandbox\r\n"
/* The same where no page plays or shows it inline. */
#define FILE_OF_OTHERS CONTENT_OF_OTHERS "content-disposition: attachment\r\n"

/* --- refusals --- */

#define NOTHING_HERE    "there is nothing at this address"
#define SESSION_DELETED "the session has been deleted"
#define SHUTTING_DOWN   "the server is shutting down; try again in a moment"
void http_refuse(struct conn *conn, enum error_code code, const char *message);
void http_refuse_with(struct conn *conn, unsigned status, const char *headers, enum error_code code,
	const char *message);
/** Refuses because a limit was reached, with the limit's code, and counts it in the metrics. */
void http_refuse_limit(struct conn *conn, enum limit limit, const char *message);
/** Refuses with everything in `refusal`, including its details. */
void http_refuse_event(struct conn *conn, const struct refusal *refusal);
void http_refuse_method(struct conn *conn, const char *allow);
void http_refuse_storage(struct conn *conn);
/** Refuses because the session does not exist, or the token is not for it. */
void http_refuse_no_session(struct conn *conn);
/** Refuses because the session has just left this server: somebody has it, or will. */
void http_refuse_moved(struct conn *conn);
/** Refuses because the session was deleted while it was served, or if that is not so, has left. */
void http_refuse_lost(struct conn *conn);
/** Refuses because the session was deleted: it does not exist any more, whatever the store says. */
void http_refuse_deleted(struct conn *conn);

/* --- sessions --- */

/**
 * Creates a session as the request says and announces it to the feeds. `cwd` is the agent's working
 * directory, which the caller has checked (NULL: the default). Returns 0, -EEXIST with `refusal`
 * not filled in if the id is taken, or another negative value with `refusal` filled in.
 */
int conn_create_session(struct conn *conn, const struct session_request *request,
	const struct agent_offer *offer, const char *cwd, struct session **ret_session,
	struct refusal *refusal);

#endif
