/* What the files of the net room share: one connection, whatever it speaks. */
#ifndef HOLDFAST_NET_INTERNAL_H
#define HOLDFAST_NET_INTERNAL_H

#include "holdfast/server.h"

#include "listen.h"
#include "login_cookie.h"
#include "peer.h"
#include "shared_frames.h"
#include "transport.h"

#include "holdfast/access.h"
#include "holdfast/chunked.h"
#include "holdfast/deflate.h"
#include "holdfast/diag.h"
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
struct file_job;
struct household;
struct ai_door;
struct editor_door;
struct ds_read;
struct ds_stream;
struct login_answer;
struct directories_wait;
struct completion;
struct metrics_job;
struct event_stream;
struct sse_stream;
struct keys_job;
struct login_cookies;
struct http_forward;
struct ws_forward;
struct ws_tap;
struct mirror;

/** What a kind of WebSocket does; one table a kind. */
struct conn_ops {
	/** The handshake is done. */
	void (*open)(struct conn *conn);
	/** A whole text message. */
	void (*message)(struct conn *conn, const char *text, size_t len);
	/** The socket takes more. */
	void (*writable)(struct conn *conn);
	/** The connection is gone: gives back what hangs on it. */
	void (*closed)(struct conn *conn);
	/** The tick ends; may be NULL. */
	void (*end_tick)(struct conn *conn);
	/** Takes a frame of ours, of which it speaks another protocol. NULL: it speaks ours. */
	void (*tell)(struct conn *conn, struct frame *frame);
	bool is_producer;
	bool takes_bodies; /* its messages may be as large as a body over HTTP */
};

/** What a connection is doing. */
enum conn_phase {
	PHASE_HEAD, /* a request's head is coming, or nothing */
	PHASE_BODY, /* its body is coming */
	PHASE_ANSWER, /* it is whole, and its answer is on its way */
	PHASE_STREAM, /* the same, and the answer ends with the connection: what comes is dropped */
	PHASE_SOCKET, /* it has become a WebSocket, or a stream of server-sent events */
	PHASE_LINGER, /* all is said: the peer may read it, and what it sends is dropped */
};

/** Why nobody is let in. */
enum denial {
	DENIED_NOTHING,
	DENIED_NO_TOKEN,
	DENIED_WRONG,
	DENIED_EXPIRED,
	DENIED_REVOKED,
	DENIED_TOO_MANY, /* wrong ones, from this address */
};

/** Why a connection ends when its deadline has come. */
enum conn_deadline {
	DEADLINE_NONE,
	DEADLINE_IDLE, /* between two requests */
	DEADLINE_HEAD,
	DEADLINE_ANSWER, /* the peer does not read it */
	DEADLINE_POLL, /* it is told that there is nothing new */
	DEADLINE_TOKEN, /* of a WebSocket that has not said whose it is */
	DEADLINE_END, /* lingering, or closing */
};

/** What a connection has while it speaks HTTP: the request that is served, and its answer. */
struct http_exchange {
	struct http_head *head; /* NULL: none */
	enum http_method method;
	char *path; /* decoded; NULL: none */
	size_t in_scanned; /* of conn.in, in search of the end of a head */
	struct http_framing framing;
	uint64_t body_taken; /* bytes of it, as they are on the wire */
	struct chunked chunked;
	bool is_routed; /* before its body has come, which nobody looks at, or which is a stream */
	bool expects_continue; /* and has not been told to */
	bool must_close;
	bool is_foreign; /* it is of a page elsewhere, which may ask (--allow-origin) */
	bool is_answered;
	struct event_stream *stream; /* NULL: none */
	struct http_forward *forward; /* it is passed on to another node; NULL: it is not */
	bool is_sought; /* it is known where the session of its address is */
	bool is_elsewhere; /* another node has it */
	bool is_nowhere; /* there is none: the store says so, or it has been deleted here */
	struct buffer response; /* that goes out at the end of the tick */
	struct log_read *read;
	struct file_job *file;
	struct http_upload *upload; /* NULL: none */
	struct blob_opening *opening; /* NULL: none */
	struct login_answer *login; /* that waits for the disk */
	struct metrics_job *metrics; /* what the system knows is being asked for */
	struct search *search; /* NULL: none */
	struct directories_wait *directories; /* that are looked at */
	struct completion *completion; /* NULL: none */
	struct ds_read *ds; /* NULL: none */
	struct http_raw *raw; /* of a raw stream; NULL: none */
	struct load_request load;
	struct load_plan plan;
	enum event_format format;
	struct turn turn; /* for a page, which is work */
	void (*in_turn)(struct conn *conn);
	struct event **page; /* what was read for it; NULL: nothing yet */
	size_t page_count;
	struct conn *conn; /* whose it is */
};

