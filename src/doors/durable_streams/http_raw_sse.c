/*
 * A raw stream as server-sent events: a page at a time, as fast as the peer takes them, each with
 * the position where it ends, and then new bytes as they come. Readers that are up to date share a
 * frame.
 *
 * An event has whole characters (WHATWG HTML, 9.2.4: a stream of events is decoded as UTF-8), while an
 * append may end inside one. So in a stream of text the beginning of a character waits for its rest, or for the end
 * of the stream; until then the position is the one in front of it.
 */
#include "raw_internal.h"

#include "ds.h"
#include "holdfast/utf8.h"
#include "holdfast/websocket.h"

#include <stdlib.h>
#include <string.h>

/** conn.state */
struct raw_reader {
	struct conn *conn;
	struct raw_store *store;
	char *name;
	enum raw_mode mode;
	uint64_t id; /* of the stream; a later stream of the same name has another id */
	uint64_t at; /* it has been sent everything up to this position */
	uint64_t seen; /* read up to here: from `at` on, a part of a character */
	uint64_t least_cursor;
	bool has_begun; /* it was told its position */
	struct raw_read *read; /* in progress; NULL: none */
	struct raw_watch watch;
};

static void pump(struct raw_reader *reader);

/** The frame made of a page, shared by all readers whom it brings to the same place. */
struct shown_page {
	struct frame *frame;
	struct raw_place place;
};

static void drop_shown(void *arg)
{
	struct shown_page *shown = arg;
	frame_unref(shown->frame);
	free(shown);
}

static bool is_same_place(const struct raw_place *a, const struct raw_place *b)
{
	return a->at == b->at && a->cursor == b->cursor && a->is_up_to_date == b->is_up_to_date &&
	       a->is_closed == b->is_closed;
}

/** Makes the frame of a page, or takes the shared one. Returns a reference. */
static struct frame *make_frame(
	const struct raw_reader *reader, struct raw_page *page, const struct raw_place *place)
{
	struct shown_page *shown = page ? page->shown : NULL;
	if (shown && is_same_place(&shown->place, place)) {
		return frame_ref(shown->frame);
	}
	struct frame *frame = raw_events(page ? page->bytes.data : NULL,
		page ? place->at - page->from : 0, reader->mode, place);
	if (page && !shown) {
		shown = xcalloc(1, sizeof(*shown));
		shown->frame = frame_ref(frame);
		shown->place = *place;
		page->shown = shown;
		page->drop_shown = drop_shown;
	}
	return frame;
}

/** Returns how many bytes of a page wait for the rest of their character. */
static size_t half_of(
	const struct raw_reader *reader, const struct raw_view *view, const struct raw_page *page)
{
	bool is_end = view->is_closed && page->to == view->tail;
	return reader->mode == RAW_MODE_TEXT && !is_end
		       ? utf8_half(page->bytes.data, page->bytes.len)
		       : 0;
}

/** Sends a page and its place, or only the place if `page` is NULL. */
static void write_page(
	struct raw_reader *reader, const struct raw_view *view, struct raw_page *page)
{
	struct conn *conn = reader->conn;
	if (page) {
		reader->seen = page->to;
		reader->at = page->to - half_of(reader, view, page);
	}
	bool is_up_to_date = reader->seen == view->tail;
	const struct raw_place place = {.at = reader->at,
		.cursor = ds_cursor(clock_now_ms(conn_clock(conn)), reader->least_cursor),
		.is_up_to_date = is_up_to_date,
		.is_closed = is_up_to_date && view->is_closed};
	struct frame *frame = make_frame(reader, page, &place);
	sse_write(conn, frame);
	frame_unref(frame);
	reader->has_begun = true;
	if (place.is_closed) {
		conn_close(conn, 1000, "the stream is closed");
	}
}

