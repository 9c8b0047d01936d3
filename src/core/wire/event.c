#include "holdfast/event.h"

#include "holdfast/markdown_html.h"
#include "holdfast/sealed_line.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** With its length, so that most comparisons end there. */
#define NAME(text) text, sizeof(text) - 1

static const struct {
	const char *text;
	size_t len;
} type_names[] = {
#define ROW(id, name, secrecy) {NAME(name)},
	EVENT_TYPES(ROW)
#undef ROW
};

#undef NAME

const char *event_type_name(enum event_type type)
{
	return type_names[type].text;
}

enum event_type event_type_of(const char *name, size_t len)
{
	if (len > 2 && memcmp(name, "x-", 2) == 0) {
		return EVENT_CUSTOM;
	}
	enum event_type type = 0;
	while (type < EVENT_UNKNOWN && (!len || type_names[type].len != len ||
					       memcmp(type_names[type].text, name, len) != 0)) {
		type++;
	}
	return type;
}

/* --- writing --- */

/** Appends the JSON object up to the value of "data". */
static void append_head(struct buffer *out, const struct event_view *view, bool is_redacted)
{
	buffer_append_str(out, "{\"seq\":");
	buffer_append_u64(out, view->seq);
	buffer_append_str(out, ",\"type\":");
	if (view->type == EVENT_CUSTOM || view->type == EVENT_UNKNOWN) {
		buffer_append_json(out, view->type_name, view->type_len);
	} else {
		buffer_printf(out, "\"%s\"", event_type_name(view->type));
	}
	buffer_append_str(out, ",\"ts\":");
	buffer_append_u64(out, view->ts > 0 ? (uint64_t)view->ts : 0);
	if (view->turn) {
		buffer_append_str(out, ",\"turn\":");
		buffer_append_u64(out, view->turn);
	}
	if (view->message_id) {
		buffer_append_str(out, ",\"message_id\":");
		buffer_append_json(out, view->message_id, view->message_id_len);
	}
	buffer_append_str(out, is_redacted ? ",\"redacted\":true,\"data\":" : ",\"data\":");
}

void event_append_json(const struct event_view *view, bool is_redacted, struct buffer *out)
{
	append_head(out, view, is_redacted);
	buffer_append(out, view->data, view->data_len);
	buffer_append_char(out, '}');
}

/** Initialises a zeroed event; the value of "data" begins at offset `data_at` of `json`. */
static void event_init(
	struct event *event, const struct event_view *view, char *json, size_t len, size_t data_at)
{
	event->refs = 1;
	event->seq = view->seq;
	event->type = view->type;
	event->turn = view->turn;
	event->data_at = data_at;
	event->json[FORMAT_MARKDOWN] = json;
	event->json_len[FORMAT_MARKDOWN] = len;
}

struct event *event_create(const struct event_view *view)
{
	struct buffer json = {0};
	buffer_reserve(&json, view->data_len + view->message_id_len + 128);
	append_head(&json, view, false);
	size_t data_at = json.len;
	buffer_append(&json, view->data, view->data_len);
	buffer_append_char(&json, '}');
	struct event *event = xcalloc(1, sizeof(*event));
	event_init(event, view, json.data, json.len, data_at);
	return event;
}

struct event *event_ref(struct event *event)
{
	event->refs++;
	return event;
}

void event_unref(struct event *event)
{
	if (!event || --event->refs) {
		return;
	}
	for (int format = 0; format < FORMAT_COUNT; format++) {
		if (!(event->lent & 1U << format)) {
			free(event->json[format]);
		}
	}
	free(event->shown);
	if (event->block) {
		event_block_release(event->block);
	} else {
		free(event);
	}
}

void event_append_line(const struct event *event, struct buffer *out)
{
	size_t start = out->len;
	buffer_reserve(out, event_line_len(event));
	buffer_append(out, event->json[FORMAT_MARKDOWN],
		event->json_len[FORMAT_MARKDOWN] - 1); /* without the closing brace */
	sealed_line_end(out, start);
}

size_t event_line_len(const struct event *event)
{
	return event->json_len[FORMAT_MARKDOWN] - 1 + SEAL_LEN + 1;
}

/* --- reading --- */

/** Skips `text` if it is next; otherwise returns false. */
static bool take(const char **at, const char *end, const char *text)
{
	size_t len = strlen(text);
	if ((size_t)(end - *at) < len || memcmp(*at, text, len) != 0) {
		return false;
	}
	*at += len;
	return true;
}

static bool take_u64(const char **at, const char *end, uint64_t *ret_value)
{
	const char *start = *at;
	uint64_t value = 0;
	while (*at < end && **at >= '0' && **at <= '9' && *at - start < 19) {
		value = value * 10 + (uint64_t)(*(*at)++ - '0');
	}
	*ret_value = value;
	return *at > start;
}

