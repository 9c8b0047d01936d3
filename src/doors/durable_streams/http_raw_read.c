/* GET and HEAD of raw streams: a page, or a long poll that waits for news. */
#include "raw_internal.h"

#include "holdfast/deflate.h"
#include "ds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define GONE "the offset is not in this stream; read again from offset=-1"

static void end(struct conn *conn)
{
	raw_of(conn)->is_over = true;
	raw_watch_end(&raw_of(conn)->watch);
	http_end_poll(conn);
}

static void append_cursor(struct conn *conn, struct buffer *headers)
{
	const struct http_raw *raw = raw_of(conn);
	if (raw->polls) {
		buffer_printf(headers, "stream-cursor: %" PRIu64 "\r\n",
			ds_cursor(clock_now_ms(conn_clock(conn)), raw->least_cursor));
	}
}

/** Appends the headers that say where in the stream the answer ends. */
static void append_place(struct conn *conn, struct buffer *headers, const struct raw_view *view,
	uint64_t at, bool *ret_is_closed)
{
	raw_append_offset(headers, at);
	append_cursor(conn, headers);
	*ret_is_closed = view->is_closed && at == view->tail;
	if (at == view->tail) {
		buffer_append_str(headers, "stream-up-to-date: true\r\n");
	}
	if (*ret_is_closed) {
		buffer_append_str(headers, "stream-closed: true\r\n");
	}
}

/** Answers that nothing is new. */
static void answer_nothing(struct conn *conn, const struct raw_view *view)
{
	struct http_raw *raw = raw_of(conn);
	struct buffer headers = {0};
	bool is_closed;
	end(conn);
	buffer_append_str(&headers, RAW_HEADERS "cache-control: no-store\r\n");
	append_place(conn, &headers, view, raw->from, &is_closed);
	http_respond_file(conn, 204, buffer_cstr(&headers), NULL, 0, 0);
	buffer_finish(&headers);
}

static void respond(struct conn *conn, struct buffer *headers, const char *etag,
	const struct buffer *body, bool packs)
{
	struct buffer packed = {0};
	if (etag) {
		buffer_printf(headers, "etag: %s\r\n", etag);
	}
	if (etag && http_has_etag(conn, etag)) {
		http_respond_file(conn, 304, buffer_cstr(headers), NULL, 0, 0);
	} else if (packs) {
		buffer_append_str(headers, "content-encoding: gzip\r\n");
		http_gzip(conn, body->data, body->len, &packed);
		http_respond_file(
			conn, 200, buffer_cstr(headers), packed.data, packed.len, packed.len);
		buffer_finish(&packed);
	} else {
		http_respond_file(
			conn, 200, buffer_cstr(headers), body->data, body->len, body->len);
	}
}

static void answer_page(struct conn *conn, const struct raw_view *view, const struct raw_page *page)
{
	struct http_raw *raw = raw_of(conn);
	struct buffer headers = {0};
	struct buffer json = {0};
	char etag[120];
	bool is_closed;
	end(conn);
	if (view->is_json) {
		raw_json_show(page->bytes.data, page->bytes.len, &json);
	}
	const struct buffer *body = view->is_json ? &json : &page->bytes;
	bool packs = body->len >= DEFLATE_MIN && http_takes_gzip(conn);
	bool is_now = raw->offset.kind == RAW_NOW && !raw->polls;
	buffer_printf(&headers,
		RAW_HEADERS "cache-control: %s\r\ncontent-type: %s\r\nvary: accept-encoding\r\n",
		is_now ? "no-store" : "private, no-cache", view->type);
	append_place(conn, &headers, view, page->to, &is_closed);
	snprintf(etag, sizeof(etag), "\"%" PRIx64 ":%" PRIu64 ":%" PRIu64 "%s%s%s\"", view->id,
		page->from, page->to, page->to == view->tail ? "" : ":more", is_closed ? ":c" : "",
		packs ? ":gzip" : "");
	respond(conn, &headers, is_now ? NULL : etag, body, packs);
	buffer_finish(&headers);
	buffer_finish(&json);
}

/** Looks the stream up, which must be the same as before; refuses the request if it is gone. */
static bool look(struct conn *conn, bool touches, struct raw_view *ret)
{
	struct http_raw *raw = raw_of(conn);
	enum raw_result result = raw_look(raw_store_of(conn), raw->name, touches, ret);
	bool is_same = result == RAW_DONE && (!raw->id || ret->id == raw->id);
	if (is_same) {
		raw->id = ret->id;
		return true;
	}
	end(conn);
	if (result == RAW_DONE) {
		http_refuse(conn, ERROR_gone, GONE);
	} else {
		raw_refuse_result(conn, result, NULL);
	}
	return false;
}

static void handle_page(void *arg, struct raw_page *page, int status)
{
	struct conn *conn = arg;
	struct raw_view view;
	raw_of(conn)->read = NULL;
	if (raw_of(conn)->is_over) {
		/* It has been answered meanwhile. */
	} else if (status == -EINVAL) {
		end(conn);
		http_refuse(
			conn, raw_of(conn)->offset.at > 0 ? ERROR_gone : ERROR_bad_request, GONE);
	} else if (status < 0 && status != -ENOENT) {
		end(conn);
		raw_refuse_result(conn, status == -EBADMSG ? RAW_DAMAGED : RAW_FAILED, NULL);
	} else if (look(conn, true, &view) && page) {
		answer_page(conn, &view, page);
	} else if (!raw_of(conn)->is_over) { /* the stream exists, but its file is missing */
		end(conn);
		raw_refuse_result(conn, RAW_FAILED, NULL);
	}
	if (page) {
		raw_page_unref(page);
	}
}