static bool look(struct raw_reader *reader, struct raw_view *ret)
{
	bool is_there = raw_look(reader->store, reader->name, true, ret) == RAW_DONE &&
			ret->id == reader->id && reader->at <= ret->tail;
	if (!is_there) {
		conn_close(reader->conn, 1001, "the stream is gone"); /* the next answer says why */
	}
	return is_there;
}

static void handle_page(void *arg, struct raw_page *page, int status)
{
	struct raw_reader *reader = arg;
	struct raw_view view;
	reader->read = NULL;
	if (conn_is_closing(reader->conn)) {
		/* The page is no longer needed. */
	} else if (status < 0) {
		conn_close(reader->conn, 1011, "the stream cannot be read");
	} else if (look(reader, &view)) {
		write_page(reader, &view, page);
		pump(reader);
	}
	if (page) {
		raw_page_unref(page);
	}
}

/** Reads or sends what comes next, if the peer is ready to take it. */
static void pump(struct raw_reader *reader)
{
	struct conn *conn = reader->conn;
	struct raw_view view;
	if (conn_is_closing(conn) || conn_is_dead(conn) || reader->read || !look(reader, &view)) {
		return;
	}
	if (!conn_is_writable(conn)) {
		conn_want_writable(conn);
		sending_count(conn);
	} else if (view.tail > (view.is_closed ? reader->at : reader->seen)) {
		reader->read = raw_read(reader->store, reader->name, reader->at,
			reader->mode == RAW_MODE_TEXT, handle_page, reader);
	} else if (!reader->has_begun || view.is_closed) {
		write_page(reader, &view, NULL);
	}
}

static void handle_news(struct raw_watch *watch, struct raw_page *page, bool is_over)
{
	struct raw_reader *reader = list_entry(watch, struct raw_reader, watch);
	struct raw_view view;
	if (is_over) {
		conn_close(reader->conn, 1001, "the stream is gone");
		return;
	}
	if (!page || page->from != reader->at || reader->read || conn_is_closing(reader->conn) ||
		!reader->has_begun || !conn_is_writable(reader->conn)) {
		pump(reader);
	} else if (look(reader, &view)) {
		write_page(reader, &view, page);
	}
}

static void handle_writable(struct conn *conn)
{
	pump(conn_state(conn));
}

static void handle_closed(struct conn *conn)
{
	struct raw_reader *reader = conn_state(conn);
	conn_set_state(conn, NULL);
	metrics_add(conn_metrics(conn), METRIC_OBSERVERS_DS, (uint64_t)-1);
	raw_watch_end(&reader->watch);
	if (reader->read) {
		raw_read_cancel(reader->read);
	}
	free(reader->name);
	free(reader);
}

static const struct conn_ops raw_conn_ops = {
	.writable = handle_writable,
	.closed = handle_closed,
	.tell = sse_drop_frame,
};

void raw_open_sse(struct conn *conn, const char *name, const struct raw_offset *offset,
	uint64_t least_cursor, const struct raw_view *view)
{
	struct raw_reader *reader = xcalloc(1, sizeof(*reader));
	reader->conn = conn;
	reader->store = raw_store_of(conn);
	reader->name = xstrdup(name);
	reader->mode = raw_mode_of(view->type);
	reader->id = view->id;
	reader->at = offset->kind == RAW_NOW ? view->tail : offset->kind == RAW_AT ? offset->at : 0;
	reader->seen = reader->at;
	reader->least_cursor = least_cursor;
	reader->watch.news = handle_news;
	http_begin_sse(conn, &raw_conn_ops,
		reader->mode == RAW_MODE_BASE64
			? "cache-control: no-cache\r\nstream-sse-data-encoding: base64\r\n"
			: "cache-control: no-cache\r\n",
		false);
	room_note_known(conn);
	conn_set_state(conn, reader);
	metrics_add(conn_metrics(conn), METRIC_OBSERVERS_DS, 1);
	raw_watch_begin(reader->store, reader->name, &reader->watch);
	pump(reader);
}