/** Reads a JSON string; returns its raw bytes without the quotes. */
static bool take_string(const char **at, const char *end, const char **ret_text, size_t *ret_len)
{
	if (!take(at, end, "\"")) {
		return false;
	}
	*ret_text = *at;
	while (*at < end && **at != '"') {
		*at += **at == '\\' && *at + 1 < end ? 2 : 1;
	}
	*ret_len = (size_t)(*at - *ret_text);
	return take(at, end, "\"");
}

static int parse_head(const char **at, const char *end, struct event_view *view)
{
	uint64_t ts;
	if (!take(at, end, "{\"seq\":") || !take_u64(at, end, &view->seq) ||
		!take(at, end, ",\"type\":") ||
		!take_string(at, end, &view->type_name, &view->type_len) ||
		!take(at, end, ",\"ts\":") || !take_u64(at, end, &ts)) {
		return -EBADMSG;
	}
	view->ts = (int64_t)ts;
	if (take(at, end, ",\"turn\":") && !take_u64(at, end, &view->turn)) {
		return -EBADMSG;
	}
	if (take(at, end, ",\"message_id\":") &&
		!take_string(at, end, &view->message_id, &view->message_id_len)) {
		return -EBADMSG;
	}
	return take(at, end, ",\"data\":") ? 0 : -EBADMSG;
}

/** Finds the parts of an object that lacks its closing brace. */
static int parse_object(const char *object, size_t len, struct event_view *ret_view)
{
	struct event_view view = {0};
	const char *at = object;
	int r = parse_head(&at, object + len, &view);
	if (r < 0) {
		return r;
	}
	view.data = at;
	view.data_len = (size_t)(object + len - at);
	view.type = event_type_of(view.type_name, view.type_len);
	*ret_view = view;
	return 0;
}

int event_parse_line(const char *line, size_t len, struct event_view *ret_view)
{
	size_t body;
	return sealed_line_check(line, len, &body) ? parse_object(line, body, ret_view) : -EBADMSG;
}

void event_get_view(const struct event *event, struct event_view *ret_view)
{
	int r = parse_object(
		event->json[FORMAT_MARKDOWN], event->json_len[FORMAT_MARKDOWN] - 1, ret_view);
	assert(r == 0); /* we wrote it */
	(void)r;
}

int event_from_line(const char *line, size_t len, struct event **ret_event)
{
	struct event_view view;
	int r = event_parse_line(line, len, &view);
	if (r < 0) {
		return r;
	}
	size_t size = len - SEAL_LEN + 1;
	struct event *event = xcalloc(1, sizeof(*event));
	event_init(event, &view, xmalloc(size), size, (size_t)(view.data - line));
	memcpy(event->json[FORMAT_MARKDOWN], line, size - 1);
	event->json[FORMAT_MARKDOWN][size - 1] = '}';
	*ret_event = event;
	return 0;
}

/* --- blocks --- */

struct event_block *event_block_create(char *lines, size_t count)
{
	struct event_block *block = xcalloc(1, sizeof(*block) + count * sizeof(struct event));
	block->users = 1;
	block->lines = lines;
	return block;
}

void event_block_release(struct event_block *block)
{
	if (--block->users) {
		return;
	}
	free(block->lines);
	free(block->html);
	free(block);
}

int event_block_add(struct event_block *block, char *line, size_t len, struct event **ret_event)
{
	struct event_view view;
	int r = event_parse_line(line, len, &view);
	if (r < 0) {
		return r;
	}
	size_t size = len - SEAL_LEN + 1;
	line[size - 1] = '}'; /* in place of the checksum */
	struct event *event = &block->events[block->count++];
	event_init(event, &view, line, size, (size_t)(view.data - line));
	event->block = block;
	event->lent = 1U << FORMAT_MARKDOWN;
	block->users++;
	*ret_event = event;
	return 0;
}

void event_lend_html(struct event *event, char *json, size_t len)
{
	event->json[FORMAT_HTML] = json;
	event->json_len[FORMAT_HTML] = len;
	event->lent |= 1U << FORMAT_HTML;
}

/* --- formats --- */

/** A part of the event's JSON. */
struct piece {
	const char *at;
	size_t len;
};

/** Skips a value and returns it; `end` is the end of the enclosing object. */
static struct piece take_value(const char **at, const char *end)
{
	struct piece text;
	const char *start = *at;
	int depth = 0;
	while (*at < end && (depth || (**at != ',' && **at != '}'))) {
		if (take_string(at, end, &text.at, &text.len)) {
			continue;
		}
		depth += **at == '{' || **at == '[';
		depth -= **at == '}' || **at == ']';
		(*at)++;
	}
	return (struct piece){start, (size_t)(*at - start)};
}

