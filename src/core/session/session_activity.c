/*
 * Notices of inputs that are held behind an open block, so that observers see that something is
 * coming. They are not in the log. Like events they are sent when their input is durable: otherwise
 * a tool call could be shown that is refused in the end, with a seq that another event gets.
 */
#include "session_internal.h"

#include <stdlib.h>
#include <string.h>

struct pending_activity {
	struct pending pending;
	struct activity activity; /* without its texts */
	struct buffer shown;
	struct buffer redacted; /* empty: no observer had a token that hides it */
};

/** Appends the data of a notice: enough to show that something waits, never the content. */
static void append_activity(const json_t *json, struct buffer *out)
{
	static const char *const names[] = {"tool_call_id", "title", "kind", "status", "path"};
	buffer_append_char(out, '{');
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const json_t *value = json_object_get(json, names[i]);
		if (json_is_string(value)) {
			buffer_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", names[i]);
			buffer_append_json(
				out, json_string_value(value), json_string_length(value));
		}
	}
	buffer_append_char(out, '}');
}

void session_activity_note(void *owner, uint64_t seq, const struct stream_input *input)
{
	struct session *session = owner;
	if (session->table->recovering || list_empty(&session->channel.observers)) {
		return;
	}
	bool thought = input->type == EVENT_THOUGHT_CHUNK;
	const char *type = input->type == EVENT_CUSTOM ? input->type_name
			   : thought                   ? event_type_name(EVENT_AGENT_THOUGHT)
						       : event_type_name(input->type);
	size_t type_len = input->type == EVENT_CUSTOM ? input->type_len : strlen(type);
	struct buffer data = {0};
	append_activity(thought ? NULL : session_state_data(&session->state), &data);
	struct pending_activity *pending = xcalloc(1, sizeof(*pending));
	pending->pending.lsn = session->applying_lsn;
	frames_append_activity(&pending->shown, seq, type, type_len, data.data, data.len);
	pending->activity.seq = seq;
	pending->activity.hides = event_view_hides(&(struct event_view){.type = input->type,
		.type_name = type,
		.type_len = type_len,
		.data = input->data,
		.data_len = input->data_len});
	if (channel_is_hidden_from_some(&session->channel, pending->activity.hides)) {
		frames_append_activity(&pending->redacted, seq, type, type_len, NULL, 0);
	}
	list_append(&session->pending_activity, &pending->pending.link);
	buffer_finish(&data);
}

static void free_pending(struct pending_activity *pending)
{
	buffer_finish(&pending->shown);
	buffer_finish(&pending->redacted);
	free(pending);
}

void session_activity_tell(struct session *session, uint64_t lsn)
{
	struct pending_activity *pending;
	while ((pending = session_take_pending(&session->pending_activity, lsn))) {
		if (!session->has_ended) {
			struct activity *activity = &pending->activity;
			activity->shown = pending->shown.data;
			activity->shown_len = pending->shown.len;
			activity->redacted = pending->redacted.data;
			activity->redacted_len = pending->redacted.len;
			channel_send_activity(&session->channel, activity);
		}
		free_pending(pending);
	}
}

void session_activity_drop(struct session *session)
{
	struct pending_activity *pending;
	while ((pending = session_take_pending(&session->pending_activity, UINT64_MAX))) {
		free_pending(pending);
	}
}
