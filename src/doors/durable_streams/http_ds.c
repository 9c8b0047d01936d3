/*
 * Serves sessions to clients of Durable Streams (docs/durable-streams.md), as read-only streams of
 * JSON. Every read is an observer of the session: a page is the first one it loads, a long poll
 * waits until that is not empty, and a stream of server-sent events sends all that follow. Polls
 * and streams of a session that another node owns observe its mirror (node_mirror.c).
 */
#include "holdfast/http_exchange.h"
#include "holdfast/placement.h"
#include "holdfast/door_streams.h"
#include "holdfast/websocket.h"

#include "ds.h"
#include "holdfast/sse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct ds_read {
	struct answer answer;
	enum { DS_PAGE, DS_POLL, DS_STREAM } mode;
	struct ds_offset offset;
	enum event_format format;
	uint64_t least_cursor;
	struct observer *observer; /* of a page or a poll; NULL until it loads */
	bool is_over; /* it has been answered */
};

/** The read that the connection's request is answered with. */
static struct ds_read *read_of(const struct conn *conn)
{
	return list_entry(http_answer(conn), struct ds_read, answer);
}

/** What a stream last told its client: conn.state. */
struct ds_stream {
	uint64_t least_cursor;
	bool is_up_to_date;
};

static struct ds_stream *stream_of(const struct conn *conn)
{
	return conn_state(conn);
}

/** The channel of the session or of its mirror; NULL if it is gone. */
static struct channel *channel_of(const struct conn *conn)
{
	return conn_session(conn) ? session_channel(conn_session(conn)) : placement_channel(conn);
}

static uint64_t epoch_of(const struct conn *conn)
{
	return session_log_epoch(channel_of(conn)->log);
}

static uint64_t cursor_now(const struct conn *conn, uint64_t least)
{
	return ds_cursor(clock_now_ms(conn_clock(conn)), least);
}

/* --- answers --- */

/*
 * Only the client itself may cache a page, and must revalidate it: what it shows depends on the
 * token.
 */
#define DS_HEADERS "cache-control: private, no-cache\r\n" FILE_OF_OTHERS

static void append_position(
	const struct conn *conn, struct buffer *out, uint64_t seq, bool is_up_to_date)
{
	char offset[DS_OFFSET_SIZE];
	ds_offset_write(offset, epoch_of(conn), seq);
	buffer_printf(out, "stream-next-offset: %s\r\n", offset);
	if (is_up_to_date) {
		buffer_append_str(out, "stream-up-to-date: true\r\n");
	}
}

static void respond_page(struct conn *conn, const char *json, size_t len, uint64_t first)
{
	struct ds_read *read = read_of(conn);
	struct buffer headers = {0};
	struct buffer packed = {0};
	char etag[120];
	uint64_t seq = observer_cursor(read->observer);
	bool is_up_to_date = seq == channel_of(conn)->max_seq;
	bool packs = len >= DEFLATE_MIN && http_takes_gzip(conn);
	snprintf(etag, sizeof(etag), "\"%016" PRIx64 ":%" PRIu64 ":%" PRIu64 ":%d:%u%s%s\"",
		epoch_of(conn), first, seq, (int)read->format, conn_hides(conn),
		is_up_to_date ? "" : ":more", packs ? ":gzip" : "");
	buffer_append_str(&headers, DS_HEADERS "content-type: application/json\r\n"
					       "vary: accept-encoding\r\n");
	append_position(conn, &headers, seq, is_up_to_date);
	buffer_printf(&headers, "etag: %s\r\n", etag);
	if (read->mode == DS_POLL) {
		buffer_printf(&headers, "stream-cursor: %" PRIu64 "\r\n",
			cursor_now(conn, read->least_cursor));
	}
	if (http_has_etag(conn, etag)) {
		http_respond_file(conn, 304, buffer_cstr(&headers), NULL, 0, 0);
	} else if (packs) {
		buffer_append_str(&headers, "content-encoding: gzip\r\n");
		http_gzip(conn, json, len, &packed);
		http_respond_file(
			conn, 200, buffer_cstr(&headers), packed.data, packed.len, packed.len);
	} else {
		http_respond_file(conn, 200, buffer_cstr(&headers), json, len, len);
	}
	buffer_finish(&packed);
	buffer_finish(&headers);
}

