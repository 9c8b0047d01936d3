#include "acp_internal.h"

#include "holdfast/elicitation.h"
#include "holdfast/diag.h"

#include <stdlib.h>
#include <string.h>

/*
 * The conversation with one child: requests to it, its responses and its notifications. Its
 * requests are handled in acp_requests.c.
 */

#define NOISE_PER_MINUTE 20
#define NOISE_SHOWN      ((size_t)400)
/* Updates kept that arrive before the answer to session/new; a few are normal. */
#define EARLY_MAX      64
#define SESSION_ID_MAX 1024

void acp_agent_send_request(struct acp_agent *agent, const char *method, json_t *params)
{
	struct buffer out = {0};
	agent->session.awaited_id = ++agent->session.last_id;
	json_rpc_request(&out, agent->session.awaited_id, method, params);
	acp_agent_send(agent, &out);
}

void acp_agent_send_initialize(struct acp_agent *agent)
{
	agent->session.stage = ACP_INITIALIZING;
	acp_agent_send_request(agent, "initialize",
		json_pack(
			"{s:i, s:{s:{s:b, s:b}, s:b, s:{s:{s:{}}}, s:{s:{}, s:{}}}, s:{s:s, s:s, s:s}}",
			"protocolVersion", 1, "clientCapabilities", "fs", "readTextFile", 1,
			"writeTextFile", 1, "terminal", agent->config.terminals_max > 0, "session",
			"configOptions", "boolean", "elicitation", "form", "url", "clientInfo",
			"name", "holdfast", "title", "Holdfast", "version", HOLDFAST_VERSION));
}

json_t *acp_agent_mcp_servers(const struct acp_agent *agent)
{
	json_t *servers = agent->config.mcp_servers;
	return servers ? json_incref(servers) : json_array();
}

void acp_agent_send_new_session(struct acp_agent *agent)
{
	agent->session.stage = ACP_NEW_SESSION;
	acp_agent_send_request(agent, "session/new",
		json_pack("{s:s, s:o}", "cwd", agent->config.cwd, "mcpServers",
			acp_agent_mcp_servers(agent)));
}

void acp_agent_send_prompt(struct acp_agent *agent)
{
	json_t *blocks = agent->turn.prompt;
	const char *trace = agent->turn.trace;
	agent->turn.prompt = NULL;
	json_t *meta = *trace ? json_pack("{s:s}", "traceparent", trace) : NULL;
	if (meta) {
		diag(DIAG_DEBUG, "session %s: the agent gets a prompt (traceparent %s)",
			agent->config.session_id, trace);
	}
	acp_agent_send_request(agent, "session/prompt",
		json_pack("{s:s, s:o, s:o*}", "sessionId", agent->session.id, "prompt", blocks,
			"_meta", meta));
}

void acp_agent_send_cancel(struct acp_agent *agent)
{
	struct buffer out = {0};
	json_rpc_notification(
		&out, "session/cancel", json_pack("{s:s}", "sessionId", agent->session.id));
	acp_agent_send(agent, &out);
}

bool acp_agent_report_noise(struct acp_agent *agent, const char *what, const char *text, size_t len)
{
	unsigned dropped = 0;
	if (!diag_rate_take(
		    &agent->session.noise, NOISE_PER_MINUTE, uv_now(agent->loop), &dropped)) {
		return false;
	}
	struct buffer clean = {0};
	diag_show(&clean, text, len < NOISE_SHOWN ? len : NOISE_SHOWN);
	diag(DIAG_WARN, "session %s: the agent sent %s: %s", agent->config.session_id, what,
		buffer_cstr(&clean));
	if (dropped > 0) {
		diag(DIAG_WARN, "session %s: (%u reports like this dropped)",
			agent->config.session_id, dropped);
	}
	buffer_finish(&clean);
	return true;
}

static void report_update(struct acp_agent *agent, const json_t *update)
{
	const char *why = NULL;
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	acp_agent_join(agent, update);
	if (acp_update_is_chunk(update)) {
		acp_agent_keep_meta(agent, kind, update);
	} else {
		acp_agent_tell_metas(agent);
	}
	if (acp_agent_tell_state(agent, update)) {
		acp_agent_note_late(agent);
		return;
	}
	int err = acp_update_report(update, agent->ops, agent->owner, &why);
	if (err < 0) {
		acp_agent_report_noise(agent, "an update that cannot be used", why, strlen(why));
	} else if (err == 0) {
		acp_agent_note_call(agent, update);
		acp_agent_note_late(agent);
	} else {
		diag(DIAG_DEBUG, "session %s: an update with nothing to report",
			agent->config.session_id);
	}
}

