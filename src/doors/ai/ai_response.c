/*
 * An answer to a chat of the AI SDK: an observer of the session whose encoder makes the chunks of
 * one turn (ai_turn.h). On a WebSocket, answers share the connection, and each chunk carries its
 * request's id and a number; over HTTP an answer is a stream of server-sent events, one for each
 * chunk.
 */
#include "ai_internal.h"
#include "holdfast/websocket.h"

#include "holdfast/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ai_response {
	struct list link; /* ai_door.responses */
	struct conn *conn;
	char *request_id;
	char *prompt_id; /* NULL: it follows a turn that was already running */
	struct observer *observer; /* NULL: not loading yet */
	struct ai_turn *turn;
	uint64_t sequence;
	struct buffer envelope; /* start of a message with a chunk, up to the chunk's number */
	bool is_over; /* it is freed at the end of the tick */
};

/* --- sending --- */

static void append_begin(struct buffer *text, const char *type, const char *request_id)
{
	buffer_append_char(text, '{');
	buffer_append_member(text, "type", type);
	buffer_append_member(text, "requestId", request_id);
}

static void put_messages(struct conn *conn, struct buffer *out)
{
	if (out->len && !conn_is_closing(conn)) {
		char *bytes = out->data;
		conn_put_later(conn, bytes, out->len, free, bytes);
		buffer_init(out);
	}
	buffer_finish(out);
}

/** Sends a message of the type start, end, no-active or (with `words`) error. */
static void put_word(struct conn *conn, const char *type, const char *request_id, const char *words)
{
	struct buffer text = {0};
	struct buffer out = {0};
	append_begin(&text, type, request_id);
	if (words) {
		buffer_append_member(&text, "errorText", words);
	}
	buffer_append_char(&text, '}');
	unsigned char header[WS_HEADER_MAX];
	buffer_append(&out, header, ws_header(WS_TEXT, text.len, header));
	buffer_append(&out, text.data, text.len);
	put_messages(conn, &out);
	buffer_finish(&text);
}

static void put_text(struct conn *conn, const struct buffer *text)
{
	struct frame *frame = sse_text(text->data, text->len);
	if (!conn_is_closing(conn)) {
		sse_write(conn, frame);
	}
	frame_unref(frame);
}

/** Ends a stream, after an error if `error` is set. */
static void end_stream(struct conn *conn, const char *error)
{
	struct buffer text = {0};
	if (error) {
		buffer_append_str(&text, "data: {\"type\":\"error\"");
		buffer_append_member(&text, "errorText", error);
		buffer_append_str(&text, "}\n\n");
	}
	buffer_append_str(&text, "data: [DONE]\n\n");
	put_text(conn, &text);
	buffer_finish(&text);
}

/** More digits than a number has. */
#define NUMBER_MAX 24

/** Writes a number at the end of `text`. Returns where it begins. */
static const char *write_number(uint64_t number, char text[NUMBER_MAX])
{
	char *at = text + NUMBER_MAX;
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	return at;
}

/**
 * Appends a WebSocket message with a chunk. Its envelope is the request's own, so messages are not
 * shared by chats.
 */
static void append_chunk(
	struct ai_response *response, struct buffer *out, const char *chunk, size_t len)
{
	static const char name[] = ",\"chunk\":";
	char digits[NUMBER_MAX];
	const char *number = write_number(response->sequence++, digits);
	size_t number_len = (size_t)(digits + NUMBER_MAX - number);
	size_t before = response->envelope.len + number_len + sizeof(name) - 1;
	buffer_reserve(out, WS_HEADER_MAX + before + len + 1);
	char *to = out->data + out->len;
	to += ws_header(WS_TEXT, before + len + 1, (unsigned char *)to);
	to = mempcpy(to, response->envelope.data, response->envelope.len);
	to = mempcpy(to, number, number_len);
	to = mempcpy(to, name, sizeof(name) - 1);
	to = mempcpy(to, chunk, len);
	*to++ = '}';
	out->len = (size_t)(to - out->data);
}

