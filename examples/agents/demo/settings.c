/*
 * What a person can choose: how the agent replies, whether it shows its thoughts, and the commands
 * that stand for its words.
 */
#include "agent.h"

#include "holdfast/utf8.h"

#include <string.h>

enum { TITLE_MAX = 60 };

static const struct {
	const char *id;
	const char *name;
	const char *description;
} modes[] = {
	{"talk", "Talk", "At the pace of an agent that has a model"},
	{"quick", "Quick", "All at once, without a pause"},
};

static const struct {
	const char *name;
	const char *description;
	const char *hint; /* a hint at its argument, or NULL */
} commands[] = {
	{"tour", "Everything, in a little over a minute", NULL},
	{"list", "A list, with a tool at work in the middle of it", NULL},
	{"table", "A table, interrupted as well", NULL},
	{"code", "Code with backticks in it", NULL},
	{"plan", "A plan, and how it is carried out", NULL},
	{"permission", "Asks before it writes a file", NULL},
	{"long", "A reply that does not want to end", NULL},
	{"slow", "Something piece by piece", "list, table, code, …"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static json_t *modes_of(const struct demo_session *session)
{
	json_t *available = json_array();
	for (size_t i = 0; i < COUNT(modes); i++) {
		json_array_append_new(
			available, json_pack("{s:s, s:s, s:s}", "id", modes[i].id, "name",
					   modes[i].name, "description", modes[i].description));
	}
	return json_pack("{s:s, s:o}", "currentModeId", modes[session->is_quick].id,
		"availableModes", available);
}

static json_t *options_of(const struct demo_session *session)
{
	return json_pack("[{s:s, s:s, s:s, s:s, s:s, s:s, s:[{s:s, s:s}, {s:s, s:s}]}]", "id",
		"thoughts", "name", "Thoughts", "category", "thought_level", "type", "select",
		"description", "Whether the agent says what it thinks", "currentValue",
		session->hides_thoughts ? "hidden" : "shown", "options", "value", "shown", "name",
		"Shown", "value", "hidden", "name", "Left out");
}

json_t *demo_settings_answer(const struct demo_session *session)
{
	return json_pack("{s:s, s:o, s:o}", "sessionId", session->id, "modes", modes_of(session),
		"configOptions", options_of(session));
}

void demo_settings_tell_commands(struct demo_session *session)
{
	json_t *list = json_array();
	for (size_t i = 0; i < COUNT(commands); i++) {
		json_t *command = json_pack("{s:s, s:s}", "name", commands[i].name, "description",
			commands[i].description);
		if (commands[i].hint) {
			json_object_set_new(
				command, "input", json_pack("{s:s}", "hint", commands[i].hint));
		}
		json_array_append_new(list, command);
	}
	demo_turn_update(session, "available_commands_update",
		json_pack("{s:o}", "availableCommands", list));
}

void demo_settings_tell_title(struct demo_session *session, const char *prompt, size_t len)
{
	if (session->has_title || !len) {
		return;
	}
	session->has_title = true;
	const char *newline = memchr(prompt, '\n', len);
	size_t line_len = newline ? (size_t)(newline - prompt) : len;
	size_t kept = utf8_floor(prompt, line_len, TITLE_MAX);
	demo_turn_update(session, "session_info_update",
		json_pack("{s:s+%}", "title", "Demo: ", prompt, kept));
}

bool demo_settings_take_mode(struct demo_session *session, const char *id)
{
	for (size_t i = 0; id && i < COUNT(modes); i++) {
		if (strcmp(modes[i].id, id) == 0) {
			session->is_quick = i;
			return true;
		}
	}
	return false;
}

json_t *demo_settings_take_option(struct demo_session *session, const char *id, const char *value)
{
	if (!id || !value || strcmp(id, "thoughts") != 0 ||
		(strcmp(value, "shown") != 0 && strcmp(value, "hidden") != 0)) {
		return NULL;
	}
	session->hides_thoughts = strcmp(value, "hidden") == 0;
	return json_pack("{s:o}", "configOptions", options_of(session));
}