static void refuse_gone(struct conn *conn)
{
	http_refuse(conn, ERROR_gone,
		"the offset is no longer in this log: it was pruned, or the log was replaced; read again from offset=-1");
}

/* --- pages and long polls --- */

/* The close code within this file for a reader whose offset is no longer in the log. */
#define OFFSET_PRUNED 4410

/** The events as a JSON array; empty if there are none, so that a long poll goes on. */
static struct frame *make_array(
	struct event **events, size_t count, enum event_format format, unsigned hide)
{
	struct buffer json = {0};
	if (count) {
		ds_append_events(&json, events, count, format, hide);
	}
	struct frame *frame = frame_of_text(json.data ? json.data : "", json.len);
	buffer_finish(&json);
	return frame;
}

static struct frame *make_read_page(void *reader, const struct loaded_frame *in)
{
	return make_array(in->events, in->count, in->format, in->hide);
}

static struct frame *make_read_events(void *reader, const struct live_events *in)
{
	return make_array(in->events, in->count, in->format, in->hide);
}

/** The answer to one read is one frame: the first. */
static const struct encoder read_encoder = {
	.is_one_way = true,
	.lost_code = OFFSET_PRUNED,
	.lost_reason = "the position was pruned",
	.page = make_read_page,
	.events = make_read_events,
};

static bool read_is_writable(void *socket)
{
	const struct conn *conn = socket;
	return !read_of(conn)->is_over;
}

static void end_read(struct conn *conn)
{
	read_of(conn)->is_over = true;
	http_end_poll(conn);
}

static void read_write(void *socket, struct frame *frame)
{
	struct conn *conn = socket;
	struct ds_read *read = read_of(conn);
	size_t len = frame_len(frame);
	if (read->is_over || (read->mode == DS_POLL && !len)) {
		return;
	}
	end_read(conn);
	respond_page(conn, len ? frame_text(frame) : "[]", len ? len : 2, read->offset.seq);
}

static void read_want_writable(void *socket)
{
	/* Never needed: a read takes one frame at once, and then no more. */
}

static void read_close(void *socket, unsigned code, const char *reason)
{
	struct conn *conn = socket;
	if (read_of(conn)->is_over) {
		return;
	}
	end_read(conn);
	if (code == 4404) {
		http_refuse_deleted(conn);
	} else if (code == OFFSET_PRUNED) {
		refuse_gone(conn);
	} else if (code == WS_CLOSE_GOING_AWAY) {
		http_refuse_moved(conn);
	} else {
		http_refuse(conn, ERROR_storage_failed,
			storage_text(conn_storage(conn), STORAGE_EVENTS));
	}
}

static const struct observer_socket_ops read_ops = {
	.is_writable = read_is_writable,
	.write = read_write,
	.want_writable = read_want_writable,
	.close = read_close,
};

static void read_drop(struct answer *answer)
{
	struct ds_read *read = list_entry(answer, struct ds_read, answer);
	metrics_add(conn_metrics(answer->conn), METRIC_OBSERVERS_DS, (uint64_t)-1);
	observer_destroy(read->observer);
	free(read);
}

static void read_time_out(struct answer *answer)
{
	struct conn *conn = answer->conn;
	const struct ds_read *read = read_of(conn);
	struct buffer headers = {0};
	end_read(conn);
	buffer_append_str(&headers, DS_HEADERS);
	append_position(conn, &headers, observer_cursor(read->observer), true);
	buffer_printf(
		&headers, "stream-cursor: %" PRIu64 "\r\n", cursor_now(conn, read->least_cursor));
	http_respond_file(conn, 204, buffer_cstr(&headers), NULL, 0, 0);
	buffer_finish(&headers);
}

