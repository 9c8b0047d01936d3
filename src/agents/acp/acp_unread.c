/*
 * Lines of the agent that were not read: what is said about them, and what waits for them.
 *
 * A line that is too long or too deep is a message for certain, and what can be seen of it is dealt
 * with at once. A line that cannot be read may be anything: an agent's own words about the message
 * that follows, for example. So nothing is done before the agent has been silent behind it: then its
 * request is refused, or the prompt that it may have answered ends with an error.
 */
#include "acp_internal.h"

#include "holdfast/requests.h"

#include <string.h>

static void tell(
	struct acp_agent *agent, const char *type, const char *message, const json_t *method)
{
	json_t *data = json_pack("{s:s}", "message", message);
	if (json_is_string(method)) {
		json_object_set(data, "method", (json_t *)method);
	}
	agent->ops->event(agent->owner, type, data);
	json_decref(data);
}

void acp_agent_handle_skipped(struct acp_agent *agent)
{
	json_t *seen = json_rpc_peek(&agent->process.lines);
	json_t *id = json_object_get(seen, "id");
	json_t *method = json_object_get(seen, "method");
	struct buffer words = {0};
	if (agent->process.lines.too_deep) {
		buffer_printf(&words,
			"the agent sent JSON that nests deeper than %d levels, which was skipped",
			JSON_DEPTH_MAX);
	} else {
		buffer_printf(&words,
			"the agent sent a line of more than %zu bytes (the limit agent_line_size), which was skipped",
			agent->process.lines.line_max);
	}
	tell(agent, "x-acp-line_too_long", buffer_cstr(&words), method);
	if (id && method) {
		acp_agent_send_error(agent, id, JSON_RPC_INVALID_REQUEST, buffer_cstr(&words));
	} else if (id) {
		json_t *answer = json_pack("{s:O, s:{s:i, s:s}}", "id", id, "error", "code",
			JSON_RPC_INVALID_REQUEST, "message", buffer_cstr(&words));
		acp_agent_handle_response(agent, answer);
		json_decref(answer);
	}
	buffer_finish(&words);
	json_decref(seen);
}

/* --- lines that cannot be read --- */

static bool has(const char *line, size_t len, const char *word)
{
	return memmem(line, len, word, strlen(word)) != NULL;
}

/** Whether an agent waits for the answer to a request of this name. */
static bool is_request(const char *method)
{
	return strcmp(method, "session/request_permission") == 0 ||
	       strcmp(method, "elicitation/create") == 0 || strncmp(method, "fs/", 3) == 0 ||
	       strncmp(method, "terminal/", 9) == 0;
}

/** Whether the line may be what somebody waits for: a request, or the answer to the prompt. */
static bool is_missed(
	const struct acp_agent *agent, const json_t *seen, const char *line, size_t len)
{
	const json_t *id = json_object_get(seen, "id");
	const char *method = json_string_value(json_object_get(seen, "method"));
	if (method) {
		return id && is_request(method);
	}
	return has(line, len, "\"stopReason\"") ||
	       (has(line, len, "\"error\"") && json_rpc_is_id(id, agent->session.awaited_id));
}

/** Whether the answer to a prompt that was sent is awaited. */
static bool is_at_prompt(const struct acp_agent *agent)
{
	return agent->session.stage == ACP_READY && agent->turn.prompting && !agent->turn.prompt &&
	       !agent->turn.cancelled_unsent;
}

static void tell_unread(struct acp_agent *agent, const json_t *seen)
{
	tell(agent, "x-acp-line_unread",
		"the agent sent a line that cannot be read, which was skipped; the server's log has its beginning",
		json_object_get(seen, "method"));
}

void acp_agent_handle_unread(struct acp_agent *agent, const char *line, size_t len)
{
	bool is_told = acp_agent_report_noise(agent, "a line that is not JSON-RPC", line, len);
	if (agent->session.stage == ACP_INITIALIZING) {
		/* the output of a program that is not an agent */
		child_stderr_note(&agent->process.errors, line, len);
	}
	json_t *seen = json_rpc_peek_line(line, len);
	bool is_message = has(line, len, "\"jsonrpc\"") || json_object_size(seen) > 0;
	if (is_told && is_message && agent->session.stage == ACP_READY) {
		tell_unread(agent, seen);
	}
	if (is_at_prompt(agent) && !agent->turn.cancelling && is_missed(agent, seen, line, len)) {
		json_decref(agent->turn.missed);
		agent->turn.missed = json_incref(seen);
		acp_agent_await(agent, agent->config.cancel_grace_ms);
	}
	json_decref(seen);
}

void acp_agent_note_news(struct acp_agent *agent, const json_t *message)
{
	const json_t *missed = agent->turn.missed;
	if (!missed || agent->turn.cancelling) {
		return;
	}
	acp_agent_await(agent, agent->config.cancel_grace_ms);
	if (json_object_get(missed, "method") && json_object_get(message, "method") &&
		json_rpc_same_id(json_object_get(missed, "id"), json_object_get(message, "id"),
			JSON_RPC_SAME_NUMBER)) {
		acp_agent_forget_missed(agent);
	}
}

void acp_agent_forget_missed(struct acp_agent *agent)
{
	if (agent->turn.missed && !agent->turn.cancelling) {
		uv_timer_stop(&agent->deadline);
	}
	json_decref(agent->turn.missed);
	agent->turn.missed = NULL;
}

void acp_agent_give_up_missed(struct acp_agent *agent)
{
	bool is_of_request = json_object_get(agent->turn.missed, "method");
	/* Who has begun a tool call behind the line has not answered with it. */
	if (agent->questions.count > 0 || workspace_is_waited_for(agent->workspace) ||
		(!is_of_request && acp_agent_is_at_call(agent))) {
		acp_agent_await(agent, agent->config.cancel_grace_ms);
		return;
	}
	json_t *missed = agent->turn.missed;
	agent->turn.missed = NULL;
	if (is_of_request) {
		acp_agent_send_error(agent, json_object_get(missed, "id"), JSON_RPC_INVALID_REQUEST,
			"this request came on a line that cannot be read");
	} else {
		acp_agent_end_turn(agent, "error",
			"the agent has been silent since it sent a line that cannot be read, and which may have been its answer; the server's log has its beginning");
	}
	json_decref(missed);
}
