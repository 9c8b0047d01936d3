#include "acp_internal.h"

#include "holdfast/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/*
 * What is reported beside the conversation: the state of the session, _meta that came with text,
 * and errors, in words for observers.
 */

#define METAS_MAX  32
#define ADVICE_MAX ((size_t)2000)
#define LOGIN_MAX  8 /* login methods, and texts of one method */
/* The longest id that a client can send. */
#define LOGIN_ID_MAX 1024

#define TYPE_PREFIX "x-acp-"

/* The event type of an update's kind, truncated if it is too long; such types are unknown. */
static void make_type(char type[64], const char *kind)
{
	snprintf(type, 64, TYPE_PREFIX "%s", kind);
}

bool acp_agent_is_state(const char *kind)
{
	char type[64];
	make_type(type, kind);
	return agent_state_kind(type, strlen(type)) < AGENT_STATE_COUNT;
}

bool acp_agent_is_known_state(struct acp_agent *agent, const char *type, const json_t *data)
{
	enum agent_state_kind i = agent_state_kind(type, strlen(type));
	if (i == AGENT_STATE_COUNT) {
		return false;
	}
	char *text = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
	uint64_t hash = text ? XXH3_64bits(text, strlen(text)) : 0;
	free(text);
	if (text && agent->state.told[i] == hash) {
		return true;
	}
	agent->state.told[i] = hash;
	if (i == AGENT_STATE_MODELS) {
		json_decref(agent->state.models);
		agent->state.models = json_copy((json_t *)data);
	}
	if (i == AGENT_STATE_MODES || i == AGENT_STATE_MODE) {
		/*
		 * Both kinds name the current mode, so a new one of either invalidates the other.
		 */
		agent->state.told[i == AGENT_STATE_MODES ? AGENT_STATE_MODE : AGENT_STATE_MODES] =
			0;
	}
	return false;
}

static void tell_part(struct acp_agent *agent, const char *type, const json_t *part)
{
	if (json_is_object(part)) {
		json_t *data = acp_update_rename(part);
		if (!acp_agent_is_known_state(agent, type, data)) {
			agent->ops->event(agent->owner, type, data);
		}
		json_decref(data);
	}
}

void acp_agent_tell_session(struct acp_agent *agent, const json_t *result)
{
	tell_part(agent, "x-acp-modes", json_object_get(result, "modes"));
	tell_part(agent, "x-acp-models", json_object_get(result, "models"));
	acp_agent_tell_options(agent, result);
}

void acp_agent_tell_model(struct acp_agent *agent, const char *model_id)
{
	static const char type[] = "x-acp-models";
	json_t *data = agent->state.models ? json_copy(agent->state.models) : json_object();
	json_object_set_new(data, "current_model_id", json_string(model_id));
	if (!acp_agent_is_known_state(agent, type, data)) {
		agent->ops->event(agent->owner, type, data);
	}
	json_decref(data);
}

void acp_agent_tell_options(struct acp_agent *agent, const json_t *result)
{
	json_t *options = json_object_get(result, "configOptions");
	if (json_array_size(options) > 0) {
		json_t *update = json_pack("{s:O}", "configOptions", options);
		tell_part(agent, "x-acp-config_option_update", update);
		json_decref(update);
	}
}

bool acp_agent_tell_state(struct acp_agent *agent, const json_t *update)
{
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	if (!kind || !acp_agent_is_state(kind)) {
		return false;
	}
	char type[64];
	make_type(type, kind);
	json_t *part = json_copy((json_t *)update);
	json_object_del(part, "sessionUpdate");
	tell_part(agent, type, part);
	json_decref(part);
	return true;
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
	if (!agent->state.metas) {
		agent->state.metas = json_array();
	}
	size_t count = json_array_size(agent->state.metas);
	if (count == 0 || !json_equal(json_array_get(agent->state.metas, count - 1), data)) {
		json_array_append(agent->state.metas, data);
	}
	if (json_array_size(agent->state.metas) > METAS_MAX) {
		json_array_remove(agent->state.metas, 0);
	}
	json_decref(data);
}