static bool read_polls(struct answer *answer)
{
	const struct conn *conn = answer->conn;
	const struct ds_read *read = read_of(conn);
	bool polls = read->mode == DS_POLL && !read->is_over;
	if (polls && http_has_next(conn) && channel_of(conn) && !conn_is_dead(conn)) {
		read_time_out(answer);
	}
	return polls && !read->is_over;
}

static void read_refuse(struct answer *answer, enum answer_end end, const struct refusal *refusal)
{
	struct conn *conn = answer->conn;
	if ((end == ANSWER_DENIED || end == ANSWER_DRAINED) && !read_of(conn)->is_over) {
		end_read(conn);
		http_refuse(conn, refusal->code, refusal->message);
	}
}

static const struct answer_ops read_answer_ops = {
	.polls = read_polls,
	.time_out = read_time_out,
	.refuse = read_refuse,
	.drop = read_drop,
};

/* --- streams of server-sent events --- */

static bool stream_is_writable(void *socket)
{
	return conn_is_writable(socket);
}

/** A frame of the events and of the control event behind them, with the reader's position. */
static struct frame *make_data(struct conn *conn, const struct live_events *in)
{
	struct buffer text = {0};
	uint64_t last = in->events[in->count - 1]->seq;
	ds_append_data(&text, in->events, in->count, in->format, in->hide);
	ds_append_control(&text, in->now->epoch, last,
		cursor_now(conn, stream_of(conn)->least_cursor), last == in->now->max_seq);
	struct frame *frame = sse_text(text.data, text.len);
	buffer_finish(&text);
	return frame;
}

static struct frame *make_stream_page(void *reader, const struct loaded_frame *in)
{
	const struct connected_frame now = {.epoch = in->epoch, .max_seq = in->max_seq};
	const struct live_events live = {in->events, in->count, in->format, in->hide, &now};
	return in->count ? make_data(reader, &live) : NULL;
}

static struct frame *make_stream_events(void *reader, const struct live_events *in)
{
	return make_data(reader, in);
}

/** If the load found no events, a control event alone says that the reader is up to date. */
static struct frame *make_stream_live(void *reader, const struct connected_frame *now)
{
	struct conn *conn = reader;
	struct buffer text = {0};
	if (stream_of(conn)->is_up_to_date) {
		return NULL;
	}
	ds_append_control(&text, now->epoch, now->max_seq,
		cursor_now(conn, stream_of(conn)->least_cursor), true);
	struct frame *frame = sse_text(text.data, text.len);
	buffer_finish(&text);
	return frame;
}

/** Readers that get the same events and the same cursor share a frame. */
static bool get_place(void *reader, void *ret_place)
{
	const struct conn *conn = reader;
	uint64_t cursor = cursor_now(conn, stream_of(conn)->least_cursor);
	memcpy(ret_place, &cursor, sizeof(cursor));
	return true;
}

static const struct encoder_places stream_places = {
	.size = sizeof(uint64_t),
	.get = get_place,
};

static const struct encoder stream_encoder = {
	.is_one_way = true,
	.lost_code = OFFSET_PRUNED,
	.lost_reason = "the position was pruned",
	.places = &stream_places,
	.page = make_stream_page,
	.events = make_stream_events,
	.live = make_stream_live,
};

static void stream_write(void *socket, struct frame *frame)
{
	struct conn *conn = socket;
	if (conn_is_closing(conn) || !channel_of(conn)) {
		return;
	}
	stream_of(conn)->is_up_to_date =
		observer_cursor(conn_observer(conn)) == channel_of(conn)->max_seq;
	sse_write(conn, frame);
}

static void stream_want_writable(void *socket)
{
	struct conn *conn = socket;
	if (!conn_is_closing(conn)) {
		conn_want_writable(conn);
		sending_count(conn);
	}
}