/** What it has once it is a WebSocket, or a stream, of which nothing comes in. */
struct ws_socket {
	char client_id[68];
	struct login_cookies *cookies; /* of the upgrade; NULL: none */
	struct observer_config config;
	struct observer *observer;
	char *target; /* of the upgrade, as sent; NULL: other nodes are not asked */
	const char *refused; /* the query made no sense: told when the socket is open */
	bool is_nowhere; /* the store says that there is no such session */
	bool deflates; /* both sides may compress messages */
	struct ws_reader reader;
	struct utf8_state utf8;
	struct buffer control; /* payload of a control frame that is coming in */
	struct buffer pong; /* the newest ping that could not be answered yet, as an answer */
	struct list outbox; /* struct queued_frame, of feeds */
	size_t outbox_count;
	size_t outbox_size; /* bytes of what is in it */
	struct buffer gathered; /* of producers: frames as they are on the wire */
	bool is_held; /* too much is gathered: nothing is read until the peer takes it */
	bool feed_behind; /* a feed frame was left out: the whole list comes next */
	bool feed_lists; /* of a feed: more of the list comes, behind the session `session_id` */
	struct turn turn; /* of a feed: for a page of the list, which is work */
	struct conn *conn; /* whose it is */
	bool pinged; /* and not heard since */
	bool close_sent;
	bool is_deaf; /* what comes cannot be read as frames any more */
	unsigned close_code; /* 0: a close frame without a code */
	char *close_reason;
	struct content_check *check; /* of a prompt's images and files; NULL: none */
};

struct conn {
	struct list link; /* server.conns */
	struct list kind_link; /* server.feeds or .producers; self otherwise */
	struct list tick_link; /* server.in_tick; self otherwise */
	struct server *server;
	struct sock sock;
	struct listen_kind kind;
	struct address peer; /* of the connection */
	struct address client; /* who has sent the request: what one person has (client.c) */
	bool is_https; /* as the client sees it */
	enum conn_phase phase;
	struct http_exchange *http; /* NULL: it is a WebSocket */
	struct ws_socket *ws; /* NULL: it is not */
	struct sse_stream *sse; /* it is a stream instead; NULL: it is not */
	struct ds_stream *ds; /* of a reader of Durable Streams; NULL: it is none */
	struct raw_reader *raw; /* of a reader of a raw stream; NULL: it is none */
	struct ws_forward *forward; /* it is passed on to another node; NULL: it is not */
	struct ws_tap *tap; /* another node follows its session (ws_tap.c); NULL: it does not */
	struct conn *
		carrier; /* of a viewer at another node: that node's (ws_viewer.c); NULL: it is none */
	uint64_t number; /* of such a viewer, or of one here of another node's session */
	struct mirror
		*mirror; /* of that session (node_mirror.c); NULL: it watches none, or no more */
	struct ai_door *ai; /* of a chat of the AI SDK; NULL: it is none */
	struct editor_door *editor; /* NULL: it is no editor */
	const struct conn_ops *ops; /* of the WebSocket's kind; NULL: HTTP */
	struct session *session; /* NULL: none, or it is gone */
	char session_id[129];
	struct grant *grant; /* what whoever is at the other end may do; NULL: not known yet */
	enum denial denial; /* that is about to be told */
	int64_t denied_ms; /* since when, on the loop's clock */
	struct list denied_link; /* server.denied; self otherwise */
	struct list half_open_link; /* server.half_open; self otherwise */
	/* What it may still ask for (rate.c), as of this time on the loop's clock. */
	int64_t credit_us;
	int64_t credit_ms;
	bool is_slowed; /* it has used that up: nothing is read */
	struct list slow_link; /* server.slowed; self otherwise */
	struct household *household; /* whose it is one of; NULL: a proxy's, of nobody yet */

