#include "acp_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/*
 * What the agent tells beside the conversation: the state of its session, _meta that came with
 * text, and what went wrong, in words for those who watch.
 */

#define METAS_MAX  32
#define ADVICE_MAX ((size_t)2000)

/* Updates that are the whole of a state; some agents send half a megabyte of it again and again. */
static const char *const state_kinds[] = {
	"available_commands_update", "config_option_update", "current_mode_update"};
#define CURRENT_MODE 2

bool acp_agent_is_known_state(struct acp_agent *agent, const json_t *update)
{
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	for (size_t i = 0; kind && i < sizeof(state_kinds) / sizeof(state_kinds[0]); i++) {
		if (!strcmp(kind, state_kinds[i])) {
			char *text = json_dumps(update, JSON_COMPACT | JSON_SORT_KEYS);
			uint64_t hash = text ? XXH3_64bits(text, strlen(text)) : 0;
			free(text);
			bool known = text && agent->told_states[i] == hash;
			agent->told_states[i] = hash;
			return known;
		}
	}
	return false;
}

static void tell_part(struct acp_agent *agent, const char *type, const json_t *part)
{
	if (json_is_object(part)) {
		json_t *data = acp_update_rename(part);
		agent->ops->event(agent->owner, type, data);
		json_decref(data);
	}
}

void acp_agent_tell_session(struct acp_agent *agent, const json_t *result)
{
	agent->told_states[CURRENT_MODE] = 0; /* the modes say it anew */
	tell_part(agent, "x-acp-modes", json_object_get(result, "modes"));
	tell_part(agent, "x-acp-models", json_object_get(result, "models"));
	acp_agent_tell_options(agent, result);
}

void acp_agent_tell_options(struct acp_agent *agent, const json_t *result)
{
	json_t *options = json_object_get(result, "configOptions");
	if (json_array_size(options) > 0) {
		json_t *update = json_pack("{s:s, s:O}", "sessionUpdate", "config_option_update",
			"configOptions", options);
		bool known = acp_agent_is_known_state(agent, update);
		json_object_del(update, "sessionUpdate");
		tell_part(agent, "x-acp-config_option_update", known ? NULL : update);
		json_decref(update);
	}
}

void acp_agent_keep_meta(struct acp_agent *agent, const char *of, const json_t *from)
{
	json_t *meta = json_object_get(from, "_meta");
	if (json_object_size(meta) == 0) {
		return;
	}
	json_t *data = json_pack("{s:s, s:O}", "of", of, "_meta", meta);
	const json_t *message_id = json_object_get(from, "messageId");
	if (json_is_string(message_id)) {
		json_object_set(data, "message_id", (json_t *)message_id);
	}
	if (!agent->metas) {
		agent->metas = json_array();
	}
	size_t count = json_array_size(agent->metas);
	if (count == 0 || !json_equal(json_array_get(agent->metas, count - 1), data)) {
		json_array_append(agent->metas, data);
	}
	if (count == METAS_MAX) {
		json_array_remove(agent->metas, 0);
	}
	json_decref(data);
}

void acp_agent_tell_metas(struct acp_agent *agent)
{
	json_t *metas = agent->metas;
	agent->metas = NULL;
	for (size_t i = 0; i < json_array_size(metas); i++) {
		agent->ops->event(agent->owner, "x-acp-meta", json_array_get(metas, i));
	}
	json_decref(metas);
}

static void append_method(struct buffer *words, const json_t *method, size_t *count)
{
	const json_t *name = json_object_get(method, "name");
	const json_t *more = json_object_get(method, "description");
	if (json_string_length(name) == 0 || words->len > ADVICE_MAX) {
		return;
	}
	buffer_append_str(words, (*count)++ == 0 ? " It offers: " : "; ");
	buffer_append(words, json_string_value(name),
		acp_utf8_prefix(json_string_value(name), json_string_length(name), ADVICE_MAX / 4));
	if (json_string_length(more) > 0) {
		buffer_append_str(words, " (");
		buffer_append(words, json_string_value(more),
			acp_utf8_prefix(
				json_string_value(more), json_string_length(more), ADVICE_MAX / 4));
		buffer_append_char(words, ')');
	}
}

void acp_agent_advise(struct acp_agent *agent, struct buffer *words, const json_t *error)
{
	if (json_integer_value(json_object_get(error, "code")) != ACP_ERROR_AUTH_REQUIRED) {
		return;
	}
	buffer_append_str(words, ". If this is about a login: log in with the agent's own program, "
				 "in a terminal, as "
				 "the user that runs this server, and prompt again.");
	size_t count = 0;
	for (size_t i = 0; i < json_array_size(agent->auth_methods); i++) {
		append_method(words, json_array_get(agent->auth_methods, i), &count);
	}
}

static void tell_skipped(struct acp_agent *agent, const char *message, const json_t *method)
{
	json_t *data = json_pack("{s:s}", "message", message);
	if (json_is_string(method)) {
		json_object_set(data, "method", (json_t *)method);
	}
	agent->ops->event(agent->owner, "x-acp-line_too_long", data);
	json_decref(data);
}

void acp_agent_handle_skipped(struct acp_agent *agent)
{
	json_t *seen = acp_lines_peek(&agent->lines);
	json_t *id = json_object_get(seen, "id");
	json_t *method = json_object_get(seen, "method");
	struct buffer words = {0};
	buffer_printf(&words,
		"the agent sent a line of more than %zu bytes (the limit agent_line_size), which "
		"was skipped",
		agent->lines.line_max);
	tell_skipped(agent, buffer_cstr(&words), method);
	if (id && method) {
		acp_agent_send_error(agent, id, ACP_ERROR_INVALID_REQUEST, buffer_cstr(&words));
	} else if (id) {
		json_t *answer = json_pack("{s:O, s:{s:i, s:s}}", "id", id, "error", "code",
			ACP_ERROR_INVALID_REQUEST, "message", buffer_cstr(&words));
		acp_agent_handle_response(agent, answer);
		json_decref(answer);
	}
	buffer_finish(&words);
	json_decref(seen);
}
