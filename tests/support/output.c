#include "output.h"

#include "doors/acp/editor_view.h"
#include "holdfast/requests.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number(const json_t *object, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(object, name));
	return value > 0 ? (uint64_t)value : 0;
}

static const char *string(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static size_t length(const json_t *object, const char *name)
{
	return json_string_length(json_object_get(object, name));
}

static struct event *make_event(const json_t *json)
{
	const char *type = string(json, "type");
	char *data = json_dumps(json_object_get(json, "data"), JSON_COMPACT | JSON_ENCODE_ANY);
	struct event *event = NULL;
	if (type && number(json, "seq")) {
		const struct event_view view = {.seq = number(json, "seq"),
			.type = event_type_of(type, length(json, "type")),
			.type_name = type,
			.type_len = length(json, "type"),
			.ts = (int64_t)number(json, "ts"),
			.turn = number(json, "turn"),
			.message_id = string(json, "message_id"),
			.message_id_len = length(json, "message_id"),
			.data = data ? data : "{}",
			.data_len = data ? strlen(data) : 2};
		event = event_create(&view);
	}
	free(data);
	return event;
}

struct event *output_event(const char *text, size_t len)
{
	json_t *json = json_loadb(text, len, 0, NULL);
	struct event *event = make_event(json);
	json_decref(json);
	return event;
}

/** The events of a frame. */
struct list_of_events {
	struct event **all;
	size_t count;
	unsigned hide;
};

static struct list_of_events make_events(const json_t *data)
{
	const json_t *list = json_object_get(data, "events");
	struct list_of_events events = {
		.all = xcalloc(json_array_size(list) + 1, sizeof(struct event *))};
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *json = json_array_get(list, i);
		struct event *event = make_event(json);
		if (event) {
			events.all[events.count++] = event;
			events.hide |= json_object_get(json, "redacted") ? HIDE_ALL : HIDE_NOTHING;
		}
	}
	return events;
}

static void drop_events(struct list_of_events *events)
{
	for (size_t i = 0; i < events->count; i++) {
		event_unref(events->all[i]);
	}
	free(events->all);
}

static struct open_part make_open(const json_t *data)
{
	const char *type = string(data, "type");
	return (struct open_part){.seq = number(data, "seq"),
		.type = type ? event_type_of(type, length(data, "type")) : EVENT_UNKNOWN,
		.offset = (size_t)number(data, "offset"),
		.text = string(data, "text"),
		.len = length(data, "text")};
}

static struct frame *encode_page(
	const struct encoder *encoder, void *reader, const json_t *data, struct list_of_events *in)
{
	struct loaded_frame page = {.events = in->all,
		.count = in->count,
		.hide = in->hide,
		.has_more = json_is_true(json_object_get(data, "has_more")),
		.max_seq = number(data, "max_seq"),
		.reset = string(json_object_get(data, "reset"), "reason"),
		.open = make_open(json_object_get(data, "open"))};
	page.open.seq = page.open.text ? page.open.seq : 0;
	return encoder->page(reader, &page);
}

static struct frame *encode_events(
	const struct encoder *encoder, void *reader, const json_t *data, struct list_of_events *in)
{
	const struct connected_frame now = {.max_seq = number(data, "max_seq")};
	return in->count ? encoder->events(reader, &(struct live_events){in->all, in->count,
							   FORMAT_MARKDOWN, in->hide, &now})
			 : NULL;
}

static struct frame *encode_error(const struct encoder *encoder, void *reader, const json_t *data)
{
	static const struct {
		const char *name;
		enum error_about about;
	} names[] = {
		{"mode_id", ABOUT_MODE}, {"model_id", ABOUT_MODEL}, {"config_id", ABOUT_OPTION}};
	struct error_detail detail = {0};
	const char *code = string(data, "code");
	struct error_notice error = {code ? error_code_parse(code) : ERROR_storage_failed,
		string(data, "message"), string(data, "request"), &detail};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (string(data, names[i].name)) {
			detail.about = names[i].about;
			detail.id = string(data, names[i].name);
		}
	}
	return error.message ? encoder->error(reader, &error) : NULL;
}

static struct frame *encode(
	const struct encoder *encoder, void *reader, const char *type, const json_t *data)
{
	struct frame *frame = NULL;
	struct list_of_events events = make_events(data);
	struct open_part open = make_open(data);
	if (strcmp(type, "connected") == 0 && encoder->connected) {
		const char *epoch = string(data, "epoch");
		const struct connected_frame now = {
			.epoch = epoch ? strtoull(epoch, NULL, 16) : 0, .labels.title = ""};
		frame = encoder->connected(reader, &now);
	} else if (strcmp(type, "events_loaded") == 0) {
		frame = encode_page(encoder, reader, data, &events);
	} else if (strcmp(type, "events") == 0) {
		frame = encode_events(encoder, reader, data, &events);
	} else if (strcmp(type, "delta") == 0 && open.seq && open.text) {
		frame = encoder->delta(reader, &open);
	} else if (strcmp(type, "error") == 0) {
		frame = encode_error(encoder, reader, data);
	} else if (strcmp(type, "session_gone") == 0) {
		frame = encoder->gone(reader, "s", "deleted");
	}
	drop_events(&events);
	return frame;
}

struct frame *output_encode(
	const struct encoder *encoder, void *reader, const char *text, size_t len)
{
	json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	const char *type = string(json, "type");
	struct frame *frame =
		type ? encode(encoder, reader, type, json_object_get(json, "data")) : NULL;
	json_decref(json);
	return frame;
}

/* --- the messages of an editor --- */

static struct frame *lines_of(struct buffer *lines)
{
	struct frame *frame = frame_of_text(lines->data ? lines->data : "", lines->len);
	buffer_finish(lines);
	return frame;
}

static struct frame *editor_page(void *reader, const struct loaded_frame *in)
{
	struct buffer out = {0};
	editor_view_page(reader, in, &out);
	return lines_of(&out);
}

static struct frame *editor_events(void *reader, const struct live_events *in)
{
	struct buffer out = {0};
	editor_view_events(reader, in, &out);
	return lines_of(&out);
}

static struct frame *editor_delta(void *reader, const struct open_part *in)
{
	struct buffer out = {0};
	editor_view_delta(reader, in, &out);
	return lines_of(&out);
}

static struct frame *editor_error(void *reader, const struct error_notice *in)
{
	struct buffer out = {0};
	editor_view_error(reader, in, &out);
	return lines_of(&out);
}

static struct frame *editor_gone(void *reader, const char *session_id, const char *reason)
{
	struct buffer out = {0};
	editor_view_fail(reader, ERROR_not_found, "the session has been deleted", &out);
	return lines_of(&out);
}

const struct encoder output_editor_lines = {
	.page = editor_page,
	.events = editor_events,
	.delta = editor_delta,
	.error = editor_error,
	.gone = editor_gone,
};