	enum conn_deadline deadline;
	int64_t deadline_ms; /* on the loop's clock */
	int64_t received_ms; /* when the peer was last heard, the same */
	int64_t message_ms; /* when the unfinished message or body began, the same */
	uint64_t taken; /* sock_taken() when it was looked at last */

	struct buffer in; /* what came and is not used yet */
	struct buffer rx; /* of a message or a body that is coming in */
	size_t rx_counted; /* of server.received */
	size_t sending_counted; /* of server.sending */
	struct list behind_link; /* server.behind; self otherwise */
	uint64_t behind_taken; /* sock_taken() when it came there, or was looked at last */
	struct list waits; /* struct conn_wait: answers that wait for the disk */
	/* A request that needs the session's names waits for them, and nothing is read meanwhile. */
	struct names_wait names_wait;
	struct place_wait place_wait; /* the same, until it is known which node has the session */
	struct buffer parked; /* the message, of a WebSocket */
	bool is_parked;
	bool was_parked; /* it has waited, and does not wait again */

	/* Of producers, whose session may be made with its first events (?create=1&title=). */
	bool may_create;
	char *title; /* NULL: none */
	char *trace; /* the traceparent of its newest request; NULL: it has none */
	bool is_dead; /* it is closed at the end of the tick */
	bool fin_sent; /* nothing can be sent any more */
	bool is_closing; /* of a WebSocket: nothing but its close frame goes out any more */
};

struct server {
	uv_loop_t *loop;
	const struct limits *limits;
	const struct clock *clock;
	struct session_table *sessions;
	struct agent_host *agents;
	struct metrics *metrics; /* NULL: nobody counts */
	struct access *access; /* NULL: everybody may do everything */
	struct push *push; /* NULL: none */
	struct raw_store *raw; /* NULL: there are no raw streams */
	struct grant *everyone; /* what everybody then has, and who comes by a unix socket */
	struct list denied; /* connections that are about to be told that their token is wrong */
	uv_timer_t *deny_timer;
	struct hash *wrong; /* tokens, by the address that they came from */
	const struct server_trust *trust;
	struct transport *transport;
	struct deflater *deflater; /* NULL: nothing is compressed */
	struct shared_frames shared; /* of this tick */
	const char *tls_cert; /* NULL: none */
	const char *tls_key;
	struct keys_job *keys_job; /* that reads them again; NULL: none */
	bool reloads_again;
	struct listeners *listeners;
	bool is_draining;
	bool is_paused;
	struct list conns;
	struct list feeds;
	struct list producers; /* that are held while the disk is behind */
	struct list in_tick; /* connections that have something to do at the end of the tick */
	struct list announced; /* struct announcement: sessions that the feed is to be told of */
	struct hash *changed; /* ids of sessions that the feed is to be told of (the value is the
				 key's copy) */
	uv_timer_t *feed_timer;
	bool feed_armed;
	uv_timer_t *sweep; /* looks for deadlines */
	uv_async_t *again; /* the tick has more to do than it may */
	size_t conn_count;
	size_t conn_max;
	struct hash *households; /* struct household of room.c, by address */
	struct list half_open; /* connections; the oldest first */
	size_t half_open_count;
	struct list slowed; /* connections */
	uv_timer_t *slow_timer;
	struct list links; /* struct node_link: connections to other nodes */
	struct list links_over; /* those of them that are over */
	struct list mirrors; /* struct mirror: sessions of other nodes that are watched here */
	struct list mirrors_due; /* those that have something to do at the end of the tick */
	size_t link_count;
	struct diag_limit node_warned;
	struct turns *turns; /* NULL: nobody waits */
	struct list searches; /* that a page is read or looked through for */
	struct list searches_waiting; /* until one of those is done */
	size_t received; /* bytes of bodies and messages that are unfinished, over all */
	size_t sending; /* bytes that connections are sent and have not taken, over all */
	struct list behind; /* these connections: first what has taken nothing for longest */
	char *web_dir; /* NULL: none */
	char *highlight_dir; /* NULL: none */
};

/** An answer that may be given once the input is durable. */
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
	struct snapshot_counts *counts; /* of a snapshot; NULL: it is none */
	struct refusal *refusal; /* see refuse_later.c; NULL: it is none */
	bool is_append; /* whose duration is measured */
	uint64_t begun_ns;
};

/**
 * Makes a wait on the session's newest input; `answer` is called once, unless the connection goes
 * first.
 */
