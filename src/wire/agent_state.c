#include "holdfast/agent_state.h"

#include "holdfast/json_text.h"
#include "holdfast/utf8.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A longer title of an agent's is cut: it stands in lists, and in memory for every session. */
#define TITLE_MAX ((size_t)256)

static const struct {
	const char *type;
	const char *name;
} kinds[AGENT_STATE_COUNT] = {
	{"x-acp-modes", "modes"},
	{"x-acp-models", "models"},
	{"x-acp-current_mode_update", "mode"},
	{"x-acp-config_option_update", "config_options"},
	{"x-acp-available_commands_update", "commands"},
	{"x-acp-session_info_update", "info"},
};

#define INFO 5

const char *agent_state_name(size_t kind)
{
	return kinds[kind].name;
}

static bool is_of_kind(const struct event_view *view, size_t kind)
{
	return view->type == EVENT_CUSTOM && strlen(kinds[kind].type) == view->type_len &&
	       memcmp(kinds[kind].type, view->type_name, view->type_len) == 0;
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
	for (size_t i = 0; i < AGENT_STATE_COUNT; i++) {
		if (is_of_kind(view, i)) {
			state->seqs[i] = view->seq;
		}
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
	if (!is_of_kind(view, INFO)) {
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
