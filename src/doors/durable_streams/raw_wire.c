#include "raw_wire.h"

#include "holdfast/bytes.h"
#include "holdfast/json_span.h"
#include "holdfast/json_text.h"
#include "holdfast/sse.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* --- names --- */

static bool is_part(const char *part, size_t len)
{
	static const char *const taken[] = {"", ".", "..", "__ds"};
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		if (strlen(taken[i]) == len && strncmp(part, taken[i], len) == 0) {
			return false;
		}
	}
	return true;
}

const char *raw_name(const char *path, size_t most)
{
	size_t prefix = sizeof(RAW_PATH) - 1;
	if (strncmp(path, RAW_PATH, prefix) != 0) {
		return NULL;
	}
	const char *name = path + prefix;
	size_t len = strlen(name);
	if (!len || len > most || !utf8_is_valid(name, len)) {
		return NULL;
	}
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '\\') {
			return NULL;
		}
	}
	for (const char *part = name;; part++) {
		size_t n = strcspn(part, "/");
		if (!is_part(part, n)) {
			return NULL;
		}
		part += n;
		if (!*part) {
			return name;
		}
	}
}

/* --- numbers --- */

/** Reads exactly `len` digits. */
static bool read_digits(const char *text, size_t len, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9') {
			return false;
		}
		*ret = *ret * 10 + (uint64_t)(text[i] - '0');
	}
	return len > 0;
}

bool raw_offset_read(const char *text, struct raw_offset *ret)
{
	uint64_t zero;
	*ret = (struct raw_offset){.kind = RAW_BEGIN};
	if (strcmp(text, "-1") == 0) {
		return true;
	}
	if (strcmp(text, "now") == 0) {
		ret->kind = RAW_NOW;
		return true;
	}
	ret->kind = RAW_AT;
	return strlen(text) == RAW_OFFSET_SIZE - 1 && text[16] == '_' &&
	       read_digits(text, 16, &zero) && !zero && read_digits(text + 17, 16, &ret->at);
}

void raw_offset_write(char ret[RAW_OFFSET_SIZE], uint64_t at)
{
	snprintf(ret, RAW_OFFSET_SIZE, "%016d_%016" PRIu64, 0,
		at < JSON_SAFE_MAX ? at : (uint64_t)JSON_SAFE_MAX);
}

bool raw_number_read(const char *text, bool plain, uint64_t *ret)
{
	size_t len = strlen(text);
	size_t zeros = strspn(text, "0");
	*ret = 0;
	if (!len || (plain && zeros && len > 1)) {
		return false;
	}
	if (zeros == len) {
		return true;
	}
	return len - zeros <= 16 && read_digits(text + zeros, len - zeros, ret) &&
	       *ret <= JSON_SAFE_MAX;
}

/* --- types --- */

static bool is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$&^_.+-", c));
}

bool raw_type_is_valid(const char *type)
{
	size_t at = 0;
	while (is_token(type[at])) {
		at++;
	}
	if (!at || type[at] != '/' || !is_token(type[at + 1])) {
		return false;
	}
	for (; type[at]; at++) {
		if ((unsigned char)type[at] < 0x20 || (unsigned char)type[at] >= 0x7f) {
			return false;
		}
	}
	return true;
}

bool raw_type_is_json(const char *type)
{
	static const char json[] = "application/json";
	size_t len = strcspn(type, "; \t");
	return len == sizeof(json) - 1 && strncasecmp(type, json, len) == 0;
}

bool raw_type_is_text(const char *type)
{
	return strncasecmp(type, "text/", 5) == 0;
}

enum raw_mode raw_mode_of(const char *type)
{
	return raw_type_is_json(type)   ? RAW_MODE_JSON
	       : raw_type_is_text(type) ? RAW_MODE_TEXT
					: RAW_MODE_BASE64;
}

/* --- JSON --- */

static void store_message(const struct json_span *span, struct buffer *out)
{
	json_span_write(out, span);
	buffer_append_char(out, '\n');
}

