/* Shared by the files of src/server, and still by nodes: the connection and server structs, and what each file exports. */
#ifndef HOLDFAST_NET_INTERNAL_H
#define HOLDFAST_NET_INTERNAL_H

#include "holdfast/server.h"

#include "holdfast/websocket.h"
#include "server/listen/listen.h"
#include "server/access/login_cookie.h"
#include "server/listen/peer.h"
#include "server/connection/transport.h"

#include "holdfast/access.h"
#include "holdfast/chunked.h"
#include "holdfast/deflate.h"
#include "holdfast/diag.h"
#include "holdfast/error_codes.h"
#include "holdfast/hash.h"
#include "holdfast/http_head.h"
#include "holdfast/intake.h"
#include "holdfast/metrics.h"
#include "holdfast/session_list.h"
#include "holdfast/turns.h"
#include "holdfast/utf8.h"
#include "holdfast/ws_frame.h"

_Static_assert(FRAME_HEADROOM >= WS_HEADER_MAX, "a frame has room for its header on the wire");

struct conn;
struct household;
struct sse_stream;
struct keys_job;
struct login_cookies;
struct placement;

/** What a connection is doing. */
enum conn_phase {
	PHASE_HEAD, /* waiting for, or receiving, a request's head */
	PHASE_BODY, /* receiving its body */
	PHASE_ANSWER, /* the request is complete, its answer is not */
	PHASE_STREAM, /* the same, but the answer ends with the connection; input is dropped */
	PHASE_SOCKET, /* it has become a WebSocket, or a stream of server-sent events */
	PHASE_LINGER, /* everything is sent; the peer has time to read it, input is dropped */
};

/** What conn.deadline_ms limits. */
enum conn_deadline {
	DEADLINE_NONE,
	DEADLINE_IDLE, /* between two requests */
	DEADLINE_HEAD,
	DEADLINE_ANSWER, /* for the peer to take the answer */
	DEADLINE_POLL, /* of a long poll: the client is told that nothing is new */
	DEADLINE_TOKEN, /* for an unauthenticated WebSocket to send its token */
	DEADLINE_END, /* lingering, or closing */
};

/** State of a connection that speaks HTTP: the current request and its answer. */
struct http_exchange {
	struct http_head *head; /* NULL: none */
	enum http_method method;
	char *path; /* decoded; NULL: none */
	const struct route *route; /* that of the path; never NULL (route.c) */
	const struct door *door; /* that has the route; NULL: none */
	struct path_part parts[ROUTE_PARTS]; /* what the route's pattern matched in it */
	bool leads_nowhere; /* the path has ".", ".." or an escaped slash, and so names nothing */
	size_t in_scanned; /* bytes of conn.in searched for the end of the head */
	struct http_framing framing;
	uint64_t body_taken; /* bytes of the body so far, as on the wire */
	struct chunked chunked;
	bool is_routed; /* routed before its body, which is ignored or is a stream */
	bool expects_continue; /* and 100 Continue has not been sent */
	bool must_close;
	bool is_foreign; /* from another origin, which is allowed (--allow-origin) */
	bool is_answered;
	bool is_sought; /* it is known which node has the session in its path */
	bool is_elsewhere; /* another node has it */
	bool is_nowhere; /* the session does not exist, says the store, or was deleted here */
	struct buffer response; /* sent at the end of the tick */
	struct answer *answer; /* that takes more than one call; NULL: none */
	struct turn turn; /* for a page of events, which takes loop time */
	void (*in_turn)(struct conn *conn);
	struct conn *conn; /* back pointer */
};

/** State of a WebSocket, or of an outgoing stream (conn.sse). */
struct ws_socket {
	char client_id[68];
	struct login_cookies *cookies; /* of the upgrade request; NULL: none */
	struct observer_config config;
	struct observer *observer;
	char *target; /* of the upgrade, as sent; NULL: other nodes are not asked */
	const char *refused; /* error in the query, sent once the socket is open; NULL: none */
	bool is_nowhere; /* the store says that the session does not exist */
	bool deflates; /* both sides may compress messages */
	struct ws_reader reader;
	struct utf8_state utf8;
	struct buffer control; /* payload of an incomplete control frame */
	struct buffer pong; /* a pong not sent yet, for the newest ping */
	struct list outbox; /* struct queued_frame; not for producers */
	size_t outbox_count;
	size_t outbox_size; /* bytes of the frames in it */
	struct buffer gathered; /* for producers: encoded frames, sent together */
	bool is_held; /* too much is gathered: reading stops until the peer takes it */
	bool pinged; /* a ping was sent, and nothing received since */
	bool close_sent;
	bool is_deaf; /* input can no longer be parsed as frames */
	unsigned close_code; /* 0: a close frame without a code */
	char *close_reason;
	struct content_check *check; /* of the images and files of a prompt; NULL: none */
	enum error_code broken_by; /* the refusal behind which no input is taken */
};

