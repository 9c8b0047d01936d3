/* Handles the requests of the client. Each method answers the request `id`, now or later. */
#include "agent.h"

#include <stdio.h>
#include <string.h>

enum {
	PROTOCOL_VERSION = 1,
	PROTOCOL_VERSION_MAX = 65535, /* uint16 in the schema */
	CWD_MAX = 4096,
};

static struct buffer *out(struct demo_agent *agent)
{
	return agent_io_out(&agent->io);
}

static void refuse_params(struct demo_agent *agent, json_t *id, const char *why)
{
	json_rpc_error(out(agent), id, JSON_RPC_INVALID_PARAMS, why);
}

static struct demo_session *find_session(struct demo_agent *agent, const json_t *params)
{
	const char *id = plain_string(json_object_get(params, "sessionId"));
	list_for_each(link, &agent->sessions) {
		struct demo_session *session = list_entry(link, struct demo_session, link);
		if (id && strcmp(session->id, id) == 0) {
			return session;
		}
	}
	return NULL;
}

static void do_initialize(struct demo_agent *agent, json_t *id, const json_t *params)
{
	json_t *version = json_object_get(params, "protocolVersion");
	if (!json_is_integer(version) || json_integer_value(version) < 0 ||
		json_integer_value(version) > PROTOCOL_VERSION_MAX) {
		refuse_params(agent, id, "protocolVersion must be an integer from 0 to 65535");
		return;
	}
	json_t *fs = json_object_get(json_object_get(params, "clientCapabilities"), "fs");
	agent->client_reads_files = json_is_true(json_object_get(fs, "readTextFile"));
	agent->client_writes_files = json_is_true(json_object_get(fs, "writeTextFile"));
	agent->is_initialized = true;
	json_t *info = json_pack("{s:s, s:s, s:s}", "name", "holdfast-demo-agent", "title",
		"Holdfast demo agent", "version", HOLDFAST_VERSION);
	json_t *capabilities = json_pack("{s:b, s:{s:b, s:b, s:b}}", "loadSession", 0,
		"promptCapabilities", "image", 0, "audio", 0, "embeddedContext", 0);
	json_rpc_result(out(agent), id,
		json_pack("{s:i, s:o, s:o, s:[]}", "protocolVersion", PROTOCOL_VERSION, "agentInfo",
			info, "agentCapabilities", capabilities, "authMethods"));
}

static void do_authenticate(struct demo_agent *agent, json_t *id, const json_t *params)
{
	if (!json_is_string(json_object_get(params, "methodId"))) {
		refuse_params(agent, id, "methodId must be a string");
		return;
	}
	json_rpc_result(out(agent), id, json_object());
}

static struct demo_session *create_session(struct demo_agent *agent, const char *cwd)
{
	struct demo_session *session = xcalloc(1, sizeof(*session));
	session->agent = agent;
	session->cwd = xstrdup(cwd);
	session->turn.request_id = -1;
	snprintf(session->id, sizeof(session->id), "sess_%u", ++agent->session_count);
	uv_timer_init(agent->loop, &session->timer);
	session->timer.data = session;
	list_append(&agent->sessions, &session->link);
	return session;
}

static void do_new_session(struct demo_agent *agent, json_t *id, const json_t *params)
{
	const char *cwd = plain_string(json_object_get(params, "cwd"));
	if (!cwd || cwd[0] != '/' || strlen(cwd) > CWD_MAX) {
		refuse_params(agent, id, "cwd must be an absolute path");
	} else if (!json_is_array(json_object_get(params, "mcpServers"))) {
		refuse_params(agent, id, "mcpServers must be an array");
	} else if (agent->session_count == DEMO_SESSIONS_MAX) {
		json_rpc_error(out(agent), id, JSON_RPC_INTERNAL_ERROR, "too many sessions");
	} else {
		struct demo_session *session = create_session(agent, cwd);
		json_rpc_result(out(agent), id, demo_settings_answer(session));
		demo_settings_tell_commands(session);
	}
}