static void stream_close(void *socket, unsigned code, const char *reason)
{
	conn_close(socket, code, reason); /* the answer to the client's next request says why */
}

static const struct observer_socket_ops stream_ops = {
	.is_writable = stream_is_writable,
	.write = stream_write,
	.want_writable = stream_want_writable,
	.close = stream_close,
};

static void handle_writable(struct conn *conn)
{
	if (conn_observer(conn)) {
		observer_pump(conn_observer(conn));
	}
}

static void handle_closed(struct conn *conn)
{
	if (conn_observer(conn)) {
		metrics_add(conn_metrics(conn), METRIC_OBSERVERS_DS, (uint64_t)-1);
	}
	observer_destroy(conn_observer(conn));
	conn_set_observer(conn, NULL);
	placement_leave(conn, true);
	free(conn_state(conn));
	conn_set_state(conn, NULL);
}

static const struct conn_ops ds_conn_ops = {
	.writable = handle_writable,
	.closed = handle_closed,
	.tell = sse_drop_frame,
};

/* --- opening --- */

/** Reads the query. Returns NULL, or a message. */
static const char *read_query(struct conn *conn, struct ds_read *ret)
{
	char buf[QUERY_VALUE_MAX];
	unsigned short random = 0;
	const char *bad = query_check(
		conn, (const char *const[]){"offset", "live", "cursor", "format", NULL});
	if (bad) {
		return bad;
	}
	if (query_format(query_get(conn, "format", buf, sizeof(buf)), FORMAT_HTML, &ret->format) <
		0) {
		return "format must be html, markdown or both";
	}
	const char *cursor = query_get(conn, "cursor", buf, sizeof(buf));
	if (cursor && getrandom(&random, sizeof(random), GRND_NONBLOCK) > 0) {
		ret->least_cursor =
			ds_cursor_behind(cursor, clock_now_ms(conn_clock(conn)), random);
	}
	const char *live = query_get(conn, "live", buf, sizeof(buf));
	ret->mode = !live ? DS_PAGE : strcmp(live, "long-poll") == 0 ? DS_POLL : DS_STREAM;
	if (live && ret->mode == DS_STREAM && strcmp(live, "sse") != 0) {
		return "live must be long-poll or sse";
	}
	const char *offset = query_get(conn, "offset", buf, sizeof(buf));
	if (!offset) {
		return live ? "live needs an offset" : NULL;
	}
	return ds_offset_read(offset, strlen(offset), &ret->offset)
		       ? NULL
		       : "offset must be -1, now, or the Stream-Next-Offset of an answer";
}

/** Finds the position where the load begins. Returns false if the log no longer has the offset. */
static bool find_place(const struct conn *conn, struct ds_read *read, struct load_request *ret)
{
	const struct channel *channel = channel_of(conn);
	uint64_t first = session_log_first_seq(channel->log);
	if (read->offset.kind != DS_AT) {
		read->offset.seq = read->offset.kind == DS_NOW ? channel->max_seq : first - 1;
	}
	*ret = (struct load_request){.from = LOAD_AFTER,
		.seq = read->offset.seq,
		.has_epoch = read->offset.kind == DS_AT,
		.epoch = read->offset.epoch,
		.limit = conn_limits(conn)->load_max,
		.follow = read->mode == DS_STREAM};
	return !load_plan_make(ret, epoch_of(conn), first, channel->max_seq).reset;
}

static struct observer *observe(struct conn *conn, const struct ds_read *read,
	const struct observer_socket_ops *ops, const char *client_id)
{
	struct observer_config config = {
		.encoder = read->mode == DS_STREAM ? &stream_encoder : &read_encoder,
		.reader = conn,
		.format = read->format,
		.client_id = client_id,
		.sub = conn_grant(conn)->sub,
		.role = role_name(conn_grant(conn)->role),
		.expires_ms = conn_grant(conn)->expires_ms,
		.hide = conn_hides(conn),
	};
	metrics_add(conn_metrics(conn), METRIC_OBSERVERS_DS, 1);
	return observer_create(channel_of(conn), &config, ops, conn);
}

