/* What a log's events say of the state of the session at its end, and of what is found by name. */
#include "store_internal.h"

#include "holdfast/json_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void log_tail_finish(struct log_tail *tail)
{
	free(tail->prompt_id);
	free(tail->agent_session_id);
	free(tail->usage);
	free(tail->run_id);
	free(tail->agent_title);
}

bool log_tail_needs_data(enum event_type type)
{
	return type == EVENT_USER_PROMPT || type == EVENT_PERMISSION_RESOLVED ||
	       agent_state_needs_data(type);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static void see_prompt(struct log_tail *tail, const struct event_view *view)
{
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	const char *prompt_id = text_of(json, "prompt_id");
	if (*prompt_id) {
		free(tail->prompt_id);
		tail->prompt_id = xstrdup(prompt_id);
		tail->prompt_seq = view->seq;
	}
	json_decref(json);
}

static void see_agent_state(struct log_tail *tail, const struct event_view *view)
{
	char *title;
	agent_state_see(&tail->agent_state, view);
	if (agent_state_title(view, &title)) {
		free(tail->agent_title);
		tail->agent_title = title;
	}
}

/** An agent that goes on with the session it had leaves that session's beginning where it was. */
static void see_agent(struct log_tail *tail, const struct event_view *view)
{
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	const char *id = text_of(json, "agent_session_id");
	bool goes_on = tail->agent_session_id && strcmp(tail->agent_session_id, id) == 0 &&
		       json_is_true(json_object_get(json, "resumed"));
	if (!goes_on) {
		free(tail->agent_session_id);
		tail->agent_session_id = *id ? xstrdup(id) : NULL;
		/* The prompt that it was started for is the first thing that it hears. */
		bool has_prompt = view->turn && tail->prompt_seq > tail->turn_end_seq;
		uint64_t begin = has_prompt ? tail->prompt_seq : view->seq;
		tail->agent_session_seq = *id ? begin : 0;
	}
	json_decref(json);
}

void log_tail_see(struct log_tail *tail, const struct event_view *view)
{
	tail->turn = view->turn ? view->turn : tail->turn;
	tail->in_turn = view->type != EVENT_TURN_END && (view->turn || tail->in_turn);
	switch (view->type) {
	case EVENT_USER_PROMPT:
		see_prompt(tail, view);
		break;
	case EVENT_TURN_END:
		tail->turn_end_seq = view->seq;
		break;
	case EVENT_AGENT_STARTED:
		tail->agent_running = true;
		see_agent(tail, view);
		see_agent_state(tail, view);
		break;
	case EVENT_AGENT_STOPPED:
		tail->agent_running = false;
		break;
	case EVENT_CUSTOM:
		see_agent_state(tail, view);
		break;
	default:
		break;
	}
}

void session_log_set_usage(struct session_log *log, const char *usage)
{
	log_tail_unpack(log);
	free(log->tail.usage);
	log->tail.usage = usage ? xstrdup(usage) : NULL;
	log->dirty = true;
}

bool log_name_of_event(const struct event_view *view, struct log_name *ret_name)
{
	*ret_name = (struct log_name){0};
	if (view->type != EVENT_USER_PROMPT && view->type != EVENT_PERMISSION_RESOLVED) {
		return false;
	}
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	bool is_prompt = view->type == EVENT_USER_PROMPT;
	const char *key = text_of(json, is_prompt ? "prompt_id" : "request_id");
	if (!*key) {
		json_decref(json);
		return false;
	}
	*ret_name = (struct log_name){.kind = is_prompt ? LOG_KEY_PROMPT : LOG_KEY_ANSWER,
		.seq = view->seq,
		.key = key,
		.by = is_prompt ? "" : text_of(json, "by"),
		.json = json};
	return true;
}

void log_note_key(struct session_log *log, const struct event_view *view)
{
	struct log_name name;
	if (log_name_of_event(view, &name)) {
		log_keys_add(log, &name);
	}
	log_name_finish(&name);
}