static void do_set_mode(struct demo_agent *agent, json_t *id, const json_t *params)
{
	struct demo_session *session = find_session(agent, params);
	if (!session) {
		refuse_params(agent, id, "no such session");
	} else if (!demo_settings_take_mode(
			   session, plain_string(json_object_get(params, "modeId")))) {
		refuse_params(agent, id, "modeId must be talk or quick");
	} else {
		json_rpc_result(out(agent), id, json_object());
	}
}

static void do_set_config_option(struct demo_agent *agent, json_t *id, const json_t *params)
{
	struct demo_session *session = find_session(agent, params);
	if (!session) {
		refuse_params(agent, id, "no such session");
		return;
	}
	json_t *answer = demo_settings_take_option(session,
		plain_string(json_object_get(params, "configId")),
		plain_string(json_object_get(params, "value")));
	if (answer) {
		json_rpc_result(out(agent), id, answer);
	} else {
		refuse_params(agent, id, "configId must be thoughts, its value shown or hidden");
	}
}

/*
 * Appends the text of the prompt's blocks; other blocks are skipped. Returns false if it is not a
 * list of content blocks.
 */
static bool take_prompt(const json_t *prompt, struct buffer *text)
{
	size_t i;
	json_t *block;
	json_array_foreach(prompt, i, block) {
		const char *type = plain_string(json_object_get(block, "type"));
		json_t *part = json_object_get(block, "text");
		bool is_text = type && strcmp(type, "text") == 0;
		if (!type || (is_text && !json_is_string(part))) {
			return false;
		}
		if (is_text) {
			buffer_append(text, text->len ? "\n" : "", text->len ? 1 : 0);
			buffer_append(text, json_string_value(part), json_string_length(part));
		}
	}
	return json_is_array(prompt);
}

static void do_prompt(struct demo_agent *agent, json_t *id, const json_t *params)
{
	struct demo_session *session = find_session(agent, params);
	struct buffer text;
	buffer_init(&text);
	if (!session) {
		refuse_params(agent, id, "no such session");
	} else if (!take_prompt(json_object_get(params, "prompt"), &text)) {
		refuse_params(agent, id, "prompt must be an array of content blocks");
	} else if (demo_turn_is_on(session)) {
		json_rpc_error(out(agent), id, JSON_RPC_INVALID_REQUEST,
			"a prompt is running in this session");
	} else {
		demo_turn_start(session, id, text.data, text.len);
	}
	buffer_finish(&text);
}

void demo_methods_cancel(struct demo_agent *agent, const json_t *params)
{
	struct demo_session *session = find_session(agent, params);
	if (session && demo_turn_is_on(session)) {
		demo_ask_withdraw(session);
		demo_turn_end(session, "cancelled");
	}
}

static const struct method {
	const char *name;
	bool needs_initialize;
	void (*run)(struct demo_agent *agent, json_t *id, const json_t *params);
} methods[] = {
	{"initialize", false, do_initialize},
	{"authenticate", true, do_authenticate},
	{"session/new", true, do_new_session},
	{"session/prompt", true, do_prompt},
	{"session/set_mode", true, do_set_mode},
	{"session/set_config_option", true, do_set_config_option},
};

void demo_methods_run(struct demo_agent *agent, const char *name, json_t *id, const json_t *params)
{
	const struct method *method = NULL;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i].name, name) == 0) {
			method = &methods[i];
		}
	}
	if (!method) {
		json_rpc_error(out(agent), id, JSON_RPC_METHOD_NOT_FOUND, "method not found");
	} else if (method->needs_initialize && !agent->is_initialized) {
		json_rpc_error(out(agent), id, JSON_RPC_INVALID_REQUEST, "initialize comes first");
	} else if (!json_is_object(params)) {
		refuse_params(agent, id, "params must be an object");
	} else {
		method->run(agent, id, params);
	}
}
