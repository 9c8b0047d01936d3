/*
 * A turn that the agent began by itself, by saying something outside of a prompt. No answer will end
 * it, so its end is silence. But an agent is silent while its tool runs, while it waits for a command, and
 * while its question is open: these hold the turn, until nothing has come for self_turn_ms. A prompt
 * that waits for the turn's end does not wait for tools and commands.
 */
#include "acp_internal.h"

#include "holdfast/loop.h"

#include <string.h>

/* Unfinished tool calls that are remembered, and bytes of an id; others do not hold a turn. */
#define CALLS_MAX   1000
#define CALL_ID_MAX 256

void acp_agent_note_late(struct acp_agent *agent)
{
	if (!agent->turn.prompting && agent->session.stage == ACP_READY) {
		agent->turn.is_let_go = agent->turn.late && agent->turn.is_let_go;
		agent->turn.late = true;
		acp_agent_note_sign(agent);
		acp_agent_await(agent, agent->config.quiet_ms);
	}
}

void acp_agent_note_sign(struct acp_agent *agent)
{
	agent->turn.sign_ms = loop_now_ms(agent->loop);
}

void acp_agent_note_call(struct acp_agent *agent, const json_t *update)
{
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	const char *id = json_string_value(json_object_get(update, "toolCallId"));
	const char *status = json_string_value(json_object_get(update, "status"));
	bool is_new = kind && strcmp(kind, "tool_call") == 0;
	bool is_known = id && json_object_get(agent->turn.calls, id);
	if ((agent->turn.prompting && !agent->turn.missed) || !id ||
		(!is_new && strcmp(kind, "tool_call_update") != 0) || (!is_new && !status)) {
		return;
	}
	/* A status that ACP does not have is an end, too. */
	bool runs = !status || strcmp(status, "pending") == 0 || strcmp(status, "in_progress") == 0;
	if (!runs) {
		json_object_del(agent->turn.calls, id);
	} else if (!is_known && json_object_size(agent->turn.calls) < CALLS_MAX &&
		   strlen(id) <= CALL_ID_MAX) {
		agent->turn.calls = agent->turn.calls ? agent->turn.calls : json_object();
		json_object_set_new(agent->turn.calls, id, json_true());
	}
}

static bool prompt_waits(const struct acp_agent *agent)
{
	return agent->ops->prompt_waits && agent->ops->prompt_waits(agent->owner);
}

static bool has_given_sign(const struct acp_agent *agent)
{
	return loop_now_ms(agent->loop) - agent->turn.sign_ms < agent->config.self_turn_ms;
}

bool acp_agent_is_at_call(const struct acp_agent *agent)
{
	return json_object_size(agent->turn.calls) > 0 && has_given_sign(agent);
}

static bool is_held(const struct acp_agent *agent)
{
	bool is_at_work = acp_agent_is_at_call(agent) || workspace_is_waited_for(agent->workspace);
	return has_given_sign(agent) &&
	       (agent->questions.count > 0 ||
		       (is_at_work && !agent->turn.is_let_go && !prompt_waits(agent)));
}

void acp_agent_handle_quiet(struct acp_agent *agent)
{
	if (is_held(agent)) {
		acp_agent_await(agent, agent->config.quiet_ms);
		return;
	}
	acp_agent_give_half(agent);
	acp_agent_end_late(agent);
	agent->ops->quiet(agent->owner);
}

void acp_agent_end_late(struct acp_agent *agent)
{
	agent->turn.late = false;
	json_decref(agent->turn.calls);
	agent->turn.calls = NULL;
}
