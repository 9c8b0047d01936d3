/* What the files of the net room share about HTTP: requests, answers, and what each address gives. */
#ifndef HOLDFAST_HTTP_INTERNAL_H
#define HOLDFAST_HTTP_INTERNAL_H

#include "net_internal.h"

/* http_request.c */
/** Bytes from the peer, also of a WebSocket. */
void http_receive(struct conn *conn, char *bytes, size_t len);
/** Takes the request again that has waited. */
void http_route_again(struct conn *conn);
/** Whose request it is is known, and which node has its session: ends its wait for that. */
void http_go_on(struct conn *conn);
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

/* ws_observer.c */
/** An answer to an elicitation: what is in it is for the agent. */
int conn_take_elicited(struct conn *conn, struct session *session, const struct request *request,
	struct refusal *refusal);

/* http_create.c */
/**
 * Makes a session as the request says, in the directory `cwd` of its agent, which has been checked (NULL: the
 * default), and tells the feeds. -EEXIST, without words, if there is one of this name.
 */
int conn_create_session(struct conn *conn, const struct session_request *request,
	const struct agent_entry *entry, const char *cwd, struct session **ret_session,
	struct refusal *refusal);

/* http_path.c */
bool http_is_api(const char *path);
/**
 * Whether a path is one of a pattern, in which {name} stands for one part that is not empty, and {name...} at its end for all that
 * follows, or nothing.
 */
bool http_path_fits(const char *path, const char *pattern);
/** It has parts that are no names. */
bool http_leads_nowhere(const struct conn *conn);
bool http_needs_token(const struct conn *conn);
/** Whether this address is served where the connection has come in: for metrics there are few. */
bool http_is_served_here(const struct conn *conn);

/* trace.c */
/** Of the request that begins. */
void trace_take(struct conn *conn);
/** Of a request that is answered, for whoever logs all of them. */
void trace_log(const struct conn *conn, unsigned status);

/* http_admit.c */
/** Whether the request has been refused. */
bool http_is_refused(const struct conn *conn);
/** The most bytes of its body. */
size_t http_body_max(const struct conn *conn);
/** Its body has more. */
void http_refuse_size(struct conn *conn);
/** As it is sent. */
const char *http_method_name(enum http_method method);
/** Finds out who sends a request, and refuses what can be refused before the body has come. */
void http_admit(struct conn *conn);

/* http_answer.c */
/** Lets a page elsewhere read the answer, if it may; never with cookies. */
void http_append_cors(struct conn *conn, struct buffer *out);
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
/** Sends the head of an answer that ends with the connection; `headers` are lines of their own. */
void http_begin_stream(struct conn *conn, const char *type, const char *headers);
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
/** A file that is open already, or a part of it; `headers` has its type. Takes `fd`. */
void http_send_opened(struct conn *conn, unsigned status, const char *headers, int fd,
	uint64_t from, uint64_t size);
/** More of the answer's file may be sent. */
void http_send_more_file(struct conn *conn);
/** Nobody waits for it any more. Nothing if there is none. */
void http_cancel_file(struct conn *conn);

/* http_api.c */
#define NOTHING_HERE "there is nothing at this address"
#define NO_SESSION \
	"there is no session with this id; POST /api/sessions makes one, and so does ?create=1 with the first events"
/** Whether a body is looked at: the request is not refused in any case. */
bool http_wants_body(struct conn *conn);
/** Whether it is about to append, and may: the rates of producers are for it. */
bool http_is_append(const struct conn *conn);
/** The request is whole, or its body is a stream. */
void http_route(struct conn *conn);

/** The body is an image or a file: it is routed before it has come. */
bool http_is_upload(const struct conn *conn);
/** As its REST object. */
void http_append_session(
	const struct conn *conn, struct buffer *out, const struct session *session);

/* ai.c */
/** POST and GET below /api/ai/{session}. */
void http_route_ai(struct conn *conn);

/* http_ds.c */
/** What is below /ds/sessions/. */
void http_route_ds(struct conn *conn);
/** Nobody waits for its answer any more. Nothing if there is none. */
void http_ds_forget(struct conn *conn);
/** Whether it waits for what is new. It ends, if the next request has come. */
bool http_ds_polls(struct conn *conn);
/** A poll has come to its end. */
void http_ds_time_out(struct conn *conn);
/** Refuses a request for a page, or a poll, that waits; false: there is none. */
bool http_ds_refuse(struct conn *conn, const char *code, const char *message);

/* http_raw.c */
/** Raw streams, below /v1/stream/. */
void http_route_raw(struct conn *conn);
/** Whether the address is one of theirs, and pages of every origin may ask there. */
bool http_is_open(const struct conn *conn);
/** Tells a browser what a page elsewhere may send there. */
void http_answer_raw_preflight(struct conn *conn);
/** Nobody waits for an answer any more. Nothing if there is none. */
void http_raw_forget(struct conn *conn);
/** The same as of http_ds.c, of which it is called. */
bool http_raw_polls(struct conn *conn);
bool http_raw_time_out(struct conn *conn);
bool http_raw_refuse(struct conn *conn, const char *code, const char *message);

/* http_create.c */
/** POST /api/sessions. */
void http_create_session(struct conn *conn);
/** GET /api/agents: those that a session may have. */
void http_get_agents(struct conn *conn);
/** GET /api/directories: those that it may have and that begin so. */
void http_get_directories(struct conn *conn);
/** Nobody waits for its answer, or for files, any more. */
void http_forget_directories(struct conn *conn);

