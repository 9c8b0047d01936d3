/*
 * Passes prompts, with their images and files, to agents, and ends the turns that agents begin without
 * one.
 */
#include "acp_host_internal.h"

#include "holdfast/session.h"

#include <errno.h>

/** Ends the turn of a prompt that could not be given to the agent. */
static void end_prompt(struct hosted *hosted, int error)
{
	hosted_end_turn(hosted, "error",
		error == -ENOBUFS
			? "too many agents are running (limit agents); send the prompt again later"
		: error == -ENOTSUP
			? "the agent does not take such images or files; leave them out, or use another agent"
			: "the agent could not take the prompt");
}

/** Gives a prompt to the agent; takes over `blocks`. */
static void give_prompt(struct hosted *hosted, json_t *blocks)
{
	struct session *session = hosted->session;
	bool is_cancelled = hosted->cancelled_turn == session_turn(session);
	bool has_room = acp_host_has_room(&hosted->host->base, session);
	if (is_cancelled || !has_room) {
		json_decref(blocks);
	}
	int r = is_cancelled ? 0
		: !has_room  ? -ENOBUFS
			     : acp_agent_prompt_blocks(hosted->agent, blocks);
	hosted->is_at_work = !is_cancelled && r == 0;
	if (is_cancelled) {
		hosted_end_turn(hosted, "cancelled", NULL);
	} else if (r < 0) {
		end_prompt(hosted, r);
	}
}

static void handle_content(void *arg, json_t *blocks, const char *why)
{
	struct hosted *hosted = arg;
	hosted->reading = NULL;
	if (!session_is_turn_of_prompt(hosted->session)) {
		json_decref(blocks); /* the turn has ended in the meantime */
	} else if (!blocks) {
		hosted_end_turn(hosted, "error", why);
	} else {
		give_prompt(hosted, blocks);
	}
}

void hosted_prompt(struct agent_host *base, struct session *session, const char *message,
	size_t len, const json_t *content)
{
	struct acp_host *host = acp_host_of(base);
	if (!server_may(host->life, MAY_RUN_AGENTS) || !agent_host_agent(base, session)) {
		return;
	}
	if (!session_is_turn_of_prompt(session)) {
		return; /* the turn has ended while the prompt was being stored */
	}
	struct hosted *hosted = hosted_of(host, session);
	const char *prompt_id = session_channel(session)->last_prompt_id;
	char trace[TRACEPARENT_SIZE];
	acp_agent_trace(
		hosted->agent, agent_traces_remove(host, session, prompt_id, trace) ? trace : NULL);
	hosted->late_turn = hosted->is_over = false;
	prompt_content_cancel(hosted->reading);
	hosted->reading = NULL;
	if (content) {
		hosted->is_at_work = false;
		hosted->reading = prompt_content_begin(host->loop, session_channel(session)->log,
			message, len, content, handle_content, hosted);
		return;
	}
	json_t *text = json_stringn(message, len);
	if (text) {
		give_prompt(hosted, json_pack("[{s:s, s:o}]", "type", "text", "text", text));
	} else {
		end_prompt(hosted, -EINVAL);
	}
}

bool hosted_accepts(const struct agent_host *base, struct session *session, const char *type)
{
	const struct hosted *hosted = session_host(session);
	return !hosted || acp_agent_accepts(hosted->agent, type);
}

bool hosted_prompt_waits(void *owner)
{
	struct hosted *hosted = owner;
	return session_queue_length(hosted->session) > 0;
}

void hosted_quiet(void *owner)
{
	struct hosted *hosted = owner;
	bool is_late = hosted->late_turn && session_is_prompting(hosted->session) &&
		       !session_is_turn_of_prompt(hosted->session);
	hosted->late_turn = false;
	if (is_late) {
		hosted_end_turn(hosted, "end_turn", NULL);
	}
}