/** Sends each chunk of a frame in a message with the request's id and a number. */
static void put_chunk_messages(struct ai_response *response, const struct frame *chunks)
{
	struct buffer out = {0};
	const char *end = frame_text(chunks) + frame_len(chunks);
	buffer_reserve(&out, 2 * frame_len(chunks) + 256);
	for (const char *at = frame_text(chunks), *next; at < end; at = next) {
		next = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
		append_chunk(response, &out, at, (size_t)(next - at) - 1);
	}
	put_messages(response->conn, &out);
}

/* --- end --- */

/** Ends the answer; `error` NULL: it is complete. */
static void end(struct ai_response *response, const char *error)
{
	struct conn *conn = response->conn;
	if (response->is_over) {
		return;
	}
	response->is_over = true;
	conn_at_end_of_tick(conn);
	if (conn_is_stream(conn)) {
		end_stream(conn, error);
	} else {
		put_word(conn, error ? "error" : "end", response->request_id, error);
	}
}

static void destroy(struct ai_response *response)
{
	if (response->observer) {
		metrics_add(conn_metrics(response->conn), METRIC_OBSERVERS_AI, (uint64_t)-1);
	}
	observer_destroy(response->observer);
	ai_turn_destroy(response->turn);
	list_remove(&response->link);
	struct ai_door *door = conn_state(response->conn);
	door->count--;
	free(response->request_id);
	free(response->prompt_id);
	buffer_finish(&response->envelope);
	free(response);
}

/* --- observer_socket_ops --- */

static bool is_writable(void *socket)
{
	struct ai_response *response = socket;
	return !response->is_over && conn_is_writable(response->conn);
}

/** Whether its prompt was removed from the queue. */
static bool is_removed(struct ai_response *response)
{
	struct prompt_view view;
	return response->prompt_id && conn_session(response->conn) &&
	       !ai_turn_number(response->turn) &&
	       session_find_prompt(conn_session(response->conn), response->prompt_id, &view) == 0 &&
	       view.place == PROMPT_REMOVED;
}

static void write_frame(void *socket, struct frame *frame)
{
	struct ai_response *response = socket;
	struct conn *conn = response->conn;
	if (response->is_over) {
		return;
	}
	if (frame_len(frame) && !conn_is_closing(conn)) {
		if (conn_is_stream(conn)) {
			sse_write(conn, frame);
		} else {
			put_chunk_messages(response, frame);
		}
	}
	if (ai_turn_is_over(response->turn)) {
		end(response, ai_turn_why(response->turn));
	}
}

static void handle_state(void *socket)
{
	struct ai_response *response = socket;
	if (!response->is_over && is_removed(response)) {
		end(response, "the message was taken out of the queue");
	}
}

static void want_writable(void *socket)
{
	struct ai_response *response = socket;
	if (!response->is_over && !conn_is_closing(response->conn)) {
		conn_want_writable(response->conn);
		sending_count(response->conn);
	}
}

static void close_socket(void *socket, unsigned code, const char *reason)
{
	end(socket, reason);
}

static const struct observer_socket_ops socket_ops = {
	.is_writable = is_writable,
	.write = write_frame,
	.state_changed = handle_state,
	.want_writable = want_writable,
	.close = close_socket,
};

/* --- for ai.c --- */

struct ai_response *ai_response_create(
	struct conn *conn, const char *request_id, const struct ai_turn_config *config)
{
	struct ai_door *door = conn_state(conn);
	struct ai_response *response = xcalloc(1, sizeof(*response));
	response->conn = conn;
	response->request_id = xstrdup(request_id);
	response->prompt_id = config->prompt_id ? xstrdup(config->prompt_id) : NULL;
	response->turn = ai_turn_create(config);
	list_append(&door->responses, &response->link);
	door->count++;
	if (!conn_is_stream(conn)) {
		put_word(conn, "start", request_id, NULL);
		append_begin(&response->envelope, "chunk", request_id);
		buffer_append_str(&response->envelope, ",\"sequence\":");
	}
	return response;
}

