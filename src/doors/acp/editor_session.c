/*
 * A session that an editor has open: an observer whose encoder makes ACP messages (editor_view.h).
 */
#include "editor_internal.h"
#include "holdfast/websocket.h"

#include <stdlib.h>
#include <string.h>

struct editor_session {
	struct list link; /* editor_door.sessions */
	struct conn *conn;
	char id[129];
	struct session *session; /* NULL: the session is gone */
	struct observer *observer;
	struct editor_view *view;
	uint64_t load_from; /* the first event of the running load */
	bool is_over; /* it is freed at the end of the tick */
};

struct session *editor_session_of(const struct editor_session *at)
{
	return at->session;
}

struct editor_view *editor_view_of(const struct editor_session *at)
{
	return at->view;
}

const char *editor_session_id(const struct editor_session *at)
{
	return at->id;
}

struct conn *editor_conn(const struct editor_session *at)
{
	return at->conn;
}

struct editor_session *editor_session_at(struct list *link)
{
	return list_entry(link, struct editor_session, link);
}

struct editor_session *editor_find(struct conn *conn, const char *session_id)
{
	list_for_each(link, &editor_of(conn)->sessions) {
		struct editor_session *at = list_entry(link, struct editor_session, link);
		if (!at->is_over && at->session && strcmp(at->id, session_id) == 0) {
			return at;
		}
	}
	return NULL;
}

static void destroy(struct editor_session *at)
{
	struct conn *conn = at->conn;
	if (at->observer) {
		metrics_add(conn_metrics(conn), METRIC_OBSERVERS_ACP, (uint64_t)-1);
	}
	observer_destroy(at->observer);
	editor_view_destroy(at->view);
	if (at->session) {
		session_drop(at->session);
	}
	list_remove(&at->link);
	editor_of(conn)->count--;
	free(at);
}

static void end(struct editor_session *at)
{
	at->is_over = true;
	conn_at_end_of_tick(at->conn);
}

void editor_close(struct editor_session *at)
{
	struct buffer out = {0};
	editor_view_fail(at->view, ERROR_cancelled, "the session was closed", &out);
	editor_send(at->conn, &out);
	end(at);
}

void editor_close_all(struct conn *conn)
{
	list_for_each_safe(link, tmp, &editor_of(conn)->sessions) {
		destroy(list_entry(link, struct editor_session, link));
	}
}

void editor_end_tick(struct conn *conn)
{
	if (!editor_of(conn)) {
		return;
	}
	list_for_each_safe(link, tmp, &editor_of(conn)->sessions) {
		struct editor_session *at = list_entry(link, struct editor_session, link);
		if (at->is_over) {
			destroy(at);
		}
	}
}

/** Ends the editor's view of it. */
void editor_session_lost(struct conn *conn, const struct session *session, bool is_deleted)
{
	if (!editor_of(conn)) {
		return;
	}
	list_for_each(link, &editor_of(conn)->sessions) {
		struct editor_session *at = list_entry(link, struct editor_session, link);
		if (at->session == session) {
			at->session = NULL;
			end(at);
		}
	}
}

void editor_pump(struct conn *conn)
{
	list_for_each_safe(link, tmp, &editor_of(conn)->sessions) {
		struct editor_session *at = list_entry(link, struct editor_session, link);
		if (!at->is_over && at->observer) {
			observer_pump(at->observer);
		}
	}
}

size_t editor_kept(const struct conn *conn)
{
	const struct editor_door *door = editor_of(conn);
	if (!door) {
		return 0;
	}
	size_t size = editor_lines_kept(door);
	list_for_each(link, &door->sessions) {
		struct editor_session *at = list_entry(link, struct editor_session, link);
		size += at->observer ? observer_kept(at->observer) : 0;
	}
	return size;
}

/* --- the encoder: its reader is an editor's view --- */

