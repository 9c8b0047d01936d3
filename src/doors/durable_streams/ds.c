#include "ds.h"

#include "holdfast/bytes.h"
#include "holdfast/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* 2024-10-09 00:00 UTC, and the length of an interval, in ms. */
#define CURSOR_BEGIN 1728432000000
#define CURSOR_MS    20000
/* Most intervals that a client is moved ahead: an hour. */
#define CURSOR_JITTER 180

/* --- offsets --- */

/** Reads exactly 16 digits. */
static bool read_seq(const char *text, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < 16; i++) {
		if (text[i] < '0' || text[i] > '9') {
			return false;
		}
		*ret = *ret * 10 + (uint64_t)(text[i] - '0');
	}
	return *ret <= JSON_SAFE_MAX;
}

bool ds_offset_read(const char *text, size_t len, struct ds_offset *ret)
{
	*ret = (struct ds_offset){.kind = DS_BEGIN};
	if (len == 2 && memcmp(text, "-1", 2) == 0) {
		return true;
	}
	if (len == 3 && memcmp(text, "now", 3) == 0) {
		ret->kind = DS_NOW;
		return true;
	}
	ret->kind = DS_AT;
	return len == DS_OFFSET_SIZE - 1 && text[16] == '_' &&
	       bytes_read_hex(text, 16, &ret->epoch) && read_seq(text + 17, &ret->seq);
}

void ds_offset_write(char ret[DS_OFFSET_SIZE], uint64_t epoch, uint64_t seq)
{
	uint64_t shown = seq <= JSON_SAFE_MAX ? seq : JSON_SAFE_MAX;
	snprintf(ret, DS_OFFSET_SIZE, "%016" PRIx64 "_%016" PRIu64, epoch, shown);
}

/* --- cursors --- */

uint64_t ds_cursor(int64_t now_ms, uint64_t least)
{
	uint64_t now = now_ms > CURSOR_BEGIN ? (uint64_t)(now_ms - CURSOR_BEGIN) / CURSOR_MS : 0;
	return now > least ? now : least;
}

uint64_t ds_cursor_behind(const char *text, int64_t now_ms, unsigned random)
{
	uint64_t told = 0;
	size_t len = strspn(text, "0123456789");
	if (!len || text[len] || len > 15) {
		return 0;
	}
	for (size_t i = 0; i < len; i++) {
		told = told * 10 + (uint64_t)(text[i] - '0');
	}
	return told < ds_cursor(now_ms, 0) ? 0 : told + 1 + random % CURSOR_JITTER;
}

/* --- events --- */

void ds_append_events(struct buffer *out, struct event **events, size_t count,
	enum event_format format, unsigned hide)
{
	buffer_append_char(out, '[');
	for (size_t i = 0; i < count; i++) {
		size_t len;
		const char *json = event_json_for(events[i], format, hide, &len);
		if (i) {
			buffer_append_char(out, ',');
		}
		buffer_append(out, json, len);
	}
	buffer_append_char(out, ']');
}

void ds_append_data(struct buffer *out, struct event **events, size_t count,
	enum event_format format, unsigned hide)
{
	buffer_append_str(out, "event: data\ndata: ");
	size_t begin = out->len;
	ds_append_events(out, events, count, format, hide);
	for (size_t i = begin; i < out->len; i++) {
		/* Data must be one line; line endings in JSON can only be white space. */
		char c = out->data[i];
		out->data[i] = c == '\n' || c == '\r' ? ' ' : c;
	}
	buffer_append_str(out, "\n\n");
}

void ds_append_control(
	struct buffer *out, uint64_t epoch, uint64_t seq, uint64_t cursor, bool is_up_to_date)
{
	char offset[DS_OFFSET_SIZE];
	ds_offset_write(offset, epoch, seq);
	buffer_printf(out,
		"event: control\ndata: {\"streamNextOffset\":\"%s\",\"streamCursor\":\"%" PRIu64
		"\"%s}\n\n",
		offset, cursor, is_up_to_date ? ",\"upToDate\":true" : "");
}