struct conn {
	struct list link; /* server.conns */
	struct list kind_link; /* of feeds, producers and viewers; self otherwise */
	struct list tick_link; /* server.in_tick; self otherwise */
	struct server *server;
	struct sock sock;
	struct listen_kind kind;
	struct address peer; /* of the TCP connection */
	struct address client; /* the request's sender, by household (client.c) */
	bool is_https; /* as the client sees it */
	enum conn_phase phase;
	struct http_exchange *http; /* NULL: a WebSocket or a stream */
	struct ws_socket *ws; /* NULL: it speaks HTTP */
	struct sse_stream *sse; /* a stream of server-sent events; NULL: none */
	struct conn *carrier; /* by whose socket its messages pass; NULL: by its own */
	struct placed *placed; /* what the placement attached (placement.h); NULL: nothing */
	const struct conn_ops *ops; /* of the kind of WebSocket; NULL: HTTP */
	void *state; /* of that kind, which alone reads it; NULL: none */
	struct session *session; /* held; NULL: none, or it is gone */
	char session_id[129];
	struct grant *grant; /* the peer's rights; NULL: not authenticated yet */
	enum denial denial; /* sent after a delay */
	int64_t denied_ms; /* when the denial was decided, on the loop's clock */
	struct list denied_link; /* server.denied; self otherwise */
	struct list half_open_link; /* server.half_open; self otherwise */
	/* Unused share of its rate (rate.c), as of credit_ms on the loop's clock. */
	int64_t credit_us;
	int64_t credit_ms;
	bool is_slowed; /* the share is used up: reading stops */
	struct list slow_link; /* server.slowed; self otherwise */
	struct household *household; /* counted there; NULL: a proxy's, whose client is unknown */

	enum conn_deadline deadline;
	int64_t deadline_ms; /* on the loop's clock */
	int64_t received_ms; /* when the peer last sent anything, on the same clock */
	int64_t message_ms; /* when the incomplete message or body began, on the same clock */
	uint64_t taken; /* sock_taken() when last checked */

	struct buffer in; /* received and not parsed yet */
	struct buffer rx; /* an incomplete message, body or line */
	size_t rx_counted; /* its share of server.received */
	size_t sending_counted; /* its share of server.sending; of a viewer: of its carrier's */
	struct list behind_link; /* server.behind; self otherwise */
	uint64_t behind_taken; /* sock_taken() when it was put there, or last checked */
	struct list waits; /* struct conn_wait: answers that wait until their input is durable */
	/* While a request waits for the session's names to be loaded, nothing is read. */
	struct names_wait names_wait;
	struct place_wait place_wait; /* the same, until it is known which node has the session */
	struct buffer parked; /* a WebSocket's message that waits */
	bool is_parked;
	bool was_parked; /* its request has waited, and must not wait again */

	/* For producers, whose first events may create the session (?create=1&title=). */
	bool may_create;
	char *title; /* NULL: none */
	char *trace; /* the traceparent of its newest request; NULL: none */
	bool is_dead; /* it will be closed at the end of the tick */
	bool fin_sent; /* our side is shut down: nothing more can be sent */
	bool is_closing; /* of a WebSocket: only its close frame may still be sent */
};