static struct frame *make_page(void *reader, const struct loaded_frame *in)
{
	struct buffer out = {0};
	editor_view_page(reader, in, &out);
	return editor_make_wire(&out);
}

static struct frame *make_events(void *reader, const struct live_events *in)
{
	struct buffer out = {0};
	editor_view_events(reader, in, &out);
	return editor_make_wire(&out);
}

static struct frame *make_delta(void *reader, const struct open_part *in)
{
	struct buffer out = {0};
	editor_view_delta(reader, in, &out);
	return editor_make_wire(&out);
}

static struct frame *make_error(void *reader, const struct error_notice *in)
{
	struct buffer out = {0};
	editor_view_error(reader, in, &out);
	return editor_make_wire(&out);
}

static struct frame *make_gone(void *reader, const char *session_id, const char *reason)
{
	struct buffer out = {0};
	editor_view_fail(reader, ERROR_not_found, "the session has been deleted", &out);
	return editor_make_wire(&out);
}

static bool get_place(void *reader, void *ret_place)
{
	struct editor_place place;
	if (!editor_view_place(reader, &place)) {
		return false;
	}
	memcpy(ret_place, &place, sizeof(place));
	return true;
}

/** NULL if this editor got messages of its own, such as the answer to a request. */
static void *keep(const void *reader)
{
	struct editor_place place;
	if (editor_view_was_own(reader) || !editor_view_place(reader, &place)) {
		return NULL;
	}
	struct editor_place *kept = xcalloc(1, sizeof(*kept));
	memcpy(kept, &place, sizeof(place));
	return kept;
}

static void follow(void *reader, const void *kept)
{
	editor_view_follow(reader, kept);
}

static const struct encoder_places places = {
	.size = sizeof(struct editor_place),
	.get = get_place,
	.keep = keep,
	.follow = follow,
	.free_kept = free,
};

static const struct encoder editor_encoder = {
	.places = &places,
	.page = make_page,
	.events = make_events,
	.delta = make_delta,
	.error = make_error,
	.gone = make_gone,
};

/* --- observer_socket_ops --- */

static bool is_writable(void *socket)
{
	struct editor_session *at = socket;
	return !at->is_over && conn_is_writable(at->conn);
}

static void write_frame(void *socket, struct frame *frame)
{
	struct editor_session *at = socket;
	if (!at->is_over) {
		editor_send_wire(at->conn, frame);
	}
}

static void handle_state(void *socket)
{
	struct editor_session *at = socket;
	if (!at->is_over && at->session) {
		editor_look_for_removed(at);
	}
}

static void want_writable(void *socket)
{
	struct editor_session *at = socket;
	if (!at->is_over && !conn_is_closing(at->conn)) {
		conn_want_writable(at->conn);
		sending_count(at->conn);
	}
}

/**
 * If the session has moved, or the editor does not read, closes the connection: the editor
 * reconnects and resumes.
 */
static void close_socket(void *socket, unsigned code, const char *reason)
{
	struct editor_session *at = socket;
	struct buffer out = {0};
	if (code == 1001 || code == WS_CLOSE_POLICY) {
		conn_close(at->conn, code, reason);
	} else if (!at->is_over) {
		editor_view_fail(at->view, ERROR_storage_failed, reason, &out);
		editor_send(at->conn, &out);
	}
	end(at);
}

static const struct observer_socket_ops socket_ops = {
	.is_writable = is_writable,
	.write = write_frame,
	.state_changed = handle_state,
	.want_writable = want_writable,
	.close = close_socket,
};

/* --- opening --- */

static void load(struct editor_session *at, uint64_t after)
{
	const struct channel *channel = session_channel(at->session);
	struct load_request request = {.from = LOAD_AFTER,
		.seq = after,
		.has_epoch = true,
		.epoch = session_log_epoch(channel->log),
		.limit = conn_limits(at->conn)->load_max,
		.follow = true,
		.gaps = true};
	at->load_from = after + 1;
	observer_load(at->observer, &request);
}