static void read_page(struct conn *conn)
{
	struct http_raw *raw = raw_of(conn);
	raw->read = raw_read(raw_store_of(conn), raw->name, raw->from, false, handle_page, conn);
}

/* --- long polls --- */

static void handle_news(struct raw_watch *watch, struct raw_page *page, bool is_over)
{
	struct http_raw *raw = list_entry(watch, struct http_raw, watch);
	struct conn *conn = raw->answer.conn;
	struct raw_view view;
	if (raw->is_over || raw->read || !look(conn, true, &view)) {
		return;
	}
	if (page && page->from == raw->from && page->to == view.tail) {
		answer_page(conn, &view, page);
	} else if (view.tail > raw->from) {
		raw_watch_end(&raw->watch);
		read_page(conn);
	} else if (view.is_closed) {
		answer_nothing(conn, &view);
	}
}

void raw_end_poll(struct conn *conn)
{
	struct raw_view view;
	if (!raw_of(conn)->is_over && look(conn, true, &view)) {
		if (raw_of(conn)->read) {
			raw_read_cancel(raw_of(conn)->read);
			raw_of(conn)->read = NULL;
		}
		view.is_closed = view.is_closed && view.tail == raw_of(conn)->from;
		answer_nothing(conn, &view);
	}
}

static void begin_poll(struct conn *conn)
{
	struct http_raw *raw = raw_of(conn);
	raw->watch.news = handle_news;
	raw_watch_begin(raw_store_of(conn), raw->name, &raw->watch);
	http_begin_poll(conn);
	conn_update_flow(conn);
}

/* --- requests --- */

/** Reads the query. Returns NULL, or a message. */
static const char *read_query(struct conn *conn, struct http_raw *raw, bool *ret_streams)
{
	char buf[QUERY_VALUE_MAX];
	unsigned short random = 0;
	const char *bad =
		query_check_known(conn, (const char *const[]){"offset", "live", "cursor", NULL});
	if (bad) {
		return bad;
	}
	const char *cursor = query_get(conn, "cursor", buf, sizeof(buf));
	if (cursor && getrandom(&random, sizeof(random), GRND_NONBLOCK) > 0) {
		raw->least_cursor =
			ds_cursor_behind(cursor, clock_now_ms(conn_clock(conn)), random);
	}
	const char *live = query_get(conn, "live", buf, sizeof(buf));
	raw->polls = live && strcmp(live, "long-poll") == 0;
	*ret_streams = live && strcmp(live, "sse") == 0;
	if (live && !raw->polls && !*ret_streams) {
		return "live must be long-poll or sse";
	}
	const char *offset = query_get(conn, "offset", buf, sizeof(buf));
	raw->has_offset = offset;
	if (!offset) {
		return live ? "live needs an offset" : NULL;
	}
	return raw_offset_read(offset, &raw->offset)
		       ? NULL
		       : "offset must be -1, now, or the Stream-Next-Offset of an answer";
}

static void read_stream(struct conn *conn, const struct raw_view *view)
{
	struct http_raw *raw = raw_of(conn);
	raw->from = raw->offset.kind == RAW_NOW  ? view->tail
		    : raw->offset.kind == RAW_AT ? raw->offset.at
						 : 0;
	bool waits = raw->polls && raw->has_offset && raw->from == view->tail;
	if (raw->from > view->tail) {
		end(conn);
		http_refuse(conn, ERROR_gone, GONE);
	} else if (waits && view->is_closed) {
		answer_nothing(conn, view);
	} else if (waits) {
		begin_poll(conn);
	} else {
		read_page(conn);
	}
}

void raw_get(struct conn *conn, const char *name)
{
	struct http_raw *raw = raw_begin(conn, name);
	struct raw_view view;
	bool streams;
	const char *bad = read_query(conn, raw, &streams);
	if (!bad && http_has_body(conn)) {
		bad = "a stream is read without a body";
	}
	if (bad) {
		end(conn);
		http_refuse(conn, ERROR_bad_request, bad);
	} else if (!look(conn, true, &view)) {
		return;
	} else if (streams && raw->offset.kind == RAW_AT && raw->offset.at > view.tail) {
		end(conn);
		http_refuse(conn, ERROR_gone, GONE);
	} else if (streams) {
		raw_open_sse(conn, name, &raw->offset, raw->least_cursor, &view);
	} else {
		read_stream(conn, &view);
	}
}

void raw_head(struct conn *conn, const char *name)
{
	raw_begin(conn, name);
	struct raw_view view;
	struct buffer headers = {0};
	bool is_closed;
	if (!look(conn, false, &view)) {
		return;
	}
	end(conn);
	buffer_printf(
		&headers, RAW_HEADERS "cache-control: no-store\r\ncontent-type: %s\r\n", view.type);
	append_place(conn, &headers, &view, view.tail, &is_closed);
	if (view.has_ttl) {
		buffer_printf(&headers, "stream-ttl: %" PRId64 "\r\n", view.ttl_s);
	}
	if (view.expires) {
		buffer_printf(&headers, "stream-expires-at: %s\r\n", view.expires);
	}
	http_respond_file(conn, 200, buffer_cstr(&headers), NULL, 0, 0);
	buffer_finish(&headers);
}