static void handle_own_update(struct acp_agent *agent, const json_t *params)
{
	const char *id = json_string_value(json_object_get(params, "sessionId"));
	if (!id || strcmp(id, agent->session.id) == 0) {
		report_update(agent, json_object_get(params, "update"));
	} else {
		acp_agent_report_noise(agent, "an update of another session", id, strlen(id));
	}
}

void acp_agent_keep_early(struct acp_agent *agent, const json_t *params, size_t line_len)
{
	agent->session.early_bytes += line_len;
	if (json_array_size(agent->session.early) >= EARLY_MAX ||
		agent->session.early_bytes > agent->process.lines.line_max) {
		acp_agent_report_noise(agent, "too many updates before its session", "", 0);
		return;
	}
	if (!agent->session.early) {
		agent->session.early = json_array();
	}
	json_array_append(agent->session.early, (json_t *)params);
}

static void handle_update(struct acp_agent *agent, const json_t *params, size_t line_len)
{
	if (!json_is_object(params)) {
		acp_agent_report_noise(agent, "an update that cannot be used", "no params", 9);
	} else if (acp_resume_take(agent, json_object_get(params, "update"), params, line_len)) {
		return;
	} else if (agent->session.id) {
		handle_own_update(agent, params);
	} else {
		acp_agent_keep_early(agent, params, line_len);
	}
}

static void report_early_updates(struct acp_agent *agent)
{
	json_t *early = agent->session.early;
	agent->session.early = NULL;
	agent->session.halves = (struct json_rpc_halves){0};
	for (size_t i = 0; i < json_array_size(early); i++) {
		handle_own_update(agent, json_array_get(early, i));
	}
	json_decref(early);
}

static void set_info(json_t *info, const json_t *from, const char *key)
{
	if (json_is_string(json_object_get(from, key))) {
		json_object_set(info, key, json_object_get(from, key));
	}
}

/** Notes what the agent accepts in a prompt; clients are told what it accepts besides text. */
static void take_prompt_takes(struct acp_agent *agent, const json_t *result)
{
	static const char *const names[][2] = {
		{"image", "image"}, {"audio", "audio"}, {"embeddedContext", "embedded_context"}};
	const json_t *takes =
		json_object_get(json_object_get(result, "agentCapabilities"), "promptCapabilities");
	json_t *told = json_object();
	json_decref(agent->session.prompt_takes);
	agent->session.prompt_takes =
		json_is_object(takes) ? json_incref((json_t *)takes) : json_object();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (json_is_true(json_object_get(takes, names[i][0]))) {
			json_object_set_new(told, names[i][1], json_true());
		}
	}
	if (json_object_size(told)) {
		json_object_set(agent->session.info, "prompt_capabilities", told);
	}
	json_decref(told);
}

static void handle_initialized(struct acp_agent *agent, const json_t *result)
{
	const json_t *version = json_object_get(result, "protocolVersion");
	if (!json_rpc_is_id(version, 1)) {
		acp_agent_stop_child(
			agent, "protocol", "the agent does not speak version 1 of the protocol");
		return;
	}
	const json_t *agent_info = json_object_get(result, "agentInfo");
	agent->session.info = json_pack("{s:i}", "protocol_version", 1);
	set_info(agent->session.info, agent_info, "name");
	set_info(agent->session.info, agent_info, "title");
	set_info(agent->session.info, agent_info, "version");
	json_decref(agent->session.auth_methods);
	agent->session.auth_methods = json_incref(json_object_get(result, "authMethods"));
	take_prompt_takes(agent, result);
	acp_resume_read(agent, result);
	if (!acp_agent_log_in(agent)) {
		acp_resume_begin(agent);
	}
}

void acp_agent_begin(struct acp_agent *agent, const char *agent_session_id, const json_t *result)
{
	agent->session.id = xstrdup(agent_session_id);
	agent->session.stage = ACP_READY;
	agent->resume.failures = 0;
	uv_timer_stop(&agent->deadline);
	json_t *info = agent->session.info;
	agent->session.info = NULL;
	if (!json_is_true(json_object_get(info, "resumed"))) {
		memset(agent->state.told, 0, sizeof(agent->state.told));
		json_decref(agent->state.models);
		agent->state.models = NULL;
	}
	json_object_set_new(info, "agent_session_id", json_string(agent_session_id));
	agent->ops->started(agent->owner, info);
	json_decref(info);
	acp_agent_tell_session(agent, result);
}