struct conn_wait *conn_wait_create(struct conn *conn, struct session *session,
	void (*answer)(struct conn_wait *wait, int status));

/** The same on an append to conn->session: how long it takes is measured. */
struct conn_wait *conn_wait_append(
	struct conn *conn, void (*answer)(struct conn_wait *wait, int status));

/* conn.c */
/** A connection of its own for `fd`, which is taken; it lives until its socket is closed. */
void conn_create(struct server *server, int fd, const struct listen_kind *kind);
/** The connection is about this session until it is gone, or the connection is done with it. */
void conn_hold_session(struct conn *conn, struct session *session);
void conn_drop_session(struct conn *conn);
/**
 * Whether a request about the session has to wait for its names, which are not in memory: it is
 * taken again, as it is now, when they are there. `text` is that of a WebSocket's message.
 */
bool conn_waits_for_names(struct conn *conn, struct session *session, const char *text, size_t len);
/**
 * The connection waits with this message (of a WebSocket; none: with its request), and nothing of
 * it is read. conn_unpark() takes it again.
 */
void conn_park(struct conn *conn, const char *text, size_t len);
void conn_unpark(struct conn *conn);
/** conn_end_tick() is called when the tick ends. */
void conn_at_end_of_tick(struct conn *conn);
void conn_end_tick(struct conn *conn);
/** Sends bytes as they are; the connection dies if that fails. */
void conn_put(struct conn *conn, const void *bytes, size_t len);
/** The same at the end of the tick, together with others': see sock_write_later(). */
void conn_put_later(
	struct conn *conn, const void *bytes, size_t len, void (*done)(void *arg), void *arg);
/** Closes the socket at the end of the tick: nothing more is said. */
void conn_kill(struct conn *conn);
/** Ends our side of the connection, behind what was sent; again when the socket is writable. */
void conn_send_fin(struct conn *conn);
/** It was slowed, and is not any more: goes on with what has come. */
void conn_resume(struct conn *conn);
/** Reads from the peer, or not: see server.is_paused and conn.is_held. */
void conn_update_flow(struct conn *conn);
/** The connection ends in `ms`, unless a later call changes that. DEADLINE_NONE: it does not. */
void conn_set_deadline(struct conn *conn, enum conn_deadline deadline, int64_t ms);
/**
 * Adds to conn.rx, the unfinished body, message or line. False if there is no room for it, because
 * other connections have used up what all may have.
 */
bool conn_keep(struct conn *conn, const char *bytes, size_t len);
/** Gives back the memory of conn.rx. */
void conn_keep_nothing(struct conn *conn);
/** Whether the message or body that is coming in is slower than it may be. */
bool conn_is_too_slow(const struct conn *conn, uint64_t taken);
/** Looks after deadlines, pings and slow messages; once a second. */
void conn_sweep(struct conn *conn);
/** A keepalive's answer, with what belongs to the session (NULL: none). */
struct frame *conn_keepalive_ack(const struct conn *conn, const struct request *request);
/** To an observer in its turn, else conn_send(). */
void conn_send_frame(struct conn *conn, struct frame *frame);
void conn_send_refusal(struct conn *conn, const struct refusal *refusal);
void conn_send_error(struct conn *conn, const char *code, const char *message);

/* room.c */
/** Whether one more connection is served, which has just been accepted; counts it if not. */
bool room_for_connection(struct server *server, int fd, const struct listen_kind *kind);
/** A new connection, which is half open; and its end. */
void room_take(struct conn *conn);
void room_give_back(struct conn *conn);
/** Counts it among those of conn.client, behind a proxy; false: there are too many. */
bool room_for_client(struct conn *conn);
/** It has to say what it wants, or whose it is; and it has. */
void room_note_half_open(struct conn *conn);
void room_note_known(struct conn *conn);
/** Whether one more connection may watch or feed the session. */
bool room_in_session(const struct server *server, const struct session *session);
/** The same for a WebSocket: if not, it is told and closed. */
bool ws_room_in_session(struct conn *conn, const struct session *session);

/* sending.c */
/** What the connection is sent and does not take may be more or less than before. */
void sending_count(struct conn *conn);
/** The connection goes. */
void sending_forget(struct conn *conn);

/* rate.c */
void rate_init(struct conn *conn);
/** Bytes have come. */
void rate_take_bytes(struct conn *conn, size_t len);
/**
 * A frame or request has come, or (`is_append`) one that a producer appends with. False: it is the
 * last one for now.
 */
