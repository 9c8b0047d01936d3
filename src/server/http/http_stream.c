/*
 * POST of events as lines (application/x-ndjson). Each line is taken as it arrives, so the body can
 * be endless: only one line is in memory, and what waits for the disk; while that is too much,
 * nothing is read (server_end_tick()). The first line that is refused ends the stream; the events
 * before it stay. The only answer comes at the end of the body, when all its events are durable.
 */
#include "server/http_internal.h"

#include <stdlib.h>
#include <string.h>

struct event_stream {
	struct answer answer;
	size_t line; /* complete lines so far */
	size_t count; /* events taken so far */
	size_t stored; /* events that are durable */
	size_t waits; /* waits for the disk that are open: for events, or before a refusal */
	struct append_ack *acks; /* of all events; NULL once they exceed limits->batch_events */
	uint64_t last_seq;
	bool is_in_doubt; /* events after the first `stored` may turn out to be durable */
	bool is_over; /* the body has ended, or a line was refused */
	struct refusal refusal; /* code ERROR_NONE: none */
};

static struct event_stream *stream_of(struct answer *answer)
{
	return list_entry(answer, struct event_stream, answer);
}

static void stream_drop(struct answer *answer)
{
	struct conn *conn = answer->conn;
	list_remove(&conn->kind_link);
	list_init(&conn->kind_link);
	free(stream_of(answer)->acks);
	free(stream_of(answer));
	conn_update_flow(conn);
}

/* --- the answer --- */

static void answer_refused(struct conn *conn, const struct event_stream *stream)
{
	struct refusal refusal = stream->refusal;
	refusal.detail = (struct error_detail){.has_index = true,
		.index = stream->count,
		.has_stored = true,
		.stored = stream->stored,
		.is_in_doubt = stream->is_in_doubt};
	http_refuse_event(conn, &refusal);
}