void ai_response_answered(struct ai_response *response, const char *request_id)
{
	ai_turn_answered(response->turn, request_id);
}

void ai_response_load(struct ai_response *response, const struct load_request *load)
{
	struct conn *conn = response->conn;
	struct observer_config config = ws_observer_config(conn);
	config.encoder = conn_is_stream(conn) ? &ai_stream_encoder : &ai_socket_encoder;
	config.reader = response->turn;
	config.format = FORMAT_MARKDOWN;
	config.deltas = DELTAS_TEXT;
	response->observer = observer_create(
		session_channel(conn_session(conn)), &config, &socket_ops, response);
	metrics_add(conn_metrics(conn), METRIC_OBSERVERS_AI, 1);
	observer_load(response->observer, load);
}

struct ai_response *ai_response_find(struct conn *conn, const char *request_id)
{
	struct ai_door *door = conn_state(conn);
	list_for_each(link, &door->responses) {
		struct ai_response *response = list_entry(link, struct ai_response, link);
		if (!response->is_over && strcmp(response->request_id, request_id) == 0) {
			return response;
		}
	}
	return NULL;
}

void ai_response_stop(struct ai_response *response)
{
	response->is_over = true; /* nothing more is sent */
	conn_at_end_of_tick(response->conn);
}

void ai_response_fail(struct ai_response *response, const char *error)
{
	end(response, error);
}

void ai_say_done(struct conn *conn, const char *request_id)
{
	put_word(conn, "end", request_id, NULL);
}

void ai_say_nothing_active(struct conn *conn, const char *request_id)
{
	put_word(conn, "no-active", request_id, NULL);
}

void ai_refuse(struct conn *conn, const char *request_id, const struct refusal *refusal)
{
	metrics_refused(conn_metrics(conn), refusal->code, refusal->limit);
	if (conn_is_stream(conn)) {
		end_stream(conn, refusal->message);
		conn_close(conn, 1000, "");
	} else {
		put_word(conn, "error", request_id, refusal->message);
	}
}

void ai_writable(struct conn *conn)
{
	struct ai_door *door = conn_state(conn);
	if (!door) {
		return;
	}
	list_for_each_safe(link, tmp, &door->responses) {
		struct ai_response *response = list_entry(link, struct ai_response, link);
		if (response->observer && !response->is_over) {
			observer_pump(response->observer);
		}
	}
}

void ai_end_tick(struct conn *conn)
{
	struct ai_door *door = conn_state(conn);
	if (!door) {
		return;
	}
	bool had_any = door->count > 0;
	list_for_each_safe(link, tmp, &door->responses) {
		struct ai_response *response = list_entry(link, struct ai_response, link);
		if (response->is_over) {
			destroy(response);
		}
	}
	if (conn_is_stream(conn) && had_any && !door->count) {
		conn_close(conn, 1000, "");
	}
}

size_t ai_kept(const struct conn *conn)
{
	struct ai_door *door = conn_state(conn);
	size_t size = 0;
	if (!door) {
		return 0;
	}
	list_for_each(link, &door->responses) {
		struct ai_response *response = list_entry(link, struct ai_response, link);
		size += response->observer ? observer_kept(response->observer) : 0;
	}
	return size;
}

void ai_closed(struct conn *conn)
{
	struct ai_door *door = conn_state(conn);
	ws_content_drop(conn);
	if (door) {
		list_for_each_safe(link, tmp, &door->responses) {
			destroy(list_entry(link, struct ai_response, link));
		}
		free(door);
		conn_set_state(conn, NULL);
	}
}

/* What the server tells all sockets: of that, a chat over HTTP gets an error, with which it ends. */

void ai_tell_error(struct conn *conn, const char *message)
{
	if (conn_is_stream(conn) && !conn_is_closing(conn)) {
		end_stream(conn, message);
	}
}

void ai_tell(struct conn *conn, struct frame *frame)
{
	ai_tell_error(conn, "the server ends the connection; ask again");
	frame_unref(frame);
}
