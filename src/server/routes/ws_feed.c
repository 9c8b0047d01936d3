/* The feed: the list of sessions, and their changes. A WebSocket, or server-sent events. */
#include "server/http_internal.h"
#include "routes.h"

#include "holdfast/session_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Least time between two reports of a session's changes (ms). */
#define FEED_INTERVAL_MS 250

/** State of a feed: conn.state. */
struct feed {
	struct conn *conn;
	bool is_behind; /* a frame was dropped: the whole list is sent next */
	bool lists; /* the list continues after the session conn.session_id */
	struct turn turn; /* for a page of the list, which takes loop time */
};

/** Sends the next page of the list; the others follow as the socket takes them. */
static void send_page(struct feed *feed)
{
	struct conn *conn = feed->conn;
	const struct limits *limits = conn->server->limits;
	struct session_cursor cursor = {0};
	struct session_filter filter = conn_filter(conn);
	struct session_page page;
	struct buffer data = {0};
	size_t i;
	snprintf(cursor.id, sizeof(cursor.id), "%s", conn->session_id);
	session_list_page(
		conn->server->sessions, SESSIONS_BY_ID, &cursor, &filter, limits->list_max, &page);
	buffer_append_str(&data, "{\"sessions\":[");
	for (i = 0; i < page.count && data.len < limits->page_size; i++) {
		snprintf(conn->session_id, sizeof(conn->session_id), "%s", page.objects[i].id);
		buffer_append_str(&data, i ? "," : "");
		frames_append_session(&data, &page.objects[i], conn_hides(conn));
	}
	feed->lists = i < page.count || page.has_more;
	buffer_append_str(&data, feed->lists ? "],\"more\":true" : "],\"more\":false");
	if (conn->grant->expires_ms) {
		buffer_append_str(&data, ",\"expires_at\":");
		append_expiry(&data, conn->grant);
	}
	buffer_append_char(&data, '}');
	conn_send(conn, frame_make("sessions", data.data, data.len));
	buffer_finish(&data);
	session_page_finish(&page);
	if (feed->lists) {
		sock_want_writable(&conn->sock);
	}
}

static void send_list(struct feed *feed)
{
	feed->conn->session_id[0] = '\0';
	feed->is_behind = false;
	send_page(feed);
}

/**
 * Sends a frame to a feed, or drops it if the feed is not writable: then the feed gets the whole
 * list once it is, after the one that it is being sent.
 */
static void offer(struct conn *conn, struct frame *frame)
{
	struct feed *feed = conn->state;
	if (!feed->is_behind && conn_is_writable(conn) && !conn->ws->outbox_count) {
		conn_write(conn, frame);
	} else if (!conn->is_closing) {
		feed->is_behind = true;
		sock_want_writable(&conn->sock);
	}
}

/**
 * Sends a frame to the feeds that see the session `id`; `without_tools` goes to those whose token
 * hides tools.
 */
static void broadcast(
	struct server *server, const char *id, struct frame *frame, struct frame *without_tools)
{
	list_for_each_safe(link, tmp, &server->feeds) {
		struct conn *conn = list_entry(link, struct conn, kind_link);
		if (conn_sees(conn, id)) {
			offer(conn, conn_hides(conn) & HIDE_TOOLS ? without_tools : frame);
		}
	}
}

void feed_tell_deleted(struct server *server, const char *id)
{
	struct buffer data = {0};
	buffer_append_str(&data, "{\"session_id\":");
	buffer_append_json(&data, id, strlen(id));
	buffer_append_char(&data, '}');
	struct frame *frame = frame_make("session_deleted", data.data, data.len);
	broadcast(server, id, frame, frame);
	frame_unref(frame);
	buffer_finish(&data);
}

/** What the token shows may have changed: sends the whole list again. */
static void feed_renewed(struct conn *conn)
{
	struct feed *feed = conn->state;
	ws_confirm_token(conn);
	feed->lists = false;
	feed->is_behind = true;
	sock_want_writable(&conn->sock);
}

/* --- changes --- */

struct announcement {
	struct durable_wait wait; /* first */
	struct list link;
	struct server *server;
	char *id;
};

static void free_announcement(struct announcement *announcement)
{
	durable_wait_cancel(&announcement->wait);
	list_remove(&announcement->link);
	free(announcement->id);
	free(announcement);
}

static struct frame *make_frame(
	const char *type, const struct session_object *object, unsigned hide)
{
	struct buffer data = {0};
	buffer_append_str(&data, "{\"session\":");
	frames_append_session(&data, object, hide);
	buffer_append_char(&data, '}');
	struct frame *frame = frame_make(type, data.data, data.len);
	buffer_finish(&data);
	return frame;
}

static void tell_object(
	struct server *server, const char *type, const struct session_object *object)
{
	struct frame *frame = make_frame(type, object, HIDE_NOTHING);
	bool waits = strcmp(object->status, "waiting") == 0;
	struct frame *without_tools =
		waits ? make_frame(type, object, HIDE_TOOLS) : frame_ref(frame);
	broadcast(server, object->id, frame, without_tools);
	frame_unref(frame);
	frame_unref(without_tools);
}

static void tell(struct server *server, const char *type, const char *id)
{
	struct session_object object;
	if (session_table_get_object(server->sessions, id, strlen(id), &object)) {
		tell_object(server, type, &object);
	}
}