/* http_complete.c */
/** GET /api/files: the same for a session that is not there yet. */
void http_complete_new(struct conn *conn);
/** GET /api/sessions/{id}/files: those that a person may mean who types a path. */
void http_complete_files(struct conn *conn, struct session *session);
/** Nobody waits for them any more. */
void http_forget_completion(struct conn *conn);

/* http_blob.c */
/** The body is about to come, or there is none. */
void http_post_blob(struct conn *conn, struct session *session);
void http_upload_take(struct conn *conn, const char *bytes, size_t len);
void http_upload_end(struct conn *conn);
/** Forgets what has come of it. Nothing if there is none. */
void http_upload_drop(struct conn *conn);
/** Nothing more is read of it for now. */
bool http_upload_is_behind(const struct conn *conn);
/** Bytes that are being written. */
size_t http_upload_in_flight(const struct conn *conn);
void http_get_blob(struct conn *conn, struct session *session, const char *name);
/** Nobody waits for it any more. Nothing if there is none. */
void http_cancel_blob(struct conn *conn);

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
/** The cookie and the half of the login that a request came with; false if there is none. */
bool http_login_halves(struct conn *conn, struct login_cookie *cookie, char half[LOGIN_HALF_SIZE]);
/** Of an answer that waits for the disk: http_answer_kept() gives 204 then. */
struct login_answer *http_await(struct conn *conn);
void http_answer_kept(void *arg, int status);
/* http_push.c */
void http_route_push(struct conn *conn);
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

/* http_search.c */
/** `session` NULL: all that the token sees. */
void http_search(struct conn *conn, struct session *session);
/** Nobody waits for what it finds any more. Nothing if there is none. */
void http_forget_search(struct conn *conn);
/** The server goes; what still runs is not told to it. */
void server_forget_searches(struct server *server);

/* http_sse.c */
/** What a stream of server-sent events has beside what it shares with a WebSocket. */
struct sse_stream {
	bool packs; /* it is compressed */
	bool is_chunked;
	bool has_begun; /* a chunk was sent */
	struct gzip_end end;
	int64_t spoken_ms; /* when something was sent last, on the loop's clock */
	int64_t looked_ms; /* when it was looked whether the peer takes it, the same */
	int64_t heard_ms; /* when it was seen that the peer does, the same */
	uint64_t taken; /* sock_taken() then */
};
/** The connection becomes such a stream, and conn.http goes; `headers` are lines of their own. */
void http_begin_sse(
	struct conn *conn, const struct conn_ops *ops, const char *headers, bool says_retry);
/** Whether the request asks for server-sent events. */
bool http_wants_sse(const struct conn *conn);
/** Those of the session conn.session_id, which is there and may be seen. */
void http_open_sse(struct conn *conn);
/** Those of the feed. */
void http_open_sse_feed(struct conn *conn);
/** One that says when to come back, as EventSource does not come back after a refusal. */
void http_drain_sse(struct conn *conn);

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

/* identity.c */
/** Whether the request may go on; if not, it is refused. */
bool http_may(struct conn *conn, enum right right);

/* refuse_later.c */
/** What conn_refuse_storage() and conn_refuse_later() do, over HTTP; `session` NULL: now. */
void http_refuse_failed(struct conn *conn, int status);
void http_refuse_later(struct conn *conn, struct session *session, const struct refusal *refusal);

/* query.c */
/* More bytes than a query has. */
#define QUERY_MAX (HTTP_TARGET_MAX + 1)
/*
 * More bytes than any value has but a title, a path, a prefix, a prompt_id, a cursor and q, which have at most
 * QUERY_MAX.
 */
#define QUERY_VALUE_MAX 128
/**
 * NULL, or what is wrong: a name that is not among `names` (NULL-terminated) or is there twice, or
 * a value that is too long or wrongly escaped.
 */
const char *query_check(struct conn *conn, const char *const names[]);
/** The same, and other names may be there: they are for somebody else. */
const char *query_check_known(struct conn *conn, const char *const names[]);
/** A value, in `buf` of at least QUERY_VALUE_MAX bytes, or NULL. The query was checked before. */
const char *query_get(struct conn *conn, const char *name, char *buf, size_t size);
/** -1 if `text` (may be NULL: the fallback) is no format. */
int query_format(const char *text, enum event_format fallback, enum event_format *ret);
/** Reads `create` and `title` into the connection; NULL, or what is wrong with them. */
const char *query_append(struct conn *conn);
/**
 * Reads the query of a stream of events, and its Last-Event-ID, which counts more than `after`. NULL, or
 * what is wrong with them.
 */
const char *query_read_stream(
	struct conn *conn, struct observer_config *ret_config, struct load_request *ret_load);
/** Reads a WebSocket's query into the connection, or sets conn->refused. */
void query_read_socket(struct conn *conn);

/* http_sse.c */
/** A frame of a socket, as an event. */
void sse_write(struct conn *conn, struct frame *frame);
/** The client comes back no sooner than in so many ms, and a little later. */
void sse_say_retry(struct conn *conn, int64_t ms);
/** Nothing more is said. */
void sse_end(struct conn *conn);
/** Looks whether the peer is there, and says something now and then; once a second. */
void sse_sweep(struct conn *conn);

/* server_keys.c */
/** Reads the certificate and the key, if there are any; false and *ret_why if that fails. */
bool server_load_keys(struct server *server, char **ret_why);
/** The server goes. */
void server_forget_keys(struct server *server);

#endif
