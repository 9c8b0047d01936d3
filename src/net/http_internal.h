/* What the files of the net room share about HTTP: requests, answers, and what each address gives. */
#ifndef HOLDFAST_HTTP_INTERNAL_H
#define HOLDFAST_HTTP_INTERNAL_H

#include "net_internal.h"

/* http_request.c */
/** Bytes from the peer, also of a WebSocket. */
void http_receive(struct conn *conn, char *bytes, size_t len);
/** Takes the request again that has waited. */
void http_route_again(struct conn *conn);
/** Sends the answer, if there is one, and goes on with what waits behind it. */
void http_end_tick(struct conn *conn);
/** The next request could not be told from what is left of this one. */
bool http_body_must_close(const struct conn *conn);
/** The deadline has come. */
void http_time_out(struct conn *conn);
/** Serves a request that is work when its turn has come, perhaps now. */
void http_in_turn(struct conn *conn, void (*serve)(struct conn *conn));
/** Ends a connection whose request is not whole; if it has begun, with this refusal. */
void http_end_unfinished(struct conn *conn, unsigned status, enum limit limit, const char *message);
/** The connection ends if the peer does not take so many bytes of an answer in time. */
void http_expect_taken(struct conn *conn, uint64_t size);
/** For a new connection. */
struct http_exchange *http_create(struct conn *conn);
/** The connection is gone, or becomes a WebSocket: gives back conn.http. */
void http_finish(struct conn *conn);

/* http_answer.c */
/** Tells a browser what a page elsewhere may send. */
void http_answer_preflight(struct conn *conn);
/** The answer; `headers` are lines of their own. */
void http_respond_with(
	struct conn *conn, unsigned status, const char *headers, const char *body, size_t len);
void http_respond(struct conn *conn, unsigned status, const char *json, size_t len);
/** 200 with a page of events, sessions or prompts, compressed if the client can read that. */
void http_respond_page(struct conn *conn, const struct buffer *json);
/** Whether it is compressed. */
bool http_takes_gzip(const struct conn *conn);
/** 200 with text of another type. */
void http_respond_text(struct conn *conn, const char *type, const char *text, size_t len);
/** The beginning of a file of `size` bytes, whose rest is sent from the file; `headers` has its type. */
void http_respond_file(struct conn *conn, unsigned status, const char *headers, const char *body,
	size_t len, uint64_t size);
void http_refuse(struct conn *conn, const char *code, const char *message);
/*
 * The most bytes of a body or message before its sender has shown a token: strangers take no room
 * from others.
 */
#define WITHOUT_TOKEN_MAX ((size_t)16 * 1024)
/* A header that every 401 has. */
#define WANTS_TOKEN "www-authenticate: Bearer\r\n"
void http_refuse_with(struct conn *conn, unsigned status, const char *headers, const char *code,
	const char *message);
/** For a limit that was reached; with its code. */
void http_refuse_limit(struct conn *conn, unsigned status, enum limit limit, const char *message);
/** With what the refusal tells besides its code and words. */
void http_refuse_event(struct conn *conn, const struct refusal *refusal);
void http_refuse_method(struct conn *conn, const char *allow);
void http_refuse_storage(struct conn *conn);

/* files.c */
/** Static files, at every address that is not of the API. */
void http_get_file(struct conn *conn);
/** More of the answer's file may be sent. */
void http_send_more_file(struct conn *conn);
/** Nobody waits for it any more. Nothing if there is none. */
void http_cancel_file(struct conn *conn);

/* http_api.c */
#define NO_SESSION \
	"there is no session with this id; POST /api/sessions makes one, and so does ?create=1 with the first events"
/** Whether a body is looked at: the request is not refused in any case. */
bool http_wants_body(struct conn *conn);
/** The request is whole, or its body is a stream. */
void http_route(struct conn *conn);

/* http_events.c */
void http_get_events(struct conn *conn, struct session *session);
/** Forgets what was read for a page. */
void http_drop_page(struct conn *conn);
/** `session` NULL: there is none. */
void http_post_events(struct conn *conn, struct session *session);
void http_post_snapshot(struct conn *conn, struct session *session);

/* http_login.c */
/** POST, GET and DELETE /api/login. */
void http_route_login(struct conn *conn);
/** POST /api/tokens/revoke. */
void http_revoke(struct conn *conn);
/** Nobody waits for its answer any more. */
void http_forget_login(struct conn *conn);

/* http_metrics.c */
/** GET /metrics. */
void http_get_metrics(struct conn *conn);
/** Nobody waits for them any more. */
void http_forget_metrics(struct conn *conn);

/* http_queue.c */
/** The prompts that wait. */
void http_get_queue(struct conn *conn, struct session *session);

/* http_stream.c */
/** The body is events, one on a line. */
bool http_is_stream(struct conn *conn);
void http_stream_begin(struct conn *conn);
void http_stream_take(struct conn *conn, const char *bytes, size_t len);
void http_stream_end(struct conn *conn);
/** Ends it here; what came before is stored. */
void http_stream_fail(struct conn *conn, const struct refusal *refusal);
/** Gives back what hangs on it. Nothing if there is none. */
void http_stream_finish(struct conn *conn);

/* query.c */
/* More bytes than a query has. */
#define QUERY_MAX (HTTP_TARGET_MAX + 1)
/*
 * More bytes than any value has but a title, a prompt_id and a cursor, which have at most
 * QUERY_MAX.
 */
#define QUERY_VALUE_MAX 128
/**
 * NULL, or what is wrong: a name that is not among `names` (NULL-terminated) or is there twice, or
 * a value that is too long or wrongly escaped.
 */
const char *query_check(struct conn *conn, const char *const names[]);
/** A value, in `buf` of at least QUERY_VALUE_MAX bytes, or NULL. The query was checked before. */
const char *query_get(struct conn *conn, const char *name, char *buf, size_t size);
/** -1 if `text` (may be NULL: the fallback) is no format. */
int query_format(const char *text, enum event_format fallback, enum event_format *ret);
/** Reads `create` and `title` into the connection; NULL, or what is wrong with them. */
const char *query_append(struct conn *conn);
/** Reads a WebSocket's query into the connection, or sets conn->refused. */
void query_read_socket(struct conn *conn);

#endif
