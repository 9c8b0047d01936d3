#include "agent.h"

#include <stdlib.h>
#include <string.h>

static struct buffer *out(struct demo_agent *agent)
{
	return agent_io_out(&agent->io);
}

/*
 * Takes an answer to a request of ours. One that is no longer awaited is not an error: it may have
 * crossed the cancellation.
 */
static void handle_response(struct demo_agent *agent, const json_t *message)
{
	json_t *id = json_object_get(message, "id");
	list_for_each(link, &agent->sessions) {
		struct demo_session *session = list_entry(link, struct demo_session, link);
		int64_t asked = session->turn.request_id;
		if (asked >= 0 && json_rpc_is_id(id, asked)) {
			demo_ask_answered(session, json_object_get(message, "result"),
				json_object_get(message, "error"));
			return;
		}
	}
}

static bool is_response(const json_t *message)
{
	return !json_object_get(message, "method") &&
	       (json_object_get(message, "result") || json_object_get(message, "error"));
}

static void handle_message(void *owner, const json_t *message)
{
	struct demo_agent *agent = owner;
	const char *version = plain_string(json_object_get(message, "jsonrpc"));
	const char *name = plain_string(json_object_get(message, "method"));
	json_t *id = json_object_get(message, "id");
	bool has_good_id = !id || json_is_string(id) || json_is_number(id) || json_is_null(id);
	if (agent->is_exiting) {
		return;
	}
	if (!version || strcmp(version, "2.0") != 0 || !has_good_id ||
		(!name && !is_response(message))) {
		json_rpc_error(out(agent), has_good_id ? id : NULL, JSON_RPC_INVALID_REQUEST,
			"not a JSON-RPC 2.0 message");
	} else if (!name) {
		handle_response(agent, message);
	} else if (id) {
		demo_methods_run(agent, name, id, json_object_get(message, "params"));
	} else if (strcmp(name, "session/cancel") == 0) {
		demo_methods_cancel(agent, json_object_get(message, "params"));
	}
}

/* --- events of the pipes --- */

static void close_all(struct demo_agent *agent)
{
	if (agent->is_closed) {
		return;
	}
	agent->is_closed = true;
	agent_io_close(&agent->io);
	list_for_each(link, &agent->sessions) {
		struct demo_session *session = list_entry(link, struct demo_session, link);
		uv_close((uv_handle_t *)&session->timer, NULL);
	}
}

static void handle_drained(void *owner)
{
	struct demo_agent *agent = owner;
	if (agent->is_exiting) {
		if (agent_io_is_empty(&agent->io)) {
			close_all(agent);
		}
		return;
	}
	list_for_each(link, &agent->sessions) {
		demo_turn_resume(list_entry(link, struct demo_session, link));
	}
}

static void handle_ended(void *owner)
{
	close_all(owner);
}

static const struct agent_io_ops io_ops = {
	.message = handle_message,
	.drained = handle_drained,
	.ended = handle_ended,
};

int demo_agent_start(struct demo_agent *agent, uv_loop_t *loop, long rate)
{
	*agent = (struct demo_agent){.loop = loop, .rate = rate};
	list_init(&agent->sessions);
	return agent_io_open(&agent->io, loop, &io_ops, agent);
}

void demo_agent_finish(struct demo_agent *agent)
{
	list_for_each_safe(link, next, &agent->sessions) {
		struct demo_session *session = list_entry(link, struct demo_session, link);
		list_remove(link);
		demo_turn_drop(session);
		free(session->cwd);
		free(session);
	}
	agent_io_finish(&agent->io);
}

void demo_agent_exit(struct demo_agent *agent, int code)
{
	agent->is_exiting = true;
	agent->exit_code = code;
	if (agent_io_is_empty(&agent->io)) {
		close_all(agent);
	}
}