bool rate_take_message(struct conn *conn, bool is_append);
void rate_handle_timer(uv_timer_t *timer);

/* ws_handshake.c */
/** Once, before the first client: OpenSSL takes a millisecond for the first digest of a process. */
void ws_prepare(void);
/** Whether a request asks to become a WebSocket. */
bool ws_is_asked_for(const struct http_head *head);
/** Whether there is a WebSocket at a path. */
bool ws_is_path(const char *path);
/** Makes the connection one, or refuses. */
void ws_upgrade(struct conn *conn);
/** False if the socket's query made no sense: the peer is told and closed. */
bool conn_check_query(struct conn *conn);
/**
 * The session of the socket's address; NULL if there is none, or the query made no sense: the peer
 * is told and closed.
 */
struct session *conn_find_session(struct conn *conn);

/** A random one, until the client says its own. */
void ws_make_client_id(struct conn *conn);
/** The socket is open, and whose it is is known. */
void ws_begin(struct conn *conn);
/** There is no such session, or it is nobody's affair here; closes. */
void ws_say_not_found(struct conn *conn);

/* ws_socket.c */
/** Returns how many bytes it has used: not all when a message has to wait. */
size_t ws_receive(struct conn *conn, char *bytes, size_t len);
/** Whether a frame or message is under way. */
bool ws_is_unfinished(const struct conn *conn);
bool conn_is_writable(struct conn *conn);
/** Writes a frame at the end of the tick, or before anything else that is written. */
void conn_write(struct conn *conn, struct frame *frame);
/** Writes it or queues it, up to limits->outbox_frames; takes the reference. */
void conn_send(struct conn *conn, struct frame *frame);
/** Sends what is queued. */
void conn_flush(struct conn *conn);
/** The connection is gone: gives back conn.ws. */
void ws_finish(struct conn *conn);
/** `code` 0: a close frame without a code. */
void conn_close(struct conn *conn, unsigned code, const char *reason);
/** The socket takes more. */
void ws_writable(struct conn *conn);
/** Asks a peer that has been silent for long whether it is there. */
void ws_ping(struct conn *conn);

/* the three kinds of WebSocket */
extern const struct conn_ops observer_conn_ops;
extern const struct conn_ops producer_conn_ops;
extern const struct conn_ops feed_conn_ops;
/* and that of the AI SDK (ai.c, ai_response.c) */
extern const struct conn_ops ai_conn_ops;
/** Bytes that are kept for what its socket does not take. */
size_t ai_kept(const struct conn *conn);
void ai_tell(struct conn *conn, struct frame *frame);
/** The connection is gone. */
void ai_destroy(struct conn *conn);
/* and that of editors (editor.c, editor_session.c) */
extern const struct conn_ops editor_conn_ops;
/** The same as ai_kept(). */
size_t editor_kept(const struct conn *conn);
/** Looks whether the other nodes are there; once a second. */
void editor_sweep(struct conn *conn);
/** The session is about to be freed. */
void editor_forget(struct conn *conn, const struct session *session);

/* client.c */
/** Finds out who has sent a request: sets conn.client and conn.is_https. */
void client_find(struct conn *conn, const struct http_head *head);
/** Whether a peer is a proxy that is believed. */
bool client_is_proxy(
	const struct server *server, const struct listen_kind *kind, const struct address *peer);

/* auth.c */
/**
 * Sets conn.http.is_foreign. NULL if the request may pass, else the code to refuse it with (forbidden_host, forbidden_origin);
 * *ret_why says why.
 */
const char *auth_check(
	struct conn *conn, const struct http_head *head, bool is_api, const char **ret_why);
/** Whether a request was passed on, by a browser or a proxy: its sender is not who has connected. */
bool auth_is_passed_on(const struct http_head *head);

/* identity.c */
/** Why a token that is not good opens nothing. */
enum denial denial_of(enum token_verdict verdict);
/** Sets conn.grant from what comes with a request. */
enum denial identify(struct conn *conn, const struct http_head *head);
/**
 * Refuses the request, or closes the socket; for a wrong token a little later. Counts wrong tokens.
 */
