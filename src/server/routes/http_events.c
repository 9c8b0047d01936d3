/*
 * The events of a session over HTTP: reading a page, and appending an event, an array of events or
 * a snapshot.
 */
#include "server/http_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --- */

/** A page that is being read, or waits for its turn. */
struct page_answer {
	struct answer answer;
	struct load_request load;
	struct load_plan plan;
	enum event_format format;
	struct log_read *read; /* NULL: none is running */
	struct event **events; /* NULL: not read yet */
	size_t count;
};

static void page_drop(struct answer *answer)
{
	struct page_answer *page = list_entry(answer, struct page_answer, answer);
	if (page->read) {
		log_read_cancel(page->read);
	}
	for (size_t i = 0; i < page->count; i++) {
		event_unref(page->events[i]);
	}
	free(page->events);
	free(page);
}

static const struct answer_ops page_ops = {.drop = page_drop};

/** The page that the connection's request is answered with. */
static struct page_answer *page_of(const struct conn *conn)
{
	return list_entry(conn->http->answer, struct page_answer, answer);
}

static void respond_page(struct conn *conn, const struct page_answer *page)
{
	struct loaded_frame loaded;
	load_page_fill(
		session_channel(conn->session), &page->plan, page->events, page->count, &loaded);
	loaded.format = page->format;
	loaded.hide = conn_hides(conn);
	struct buffer body = {0};
	frames_append_loaded(&body, &loaded);
	metrics_add(conn->server->metrics, METRIC_EVENTS_DELIVERED, page->count);
	http_respond_page(conn, &body);
	buffer_finish(&body);
}

/** Answers with the page that was read. */
static void serve_page(struct conn *conn)
{
	if (conn->session) {
		respond_page(conn, page_of(conn));
	} else {
		http_refuse_lost(conn);
	}
	http_drop_answer(conn);
}

static void keep_page(struct page_answer *page, struct event **events, size_t count)
{
	page->events = xcalloc(count, sizeof(struct event *));
	page->count = count;
	memcpy(page->events, events, count * sizeof(struct event *));
}

static void read_again(struct page_answer *page);

/** Whether the events that were to be read have been pruned meanwhile. */
static bool is_behind(const struct page_answer *page)
{
	const struct channel *channel = session_channel(page->answer.conn->session);
	return page->plan.from < session_log_first_seq(channel->log);
}

static void handle_read(void *arg, int status, struct event **events, size_t count)
{
	struct page_answer *page = arg;
	struct conn *conn = page->answer.conn;
	page->read = NULL;
	if (status == 0) {
		keep_page(page, events, count);
		http_in_turn(conn, serve_page);
	} else if (!conn->session) {
		http_refuse_lost(conn);
	} else if (is_behind(page)) {
		read_again(page); /* as if the request had come now */
	} else {
		struct refusal refusal = {0};
		refuse_events_read(&refusal, session_channel(conn->session)->log);
		http_refuse_event(conn, &refusal);
	}
}

static void make_plan(struct page_answer *page)
{
	const struct channel *channel = session_channel(page->answer.conn->session);
	struct session_log *log = channel->log;
	page->plan = load_plan_make(
		&page->load, session_log_epoch(log), session_log_first_seq(log), channel->max_seq);
}

/** Reads what the plan says. The page may be answered then, and gone. */
static void read_page(struct page_answer *page)
{
	struct conn *conn = page->answer.conn;
	struct channel *channel = session_channel(conn->session);
	struct session_log *log = channel->log;
	struct log_page wanted = load_plan_page(&page->plan, page->load.limit, channel);
	wanted.format = page->format;
	wanted.gaps = page->load.gaps;
	size_t want = wanted.to >= wanted.from ? (size_t)(wanted.to - wanted.from + 1) : 0;
	struct event **hot = xcalloc(want, sizeof(struct event *));
	size_t n = want ? session_log_get_hot(log, &wanted, hot) : 0;
	if (n || !want) {
		keep_page(page, hot, n);
		serve_page(conn);
	} else {
		page->read = session_log_read(log, &wanted, handle_read, page);
		if (!page->read) {
			handle_read(page, -EBADMSG, NULL, 0);
		}
	}
	free(hot);
}

static void read_again(struct page_answer *page)
{
	make_plan(page);
	read_page(page);
}

static void serve_events(struct conn *conn)
{
	struct page_answer *page = page_of(conn);
	if (!conn->session) {
		http_refuse_lost(conn);
		return;
	}
	make_plan(page);
	load_count(conn->server->metrics, &page->load, &page->plan);
	read_page(page);
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
	struct load_request load = {0};
	enum event_format as;
	const char *bad = query_check(conn, (const char *const[]){"after_seq", "before_seq",
						    "limit", "epoch", "format", "gaps", NULL});
	const char *wanted = query_get(conn, "format", format, sizeof(format));
	if (!bad && query_format(wanted, FORMAT_HTML, &as) < 0) {
		bad = "format must be html, markdown or both";
	}
	if (bad) {
		http_refuse(conn, ERROR_bad_request, bad);
		return;
	}
	if (load_request_from_query(query_get(conn, "after_seq", after, sizeof(after)),
		    query_get(conn, "before_seq", before, sizeof(before)),
		    query_get(conn, "limit", limit, sizeof(limit)),
		    query_get(conn, "epoch", epoch, sizeof(epoch)),
		    query_get(conn, "gaps", gaps, sizeof(gaps)), conn->server->limits, &load,
		    &refusal) < 0) {
		http_refuse_event(conn, &refusal);
		return;
	}
	struct page_answer *page = xcalloc(1, sizeof(*page));
	page->load = load;
	page->format = as;
	http_begin_answer(conn, &page->answer, &page_ops);
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
			refuse(refusal, ERROR_bad_json,
				"the body is not one JSON text; to send one event per line, use the content-type application/x-ndjson");
		}
		return -EINVAL;
	}
	bool is_array = spans->all->type == JSON_ARRAY;
	size_t count = is_array ? json_span_array_size(spans->all) : 1;
	if (!count) {
		return refuse(refusal, ERROR_bad_request,
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
		http_refuse(conn, ERROR_bad_request, wrong);
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
		http_refuse(conn, ERROR_bad_request, bad);
	} else if (!session && !conn->may_create) {
		http_refuse_no_session(conn);
	} else if (http_is_stream(conn) && session && !room_in_session(conn->server, session)) {
		http_refuse_limit(conn, LIMIT_session_connections,
			"too many connections are about this session; try again later");
	} else if (http_is_stream(conn)) {
		http_stream_begin(conn);
	} else if (!conn->rx.len) {
		http_refuse(conn, ERROR_bad_request,
			"the request has no body; send one event, or an array of them, as JSON");
	} else {
		append_body(conn);
	}
}
