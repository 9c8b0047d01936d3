/*
 * Raw streams over HTTP, at /v1/stream/, for clients of Durable Streams that write
 * (docs/durable-streams.md): routing, rights, and the refusals that all methods share.
 */
#include "raw_internal.h"
#include "holdfast/door_streams.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- requests that wait --- */

static void raw_drop(struct answer *answer)
{
	struct http_raw *raw = list_entry(answer, struct http_raw, answer);
	raw_wait_cancel(&raw->wait);
	raw_watch_end(&raw->watch);
	if (raw->read) {
		raw_read_cancel(raw->read);
	}
	buffer_finish(&raw->bytes);
	free(raw->name);
	free(raw->type);
	free(raw->source);
	free(raw->seq);
	free(raw->producer);
	free(raw->expires);
	free(raw);
}

static bool raw_polls(struct answer *answer)
{
	struct conn *conn = answer->conn;
	const struct http_raw *raw = raw_of(conn);
	bool polls = raw->polls && !raw->is_over;
	if (polls && http_has_next(conn) && !conn_is_dead(conn)) {
		raw_end_poll(conn);
	}
	return polls && !raw->is_over;
}

static void raw_time_out(struct answer *answer)
{
	raw_end_poll(answer->conn);
}

static void raw_refuse(struct answer *answer, enum answer_end end, const struct refusal *refusal)
{
	struct conn *conn = answer->conn;
	struct http_raw *raw = raw_of(conn);
	if ((end == ANSWER_DENIED || end == ANSWER_DRAINED) && raw->polls && !raw->is_over) {
		raw->is_over = true;
		http_end_poll(conn);
		http_refuse(conn, refusal->code, refusal->message);
	}
}

static const struct answer_ops raw_answer_ops = {
	.polls = raw_polls,
	.time_out = raw_time_out,
	.refuse = raw_refuse,
	.drop = raw_drop,
};

struct http_raw *raw_begin(struct conn *conn, const char *name)
{
	struct http_raw *raw = xcalloc(1, sizeof(*raw));
	raw->name = xstrdup(name);
	http_begin_answer(conn, &raw->answer, &raw_answer_ops);
	return raw;
}

/* --- refusals --- */

void raw_append_offset(struct buffer *out, uint64_t at)
{
	char offset[RAW_OFFSET_SIZE];
	raw_offset_write(offset, at);
	buffer_printf(out, "stream-next-offset: %s\r\n", offset);
}

static void refuse_closed(struct conn *conn, const struct raw_answer *answer)
{
	struct buffer headers = {0};
	buffer_append_str(&headers, "stream-closed: true\r\n");
	raw_append_offset(&headers, answer->tail);
	http_refuse_with(conn, 409, buffer_cstr(&headers), ERROR_stream_closed,
		"the stream is closed: nothing can be appended any more");
	buffer_finish(&headers);
}

static void refuse_stale(struct conn *conn, const struct raw_answer *answer)
{
	struct buffer headers = {0};
	buffer_printf(&headers, "producer-epoch: %" PRIu64 "\r\n", answer->epoch);
	http_refuse_with(conn, 403, buffer_cstr(&headers), ERROR_stale_epoch,
		"a newer producer of this Producer-Id has begun; this one must stop");
	buffer_finish(&headers);
}

static void refuse_gap(struct conn *conn, const struct raw_answer *answer)
{
	struct buffer headers = {0};
	buffer_printf(&headers,
		"producer-expected-seq: %" PRIu64 "\r\nproducer-received-seq: %" PRIu64 "\r\n",
		answer->seq, raw_of(conn)->append.producer_seq);
	http_refuse_with(conn, 409, buffer_cstr(&headers), ERROR_producer_gap,
		"Producer-Seq leaves some out; send those from Producer-Expected-Seq on");
	buffer_finish(&headers);
}

static void refuse_full(struct conn *conn, enum limit limit)
{
	bool is_busy = limit == LIMIT_journal_backlog;
	http_refuse_limit(conn, is_busy ? LIMIT_receive_size : limit,
		limit == LIMIT_max_disk
			? "the server's data has reached its size limit; try again when there is room"
		: limit == LIMIT_streams
			? "the server has reached its limit of streams, or the chain of forks is too long"
		: is_busy ? "the disk is behind; send it again in a moment"
		: limit == LIMIT_stream_producers
			? "the stream has as many producers as it may have"
			: "the stream has reached its size limit");
}