void deny(struct conn *conn, enum denial denial);
/** Tells a WebSocket at once, and closes it. */
void ws_deny(struct conn *conn, enum denial denial);
void identity_handle_timer(uv_timer_t *timer);
/** The server goes: forgets the addresses of wrong tokens. */
void identity_finish(struct server *server);
/** The first message of a WebSocket that has not said whose it is. */
void ws_take_first(struct conn *conn, const char *text, size_t len);
/** REQUEST_TOKEN. */
void ws_take_token(struct conn *conn, const struct request *request);
/** Ms since 1970, or null. */
void append_expiry(struct buffer *out, const struct grant *grant);
/** Of a WebSocket. */
struct author conn_author(const struct conn *conn);
bool conn_may(const struct conn *conn, enum right right);
bool conn_sees(const struct conn *conn, const char *id);
/** What its token does not show: see hide.h. */
unsigned conn_hides(const struct conn *conn);
/** conn_sees(), for a list. */
struct session_filter conn_filter(const struct conn *conn);
/** Whether it sees permission requests, and may answer one if its role may. */
bool conn_sees_questions(const struct conn *conn);
/** The session of its address; a feed sees what it is told. */
bool conn_sees_session(const struct conn *conn);
/** refuse() with forbidden. */
int refuse_role(const struct conn *conn, struct refusal *refusal);
/** Ends it if its token counts no more. */
void conn_check_grant(struct conn *conn);

/* append.c */
#define TOO_MANY_SESSIONS \
	"there is no room for another session: they are too many, in all or of yours, or too large"
/**
 * Makes the session conn->session_id, which is not there, and makes it conn->session. It is durable
 * together with what is appended in the same tick.
 */
int conn_make_session(struct conn *conn, struct refusal *refusal);
/** intake_append() to conn->session, which is found or, if it may be, made first. */
int conn_append(struct conn *conn, const struct json_span *events, size_t count,
	struct append_ack *acks, size_t *ret_bad, struct refusal *refusal);
/** The same with intake_snapshot(). */
int conn_append_snapshot(struct conn *conn, const json_t *data, struct snapshot_result *ret,
	size_t *ret_bad, struct refusal *refusal);
/** What the answer to a snapshot tells. */
void conn_wait_take_snapshot(struct conn_wait *wait, const struct snapshot_result *result);

/* refuse_later.c */
/**
 * Refuses a request of a socket when what the refusal rests on is on disk; if that fails, with
 * storage_failed. What it is about is told in any case.
 */
void conn_refuse_later(struct conn *conn, const struct refusal *refusal);
/** With storage_failed, now; `status` is that of a durable_wait, `id` may be NULL. */
void conn_refuse_storage(
	struct conn *conn, const char *request, enum error_about about, const char *id, int status);

/* ws_observer.c */
#define SESSION_UNREADABLE \
	"the session cannot be read from the server's disk; it is tried again, come back later"
/** If so, says that and closes: it is there, and who asks may have it when they come back. */
bool ws_refuse_unreadable(struct conn *conn);
/** An observer's socket: who is here, if it asked for that and it is news. */
void ws_tell_presence(struct conn *conn);

/* ws_content.c */
/**
 * Whether the message, a prompt, has to wait until its images and files have been looked at: it is
 * taken again then.
 */
bool ws_waits_for_content(
	struct conn *conn, const struct request *request, const char *text, size_t len);
/** After that: what was found is part of the prompt, or it is refused. */
int ws_take_content(struct conn *conn, struct request *request, struct refusal *refusal);
/** Nobody waits for it any more. Nothing if there is none. */
void ws_content_drop(struct conn *conn);

/* ws_prompts.c */
/** Takes a prompt, whose images and files were looked at. */
int conn_take_prompt(struct conn *conn, const struct request *request, uint64_t *ret_seq,
	bool *ret_duplicate, struct refusal *refusal);
/** Requests of an observer that are about prompts. */
void ws_handle_prompts(struct conn *conn, const struct request *request, struct refusal *refusal);

/* ws_feed.c */
void feed_flush(struct server *server);
/** Tells the feeds that saw the session `id` that it is gone. */
void feed_tell_deleted(struct server *server, const char *id);
/** What the feed's token is for has changed: it gets the list again. */
void feed_list_again(struct conn *conn);
/** Tells of a new session, once that is durable. */
void feed_announce(struct server *server, struct session *session);
/** Forgets what is not announced yet. */
void feed_forget(struct server *server);

#endif