void editor_load_from(struct editor_session *at, uint64_t seq)
{
	uint64_t first = session_log_first_seq(session_channel(at->session)->log);
	uint64_t from = seq > first ? seq : first;
	if (!editor_view_is_live(at->view) && at->load_from <= from) {
		return; /* already being loaded */
	}
	editor_view_load_again(at->view);
	load(at, from - 1);
}

static struct observer *make_observer(struct editor_session *at)
{
	struct conn *conn = at->conn;
	struct observer_config config = ws_observer_config(conn);
	config.encoder = &editor_encoder;
	config.reader = at->view;
	config.format = FORMAT_MARKDOWN;
	config.deltas = DELTAS_TEXT;
	metrics_add(conn_metrics(conn), METRIC_OBSERVERS_ACP, 1);
	return observer_create(session_channel(at->session), &config, &socket_ops, at);
}

/**
 * Sets where the view begins: a load at the first event; a resume after the editor's position, or
 * at the end if it has none. If the position does not fit the log, everything is sent, as for a
 * load.
 */
static void place(const struct editor_request *request, const struct channel *channel,
	struct editor_view_config *config)
{
	uint64_t first = session_log_first_seq(channel->log);
	uint64_t epoch = session_log_epoch(channel->log);
	config->epoch = epoch;
	if (request->method == EDITOR_LOAD) {
		config->told_seq = first - 1;
		config->tells_own = true;
	} else if (request->method != EDITOR_RESUME || !request->has_position) {
		config->told_seq = channel->max_seq;
	} else {
		config->reset = request->epoch != epoch                 ? "epoch"
				: request->after_seq > channel->max_seq ? "ahead"
				: request->after_seq + 1 < first        ? "pruned"
									: NULL;
		config->told_seq = config->reset ? first - 1 : request->after_seq;
		config->open_told = config->reset ? 0 : request->open;
		config->tells_own = config->reset != NULL;
	}
}

/** The first event to load: the running turn is included, as it contains the open questions. */
static uint64_t load_start(const struct channel *channel, uint64_t told)
{
	uint64_t first = session_log_first_seq(channel->log);
	uint64_t start = told + 1;
	if (channel->status.is_prompting && channel->last_prompt_seq &&
		channel->last_prompt_seq < start) {
		start = channel->last_prompt_seq;
	}
	return start > first ? start : first;
}

int editor_open(struct conn *conn, const struct editor_request *request, struct session *session,
	struct refusal *refusal)
{
	struct editor_door *door = editor_of(conn);
	struct editor_session *had = editor_find(conn, session_id(session));
	if (had) {
		editor_close(had);
	} else if (door->count >= EDITOR_SESSIONS_MAX) {
		return refuse(refusal, ERROR_server_busy,
			"an editor can have at most %d sessions open", EDITOR_SESSIONS_MAX);
	}
	if (!room_in_session(conn_server(conn), session)) {
		return refuse_limit(refusal, LIMIT_session_connections,
			"too many connections are about this session; try again later");
	}
	struct channel *channel = session_channel(session);
	struct editor_session *at = xcalloc(1, sizeof(*at));
	struct editor_view_config config = {.session_id = session_id(session),
		.client_id = conn_client_id(conn),
		.load_id = request->id,
		.names_session = request->method == EDITOR_NEW,
		.asks = conn_sees_questions(conn) && conn_may(conn, RIGHT_CONTROL) &&
			!door->is_read_only,
		.takes_forms = door->takes_forms,
		.takes_urls = door->takes_urls};
	place(request, channel, &config);
	at->conn = conn;
	strcpy(at->id, config.session_id);
	session_hold(session);
	at->session = session;
	at->view = editor_view_create(&config);
	list_append(&door->sessions, &at->link);
	door->count++;
	at->observer = make_observer(at);
	load(at, load_start(channel, config.told_seq) - 1);
	return 0;
}
