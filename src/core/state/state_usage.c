/*
 * A session's usage: the running total as a part of its state. It is kept in two places: while the
 * journal has records of the session, in the snapshot before them; later in metadata.json, from the
 * log's facts.
 */
#include "state_internal.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

/* A double has 15 reliable digits; more would print 0.0125 as 0.012500000000000001. */
#define DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(15))

static void set_total(struct session_state *state, struct usage_total *total)
{
	if (total != state->usage) {
		usage_total_destroy(state->usage);
		state->usage = total;
	}
	json_t *json = usage_total_json(total);
	free(state->usage_text);
	state->usage_text = json_is_null(json) ? NULL : json_dumps(json, DUMP_FLAGS);
	json_decref(json);
}

/**
 * Appends the report as it came, with the total. The totals of models are in the frame `state`
 * only: they would make every event longer with each model.
 */
static void append_event_data(
	const struct session_state *state, const struct input_event *in, struct buffer *out)
{
	json_t *total = usage_total_json(state->usage);
	json_object_del(total, "models");
	char *text = json_dumps(total, DUMP_FLAGS);
	buffer_append(out, in->data, in->data_len - 1);
	buffer_append_str(out, ",\"total\":");
	buffer_append_str(out, text);
	buffer_append_char(out, '}');
	free(text);
	json_decref(total);
}

bool session_usage_add(
	struct session_state *state, const struct input_event *in, struct buffer *ret_data)
{
	struct usage_report report;
	struct refusal refusal; /* unused: intake has checked the report */
	char *message_id = in->message_id ? xstrndup(in->message_id, in->message_id_len) : NULL;
	bool changed =
		usage_report_parse(session_state_data(state), message_id, &report, &refusal) == 0 &&
		usage_total_add(state->usage, &report) > 0;
	free(message_id);
	state->usage_is_new = true; /* the total may have changed even if that is not visible */
	if (changed) {
		set_total(state, state->usage);
		append_event_data(state, in, ret_data);
	}
	return changed;
}

void session_usage_begin_source(struct session_state *state, bool resumed)
{
	if (!usage_total_is_empty(state->usage)) {
		usage_total_new_source(state->usage, resumed);
		state->usage_is_new = true;
	}
}

/* --- saving and loading --- */

char *session_usage_save(const struct session_state *state)
{
	if (usage_total_is_empty(state->usage)) {
		return NULL;
	}
	json_t *json = usage_total_save(state->usage);
	char *text = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	return text;
}

static int read_total(const char *text, struct usage_total **ret_total)
{
	if (!text) {
		*ret_total = usage_total_create();
		return 0;
	}
	json_t *json = json_loads(text, 0, NULL);
	int r = usage_total_load(json, ret_total);
	json_decref(json);
	return r;
}

int session_usage_load(struct session_state *state, const char *text)
{
	struct usage_total *total;
	int r = read_total(text, &total);
	if (r == 0) {
		set_total(state, total);
	}
	return r;
}

/**
 * A total that cannot be read is from another version, as metadata.json has a checksum: ignore it.
 */
void session_usage_follow_log(struct session_state *state, const char *text, bool has_usage)
{
	struct usage_total *total;
	if (read_total(text, &total) < 0) {
		total = usage_total_create();
	}
	/* If the end of the journal was lost, either total may be the later one. */
	state->usage_is_new = has_usage && !usage_total_is_behind(state->usage, total);
	if (state->usage_is_new) {
		usage_total_destroy(total);
	} else {
		set_total(state, total);
	}
}