int raw_json_store(const char *text, size_t len, struct buffer *out)
{
	struct json_spans spans = {0};
	if (json_spans_read(text, len, &spans) < 0) {
		return -EINVAL;
	}
	if (!json_span_is(spans.all, JSON_ARRAY)) {
		store_message(spans.all, out);
	} else {
		json_span_each(span, spans.all) {
			store_message(span, out);
		}
	}
	bool is_empty = json_span_is(spans.all, JSON_ARRAY) && spans.all->size == 1;
	json_spans_finish(&spans);
	return is_empty ? -ENODATA : 0;
}

void raw_json_show(const char *lines, size_t len, struct buffer *out)
{
	buffer_reserve(out, len + 2);
	buffer_append_char(out, '[');
	size_t begin = out->len;
	buffer_append(out, lines, len && lines[len - 1] == '\n' ? len - 1 : len);
	for (char *at = out->data + begin;
		(at = memchr(at, '\n', (size_t)(out->data + out->len - at))); at++) {
		*at = ',';
	}
	buffer_append_char(out, ']');
}

/* --- server-sent events --- */

/**
 * Appends one line of data. Readers drop one leading blank, so a line that begins with one gets
 * another.
 */
static void append_line(struct buffer *out, const char *line, size_t len)
{
	buffer_append_str(out, len && line[0] == ' ' ? "data: " : "data:");
	buffer_append(out, line, len);
	buffer_append_char(out, '\n');
}

/**
 * Every line ending, whatever its kind, starts a new `data:`, so that the content cannot inject
 * events.
 */
static void append_lines(struct buffer *out, const char *bytes, size_t len)
{
	size_t at = 0;
	for (bool ends = true; ends;) {
		size_t n = bytes_find_two(bytes + at, len - at, '\n', '\r');
		append_line(out, bytes + at, n);
		at += n;
		ends = at < len;
		if (ends) {
			at += bytes[at] == '\r' && at + 1 < len && bytes[at + 1] == '\n' ? 2 : 1;
		}
	}
}

static void append_base64(struct buffer *out, const char *bytes, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = (const unsigned char *)bytes;
	buffer_reserve(out, (len + 2) / 3 * 4);
	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		unsigned word = (unsigned)in[i] << 16 | (left > 1 ? (unsigned)in[i + 1] << 8 : 0) |
				(left > 2 ? in[i + 2] : 0U);
		char text[4] = {digits[word >> 18], digits[word >> 12 & 63],
			left > 1 ? digits[word >> 6 & 63] : '=',
			left > 2 ? digits[word & 63] : '='};
		buffer_append(out, text, sizeof(text));
	}
}

static void append_data(struct buffer *out, const char *bytes, size_t len, enum raw_mode mode)
{
	buffer_append_str(out, "event: data\n");
	if (mode == RAW_MODE_TEXT) {
		append_lines(out, bytes, len);
	} else {
		buffer_append_str(out, "data:");
		mode == RAW_MODE_JSON ? raw_json_show(bytes, len, out)
				      : append_base64(out, bytes, len);
		buffer_append_char(out, '\n');
	}
	buffer_append_char(out, '\n');
}

static void append_control(struct buffer *out, const struct raw_place *place)
{
	char offset[RAW_OFFSET_SIZE];
	raw_offset_write(offset, place->at);
	buffer_printf(out, "event: control\ndata:{\"streamNextOffset\":\"%s\"", offset);
	if (place->is_closed) {
		buffer_append_str(out, ",\"streamClosed\":true");
	} else {
		buffer_printf(out, ",\"streamCursor\":\"%" PRIu64 "\"%s", place->cursor,
			place->is_up_to_date ? ",\"upToDate\":true" : "");
	}
	buffer_append_str(out, "}\n\n");
}

struct frame *raw_events(
	const char *bytes, size_t len, enum raw_mode mode, const struct raw_place *place)
{
	struct buffer out = {0};
	if (len) {
		append_data(&out, bytes, len, mode);
	}
	append_control(&out, place);
	struct frame *frame = sse_text(out.data, out.len);
	buffer_finish(&out);
	return frame;
}
