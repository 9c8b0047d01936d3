/*
 * What a log's events tell of its session at its end, and what the session has the log keep beside
 * them: all that is left of a session that is not in memory.
 */
#include "holdfast/session_facts.h"

#include "holdfast/json_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct session_facts *session_facts(const struct session_log *log)
{
	return session_log_facts(log);
}

static void *create(void)
{
	return xcalloc(1, sizeof(struct session_facts));
}

static void destroy(void *arg)
{
	struct session_facts *facts = arg;
	free(facts->prompt_id);
	free(facts->agent_session_id);
	free(facts->usage);
	free(facts->run_id);
	free(facts->agent_title);
	free(facts);
}

static void set_text(struct session_log *log, char **at, const char *text)
{
	free(*at);
	*at = text ? xstrdup(text) : NULL;
	session_log_facts_changed(log);
}

void session_facts_set_run(struct session_log *log, const char *run_id)
{
	set_text(log, &session_facts(log)->run_id, run_id);
}

void session_facts_set_usage(struct session_log *log, const char *usage)
{
	set_text(log, &session_facts(log)->usage, usage);
}

/* --- events --- */

static bool needs_data(enum event_type type)
{
	return type == EVENT_USER_PROMPT || agent_state_needs_data(type);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static void see_prompt(struct session_facts *facts, const struct event_view *view)
{
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	const char *prompt_id = text_of(json, "prompt_id");
	if (*prompt_id) {
		free(facts->prompt_id);
		facts->prompt_id = xstrdup(prompt_id);
		facts->prompt_seq = view->seq;
	}
	json_decref(json);
}

static void see_agent_state(struct session_facts *facts, const struct event_view *view)
{
	char *title;
	agent_state_see(&facts->agent_state, view);
	if (agent_state_title(view, &title)) {
		free(facts->agent_title);
		facts->agent_title = title;
	}
}

/** An agent that goes on with the session it had leaves that session's beginning where it was. */
static void see_agent(struct session_facts *facts, const struct event_view *view)
{
	json_t *json = json_read(view->data, view->data_len, 0, NULL, NULL);
	const char *id = text_of(json, "agent_session_id");
	bool goes_on = facts->agent_session_id && strcmp(facts->agent_session_id, id) == 0 &&
		       json_is_true(json_object_get(json, "resumed"));
	if (!goes_on) {
		free(facts->agent_session_id);
		facts->agent_session_id = *id ? xstrdup(id) : NULL;
		/* The prompt that it was started for is the first thing that it hears. */
		bool has_prompt = view->turn && facts->prompt_seq > facts->turn_end_seq;
		uint64_t begin = has_prompt ? facts->prompt_seq : view->seq;
		facts->agent_session_seq = *id ? begin : 0;
	}
	json_decref(json);
}

static void fold(void *arg, const struct event_view *view)
{
	struct session_facts *facts = arg;
	facts->turn = view->turn ? view->turn : facts->turn;
	facts->in_turn = view->type != EVENT_TURN_END && (view->turn || facts->in_turn);
	switch (view->type) {
	case EVENT_USER_PROMPT:
		see_prompt(facts, view);
		break;
	case EVENT_TURN_END:
		facts->turn_end_seq = view->seq;
		break;
	case EVENT_AGENT_STARTED:
		facts->agent_running = true;
		see_agent(facts, view);
		see_agent_state(facts, view);
		break;
	case EVENT_AGENT_STOPPED:
		facts->agent_running = false;
		break;
	case EVENT_CUSTOM:
		see_agent_state(facts, view);
		break;
	default:
		break;
	}
}

/* --- as members of metadata.json --- */

static void append_number(struct buffer *out, const char *name, uint64_t value)
{
	buffer_printf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void append_text(struct buffer *out, const char *name, const char *text)
{
	if (text) {
		buffer_printf(out, ",\"%s\":", name);
		buffer_append_json(out, text, strlen(text));
	}
}

static void write_facts(const void *arg, struct buffer *out)
{
	const struct session_facts *facts = arg;
	append_number(out, "turn", facts->turn);
	buffer_printf(out, ",\"in_turn\":%s,\"agent_running\":%s",
		facts->in_turn ? "true" : "false", facts->agent_running ? "true" : "false");
	append_number(out, "turn_end_seq", facts->turn_end_seq);
	if (facts->prompt_id) {
		append_text(out, "prompt_id", facts->prompt_id);
		append_number(out, "prompt_seq", facts->prompt_seq);
	}
	if (facts->agent_session_id) {
		append_text(out, "agent_session_id", facts->agent_session_id);
		append_number(out, "agent_session_seq", facts->agent_session_seq);
	}
	append_text(out, "usage", facts->usage);
	append_text(out, "run_id", facts->run_id);
	buffer_append_str(out, ",\"agent_state\":");
	agent_state_append(&facts->agent_state, 0, out);
	append_text(out, "agent_title", facts->agent_title);
}

static bool take_number(const json_t *json, const char *name, uint64_t *ret)
{
	const json_t *value = json_object_get(json, name);
	*ret = (uint64_t)json_integer_value(value);
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

static char *copy_text(const json_t *json, const char *name)
{
	const char *text = json_string_value(json_object_get(json, name));
	return text ? xstrdup(text) : NULL;
}

/** One of an older version has none. */
static bool take_agent_state(const json_t *json, uint64_t max_seq, struct agent_state *ret)
{
	const json_t *state = json_object_get(json, "agent_state");
	bool good = !state || json_is_object(state);
	for (size_t i = 0; good && i < AGENT_STATE_COUNT; i++) {
		uint64_t *seq = &ret->seqs[i];
		const char *name = agent_state_name(i);
		good = !json_object_get(state, name) ||
		       (take_number(state, name, seq) && *seq && *seq <= max_seq);
	}
	return good;
}

static void *read_facts(const json_t *json, uint64_t max_seq, const char **ret_why)
{
	struct session_facts *facts = create();
	*ret_why = NULL;
	if (!take_number(json, "turn", &facts->turn) ||
		!take_number(json, "turn_end_seq", &facts->turn_end_seq)) {
		*ret_why = "one of its numbers is missing, or is none";
	} else if (!take_agent_state(json, max_seq, &facts->agent_state)) {
		*ret_why = "agent_state names an event that the log does not have";
	}
	if (*ret_why) {
		destroy(facts);
		return NULL;
	}
	facts->in_turn = json_is_true(json_object_get(json, "in_turn"));
	facts->agent_running = json_is_true(json_object_get(json, "agent_running"));
	take_number(json, "prompt_seq", &facts->prompt_seq);
	facts->prompt_id = copy_text(json, "prompt_id");
	take_number(json, "agent_session_seq", &facts->agent_session_seq);
	facts->agent_session_id = copy_text(json, "agent_session_id");
	facts->usage = copy_text(json, "usage");
	facts->run_id = copy_text(json, "run_id");
	facts->agent_title = copy_text(json, "agent_title");
	return facts;
}

const struct store_facts session_facts_ops = {
	.create = create,
	.destroy = destroy,
	.needs_data = needs_data,
	.fold = fold,
	.write = write_facts,
	.read = read_facts,
};
