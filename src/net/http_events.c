/*
 * The events of a session over HTTP: reading a page, and appending an event, an array of events or
 * a snapshot.
 */
#include "http_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --- */

static void respond_page(struct conn *conn, struct event **events, size_t count)
{
	struct loaded_frame page;
	load_page_fill(session_channel(conn->session), &conn->http->plan, events, count, &page);
	page.format = conn->http->format;
	page.hide = conn_hides(conn);
	struct buffer body = {0};
	frames_append_loaded(&body, &page);
	metrics_add(conn->server->metrics, METRIC_EVENTS_DELIVERED, count);
	http_respond_page(conn, &body);
	buffer_finish(&body);
}

void http_drop_page(struct conn *conn)
{
	struct http_exchange *http = conn->http;
	for (size_t i = 0; i < http->page_count; i++) {
		event_unref(http->page[i]);
	}
	free(http->page);
	http->page = NULL;
	http->page_count = 0;
}

/** Answers with the page that was read. */
static void serve_page(struct conn *conn)
{
	if (conn->session) {
		respond_page(conn, conn->http->page, conn->http->page_count);
	} else {
		http_refuse_lost(conn);
	}
	http_drop_page(conn);
}

static void keep_page(struct conn *conn, struct event **events, size_t count)
{
	conn->http->page = xcalloc(count, sizeof(struct event *));
	conn->http->page_count = count;
	memcpy(conn->http->page, events, count * sizeof(struct event *));
}

static void load_page(struct conn *conn);

/** Whether the events that were to be read have been pruned meanwhile. */
static bool is_behind(const struct conn *conn)
{
	const struct channel *channel = session_channel(conn->session);
	return conn->http->plan.from < session_log_first_seq(channel->log);
}

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct conn *conn = arg;
	conn->http->read = NULL;
	if (status == 0) {
		keep_page(conn, events, count);
		http_in_turn(conn, serve_page);
	} else if (!conn->session) {
		http_refuse_lost(conn);
	} else if (is_behind(conn)) {
		load_page(conn); /* as if the request had come now */
	} else {
		struct refusal refusal = {0};
		refuse_events_read(&refusal, session_channel(conn->session)->log);
		http_refuse_event(conn, &refusal);
	}
}

static void load_page(struct conn *conn)
{
	const struct load_request *load = &conn->http->load;
	struct channel *channel = session_channel(conn->session);
	struct session_log *log = channel->log;
	conn->http->plan = load_plan_make(
		load, session_log_epoch(log), session_log_first_seq(log), channel->max_seq);
	struct log_page page = load_plan_page(&conn->http->plan, load->limit, channel);
	page.format = conn->http->format;
	page.gaps = load->gaps;
	size_t want = page.to >= page.from ? (size_t)(page.to - page.from + 1) : 0;
	struct event **hot = xcalloc(want, sizeof(struct event *));
	size_t n = want ? session_log_get_hot(log, &page, hot) : 0;
	if (n || !want) {
		keep_page(conn, hot, n);
		serve_page(conn);
	} else {
		conn->http->read = session_log_read(log, &page, handle_read, conn);
		if (!conn->http->read) {
			handle_read(conn, -EBADMSG, NULL, 0);
		}
	}
	free(hot);
}

static void serve_events(struct conn *conn)
{
	if (!conn->session) {
		http_refuse_lost(conn);
		return;
	}
	load_page(conn);
	load_count(conn->server->metrics, &conn->http->load, &conn->http->plan);
}

void http_get_events(struct conn *conn, struct session *session)
{
	char after[QUERY_VALUE_MAX];
	char before[QUERY_VALUE_MAX];
	char limit[QUERY_VALUE_MAX];
	char epoch[QUERY_VALUE_MAX];
	char format[QUERY_VALUE_MAX];
	char gaps[QUERY_VALUE_MAX];
	struct refusal refusal = {0};
	const char *bad = query_check(conn, (const char *const[]){"after_seq", "before_seq",
						    "limit", "epoch", "format", "gaps", NULL});
	const char *wanted = query_get(conn, "format", format, sizeof(format));
	if (!bad && query_format(wanted, FORMAT_HTML, &conn->http->format) < 0) {
		bad = "format must be html, markdown or both";
	}
	if (bad) {
		http_refuse(conn, "bad_request", bad);
		return;
	}
	if (load_request_from_query(query_get(conn, "after_seq", after, sizeof(after)),
		    query_get(conn, "before_seq", before, sizeof(before)),
		    query_get(conn, "limit", limit, sizeof(limit)),
		    query_get(conn, "epoch", epoch, sizeof(epoch)),
		    query_get(conn, "gaps", gaps, sizeof(gaps)), conn->server->limits,
		    &conn->http->load, &refusal) < 0) {
		http_refuse_event(conn, &refusal);
		return;
	}
	conn_hold_session(conn, session);
	http_in_turn(conn, serve_events);
}

