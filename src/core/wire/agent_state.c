#include "holdfast/agent_state.h"

#include "holdfast/json_text.h"
#include "holdfast/utf8.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/*
 * Longest title from an agent, in bytes; longer ones are cut, because titles are shown in lists and
 * kept in memory for every session.
 */
#define TITLE_MAX ((size_t)256)

static const struct {
	const char *type;
	const char *name;
} kinds[AGENT_STATE_COUNT] = {
	[AGENT_STATE_MODES] = {"x-acp-modes", "modes"},
	[AGENT_STATE_MODELS] = {"x-acp-models", "models"},
	[AGENT_STATE_MODE] = {"x-acp-current_mode_update", "mode"},
	[AGENT_STATE_OPTIONS] = {"x-acp-config_option_update", "config_options"},
	[AGENT_STATE_COMMANDS] = {"x-acp-available_commands_update", "commands"},
	[AGENT_STATE_INFO] = {"x-acp-session_info_update", "info"},
};

enum agent_state_kind agent_state_kind(const char *type, size_t len)
{
	size_t i = 0;
	while (i < AGENT_STATE_COUNT &&
		(strlen(kinds[i].type) != len || memcmp(kinds[i].type, type, len) != 0)) {
		i++;
	}
	return i;
}

const char *agent_state_name(size_t kind)
{
	return kinds[kind].name;
}

static enum agent_state_kind kind_of(const struct event_view *view)
{
	return view->type == EVENT_CUSTOM ? agent_state_kind(view->type_name, view->type_len)
					  : AGENT_STATE_COUNT;
}

bool agent_state_needs_data(enum event_type type)
{
	return type == EVENT_CUSTOM || type == EVENT_AGENT_STARTED;
}

static bool is_resumed(const struct event_view *view)
{
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	bool is = json_is_true(json_object_get(json, "resumed"));
	json_decref(json);
	return is;
}

void agent_state_see(struct agent_state *state, const struct event_view *view)
{
	if (view->type == EVENT_AGENT_STARTED && !is_resumed(view)) {
		*state = (struct agent_state){0};
	}
	enum agent_state_kind kind = kind_of(view);
	if (kind < AGENT_STATE_COUNT) {
		state->seqs[kind] = view->seq;
	}
}

void agent_state_append(const struct agent_state *state, uint64_t first_seq, struct buffer *out)
{
	const char *comma = "";
	buffer_append_char(out, '{');
	for (size_t i = 0; i < AGENT_STATE_COUNT; i++) {
		if (state->seqs[i] && state->seqs[i] >= first_seq) {
			buffer_printf(out, "%s\"%s\":%llu", comma, kinds[i].name,
				(unsigned long long)state->seqs[i]);
			comma = ",";
		}
	}
	buffer_append_char(out, '}');
}

bool agent_state_title(const struct event_view *view, char **ret_title)
{
	if (kind_of(view) != AGENT_STATE_INFO) {
		return false;
	}
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	const json_t *title = json_object_get(json, "title");
	bool tells = json_is_string(title) || json_is_null(title);
	if (tells) {
		bool is_text = json_string_length(title) > 0;
		const char *text = json_string_value(title);
		*ret_title =
			is_text ? xstrndup(text, utf8_floor(text, strlen(text), TITLE_MAX)) : NULL;
	}
	json_decref(json);
	return tells;
}
