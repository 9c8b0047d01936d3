/* An observer's requests about prompts: sending, listing, editing and removing them. */
#include "server/ws_internal.h"

#include <errno.h>
#include <string.h>

/** Answers once everything journaled so far is durable. */
static struct conn_wait *answer_later(struct conn *conn, const struct request *request,
	void (*answer)(struct conn_wait *wait, int status))
{
	struct conn_wait *wait = conn_wait_create(conn, conn->session, answer);
	wait->is_ordered = true;
	wait->text = xstrdup(request->prompt.prompt_id);
	return wait;
}

/** Whether the request is durable; if not, refuses it. */
static bool is_good(struct conn_wait *wait, int status, const char *request)
{
	if (status < 0 && wait->conn->session) {
		conn_refuse_storage(wait->conn, request, ABOUT_PROMPT, wait->text, status);
	}
	return status == 0;
}

/* --- sending --- */

static void answer_prompt(struct conn_wait *wait, int status)
{
	if (is_good(wait, status, "prompt")) {
		observer_send(wait->conn->ws->observer,
			frame_prompt_received(wait->text, wait->seq, wait->duplicate));
	}
}

static void answer_was_removed(struct conn_wait *wait, int status)
{
	if (is_good(wait, status, "prompt")) {
		observer_send(wait->conn->ws->observer, frame_prompt_was_removed(wait->text));
	}
}

int conn_apply_setting(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	struct agent_host *agents = conn->server->agents;
	struct author author = conn_author(conn);
	if (conn_check_agent(conn, conn->session, refusal) < 0) {
		return -EINVAL;
	}
	if (request->type == REQUEST_AUTHENTICATE &&
		!agents->ops->has_room(agents, conn->session)) {
		return refuse_limit(refusal, LIMIT_agents,
			"too many agents are running; log in again when one has stopped");
	}
	if (agents->ops->set(agents, conn->session, request, &author) < 0) {
		return refuse(refusal, ERROR_queue_full,
			"the agent has not answered the previous setting yet");
	}
	return 0;
}

int conn_take_prompt(struct conn *conn, const struct request *request, uint64_t *ret_seq,
	bool *ret_duplicate, struct refusal *refusal)
{
	struct agent_host *agents = conn->server->agents;
	struct prompt_view had = {.place = PROMPT_UNKNOWN};
	if (conn_check_order(conn, refusal) < 0) {
		return -EINVAL;
	}
	if (conn_check_agent(conn, conn->session, refusal) < 0) {
		return -EINVAL;
	}
	session_find_prompt(conn->session, request->prompt.prompt_id, &had);
	struct request whole = *request;
	if (had.place == PROMPT_UNKNOWN && ws_take_content(conn, &whole, refusal) < 0) {
		return -EINVAL;
	}
	if (had.place == PROMPT_UNKNOWN && !agents->ops->has_room(agents, conn->session)) {
		return refuse_limit(refusal, LIMIT_agents,
			"too many agents are running; send it again when one has stopped");
	}
	struct author author = conn_author(conn);
	int r = intake_prompt(conn->session, &whole, &author, ret_seq, ret_duplicate, refusal);
	if (r < 0) {
		conn_break_order(conn, refusal->code);
	}
	if (r == 0 && had.place == PROMPT_UNKNOWN && conn->trace) {
		agents->ops->record_trace(
			agents, conn->session, request->prompt.prompt_id, conn->trace);
	}
	return r;
}

static void handle_prompt(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	uint64_t seq;
	bool duplicate;
	struct prompt_view had = {.place = PROMPT_UNKNOWN};
	if (conn_take_prompt(conn, request, &seq, &duplicate, refusal) < 0) {
		return;
	}
	if (duplicate) {
		session_find_prompt(conn->session, request->prompt.prompt_id, &had);
	}
	struct conn_wait *wait = answer_later(
		conn, request, had.place == PROMPT_REMOVED ? answer_was_removed : answer_prompt);
	wait->seq = seq;
	wait->duplicate = duplicate;
}

/* --- the queue --- */

static void handle_list(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	const struct channel *channel = session_channel(conn->session);
	const struct prompt_queue *queue = channel->status.queue;
	const char *prompt_id = request->prompt.prompt_id;
	size_t count = prompt_queue_count(queue);
	size_t at = prompt_id ? prompt_queue_find(queue, prompt_id) : count;
	struct prompt_view had;
	if (!prompt_id || at < count) {
		observer_send(
			conn->ws->observer, frame_prompts(queue, at, channel->limits->page_size));
		return;
	}
	if (session_find_prompt(conn->session, prompt_id, &had) < 0) {
		refuse_storage(refusal, conn_storage(conn), STORAGE_NAMES);
		return;
	}
	intake_refuse_not_queued(&had, refusal);
	refusal->detail.seq = had.seq;
}

static void answer_edited(struct conn_wait *wait, int status)
{
	if (is_good(wait, status, "edit_prompt")) {
		observer_send(wait->conn->ws->observer, frame_prompt_edited(wait->text));
	}
}

static void answer_removed(struct conn_wait *wait, int status)
{
	if (is_good(wait, status, "remove_prompt")) {
		observer_send(wait->conn->ws->observer,
			frame_prompt_removed(wait->text, wait->duplicate));
	}
}

bool conn_may_change(const struct conn *conn, const struct session *session, const char *prompt_id)
{
	const char *sub = session_queued_sub(session, prompt_id);
	return !sub || conn_may(conn, RIGHT_ADMINISTER) || strcmp(sub, conn->grant->sub) == 0;
}

static void handle_change(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	struct prompt_view had;
	bool edits = request->type == REQUEST_EDIT_PROMPT;
	if (conn_check_order(conn, refusal) < 0) {
		return;
	}
	if (!conn_may_change(conn, conn->session, request->prompt.prompt_id)) {
		refuse(refusal, ERROR_forbidden, "this prompt was sent by somebody else");
		return;
	}
	int r = edits ? intake_edit_prompt(conn->session, request, &had, refusal)
		      : intake_remove_prompt(conn->session, request, &had, refusal);
	if (r < 0) {
		refusal->detail.seq = had.seq;
		conn_break_order(conn, refusal->code);
		return;
	}
	struct conn_wait *wait =
		answer_later(conn, request, edits ? answer_edited : answer_removed);
	wait->duplicate = had.place == PROMPT_REMOVED;
}

void ws_handle_prompts(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	switch (request->type) {
	case REQUEST_PROMPT:
		handle_prompt(conn, request, refusal);
		break;
	case REQUEST_LIST_PROMPTS:
		handle_list(conn, request, refusal);
		break;
	default:
		handle_change(conn, request, refusal);
		break;
	}
}