/* --- appending --- */

static void answer_appended(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	if (!conn->session) {
		http_refuse_lost(conn);
		return;
	}
	if (status < 0) {
		http_refuse_failed(conn, status);
		return;
	}
	const struct channel *channel = session_channel(conn->session);
	struct buffer body = {0};
	frames_append_acks(&body, wait->acks, wait->ack_count, wait->counts,
		session_log_epoch(channel->log), channel->max_seq);
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

static bool looks_like_lines(const char *text, size_t len)
{
	const char *newline = memmem(text, len, "}\n", 2);
	return newline && newline + 2 < text + len && newline[2] == '{';
}

/**
 * Parses the body, one event or an array of events, into `spans`; returns the first and their
 * number.
 */
static int parse_events(struct conn *conn, struct json_spans *spans,
	const struct json_span **ret_first, size_t *ret_count, struct refusal *refusal)
{
	size_t most = conn->server->limits->batch_events;
	if (json_spans_parse(conn->rx.data, conn->rx.len, spans, refusal) < 0) {
		if (looks_like_lines(conn->rx.data, conn->rx.len)) {
			refuse(refusal, "bad_json",
				"the body is not one JSON text; to send one event per line, use the content-type application/x-ndjson");
		}
		return -EINVAL;
	}
	bool is_array = spans->all->type == JSON_ARRAY;
	size_t count = is_array ? json_span_array_size(spans->all) : 1;
	if (!count) {
		return refuse(refusal, "bad_request",
			"the array is empty; it holds 1 to %zu events", most);
	}
	if (count > most) {
		return refuse_limit(refusal, LIMIT_batch_events,
			"an array holds at most %zu events; send more as lines, with the content-type application/x-ndjson",
			most);
	}
	*ret_first = spans->all + is_array;
	*ret_count = count;
	return 0;
}

static void refuse_events(struct conn *conn, struct refusal *refusal, size_t bad, size_t count)
{
	struct refusal told = *refusal;
	if (count > 1) {
		refuse(&told, refusal->code, "event %zu of the batch: %.220s", bad + 1,
			refusal->message);
		told.limit = refusal->limit;
		told.detail.has_index = true;
		told.detail.index = bad;
	}
	http_refuse_later(conn, conn->session, &told);
}

static void append_body(struct conn *conn)
{
	struct refusal refusal = {0};
	struct json_spans spans = {0};
	const struct json_span *events = NULL;
	size_t count = 0;
	size_t bad = 0;
	int r = parse_events(conn, &spans, &events, &count, &refusal);
	struct append_ack *acks = r == 0 ? xcalloc(count, sizeof(*acks)) : NULL;
	if (r == 0 && conn_append(conn, events, count, acks, &bad, &refusal) == 0) {
		struct conn_wait *wait = conn_wait_append(conn, answer_appended);
		wait->acks = acks;
		wait->ack_count = count;
	} else {
		refuse_events(conn, &refusal, bad, count);
		free(acks);
	}
	json_spans_finish(&spans);
}

/** Takes a producer's whole state, like the `append_snapshot` of a WebSocket. */
void http_post_snapshot(struct conn *conn, struct session *session)
{
	struct refusal refusal = {0};
	struct snapshot_result result;
	size_t bad = SNAPSHOT_NO_INDEX;
	const char *wrong = query_append(conn);
	if (wrong) {
		http_refuse(conn, "bad_request", wrong);
		return;
	}
	if (!session && !conn->may_create) {
		http_refuse_no_session(conn);
		return;
	}
	json_t *data = json_parse(conn->rx.data, conn->rx.len,
		session_table_numbers(conn->server->sessions), &refusal);
	if (data && conn_append_snapshot(conn, data, &result, &bad, &refusal) == 0) {
		struct conn_wait *wait = conn_wait_append(conn, answer_appended);
		conn_wait_take_snapshot(wait, &result);
	} else {
		refusal.detail.has_index = bad != SNAPSHOT_NO_INDEX;
		refusal.detail.index = bad;
		http_refuse_later(conn, conn->session, &refusal);
	}
	json_decref(data);
}

void http_post_events(struct conn *conn, struct session *session)
{
	const char *bad = query_append(conn);
	if (bad) {
		http_refuse(conn, "bad_request", bad);
	} else if (!session && !conn->may_create) {
		http_refuse_no_session(conn);
	} else if (http_is_stream(conn) && session && !room_in_session(conn->server, session)) {
		http_refuse_limit(conn, 503, LIMIT_session_connections,
			"too many connections are about this session; try again later");
	} else if (http_is_stream(conn)) {
		http_stream_begin(conn);
	} else if (!conn->rx.len) {
		http_refuse(conn, "bad_request",
			"the request has no body; send one event, or an array of them, as JSON");
	} else {
		append_body(conn);
	}
}
