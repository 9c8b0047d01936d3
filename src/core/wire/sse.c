#include "holdfast/sse.h"

#include "holdfast/bytes.h"
#include "holdfast/deflate.h"
#include "holdfast/json_text.h"

#include <stdlib.h>
#include <string.h>

/* Size of the header of a stored deflate block (RFC 1951, section 3.2.4), and most bytes in it. */
#define STORED_HEAD 5
#define STORED_MAX  65535

/* --- positions --- */

static bool read_seq(const char *text, size_t len, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9') {
			return false;
		}
		*ret = *ret * 10 + (uint64_t)(text[i] - '0');
	}
	return len >= 1 && len <= 16 && *ret <= JSON_SAFE_MAX;
}

bool sse_position_read(const char *text, size_t len, struct sse_position *ret)
{
	*ret = (struct sse_position){.has_epoch = len > 17 && text[16] == '-'};
	if (ret->has_epoch) {
		return bytes_read_hex(text, 16, &ret->epoch) &&
		       read_seq(text + 17, len - 17, &ret->seq);
	}
	return read_seq(text, len, &ret->seq);
}

/* --- building --- */

static struct frame *begin(size_t size_hint)
{
	struct frame *frame = xcalloc(1, sizeof(*frame));
	frame->refs = 1;
	frame->is_sse = true;
	buffer_reserve(&frame->buf, FRAME_HEADROOM + size_hint + 64);
	memset(frame->buf.data, 0, FRAME_HEADROOM);
	frame->buf.len = FRAME_HEADROOM;
	return frame;
}

/**
 * Puts the end of a chunk behind the bytes, beyond their length: once, as other threads may send
 * them from now on.
 */
static void put_chunk_end(struct buffer *bytes)
{
	buffer_append(bytes, SSE_CHUNK_END, SSE_CHUNK_END_SIZE);
	bytes->len -= SSE_CHUNK_END_SIZE;
}

/** Ends what begin() began. */
static struct frame *end(struct frame *frame)
{
	put_chunk_end(&frame->buf);
	return frame;
}

static void put_text(struct buffer *out, const char *text)
{
	buffer_append_str(out, text);
}

/**
 * Data must be one line. A line ending in JSON can only be white space between tokens, so a blank
 * replaces it.
 */
static void put_data(struct buffer *out, const char *json, size_t len)
{
	put_text(out, "data: ");
	size_t at = out->len;
	buffer_append(out, json, len);
	if (memchr(json, '\n', len) || memchr(json, '\r', len)) {
		for (; at < out->len; at++) {
			char c = out->data[at];
			out->data[at] = c == '\n' || c == '\r' ? ' ' : c;
		}
	}
	put_text(out, "\n\n");
}

static void put_event_name(struct buffer *out, const char *name, size_t len)
{
	put_text(out, "event: ");
	buffer_append(out, name, len);
	buffer_append_char(out, '\n');
}

static void put_position(struct buffer *out, uint64_t epoch, uint64_t seq)
{
	put_text(out, "id: ");
	buffer_append_hex(out, epoch);
	buffer_append_char(out, '-');
	buffer_append_u64(out, seq);
	buffer_append_char(out, '\n');
}

/** Finds the value of the member "type", the second member of every event. */
static const char *type_in(const char *json, size_t len, size_t *ret_len)
{
	static const char name[] = ",\"type\":\"";
	const char *at = memmem(json, len, name, sizeof(name) - 1);
	const char *value = at ? at + sizeof(name) - 1 : json;
	const char *end = at ? memchr(value, '"', len - (size_t)(value - json)) : NULL;
	*ret_len = end ? (size_t)(end - value) : 0;
	return value;
}

static void put_event(struct buffer *out, struct event *event, enum event_format format,
	unsigned hide, uint64_t epoch)
{
	size_t len;
	const char *json = event_json_for(event, format, hide, &len);
	const char *name = event_type_name(event->type);
	size_t name_len = strlen(name);
	if (!name_len) {
		name = type_in(json, len, &name_len);
	}
	put_position(out, epoch, event->seq);
	put_event_name(out, name, name_len);
	put_data(out, json, len);
}

static struct frame *make_events(void *reader, const struct live_events *in)
{
	struct frame *frame = begin(320 * in->count);
	for (size_t i = 0; i < in->count; i++) {
		put_event(&frame->buf, in->events[i], in->format, in->hide, in->now->epoch);
	}
	return end(frame);
}

static void put_reset(struct buffer *out, const struct loaded_frame *page)
{
	buffer_printf(out,
		"event: reset\ndata: {\"reason\":\"%s\",\"epoch\":\"%016llx\",\"first_seq\":%llu,\"max_seq\":%llu}\n\n",
		page->reset, (unsigned long long)page->epoch,
		(unsigned long long)page->first_kept_seq, (unsigned long long)page->max_seq);
}

/* --- frames of sockets --- */

static bool is_error(const struct frame_parts *parts)
{
	return parts->type_len == 5 && memcmp(parts->type, "error", 5) == 0;
}

struct frame *sse_frame(struct frame *frame)
{
	if (frame->is_sse) {
		return frame;
	}
	if (frame->sse) {
		return frame->sse;
	}
	const struct frame_parts parts = frame_parts(frame);
	frame->sse = begin(parts.type_len + parts.data_len + 32);
	struct buffer *out = &frame->sse->buf;
	if (is_error(&parts)) { /* EventSource has its own event named "error" */
		put_event_name(out, "ended", 5);
	} else {
		put_event_name(out, parts.type, parts.type_len);
	}
	put_data(out, parts.data, parts.data_len);
	return end(frame->sse);
}