struct server {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	struct session_table *sessions;
	struct agent_host *agents;
	struct metrics *metrics; /* NULL: nothing is counted */
	struct access *access; /* NULL: no authentication (--auth off) */
	const struct door *doors; /* up to one without routes */
	struct grant *everyone; /* an administrator's, used without `access` and for unix sockets */
	struct list denied; /* connections with a wrong token, refused after a delay */
	uv_timer_t *deny_timer;
	struct hash *wrong; /* counts of wrong tokens, by client address */
	const struct server_trust *trust;
	struct transport *transport;
	struct deflater *deflater; /* NULL: compression is off */
	const char *tls_cert; /* NULL: none */
	const char *tls_key;
	struct keys_job *keys_job; /* reloads certificate and key; NULL: none running */
	bool reloads_again;
	struct listeners *listeners;
	const struct server_life *life;
	bool reads_first; /* the last sweep judged nobody, as the loop had missed something */
	bool is_paused;
	struct list conns;
	struct list feeds;
	struct list producers; /* their input is held while the disk is behind */
	struct list in_tick; /* connections with work for the end of the tick */
	struct list announced; /* struct announcement: new sessions, not durable yet */
	struct hash *changed; /* copies of the ids of changed sessions, not told to feeds yet */
	uv_timer_t *feed_timer;
	bool feed_armed;
	uv_timer_t *sweep; /* checks deadlines */
	uv_async_t *again; /* wakes the loop for what this tick had no time for */
	size_t conn_count;
	size_t conn_max;
	struct hash *households; /* struct household of room.c, by address */
	struct list half_open; /* connections; the oldest first */
	size_t half_open_count;
	struct list slowed; /* connections */
	uv_timer_t *slow_timer;
	struct placement *placement; /* where sessions are; NULL: all are here */
	size_t link_count; /* sockets that the server has opened itself, to other nodes */
	struct turns *turns; /* NULL: pages are not limited */
	struct list searches; /* running searches */
	struct list searches_waiting; /* searches that wait for one of those to end */
	size_t received; /* bytes of incomplete bodies and messages, over all connections */
	size_t sending; /* bytes that peers have not taken yet, over all connections */
	struct list behind; /* their connections, longest without progress first */
	char *web_dir; /* NULL: none */
	char *highlight_dir; /* NULL: none */
};

/** The same for an append to conn->session, whose duration is measured. */
struct conn_wait *conn_wait_append(
	struct conn *conn, void (*answer)(struct conn_wait *wait, int status));

/** Frees a wait without calling `answer`. */
void conn_wait_free(struct conn_wait *wait);
/** Refuses input that came behind such a refusal. Returns 0 or -EINVAL. */
int conn_check_order(struct conn *conn, struct refusal *refusal);
/**
 * At the end of a tick: the code with which the socket has to be closed now (WS_CLOSE_TRY_LATER),
 * as everything in front of what was refused is answered. ERROR_NONE: it stays open.
 */
enum error_code conn_broken_order(const struct conn *conn);

/* conn.c */
/** Allocates a connection without a socket, which is in none of the server's lists. */
struct conn *conn_new(struct server *server);
/** Cancels everything that the connection waits for. */
void conn_stop_waiting(struct conn *conn);
/** Creates a connection for `fd` and takes ownership of it. It lives until its socket is closed. */
void conn_create(struct server *server, int fd, const struct listen_kind *kind);
void conn_end_tick(struct conn *conn);
/** Sends raw bytes; the connection is killed if that fails. */
void conn_put(struct conn *conn, const void *bytes, size_t len);
/** Closes the socket at the end of the tick, without sending anything more. */
void conn_kill(struct conn *conn);
/** Sends FIN after what was written. If the socket is choked, call it again when it is writable. */
void conn_send_fin(struct conn *conn);
/** The connection is no longer slowed or parked: handles the input received meanwhile. */
void conn_resume(struct conn *conn);
/** Sets what is due in `ms`, replacing the previous deadline. DEADLINE_NONE: nothing. */
void conn_set_deadline(struct conn *conn, enum conn_deadline deadline, int64_t ms);
/* Bytes of an incomplete message that a connection may always keep, whatever the others keep. */
#define RECEIVE_FREE ((size_t)64 * 1024)
/**
 * Appends to conn.rx. Returns false if the memory for incomplete messages, which all connections
 * share, is used up.
 */
