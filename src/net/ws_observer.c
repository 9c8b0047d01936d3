/* The observer's socket: requests to the observer, the session and its agent; frames back. */
#include "net_internal.h"

#include "holdfast/intake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the socket under an observer --- */

static bool socket_is_writable(void *socket)
{
	return conn_is_writable(socket);
}

static void socket_write(void *socket, struct frame *frame)
{
	conn_write(socket, frame);
}

static void socket_want_writable(void *socket)
{
	struct conn *conn = socket;
	if (!conn->is_closing) {
		lws_callback_on_writable(conn->wsi);
	}
}

static void socket_close(void *socket, unsigned code, const char *reason)
{
	conn_close(socket, code, reason);
}

static const struct observer_socket_ops socket_ops = {
	.is_writable = socket_is_writable,
	.write = socket_write,
	.want_writable = socket_want_writable,
	.close = socket_close,
};

/* --- requests --- */

static void handle_answer(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	struct answer_refusal first;
	if (intake_answer(conn->session, request, conn->client_id, &first, refusal) == 0 ||
		!first.already_resolved) {
		return;
	}
	struct buffer extra = {0};
	buffer_append_str(&extra, "\"request_id\":");
	buffer_append_json(&extra, request->answer.request_id, strlen(request->answer.request_id));
	if (first.by[0]) {
		buffer_append_str(&extra, ",\"by\":");
		buffer_append_json(&extra, first.by, strlen(first.by));
	}
	buffer_printf(&extra, ",\"seq\":%llu", (unsigned long long)first.seq);
	conn_send_refusal(conn, refusal, buffer_cstr(&extra));
	buffer_finish(&extra);
	refusal->code = NULL; /* told */
}

static void handle_setting(
	struct conn *conn, const struct request *request, struct refusal *refusal)
{
	struct agent_host *agents = conn->server->agents;
	if (!agent_host_has_agent(agents)) {
		refuse(refusal, "no_agent",
			"this server runs without an agent; start it with --agent \"COMMAND\"");
	} else if (agent_host_set(agents, conn->session, request, conn->client_id) < 0) {
		refuse(refusal, "queue_full",
			"the agent has not answered what it was asked to set before");
	}
}

/** Whoever names the turn stops that one or none, however long the request was on its way. */
static void handle_cancel(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	uint64_t turn = request->cancel.turn;
	if (turn && turn != session_turn(conn->session)) {
		refuse(refusal, "not_prompting", "turn %llu is not running",
			(unsigned long long)turn);
	} else if (agent_host_cancel(conn->server->agents, conn->session) < 0) {
		refuse(refusal, "not_prompting", "no turn of this session's agent is running");
	}
}

static void handle_request(
	struct conn *conn, const struct request *request, struct refusal *refusal)
{
	switch (request->type) {
	case REQUEST_LOAD_EVENTS:
		observer_load(conn->observer, &request->load);
		break;
	case REQUEST_KEEPALIVE:
		observer_send(conn->observer, conn_keepalive_ack(conn, request));
		break;
	case REQUEST_PROMPT:
	case REQUEST_LIST_PROMPTS:
	case REQUEST_EDIT_PROMPT:
	case REQUEST_REMOVE_PROMPT:
		ws_handle_prompts(conn, request, refusal);
		break;
	case REQUEST_PERMISSION_ANSWER:
		handle_answer(conn, request, refusal);
		break;
	case REQUEST_SET_MODE:
	case REQUEST_SET_CONFIG_OPTION:
		handle_setting(conn, request, refusal);
		break;
	default:
		handle_cancel(conn, request, refusal);
		break;
	}
}

static void observer_message(struct conn *conn, const char *text, size_t len)
{
	struct refusal refusal;
	struct request request;
	if (!conn->observer || !conn->session) {
		return;
	}
	if (request_parse(text, len, conn->server->limits, SIDE_OBSERVER,
		    session_table_numbers(conn->server->sessions), &request, &refusal) == 0) {
		handle_request(conn, &request, &refusal);
		request_finish(&request);
	}
	if (refusal.code && refusal.prompt_id[0]) {
		ws_refuse_prompt(conn, refusal.prompt_id, 0, &refusal);
	} else if (refusal.code) {
		conn_send_refusal(conn, &refusal, NULL);
	}
}

/* --- life --- */

static void observer_open(struct conn *conn)
{
	struct session *session = conn_find_session(conn);
	if (!session) {
		return;
	}
	conn_hold_session(conn, session);
	conn->config.client_id = conn->client_id;
	conn->observer =
		observer_create(session_channel(session), &conn->config, &socket_ops, conn);
}

static void observer_writable(struct conn *conn)
{
	if (conn->observer) {
		observer_pump(conn->observer);
	} else {
		conn_flush(conn);
	}
}

static void observer_closed(struct conn *conn)
{
	observer_destroy(conn->observer);
	conn->observer = NULL;
}

const struct conn_ops observer_conn_ops = {
	.open = observer_open,
	.message = observer_message,
	.writable = observer_writable,
	.closed = observer_closed,
};
