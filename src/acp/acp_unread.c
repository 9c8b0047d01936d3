/* Lines of the agent that were not read: what is said about them, and what waits for them. */
#include "acp_internal.h"

#include "holdfast/requests.h"

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
	tell_skipped(agent, buffer_cstr(&words), method);
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