void acp_agent_begun(struct acp_agent *agent)
{
	report_early_updates(agent);
	acp_agent_send_settings(agent);
	if (agent->turn.prompt && !acp_agent_accepts_prompt(agent)) {
		json_decref(agent->turn.prompt);
		agent->turn.prompt = NULL;
		acp_agent_end_turn(agent, "error",
			"the agent does not take such images or files; leave them out, or use another agent");
	} else if (agent->turn.prompt) {
		acp_agent_send_prompt(agent);
	} else {
		/* A login needs no prompt, or the prompt was cancelled in the meantime. */
		acp_agent_await_idle(agent);
		/* A question before the session may have begun a turn. */
		acp_agent_note_late(agent);
	}
}

static void handle_session(struct acp_agent *agent, const json_t *result)
{
	const json_t *id = json_object_get(result, "sessionId");
	if (json_string_length(id) == 0 || json_string_length(id) > SESSION_ID_MAX) {
		acp_agent_stop_child(
			agent, "protocol", "the agent's answer to session/new names no session");
		return;
	}
	acp_agent_begin(agent, json_string_value(id), result);
	acp_agent_begun(agent);
}

static const char *known_stop_reason(const char *reason)
{
	static const char *const known[] = {
		"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"};
	for (size_t i = 0; reason && i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(known[i], reason) == 0) {
			return known[i];
		}
	}
	return NULL;
}

/**
 * Reports the usage of a prompt. Each result counts even if its figures equal those of the previous
 * one: two equal prompts can cost the same.
 */
static void report_usages(struct acp_agent *agent, const json_t *result)
{
	json_t *usages = acp_update_usages(result);
	for (size_t i = 0; i < json_array_size(usages); i++) {
		agent->ops->event(agent->owner, "usage", json_array_get(usages, i));
	}
	json_decref(usages);
}

static void handle_prompt_result(struct acp_agent *agent, const json_t *result)
{
	acp_agent_give_half(agent);
	report_usages(agent, result);
	acp_agent_keep_meta(agent, "session/prompt", result);
	const char *given = json_string_value(json_object_get(result, "stopReason"));
	const char *reason = known_stop_reason(given);
	if (!reason) {
		given = given ? given : "none";
		acp_agent_report_noise(agent, "an unknown stop reason", given, strlen(given));
		reason = "end_turn";
	}
	acp_agent_end_turn(agent, reason, NULL);
}

void acp_agent_stop_for_login(struct acp_agent *agent, bool wants_login, const char *why)
{
	agent->session.login = wants_login ? acp_agent_login_ways(agent) : NULL;
	acp_agent_stop_child(agent, "protocol", why);
	json_decref(agent->session.login);
	agent->session.login = NULL;
}

static void handle_error(struct acp_agent *agent, const json_t *error)
{
	struct buffer words = {0};
	json_int_t code = 0;
	json_whole(json_object_get(error, "code"), &code);
	if (agent->session.stage == ACP_READY && agent->turn.cancelling &&
		code == JSON_RPC_REQUEST_CANCELLED) {
		acp_agent_end_turn(agent, "cancelled", NULL);
	} else if (agent->session.stage == ACP_RESUMING || agent->session.stage == ACP_LOADING) {
		acp_resume_handle_answer(agent, NULL, error);
	} else if (agent->session.stage == ACP_READY) {
		json_rpc_describe_error(&words, error);
		acp_agent_advise(agent, &words, error);
		agent->session.login =
			code == JSON_RPC_AUTH_REQUIRED ? acp_agent_login_ways(agent) : NULL;
		acp_agent_end_turn(agent, "error", buffer_cstr(&words));
		json_decref(agent->session.login);
		agent->session.login = NULL;
	} else {
		buffer_append_str(&words, agent->session.stage == ACP_INITIALIZING
						  ? "initialize: "
						  : "session/new: ");
		struct buffer why = {0};
		json_rpc_describe_error(&why, error);
		buffer_append(&words, why.data, why.len);
		buffer_finish(&why);
		acp_agent_advise(agent, &words, error);
		bool wants_login = code == JSON_RPC_AUTH_REQUIRED;
		acp_agent_stop_for_login(agent, wants_login, buffer_cstr(&words));
	}
	buffer_finish(&words);
}