bool raw_refuse_result(struct conn *conn, enum raw_result result, const struct raw_answer *answer)
{
	static const struct {
		enum error_code code;
		const char *message;
	} table[] = {
		[RAW_NOT_FOUND] = {ERROR_not_found,
			"there is no stream of this name; PUT creates one"},
		[RAW_NO_SOURCE] = {ERROR_not_found, "the stream to be forked does not exist"},
		[RAW_GONE] = {ERROR_gone, "the stream is deleted, and is kept only for its forks"},
		[RAW_TAKEN] = {ERROR_stream_conflict,
			"the stream exists with another configuration, or it is deleted and still has forks"},
		[RAW_BAD_OFFSET] = {ERROR_bad_request, "the source does not have this offset"},
		[RAW_OTHER_TYPE] = {ERROR_stream_conflict, "the stream has another content type"},
		[RAW_OLD_SEQ] = {ERROR_stream_conflict,
			"Stream-Seq must be greater than the last one"},
		[RAW_DAMAGED] = {ERROR_stream_damaged,
			"the stream is damaged on the server's disk, or may be lost: nobody gets or changes it until it is restored from a backup, deleted, or given up with holdfast repair"},
		[RAW_EPOCH_START] = {ERROR_bad_request,
			"a new Producer-Epoch begins with Producer-Seq 0"},
	};
	switch (result) {
	case RAW_DONE:
	case RAW_SAME:
		return false;
	case RAW_CLOSED:
		refuse_closed(conn, answer);
		return true;
	case RAW_STALE:
		refuse_stale(conn, answer);
		return true;
	case RAW_GAP:
		refuse_gap(conn, answer);
		return true;
	case RAW_LIMIT:
		refuse_full(conn, answer->limit);
		return true;
	case RAW_FAILED:
		http_refuse(conn, ERROR_storage_failed,
			"the server cannot read or write its streams (see its log); try again later");
		return true;
	default:
		http_refuse(conn, table[result].code, table[result].message);
		return true;
	}
}

/* --- routing --- */

static void route_method(struct conn *conn, const char *name)
{
	switch (http_method_of(conn)) {
	case HTTP_GET:
		raw_get(conn, name);
		break;
	case HTTP_HEAD:
		raw_head(conn, name);
		break;
	case HTTP_PUT:
		raw_put(conn, name);
		break;
	case HTTP_POST:
		raw_post(conn, name);
		break;
	default:
		raw_remove_stream(conn, name);
	}
}

static enum right right_of(enum http_method method)
{
	return method == HTTP_PUT || method == HTTP_POST ? RIGHT_APPEND
	       : method == HTTP_DELETE                   ? RIGHT_DELETE
							 : RIGHT_WATCH;
}

static void serve(struct conn *conn)
{
	const char *name = raw_name(http_path_of(conn), RAW_NAME_MAX);
	if (!raw_store_of(conn)) {
		http_refuse_with(conn, 501, "", ERROR_not_implemented,
			"a server with --store has no streams of its own at /v1/stream/; sessions are read at /ds/sessions/");
	} else if (!grant_sees_all(conn_grant(conn))) {
		http_refuse(conn, ERROR_forbidden,
			"the token allows only some sessions, and no streams");
	} else if (!name) {
		http_refuse(conn, ERROR_bad_request,
			"a stream's name has 1 to 512 bytes of printable UTF-8, and no empty part, \".\", \"..\", \"__ds\" or backslash");
	} else if (http_may(conn, right_of(http_method_of(conn)))) {
		route_method(conn, name);
	}
}

static const struct route_cors cors = {
	.allowed =
		"Authorization, Content-Type, If-None-Match, Stream-Seq, Stream-TTL, "
		"Stream-Expires-At, Stream-Closed, Producer-Id, Producer-Epoch, Producer-Seq, Stream-Forked-From, "
		"Stream-Fork-Offset, Stream-Fork-Sub-Offset",
	.exposed =
		"Stream-Closed, Stream-TTL, Stream-Expires-At, Stream-SSE-Data-Encoding, "
		"Producer-Epoch, Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq, Location",
};

static const struct route routes[] = {
	{"/v1/stream/{name...}", "GET, HEAD, PUT, POST, DELETE", .body = BODY_BYTES,
		.flags = ROUTE_APPENDS, .serve = serve, .cors = &cors},
	{0},
};

static size_t count_damaged(const void *state)
{
	return state ? raw_count_damaged(state) : 0;
}

const struct door door_raw = {.routes = routes, .count_damaged = count_damaged};
