/*
 * The redacted form of an event, for tokens that hide it (proto/access.md#what-a-token-hides): its
 * position, type and time. Made once for all of them, on first use.
 */
#include "holdfast/event.h"

#include "holdfast/agent_state.h"
#include "holdfast/json_text.h"

#include <string.h>

/** What a type of event carries, and so who may not see it. */
enum secrecy {
	SHOWN_TO_ALL,
	OF_THOUGHTS,
	OF_TOOLS,
	OF_BOTH,
	BY_KIND, /* defined by a producer or an agent: by its name and its data */
	BY_OUTPUT, /* it may have output of a program, which alone is hidden */
};

/* A type without a secrecy does not compile. */
static const unsigned char secrecies[] = {
#define ROW(id, name, secrecy) secrecy,
	EVENT_TYPES(ROW)
#undef ROW
};

/** The HIDE_ bits of a secrecy that does not depend on the event's data. */
static unsigned plain_hides(enum secrecy secrecy)
{
	return secrecy == SHOWN_TO_ALL  ? HIDE_NOTHING
	       : secrecy == OF_THOUGHTS ? HIDE_THOUGHTS
	       : secrecy == OF_TOOLS    ? HIDE_TOOLS
					: HIDE_ALL;
}

static json_t *read_data(const struct event_view *view, struct json_numbers *numbers)
{
	return json_read(view->data, view->data_len, 0, numbers, NULL);
}

static bool is_type(const struct event_view *view, const char *name)
{
	return view->type_len == strlen(name) && memcmp(view->type_name, name, view->type_len) == 0;
}

/** Unreadable data is hidden, too. */
static unsigned content_hides(const struct event_view *view)
{
	json_t *data = read_data(view, NULL);
	const json_t *thought = json_object_get(data, "thought");
	bool is_shown = data && (!thought || json_is_false(thought) || json_is_null(thought));
	json_decref(data);
	return is_shown ? HIDE_NOTHING : HIDE_THOUGHTS;
}

static unsigned meta_hides(const struct event_view *view)
{
	json_t *data = read_data(view, NULL);
	const char *of = json_string_value(json_object_get(data, "of"));
	unsigned found =
		!of                                      ? HIDE_ALL
		: strcmp(of, "agent_thought_chunk") == 0 ? HIDE_THOUGHTS
		: strcmp(of, "agent_message_chunk") == 0 || strcmp(of, "session/prompt") == 0
			? HIDE_NOTHING
			: HIDE_ALL;
	json_decref(data);
	return found;
}

/** Other reports of an agent: unknown kinds could be thoughts or tools. */
static unsigned custom_hides(const struct event_view *view)
{
	static const char acp[] = "x-acp-";
	if (view->type_len < sizeof(acp) - 1 ||
		memcmp(view->type_name, acp, sizeof(acp) - 1) != 0) {
		return HIDE_NOTHING; /* defined by a producer */
	}
	if (is_type(view, "x-acp-terminal")) {
		return HIDE_TOOLS;
	}
	if (is_type(view, "x-acp-content")) {
		return content_hides(view);
	}
	if (is_type(view, "x-acp-meta")) {
		return meta_hides(view);
	}
	bool is_plain = agent_state_kind(view->type_name, view->type_len) < AGENT_STATE_COUNT ||
			is_type(view, "x-acp-start_delayed") ||
			is_type(view, "x-acp-line_too_long") || is_type(view, "x-acp-line_unread");
	return is_plain ? HIDE_NOTHING : HIDE_ALL;
}

/** `detail` and `stderr` are the last output of the agent's program. */
static unsigned stopped_hides(const struct event_view *view)
{
	json_t *data = read_data(view, NULL);
	bool is_shown = data && !json_object_get(data, "detail") &&
			!json_object_get(data, "stderr") && !json_object_get(data, "login");
	json_decref(data);
	return is_shown ? HIDE_NOTHING : HIDE_TOOLS;
}

unsigned event_view_hides(const struct event_view *view)
{
	enum secrecy secrecy = secrecies[view->type];
	return secrecy == BY_KIND     ? custom_hides(view)
	       : secrecy == BY_OUTPUT ? stopped_hides(view)
				      : plain_hides(secrecy);
}

unsigned event_hides(struct event *event, unsigned hide)
{
	enum secrecy secrecy = secrecies[event->type];
	if (secrecy != BY_KIND && secrecy != BY_OUTPUT) {
		return hide & plain_hides(secrecy);
	}
	if (!event->hides_known) {
		struct event_view view;
		event_get_view(event, &view);
		event->hides = (unsigned char)event_view_hides(&view);
		event->hides_known = true;
	}
	return hide & event->hides;
}

/** Appends the visible part of the data. */
static void append_data(const struct event_view *view, struct buffer *out)
{
	if (secrecies[view->type] != BY_OUTPUT) {
		buffer_append_str(out, "{}");
		return;
	}
	struct json_numbers *numbers = json_numbers_create();
	json_t *data = read_data(view, numbers);
	json_object_del(data, "detail");
	json_object_del(data, "stderr");
	json_object_del(data, "login");
	if (data) {
		json_write(out, data, numbers);
	} else {
		buffer_append_str(out, "{}");
	}
	json_decref(data);
	json_numbers_destroy(numbers);
}

static void make_shown(struct event *event)
{
	struct event_view view;
	struct buffer json = {0};
	struct buffer data = {0};
	event_get_view(event, &view);
	view.message_id = NULL;
	append_data(&view, &data);
	view.data = data.data;
	view.data_len = data.len;
	event_append_json(&view, true, &json);
	buffer_finish(&data);
	event->shown = json.data;
	event->shown_len = json.len;
}

const char *event_json_for(
	struct event *event, enum event_format format, unsigned hide, size_t *ret_len)
{
	if (!hide || !event_hides(event, hide)) {
		return event_json(event, format, ret_len);
	}
	if (!event->shown) {
		make_shown(event);
	}
	*ret_len = event->shown_len;
	return event->shown;
}
