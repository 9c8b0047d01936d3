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

struct frame *sse_events(struct event **events, size_t count, enum event_format format,
	unsigned hide, uint64_t epoch)
{
	struct frame *frame = begin(320 * count);
	for (size_t i = 0; i < count; i++) {
		put_event(&frame->buf, events[i], format, hide, epoch);
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

/** The unfinished text, as the same event that its continuation will use. */
static void put_open(struct buffer *out, const struct open_part *open)
{
	struct frame *frame =
		open->is_html ? frame_preview(open->seq, open->type, open->text, open->len)
			      : frame_delta(open->seq, open->type, 0, open->text, open->len);
	struct frame *shown = sse_frame(frame);
	buffer_append(out, frame_text(shown), frame_len(shown));
	frame_unref(frame);
}

struct frame *sse_loaded(const struct loaded_frame *page, const uint64_t *from)
{
	struct frame *frame = begin(320 * page->count + page->open.len);
	if (page->reset) {
		put_reset(&frame->buf, page);
	}
	if (from) {
		put_position(&frame->buf, page->epoch, *from);
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

struct frame *sse_live(uint64_t epoch, uint64_t max_seq)
{
	struct frame *frame = begin(96);
	buffer_printf(&frame->buf,
		"event: live\ndata: {\"epoch\":\"%016llx\",\"max_seq\":%llu}\n\n",
		(unsigned long long)epoch, (unsigned long long)max_seq);
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

/* --- frames of sockets --- */

/** Splits `{"type":"…","data":…}`, the form of all frames. Returns the data. */
static const char *take_apart(
	const struct frame *frame, const char **ret_type, size_t *ret_type_len, size_t *ret_len)
{
	static const char before[] = "{\"type\":\"";
	static const char between[] = "\",\"data\":";
	*ret_type = frame_text(frame) + sizeof(before) - 1;
	const char *end = memchr(*ret_type, '"', frame_len(frame) - (sizeof(before) - 1));
	*ret_type_len = (size_t)(end - *ret_type);
	const char *data = end + sizeof(between) - 1;
	*ret_len = frame_len(frame) - (size_t)(data - frame_text(frame)) - 1;
	return data;
}

static bool is_type(const char *type, size_t len, const char *name)
{
	return len == strlen(name) && memcmp(type, name, len) == 0;
}

struct frame *sse_frame(struct frame *frame)
{
	const char *type;
	size_t type_len;
	size_t len;
	if (frame->is_sse) {
		return frame;
	}
	if (frame->sse) {
		return frame->sse;
	}
	const char *data = take_apart(frame, &type, &type_len, &len);
	frame->sse = begin(type_len + len + 32);
	struct buffer *out = &frame->sse->buf;
	if (is_type(type, type_len, "error")) { /* EventSource has its own event named "error" */
		put_event_name(out, "ended", 5);
	} else {
		put_event_name(out, type, type_len);
	}
	put_data(out, data, len);
	return end(frame->sse);
}

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