/** A frame of a WebSocket in its form for a stream. Takes over the reference. */
static struct frame *stream_of(struct frame *frame)
{
	struct frame *stream = frame ? frame_ref(sse_frame(frame)) : NULL;
	frame_unref(frame);
	return stream;
}

static struct frame *make_delta(void *reader, const struct open_part *in)
{
	return stream_of(websocket_encoder.delta(reader, in));
}

static struct frame *make_preview(void *reader, const struct open_part *in)
{
	return stream_of(websocket_encoder.preview(reader, in));
}

/* --- pages --- */

/** The unfinished text, as the same event that its continuation will use. */
static void put_open(struct buffer *out, const struct open_part *open)
{
	struct frame *frame = open->is_html ? make_preview(NULL, open) : make_delta(NULL, open);
	buffer_append(out, frame_text(frame), frame_len(frame));
	frame_unref(frame);
}

static struct frame *make_page(void *reader, const struct loaded_frame *page)
{
	struct frame *frame = begin(320 * page->count + page->open.len);
	if (page->reset) {
		put_reset(&frame->buf, page);
	}
	if (page->is_newest) {
		put_position(&frame->buf, page->epoch, page->from - 1);
		buffer_append_char(&frame->buf, '\n');
	}
	for (size_t i = 0; i < page->count; i++) {
		put_event(&frame->buf, page->events[i], page->format, page->hide, page->epoch);
	}
	if (page->open.seq) {
		put_open(&frame->buf, &page->open);
	}
	return end(frame);
}

static struct frame *make_live(void *reader, const struct connected_frame *now)
{
	struct frame *frame = begin(96);
	buffer_printf(&frame->buf,
		"event: live\ndata: {\"epoch\":\"%016llx\",\"max_seq\":%llu}\n\n",
		(unsigned long long)now->epoch, (unsigned long long)now->max_seq);
	return end(frame);
}

struct frame *sse_text(const char *text, size_t len)
{
	struct frame *frame = begin(len);
	buffer_append(&frame->buf, text, len);
	return end(frame);
}

struct frame *sse_retry(int64_t ms)
{
	struct frame *frame = begin(32);
	buffer_printf(&frame->buf, "retry: %lld\n\n", (long long)ms);
	return end(frame);
}

struct frame *sse_comment(void)
{
	struct frame *frame = begin(8);
	put_text(&frame->buf, ":\n\n");
	return end(frame);
}

/* --- the encoder --- */

static struct frame *make_connected(void *reader, const struct connected_frame *in)
{
	return stream_of(websocket_encoder.connected(reader, in));
}

static struct frame *make_activity(void *reader, const struct activity *in, unsigned hide)
{
	return stream_of(websocket_encoder.activity(reader, in, hide));
}

static struct frame *make_state(void *reader, const struct connected_frame *now, unsigned hide)
{
	return stream_of(websocket_encoder.state(reader, now, hide));
}

static struct frame *make_error(void *reader, const struct error_notice *in)
{
	return stream_of(websocket_encoder.error(reader, in));
}

static struct frame *make_gone(void *reader, const char *session_id, const char *reason)
{
	return stream_of(websocket_encoder.gone(reader, session_id, reason));
}

const struct encoder sse_encoder = {
	.is_one_way = true,
	.connected = make_connected,
	.page = make_page,
	.events = make_events,
	.live = make_live,
	.delta = make_delta,
	.preview = make_preview,
	.activity = make_activity,
	.state = make_state,
	.error = make_error,
	.gone = make_gone,
};

/* --- gzip --- */

/**
 * Appends a stored block, followed by an empty one as after a flush: decoders then deliver
 * everything so far (Go's only then).
 */
static void put_stored(struct buffer *out, const char *text, size_t len)
{
	static const unsigned char flush[STORED_HEAD] = {0, 0, 0, 0xff, 0xff};
	const unsigned char head[STORED_HEAD] = {0, (unsigned char)len, (unsigned char)(len >> 8),
		(unsigned char)~len, (unsigned char)(~len >> 8)};
	buffer_append(out, head, sizeof(head));
	buffer_append(out, text, len);
	buffer_append(out, flush, sizeof(flush));
}

static void pack(struct frame *frame, struct deflater *deflater)
{
	static const char headroom[FRAME_HEADROOM];
	struct buffer *out = &frame->deflated;
	size_t len = frame_len(frame);
	frame->was_deflated = true;
	frame->piece = gzip_measure(frame_text(frame), len);
	buffer_append(out, headroom, sizeof(headroom));
	if (len >= DEFLATE_MIN) {
		deflate_piece(deflater, frame_text(frame), len, out);
	}
	if (len <= STORED_MAX && (len < DEFLATE_MIN || out->len >= frame->buf.len)) {
		buffer_clear(out);
		buffer_append(out, headroom, sizeof(headroom));
		put_stored(out, frame_text(frame), len);
	}
	put_chunk_end(out);
}

const struct buffer *sse_packed(struct frame *frame, struct deflater *deflater)
{
	if (!frame->was_deflated) {
		pack(frame, deflater);
	}
	return &frame->deflated;
}