void acp_agent_tell_metas(struct acp_agent *agent)
{
	json_t *metas = agent->state.metas;
	agent->state.metas = NULL;
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
		utf8_prefix(json_string_value(name), json_string_length(name), ADVICE_MAX / 4));
	if (json_string_length(more) > 0) {
		buffer_append_str(words, " (");
		buffer_append(words, json_string_value(more),
			utf8_prefix(
				json_string_value(more), json_string_length(more), ADVICE_MAX / 4));
		buffer_append_char(words, ')');
	}
}

void acp_agent_advise(struct acp_agent *agent, struct buffer *words, const json_t *error)
{
	if (!json_rpc_is_id(json_object_get(error, "code"), JSON_RPC_AUTH_REQUIRED)) {
		return;
	}
	buffer_append_str(words,
		". If this is about a login: log in with the agent's own program, in a terminal, as the user that runs this server, and prompt again.");
	size_t count = 0;
	for (size_t i = 0; i < json_array_size(agent->session.auth_methods); i++) {
		append_method(words, json_array_get(agent->session.auth_methods, i), &count);
	}
}

/** Copies a text of the method, shortened if it is long. */
static void copy_text(json_t *told, const json_t *from, const char *key)
{
	const json_t *text = json_object_get(from, key);
	if (json_string_length(text) > 0) {
		size_t len = utf8_prefix(
			json_string_value(text), json_string_length(text), ADVICE_MAX / 4);
		json_object_set_new(told, key, json_stringn(json_string_value(text), len));
	}
}

/** Copies the list `key`: its strings, or the `name` members of its objects. */
static void copy_texts(json_t *told, const json_t *from, const char *key)
{
	const json_t *all = json_object_get(from, key);
	json_t *texts = json_array();
	for (size_t i = 0; i < json_array_size(all) && i < LOGIN_MAX; i++) {
		const json_t *one = json_array_get(all, i);
		const json_t *text = json_is_object(one) ? json_object_get(one, "name") : one;
		if (json_string_length(text) > 0 && json_string_length(text) <= ADVICE_MAX / 4) {
			json_array_append(texts, (json_t *)text);
		}
	}
	if (json_array_size(texts)) {
		json_object_set(told, key, texts);
	}
	json_decref(texts);
}

/**
 * Copies the id with which a client requests the method; never shortened, because that would be
 * another id.
 */
static void copy_id(json_t *told, const json_t *method)
{
	json_t *id = json_object_get(method, "id");
	if (json_string_length(id) > 0 && json_string_length(id) <= LOGIN_ID_MAX) {
		json_object_set(told, "method_id", id);
	}
}

json_t *acp_agent_login_ways(const struct acp_agent *agent)
{
	const json_t *methods = agent->session.auth_methods;
	json_t *ways = json_array();
	for (size_t i = 0; i < json_array_size(methods) && i < LOGIN_MAX; i++) {
		const json_t *method = json_array_get(methods, i);
		json_t *way = json_object();
		copy_id(way, method);
		copy_text(way, method, "name");
		copy_text(way, method, "description");
		copy_text(way, method, "type");
		copy_texts(way, method, "args");
		copy_texts(way, method, "vars");
		if (json_object_get(way, "name")) {
			json_array_append(ways, way);
		}
		json_decref(way);
	}
	return ways;
}

void acp_agent_tell_login(struct acp_agent *agent, const struct acp_setting *how)
{
	json_t *data = json_pack("{s:s, s:s}", "method_id", how->id, "by", how->by);
	if (*how->sub) {
		json_object_set_new(data, "sub", json_string(how->sub));
	}
	for (size_t i = 0; i < json_array_size(agent->session.auth_methods); i++) {
		const json_t *method = json_array_get(agent->session.auth_methods, i);
		const char *id = json_string_value(json_object_get(method, "id"));
		if (id && strcmp(id, how->id) == 0) {
			copy_text(data, method, "name");
		}
	}
	agent->ops->event(agent->owner, "x-acp-authenticated", data);
	json_decref(data);
}