static bool piece_is(struct piece piece, const char *text)
{
	return piece.len == strlen(text) && memcmp(piece.at, text, piece.len) == 0;
}

static bool is_text(struct piece value)
{
	return value.len >= 2 && value.at[0] == '"';
}

/** Appends the text of a JSON string written by buffer_append_json(). */
static void append_unescaped(struct buffer *out, struct piece string)
{
	static const char from[] = "nrtbf";
	static const char to[] = "\n\r\t\b\f";
	const char *at = string.at + 1;
	const char *end = string.at + string.len - 1;
	while (at < end) {
		const char *escape = memchr(at, '\\', (size_t)(end - at));
		buffer_append(out, at, (size_t)((escape ? escape : end) - at));
		if (!escape || end - escape < 2) {
			break;
		}
		const char *found = strchr(from, escape[1]);
		if (escape[1] == 'u' && end - escape >= 6) {
			/* Only characters up to 7f are escaped. */
			char digits[] = {escape[4], escape[5], '\0'};
			buffer_append_char(out, (char)strtoul(digits, NULL, 16));
			escape += 4;
		} else {
			buffer_append_char(out, found ? to[found - from] : escape[1]);
		}
		at = escape + 2;
	}
}

/** The value of a short number without a sign; else 0. */
static uint32_t number_of(struct piece value)
{
	uint32_t number = 0;
	for (size_t i = 0; i < value.len; i++) {
		if (i == 10 || value.at[i] < '0' || value.at[i] > '9') {
			return 0;
		}
		number = number * 10 + (uint32_t)(value.at[i] - '0');
	}
	return number;
}

static void append_html(
	struct buffer *out, struct piece context, struct piece markdown, struct piece start)
{
	struct buffer text = {0};
	struct buffer html = {0};
	buffer_reserve(&text, context.len + markdown.len + 1);
	if (is_text(context)) {
		append_unescaped(&text, context);
	}
	size_t context_len = text.len;
	append_unescaped(&text, markdown);
	markdown_to_html(&(struct markdown){.context = text.data,
				 .context_len = context_len,
				 .text = text.data + context_len,
				 .len = text.len - context_len,
				 .start = number_of(start)},
		&html);
	buffer_append_json(out, html.data ? html.data : "", html.len);
	buffer_finish(&text);
	buffer_finish(&html);
}

void event_render(const struct event *event, enum event_format format, struct buffer *out)
{
	/* data.html follows the other members; FORMAT_HTML omits the markdown and what goes with it. */
	const char *json = event->json[FORMAT_MARKDOWN];
	const char *end = json + event->json_len[FORMAT_MARKDOWN];
	const char *at = json + event->data_at + 1;
	struct piece markdown = {0};
	struct piece context = {0};
	struct piece start = {0};
	struct piece name;
	buffer_reserve(out, 2 * event->json_len[FORMAT_MARKDOWN]);
	buffer_append(out, json, (size_t)(at - json));
	const char *comma = "";
	while (take_string(&at, end, &name.at, &name.len) && take(&at, end, ":")) {
		struct piece value = take_value(&at, end);
		struct piece *part = piece_is(name, "markdown")  ? &markdown
				     : piece_is(name, "context") ? &context
				     : piece_is(name, "start")   ? &start
								 : NULL;
		if (part) {
			*part = value;
		}
		if (!part || format == FORMAT_BOTH) {
			buffer_append_str(out, comma);
			buffer_append(out, name.at - 1, (size_t)(at - name.at) + 1);
			comma = ",";
		}
		take(&at, end, ",");
	}
	if (is_text(markdown)) {
		buffer_append_str(out, comma);
		buffer_append_str(out, "\"html\":");
		append_html(out, context, markdown, start);
	}
	buffer_append_str(out, "}}");
}

bool event_needs_rendering(const struct event *event, enum event_format format)
{
	return event->type == EVENT_AGENT_MESSAGE && !event->json[format];
}

void event_give(struct event *event, enum event_format format, struct buffer *json)
{
	if (event->json[format]) {
		buffer_finish(json);
		return;
	}
	event->json[format] = json->len < json->cap ? xrealloc(json->data, json->len) : json->data;
	event->json_len[format] = json->len;
	*json = (struct buffer){0};
}

uint64_t event_html_version(void)
{
	return markdown_html_version();
}

const char *event_json(struct event *event, enum event_format format, size_t *ret_len)
{
	if (event->type != EVENT_AGENT_MESSAGE) {
		format = FORMAT_MARKDOWN;
	}
	if (!event->json[format]) {
		struct buffer json = {0};
		event_render(event, format, &json);
		event_give(event, format, &json);
	}
	*ret_len = event->json_len[format];
	return event->json[format];
}