/** Whether this answers the request for the stage or the prompt, if one is open. */
static bool is_awaited(const struct acp_agent *agent, const json_t *id)
{
	bool sent = agent->session.stage == ACP_READY && agent->turn.prompting &&
		    !agent->turn.prompt && !agent->turn.cancelled_unsent;
	bool starting =
		agent->session.stage != ACP_READY && agent->session.stage != ACP_LOGGING_IN &&
		agent->session.stage != ACP_RECALLING && agent->session.stage != ACP_SETTLING;
	bool open = starting || sent;
	return open && json_rpc_is_id(id, agent->session.awaited_id);
}

void acp_agent_handle_response(struct acp_agent *agent, const json_t *message)
{
	const json_t *error = json_object_get(message, "error");
	const json_t *result = json_object_get(message, "result");
	if (acp_agent_handle_set(agent, message)) {
		return;
	}
	if (!is_awaited(agent, json_object_get(message, "id"))) {
		struct buffer words = {0};
		json_rpc_describe_error(&words, error);
		diag(DIAG_DEBUG, "session %s: the agent sent a response to no open request: %s",
			agent->config.session_id, error ? buffer_cstr(&words) : "a result");
		buffer_finish(&words);
		return;
	}
	if (error && !json_is_null(error)) {
		handle_error(agent, error);
	} else if (agent->session.stage == ACP_INITIALIZING) {
		handle_initialized(agent, result);
	} else if (agent->session.stage == ACP_NEW_SESSION) {
		handle_session(agent, result);
	} else if (agent->session.stage == ACP_RESUMING || agent->session.stage == ACP_LOADING) {
		acp_resume_handle_answer(agent, result, NULL);
	} else {
		handle_prompt_result(agent, result);
	}
}

/**
 * Reports a notification of an extension, which observers may understand. Methods that begin with
 * "$" belong to JSON-RPC itself.
 */
static void report_notification(struct acp_agent *agent, const char *method, const json_t *params)
{
	json_t *data = json_pack("{s:s}", "method", method);
	if (params) {
		json_object_set(data, "params", (json_t *)params);
	}
	agent->ops->event(agent->owner, "x-acp-notification", data);
	json_decref(data);
}

/** Reports that a person has completed an elicitation at its URL. */
static void report_completed(struct acp_agent *agent, const json_t *id)
{
	if (json_is_string(id) && json_string_length(id) <= ELICITATION_ID_MAX) {
		json_t *data = json_pack("{s:O}", "elicitation_id", id);
		agent->ops->event(agent->owner, "x-acp-elicitation_complete", data);
		json_decref(data);
	}
}

static void handle_notification(struct acp_agent *agent, const json_t *message, size_t line_len)
{
	const char *method = json_string_value(json_object_get(message, "method"));
	const json_t *params = json_object_get(message, "params");
	if (strcmp(method, "session/update") == 0) {
		handle_update(agent, params, line_len);
	} else if (strcmp(method, "$/cancel_request") == 0) {
		acp_agent_handle_withdrawal(agent, params);
	} else if (strcmp(method, "elicitation/complete") == 0) {
		report_completed(agent, json_object_get(params, "elicitationId"));
	} else if (agent->session.stage == ACP_READY && method[0] != '$') {
		report_notification(agent, method, params);
	} else {
		diag(DIAG_DEBUG, "session %s: the agent sent an unknown notification",
			agent->config.session_id);
	}
}

/** An agent in JavaScript that answers with an undefined result leaves the member out. */
static bool is_bare_response(const json_t *message)
{
	const json_t *id = json_object_get(message, "id");
	return id && !json_is_null(id) && !json_object_get(message, "method");
}

void acp_agent_handle_line(struct acp_agent *agent, char *line, size_t len)
{
	json_error_t error;
	json_t *message = json_rpc_parse_cut(
		line, len, agent->config.numbers, &agent->session.halves, &error);
	enum json_rpc_message kind = json_rpc_classify(message);
	if (kind == JSON_RPC_INVALID && is_bare_response(message)) {
		kind = JSON_RPC_RESPONSE;
	}
	if (kind != JSON_RPC_INVALID) {
		acp_agent_note_sign(agent);
		acp_agent_note_news(agent, message);
	}
	switch (kind) {
	case JSON_RPC_REQUEST:
		acp_agent_handle_request(agent,
			json_string_value(json_object_get(message, "method")),
			json_object_get(message, "id"), json_object_get(message, "params"));
		break;
	case JSON_RPC_NOTIFICATION:
		handle_notification(agent, message, len);
		break;
	case JSON_RPC_RESPONSE:
		acp_agent_handle_response(agent, message);
		break;
	case JSON_RPC_INVALID:
		acp_agent_handle_unread(agent, line, len);
		break;
	}
	json_decref(message);
}