void server_session_elsewhere(
	struct server *server, const char *id, const struct session_object *object, bool is_new)
{
	if (list_empty(&server->feeds)) {
		return;
	}
	if (object) {
		tell_object(server, is_new ? "session_created" : "session_changed", object);
	} else {
		feed_tell_deleted(server, id);
	}
}

static void handle_created(struct durable_wait *wait, int status)
{
	struct announcement *announcement = (struct announcement *)wait;
	if (status == 0) {
		tell(announcement->server, "session_created", announcement->id);
	}
	free_announcement(announcement);
}

void feed_announce(struct server *server, struct session *session)
{
	struct announcement *announcement = xcalloc(1, sizeof(*announcement));
	announcement->server = server;
	announcement->id = xstrdup(session_id(session));
	announcement->wait.done = handle_created;
	list_append(&server->announced, &announcement->link);
	session_wait_durable(session, &announcement->wait);
}

void feed_forget(struct server *server)
{
	list_for_each_safe(link, tmp, &server->announced) {
		free_announcement(list_entry(link, struct announcement, link));
	}
}

static void tell_changed(void *value, void *arg)
{
	tell(arg, "session_changed", value);
}

void feed_flush(struct server *server)
{
	hash_each(server->changed, tell_changed, server);
	hash_destroy_all(server->changed);
	server->changed = hash_create();
}

static void handle_timer(uv_timer_t *timer)
{
	struct server *server = timer->data;
	server->feed_armed = false;
	feed_flush(server);
}

void server_session_changed(struct server *server, struct session *session)
{
	const char *id = session_id(session);
	if (list_empty(&server->feeds) || hash_get(server->changed, id, strlen(id))) {
		return;
	}
	hash_put(server->changed, id, strlen(id), xstrdup(id));
	if (!server->feed_armed) {
		server->feed_armed = true;
		uv_timer_start(server->feed_timer, handle_timer, FEED_INTERVAL_MS, 0);
	}
}

/** Sends the next page of the list, or starts over if the feed has fallen behind. */
static void go_on(struct feed *feed)
{
	struct conn *conn = feed->conn;
	if (conn->is_closing || (!feed->lists && !feed->is_behind)) {
		return;
	}
	if (!conn_is_writable(conn) || conn->ws->outbox_count) {
		sock_want_writable(&conn->sock);
	} else if (feed->lists) {
		send_page(feed);
	} else {
		send_list(feed);
	}
}

static void handle_turn(struct turn *turn)
{
	go_on(list_entry(turn, struct feed, turn));
}

static void take_turn(struct feed *feed)
{
	struct server *server = feed->conn->server;
	if (!server->turns) {
		go_on(feed);
	} else if (!turns_take(server->turns, &feed->turn)) {
		metrics_limit(server->metrics, LIMIT_pages_ms);
	}
}

static void feed_open(struct conn *conn)
{
	if (!conn_check_query(conn)) {
		return;
	}
	list_append(&conn->server->feeds, &conn->kind_link);
	struct feed *feed = xcalloc(1, sizeof(*feed));
	feed->conn = conn;
	feed->is_behind = true;
	turn_init(&feed->turn, handle_turn);
	conn->state = feed;
	take_turn(feed);
}

static void feed_message(struct conn *conn, const char *text, size_t len)
{
	struct refusal refusal;
	struct request request;
	if (request_parse(text, len, conn->server->limits, SIDE_FEED,
		    session_table_numbers(conn->server->sessions), &request, &refusal) == 0) {
		if (request.type == REQUEST_TOKEN) {
			ws_take_token(conn, &request);
		} else {
			conn_send(conn, conn_keepalive_ack(conn, &request));
		}
		request_finish(&request);
	}
	if (refusal.code) {
		conn_send_refusal(conn, &refusal);
	}
}

static void feed_writable(struct conn *conn)
{
	struct feed *feed = conn->state;
	conn_flush(conn);
	if (feed && (feed->lists || feed->is_behind)) {
		take_turn(feed);
	}
}

static void feed_closed(struct conn *conn)
{
	struct feed *feed = conn->state;
	if (feed) {
		turn_cancel(&feed->turn);
		free(feed);
		conn->state = NULL;
	}
}

const struct conn_ops feed_conn_ops = {
	.open = feed_open,
	.message = feed_message,
	.writable = feed_writable,
	.closed = feed_closed,
	.renewed = feed_renewed,
	.is_about_all = true,
};

/* --- HTTP --- */

static void open_stream(struct conn *conn)
{
	const char *bad = query_check(conn, (const char *const[]){NULL});
	if (bad) {
		http_refuse(conn, ERROR_bad_request, bad);
	} else if (!http_refuses_body_of_stream(conn)) {
		http_begin_sse(conn, &feed_conn_ops, "", true);
		ws_begin(conn);
	}
}

static void serve(struct conn *conn)
{
	if (http_wants_sse(conn)) {
		open_stream(conn);
	} else {
		http_refuse_method(conn, "GET");
	}
}

const struct route feed_routes[] = {
	{"/api/events", "GET", .flags = ROUTE_EVENT_SOURCE, .serve = serve,
		.socket = &feed_conn_ops},
	{0},
};