bool conn_keep(struct conn *conn, const char *bytes, size_t len);
/** Frees conn.rx. */
void conn_keep_nothing(struct conn *conn);
/** Whether the incomplete message or body, `taken` bytes so far, arrives too slowly. */
bool conn_is_too_slow(const struct conn *conn, uint64_t taken);
/** Checks deadlines, pings and slow messages; called once a second. */
void conn_sweep(struct conn *conn);
/** The answer to a keepalive, with the state of conn.session if there is one. */
struct frame *conn_keepalive_ack(const struct conn *conn, const struct request *request);
/** Sends through the observer if there is one, in order with its events. Takes the reference. */
void conn_send_frame(struct conn *conn, struct frame *frame);
void conn_send_refusal(struct conn *conn, const struct refusal *refusal);
void conn_send_error(struct conn *conn, enum error_code code, const char *message);

/* room.c */
/** Whether a connection just accepted can be served; counts it as refused if not. */
bool room_for_connection(struct server *server, int fd, const struct listen_kind *kind);
/** Counts a new connection, which is half open; and its end. */
void room_take(struct conn *conn);
void room_give_back(struct conn *conn);
/** Counts a proxied connection for its client (conn.client). Returns false if that has too many. */
bool room_for_client(struct conn *conn);
/** Marks the connection half open: the peer has yet to send a request or token; and its end. */
void room_note_half_open(struct conn *conn);

/* sending.c */
/** The connection is being destroyed: counts nothing for it any more. */
void sending_forget(struct conn *conn);

/* rate.c */
void rate_init(struct conn *conn);
/** Charges for received bytes. */
void rate_take_bytes(struct conn *conn, size_t len);
/** Charges for a frame or request. Returns false if the connection has to be slowed now. */
bool rate_take_message(struct conn *conn, bool is_append);
void rate_handle_timer(uv_timer_t *timer);

/* ws_handshake.c */
/** Warms up OpenSSL before the first client: the first digest of a process takes a millisecond. */
void ws_prepare(void);
/** Whether a request asks for an upgrade to WebSocket. */
bool ws_is_asked_for(const struct http_head *head);
/** Answers the upgrade request: the connection becomes a WebSocket, or is refused. */
void ws_upgrade(struct conn *conn);

/** Sets a random client id, used until the client gives its own. */
void ws_make_client_id(struct conn *conn);
/** The socket is open and authenticated: finds its session. */
void ws_begin(struct conn *conn);
/** Closes the socket with not_found, which does not reveal a session that the peer may not see. */
void ws_say_not_found(struct conn *conn);

/* ws_socket.c */
/** Parses input. Returns how many bytes it has used, which are not all if a message has to wait. */
size_t ws_receive(struct conn *conn, char *bytes, size_t len);
/** Whether a frame or message is incomplete. */
bool ws_is_unfinished(const struct conn *conn);
/** Writes a frame at the end of the tick, in order with everything else that is written. */
void conn_write(struct conn *conn, struct frame *frame);
/** Writes or queues a frame, up to limits->outbox_frames. Takes the reference. */
void conn_send(struct conn *conn, struct frame *frame);
/** Sends queued frames as far as the socket takes them. */
void conn_flush(struct conn *conn);
/** Frees conn.ws. */
void ws_finish(struct conn *conn);
/** Makes the metrics show all codes with which sockets are closed, with 0. Accepts NULL. */
void ws_show_closes(struct metrics *metrics);
/** The socket takes more. */
void ws_writable(struct conn *conn);
/** Sends a ping. */
void ws_ping(struct conn *conn);

/* sse_stream.c */
/** Begins the bytes of a stream, behind the head of its answer. */
void sse_begin(struct conn *conn, bool packs, bool is_chunked);
/* What sse_spread() adds at most (ms). */
#define SSE_SPREAD_MS 500
/** A delay of at least `ms`, at random, so that clients do not come back all at once. */
int64_t sse_spread(int64_t ms);
/** Tells the client to wait sse_spread(ms) before it reconnects. */
void sse_say_retry(struct conn *conn, int64_t ms);
/** Ends the stream in order. */
void sse_end(struct conn *conn);
/** Sends a comment when one is due, and closes the connection of a dead peer. Once a second. */
void sse_sweep(struct conn *conn);

/* kinds of WebSocket */
extern const struct conn_ops observer_conn_ops;
extern const struct conn_ops producer_conn_ops;
extern const struct conn_ops feed_conn_ops;