static void begin_read(struct conn *conn, struct ds_read *read, const struct load_request *load)
{
	if (read->mode == DS_POLL) {
		http_begin_poll(conn);
	}
	http_begin_answer(conn, &read->answer, &read_answer_ops);
	read->observer = observe(conn, read, &read_ops, "");
	observer_load(read->observer, load);
}

static void begin_stream(struct conn *conn, struct ds_read *read, const struct load_request *load)
{
	http_begin_sse(conn, &ds_conn_ops, "", false);
	room_note_known(conn);
	struct ds_stream *stream = xcalloc(1, sizeof(*stream));
	stream->least_cursor = read->least_cursor;
	conn_set_state(conn, stream);
	placement_join(conn);
	conn_set_observer(conn, observe(conn, read, &stream_ops, conn_client_id(conn)));
	free(read);
	observer_load(conn_observer(conn), load);
}

static void answer_head(struct conn *conn)
{
	struct buffer headers = {0};
	buffer_append_str(&headers,
		"cache-control: no-store\r\n" FILE_OF_OTHERS "content-type: application/json\r\n");
	append_position(conn, &headers, channel_of(conn)->max_seq, true);
	http_respond_file(conn, 200, buffer_cstr(&headers), NULL, 0, 0);
	buffer_finish(&headers);
}

/** `session` is NULL if another node owns it. */
static void read_session(struct conn *conn, struct session *session)
{
	struct load_request load;
	struct ds_read *read = xcalloc(1, sizeof(*read));
	const char *bad = read_query(conn, read);
	if (bad || http_has_body(conn)) {
		http_refuse(conn, ERROR_bad_request, bad ? bad : "a stream is read without a body");
		free(read);
		return;
	}
	if (session && !room_in_session(conn_server(conn), session)) {
		http_refuse_limit(conn, LIMIT_session_connections,
			"too many connections are about this session; try again later");
		free(read);
		return;
	}
	if (session) {
		conn_hold_session(conn, session);
	}
	if (!find_place(conn, read, &load)) {
		refuse_gone(conn);
		free(read);
	} else if (http_method_of(conn) == HTTP_HEAD) {
		answer_head(conn);
		free(read);
	} else if (read->mode == DS_STREAM) {
		begin_stream(conn, read, &load);
	} else {
		begin_read(conn, read, &load);
	}
}

static void serve(struct conn *conn)
{
	const struct path_part *id = http_part(conn, 0);
	if (!session_id_is_valid(id->at, id->len)) {
		http_refuse(conn, ERROR_not_found, NOTHING_HERE);
		return;
	}
	http_copy_session_id(conn);
	struct session *session = session_table_get(conn_sessions(conn), id->at, id->len);
	struct refusal refusal = {0};
	if (!conn_sees(conn, conn_session_id(conn))) {
		http_refuse_no_session(conn);
	} else if (conn_session_is_absent(conn, conn_session_id(conn), id->len, &refusal)) {
		http_refuse(conn, refusal.code, refusal.message);
	} else if (session ? !session_is_there(session) : !placement_channel(conn)) {
		http_refuse_no_session(conn);
	} else {
		read_session(conn, session);
	}
}

#define OF_STREAM (ROUTE_SESSION | ROUTE_OTHER_EVENTS | ROUTE_LIVE)

static const struct route routes[] = {
	{"/ds/sessions/{id}", "GET", .flags = OF_STREAM, .serve = serve},
	{"/ds/sessions/{id...}", "", .flags = OF_STREAM},
	{"/ds/*", "", .flags = ROUTE_OTHER_EVENTS},
	{0},
};

const struct door door_ds = {.routes = routes};