static void answer_stored(struct conn *conn, const struct event_stream *stream)
{
	const struct channel *channel = session_channel(conn->session);
	uint64_t epoch = session_log_epoch(channel->log);
	struct buffer body = {0};
	if (stream->count <= conn->server->limits->batch_events) {
		frames_append_acks(
			&body, stream->acks, stream->count, NULL, epoch, channel->max_seq);
	} else {
		buffer_printf(&body,
			"{\"epoch\":\"%016llx\",\"max_seq\":%llu,\"count\":%zu,\"last_seq\":%llu}",
			(unsigned long long)epoch, (unsigned long long)channel->max_seq,
			stream->count, (unsigned long long)stream->last_seq);
	}
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

/** Answers if the stream is over and everything before its end is durable. */
static void answer_if_done(struct event_stream *stream)
{
	struct conn *conn = stream->answer.conn;
	if (!stream->is_over || (stream->waits && conn->session)) {
		return;
	}
	if (stream->refusal.code) {
		answer_refused(conn, stream);
	} else if (!conn->session) {
		http_refuse_lost(conn);
	} else {
		answer_stored(conn, stream);
	}
	http_drop_answer(conn);
}

static int refuse_rest(const struct conn *conn, struct refusal *refusal)
{
	return refuse(refusal, ERROR_storage_failed,
		"the server cannot write to its %s (see its log); the events that \"stored\" counts are stored, send the rest again later",
		storage_name(conn_storage(conn)));
}

static void set_refusal(struct event_stream *stream, const struct refusal *refusal)
{
	if (!stream->refusal.code) {
		stream->refusal = *refusal;
	}
	stream->is_over = true;
}

static void stream_refuse(struct answer *answer, enum answer_end end, const struct refusal *refusal)
{
	static const char *const again[] = {
		[ANSWER_MOVED] = SESSION_MOVED "; send everything from here on again",
		[ANSWER_DRAINED] =
			"the server is shutting down; send everything from here on again in a moment",
	};
	struct refusal told = *refusal;
	if (again[end]) {
		refuse(&told, refusal->code, "%s", again[end]);
	}
	set_refusal(stream_of(answer), &told);
	answer_if_done(stream_of(answer));
}

static const struct answer_ops stream_ops;

static void handle_stored(struct conn_wait *wait, int status)
{
	struct answer *answer = http_answer_of(wait->conn, &stream_ops);
	if (!answer) {
		return; /* it has been answered, as its session is lost */
	}
	struct event_stream *stream = stream_of(answer);
	stream->waits--;
	if (status < 0) {
		struct refusal refusal = {0};
		stream->is_in_doubt = stream->is_in_doubt || status == DURABLE_IN_DOUBT;
		refuse_rest(wait->conn, &refusal);
		stream->refusal.code = ERROR_NONE;
		stream->count = stream->stored;
		set_refusal(stream, &refusal);
	} else {
		stream->stored = wait->ack_count;
	}
	answer_if_done(stream);
}

/* --- lines --- */

static void keep_ack(struct event_stream *stream, const struct append_ack *ack)
{
	size_t n = stream->count++;
	stream->last_seq = ack->seq ? ack->seq : stream->last_seq;
	if (n >= stream->answer.conn->server->limits->batch_events) {
		free(stream->acks);
		stream->acks = NULL;
		return;
	}
	if ((n & (n - 1)) == 0) { /* full: 1, 2, 4, … */
		stream->acks = xrealloc(stream->acks, (n ? 2 * n : 1) * sizeof(*stream->acks));
	}
	stream->acks[n] = *ack;
}

static void take_line(struct event_stream *stream, const char *text, size_t len)
{
	struct conn *conn = stream->answer.conn;
	struct refusal refusal = {0};
	struct append_ack ack = {0};
	size_t bad;
	stream->line++;
	while (len && (text[len - 1] == ' ' || text[len - 1] == '\t' || text[len - 1] == '\r')) {
		len--;
	}
	if (!len) {
		return; /* blank lines are ignored */
	}
	struct json_spans spans = {0};
	if (json_spans_parse(text, len, &spans, &refusal) == 0 &&
		conn_append(conn, spans.all, 1, &ack, &bad, &refusal) == 0) {
		keep_ack(stream, &ack);
	} else {
		struct refusal told = {0};
		char *first = strstr(refusal.message, "(line 1, ");
		if (first) { /* the parser's line number is always 1: it sees one line at a time */
			memmove(first + 1, first + 9, strlen(first + 9) + 1);
		}
		if (refusal.code == ERROR_storage_failed) {
			refuse_rest(conn, &told);
		} else {
			refuse(&told, refusal.code, "line %zu: %.220s", stream->line,
				refusal.message);
			told.limit = refusal.limit;
		}
		set_refusal(stream, &told);
	}
	json_spans_finish(&spans);
}

/** Whether the incomplete line may grow by `more` bytes; ends the stream if not. */
static bool has_room(struct event_stream *stream, size_t more)
{
	const struct conn *conn = stream->answer.conn;
	struct refusal refusal = {0};
	size_t most = conn->server->limits->body_size;
	if (conn->rx.len + more <= most) {
		return true;
	}
	refuse_limit(&refusal, LIMIT_body_size, "line %zu: a line may have at most %zu bytes",
		stream->line + 1, most);
	set_refusal(stream, &refusal);
	return false;
}

/**
 * Keeps a piece of an incomplete line. Ends the stream and returns false if all connections
 * together keep too much.
 */
static bool keep(struct event_stream *stream, const char *bytes, size_t len)
{
	struct refusal refusal = {0};
	if (conn_keep(stream->answer.conn, bytes, len)) {
		return true;
	}
	refuse_limit(&refusal, LIMIT_receive_size,
		"line %zu: too many large requests are being received; send it again in a moment",
		stream->line + 1);
	set_refusal(stream, &refusal);
	return false;
}

static void take_lines(struct event_stream *stream, const char *bytes, size_t len)
{
	struct conn *conn = stream->answer.conn;
	while (len && !stream->is_over) {
		const char *newline = memchr(bytes, '\n', len);
		size_t n = newline ? (size_t)(newline - bytes) : len;
		if (!has_room(stream, n)) {
			return;
		}
		if (!conn->rx.len) {
			conn->message_ms = conn->received_ms; /* a line begins */
		}
		if ((conn->rx.len || !newline) && !keep(stream, bytes, n)) {
			return;
		}
		if (newline && conn->rx.len) {
			take_line(stream, conn->rx.data, conn->rx.len);
			conn_keep_nothing(conn);
		} else if (newline) {
			take_line(stream, bytes, n);
		}
		n += newline != NULL;
		bytes += n;
		len -= n;
	}
}

/** Waits for the disk if events were taken or a line was refused since `before`. */
static void wait_for_disk(struct event_stream *stream, size_t before, bool was_refused)
{
	struct conn *conn = stream->answer.conn;
	bool is_refused = !was_refused && stream->refusal.code;
	if ((stream->count > before || is_refused) && conn->session) {
		struct conn_wait *wait =
			stream->count > before
				? conn_wait_append(conn, handle_stored)
				: conn_wait_create(conn, conn->session, handle_stored);
		wait->ack_count = stream->count;
		stream->waits++;
	}
}

static void stream_take_body(struct answer *answer, const char *bytes, size_t len)
{
	struct event_stream *stream = stream_of(answer);
	size_t before = stream->count;
	bool was_refused = stream->refusal.code != ERROR_NONE;
	take_lines(stream, bytes, len);
	wait_for_disk(stream, before, was_refused);
	conn_at_end_of_tick(answer->conn);
	answer_if_done(stream);
}

static void stream_end_body(struct answer *answer)
{
	struct event_stream *stream = stream_of(answer);
	struct conn *conn = answer->conn;
	size_t before = stream->count;
	bool was_refused = stream->refusal.code != ERROR_NONE;
	if (!stream->is_over && conn->rx.len) {
		take_line(stream, conn->rx.data, conn->rx.len); /* the last one needs no newline */
	}
	if (!stream->is_over && !stream->count) {
		refuse(&stream->refusal, ERROR_bad_request,
			"the body has no event; send one on each line");
	}
	stream->is_over = true;
	wait_for_disk(stream, before, was_refused);
	answer_if_done(stream);
}

/**
 * A partial line may stay, as its program may be idle, unless it is so long that it takes memory
 * from others.
 */
static void stream_sweep(struct answer *answer)
{
	struct conn *conn = answer->conn;
	struct refusal refusal = {0};
	if (conn->phase == PHASE_BODY && !conn->sock.is_paused && conn->rx.len > RECEIVE_FREE &&
		conn_is_too_slow(conn, conn->rx.len)) {
		refuse_limit(&refusal, LIMIT_receive_ms, "a line came too slowly");
		set_refusal(stream_of(answer), &refusal);
		answer_if_done(stream_of(answer));
	}
}

static const struct answer_ops stream_ops = {
	.take_body = stream_take_body,
	.end_body = stream_end_body,
	.sweep = stream_sweep,
	.refuse = stream_refuse,
	.drop = stream_drop,
	.is_stored_here = true,
};

void http_stream_begin(struct conn *conn)
{
	struct event_stream *stream = xcalloc(1, sizeof(*stream));
	http_begin_answer(conn, &stream->answer, &stream_ops);
	list_append(&conn->server->producers, &conn->kind_link);
	conn_update_flow(conn);
	conn_at_end_of_tick(conn);
}