/* client.c */
/** Finds the sender of a request: sets conn.client and conn.is_https. */
void client_find(struct conn *conn, const struct http_head *head);
/** Whether a peer is a trusted proxy, or another node. */
bool client_is_proxy(
	const struct server *server, const struct listen_kind *kind, const struct address *peer);

/* auth.c */
/**
 * Checks Host and Origin; sets conn.http.is_foreign. Returns ERROR_NONE if the request is allowed,
 * else the error code (forbidden_host, forbidden_origin) and its reason in *ret_why.
 */
enum error_code auth_check(struct conn *conn, const struct http_head *head, const char **ret_why);
/** Whether pages of every origin may use the route: --allow-origin has a `*`, and it knows how. */
bool auth_is_for_all(const struct conn *conn);
/**
 * Whether the request comes from a page of another origin, or from a form, with a body that such a
 * page can send without asking (CORS): only JSON, which needs a preflight, is taken from there.
 */
bool auth_refuses_body(const struct conn *conn);
/** Whether a browser or proxy passed the request on, so that the peer is not its sender. */
bool auth_is_passed_on(const struct http_head *head);

/* identity.c */
/** The denial that follows from a token's verdict. */
enum denial denial_of(enum token_verdict verdict);
/** Authenticates a request: sets conn.grant from its token, login or socket. */
enum denial identify(struct conn *conn, const struct http_head *head);
/** Refuses the request or socket; for a wrong token after a delay. Counts wrong tokens. */
void deny(struct conn *conn, enum denial denial);
/** Refuses a WebSocket and closes it, without a delay. */
void ws_deny(struct conn *conn, enum denial denial);
void identity_handle_timer(uv_timer_t *timer);
/** Frees the counts of wrong tokens. */
void identity_finish(struct server *server);
/** Handles the first message of a WebSocket that is not authenticated. */
void ws_take_first(struct conn *conn, const char *text, size_t len);
/** Handles REQUEST_TOKEN: authenticates the socket, or renews its token. */
void ws_take_token(struct conn *conn, const struct request *request);
/** Confirms a renewed token, with its rights. */
void ws_confirm_token(struct conn *conn);
/** Appends when the grant expires, in ms since 1970, or `null`. */
void append_expiry(struct buffer *out, const struct grant *grant);
/** Whether it sees the session in its path; always true for feeds and editors. */
bool conn_sees_session(const struct conn *conn);
/** Ends the connection if its token has expired or was revoked. */
void conn_check_grant(struct conn *conn);

/* append.c */
#define TOO_MANY_SESSIONS \
	"there is no room for another session: there are too many, in total or of yours, or they are too large"
/**
 * Creates the session conn->session_id and sets conn->session. It becomes durable together with the
 * events appended in the same tick.
 */
int conn_make_session(struct conn *conn, struct refusal *refusal);
/** intake_append() to conn->session, which is looked up, or created if conn->may_create, first. */
int conn_append(struct conn *conn, const struct json_span *events, size_t count,
	struct append_ack *acks, size_t *ret_bad, struct refusal *refusal);
/** The same with intake_snapshot(). */
int conn_append_snapshot(struct conn *conn, const json_t *data, struct snapshot_result *ret,
	size_t *ret_bad, struct refusal *refusal);
/** Moves a snapshot's result into the wait for its answer. */
void conn_wait_take_snapshot(struct conn_wait *wait, const struct snapshot_result *result);

/* refuse_later.c */
/** Refuses a request once what it rests on is durable; else with storage_failed, same detail. */
void conn_refuse_later(struct conn *conn, const struct refusal *refusal);
/** Refuses with storage_failed, now. `status` is that of a durable_wait; `id` may be NULL. */
void conn_refuse_storage(
	struct conn *conn, const char *request, enum error_about about, const char *id, int status);

/* absent.c */
/** Deletes the damaged session of the request and answers. Returns false if it is not damaged. */
bool http_delete_damaged(struct conn *conn);

/* ws_feed.c */
void feed_flush(struct server *server);
/** Tells feeds that could see the session `id` that it was deleted. */
void feed_tell_deleted(struct server *server, const char *id);
/** Announces a new session to feeds once it is durable. */
void feed_announce(struct server *server, struct session *session);
/** Drops pending announcements. */
void feed_forget(struct server *server);

#endif
