/*
 * The observer's WebSocket, which passes its requests to the observer, the session and its agent,
 * and its stream of server-sent events, which has none.
 */
#include "server/http_internal.h"
#include "server/placement_internal.h"
#include "routes.h"
#include "server/ws_internal.h"

#include "holdfast/intake.h"

#include <errno.h>
#include <string.h>

/* --- observer_socket_ops --- */

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
		sock_want_writable(&conn->sock);
		sending_count(conn);
	}
}

static void socket_close(void *socket, unsigned code, const char *reason)
{
	conn_close(socket, code, reason);
}

const struct observer_socket_ops ws_observer_socket_ops = {
	.is_writable = socket_is_writable,
	.write = socket_write,
	.want_writable = socket_want_writable,
	.close = socket_close,
};

/* --- requests --- */

static void answer_answer(struct conn_wait *wait, int status)
{
	/* Success is shown to all as an event. */
	if (status < 0 && wait->conn->session) {
		conn_refuse_storage(
			wait->conn, "permission_answer", ABOUT_PERMISSION, wait->text, status);
	}
}

static void handle_answer(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	struct author author = conn_author(conn);
	if (intake_answer(conn->session, request, &author, refusal) == 0) {
		struct conn_wait *wait = conn_wait_create(conn, conn->session, answer_answer);
		wait->text = xstrdup(request->answer.request_id);
	}
}

static void answer_elicited(struct conn_wait *wait, int status)
{
	if (status < 0 && wait->conn->session) {
		conn_refuse_storage(
			wait->conn, "elicitation_answer", ABOUT_PERMISSION, wait->text, status);
	}
}

int conn_take_elicited(struct conn *conn, struct session *session, const struct request *request,
	struct refusal *refusal)
{
	struct author author = conn_author(conn);
	int r = intake_elicited(session, request, &author, refusal);
	struct agent_host *agents = conn->server->agents;
	if (r == 0 && agents) {
		/* The agent gets it once that is durable, in the next tick at the earliest. */
		agents->ops->record_content(
			agents, session, request->elicited.request_id, request->elicited.content);
	}
	return r;
}

static void handle_elicited(
	struct conn *conn, const struct request *request, struct refusal *refusal)
{
	if (conn_take_elicited(conn, conn->session, request, refusal) == 0) {
		struct conn_wait *wait = conn_wait_create(conn, conn->session, answer_elicited);
		wait->text = xstrdup(request->elicited.request_id);
	}
}

/** A request that names a turn cancels only that turn, however late it arrives. */
static void handle_cancel(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	uint64_t turn = request->cancel.turn;
	if (turn && turn != session_turn(conn->session)) {
		refuse(refusal, ERROR_not_prompting, "turn %llu is not running",
			(unsigned long long)turn);
	} else if (conn_cancel_turn(conn, conn->session) < 0) {
		refuse(refusal, ERROR_not_prompting, "no turn of this session's agent is running");
	}
}

/** Names the object of a request in the refusal's detail. */
static void name_request(const struct request *request, struct error_detail *detail)
{
	switch (request->type) {
	case REQUEST_PROMPT:
	case REQUEST_LIST_PROMPTS:
	case REQUEST_EDIT_PROMPT:
	case REQUEST_REMOVE_PROMPT:
		detail->about = ABOUT_PROMPT;
		detail->id = request->prompt.prompt_id;
		break;
	case REQUEST_PERMISSION_ANSWER:
		detail->about = ABOUT_PERMISSION;
		detail->id = request->answer.request_id;
		break;
	case REQUEST_ELICITATION_ANSWER:
		detail->about = ABOUT_PERMISSION;
		detail->id = request->elicited.request_id;
		break;
	case REQUEST_SET_MODE:
	case REQUEST_SET_MODEL:
	case REQUEST_SET_CONFIG_OPTION:
	case REQUEST_AUTHENTICATE:
		detail->about = request->type == REQUEST_SET_MODE       ? ABOUT_MODE
				: request->type == REQUEST_SET_MODEL    ? ABOUT_MODEL
				: request->type == REQUEST_AUTHENTICATE ? ABOUT_LOGIN
									: ABOUT_OPTION;
		detail->id = request->setting.id;
		break;
	default:
		break;
	}
}

void ws_tell_presence(struct conn *conn)
{
	if (conn->ws->observer && !conn->is_closing) {
		observer_tell_presence(conn->ws->observer, clock_steady_ms());
	}
}

static void handle_presence(struct conn *conn, const struct request *request)
{
	struct observer *observer = conn->ws->observer;
	if (request->presence.has_name) {
		observer_set_name(observer, request->presence.name);
	}
	if (request->presence.has_watch) {
		observer_watch_presence(observer, request->presence.watch);
	}
	ws_tell_presence(conn);
}

static void handle_request(
	struct conn *conn, const struct request *request, struct refusal *refusal)
{
	switch (request->type) {
	case REQUEST_LOAD_EVENTS:
		observer_load(conn->ws->observer, &request->load);
		break;
	case REQUEST_KEEPALIVE:
		observer_send(conn->ws->observer, conn_keepalive_ack(conn, request));
		break;
	case REQUEST_PRESENCE:
		handle_presence(conn, request);
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
	case REQUEST_ELICITATION_ANSWER:
		handle_elicited(conn, request, refusal);
		break;
	case REQUEST_SET_MODE:
	case REQUEST_SET_MODEL:
	case REQUEST_SET_CONFIG_OPTION:
	case REQUEST_AUTHENTICATE:
		conn_apply_setting(conn, request, refusal);
		break;
	default:
		handle_cancel(conn, request, refusal);
		break;
	}
}

static void take_request(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	handle_request(conn, request, refusal);
	if (refusal->code) {
		name_request(request, &refusal->detail);
		conn_refuse_later(conn, refusal);
	}
}

/** The right needed to send such a frame. */
static enum right right_of(enum request_type type)
{
	switch (type) {
	case REQUEST_LOAD_EVENTS:
	case REQUEST_KEEPALIVE:
	case REQUEST_LIST_PROMPTS:
	case REQUEST_TOKEN:
	case REQUEST_PRESENCE:
		return RIGHT_WATCH;
	default:
		return RIGHT_CONTROL;
	}
}

static void observer_message(struct conn *conn, const char *text, size_t len)
{
	struct refusal refusal;
	struct request request;
	if (!conn->ws->observer || !conn->session) {
		return;
	}
	if (request_parse(text, len, conn->server->limits, SIDE_OBSERVER,
		    session_table_numbers(conn->server->sessions), &request, &refusal) == 0) {
		enum right right = right_of(request.type);
		bool needs_names = right != RIGHT_WATCH || request.type == REQUEST_LIST_PROMPTS;
		if (request.type == REQUEST_TOKEN) {
			ws_take_token(conn, &request);
		} else if (!conn_may(conn, right)) {
			refuse_role(conn, &refusal);
			name_request(&request, &refusal.detail);
			conn_send_refusal(conn, &refusal);
		} else if ((request.type == REQUEST_PERMISSION_ANSWER ||
				   request.type == REQUEST_ELICITATION_ANSWER) &&
			   !conn_sees_questions(conn)) {
			refuse(&refusal, ERROR_forbidden,
				"the token hides tools, and so the questions about them");
			name_request(&request, &refusal.detail);
			conn_send_refusal(conn, &refusal);
		} else if ((!needs_names ||
				   !conn_waits_for_names(conn, conn->session, text, len)) &&
			   !ws_waits_for_content(conn, &request, text, len)) {
			take_request(conn, &request, &refusal);
			ws_content_drop(conn);
		}
		request_finish(&request);
	} else {
		conn_send_refusal(conn, &refusal);
	}
}

/* --- lifecycle --- */

enum metric ws_observer_metric(const struct conn *conn)
{
	return conn->sse ? METRIC_OBSERVERS_SSE : METRIC_OBSERVERS;
}

struct observer_config ws_observer_config(const struct conn *conn)
{
	struct observer_config config = conn->ws->config;
	config.client_id = conn->ws->client_id;
	config.role = role_name(conn->grant->role);
	config.sub = conn->grant->sub;
	config.expires_ms = conn->grant->expires_ms;
	config.hide = conn_hides(conn);
	return config;
}

static void observer_open(struct conn *conn)
{
	if (ws_refuse_absent(conn)) {
		return;
	}
	struct session *session = conn_find_session(conn);
	if (!session || !ws_room_in_session(conn, session)) {
		return;
	}
	conn_hold_session(conn, session);
	struct observer_config config = ws_observer_config(conn);
	conn->ws->observer =
		observer_create(session_channel(session), &config, &ws_observer_socket_ops, conn);
	metrics_add(conn->server->metrics, ws_observer_metric(conn), 1);
}

static void observer_writable(struct conn *conn)
{
	if (conn->ws->observer) {
		observer_pump(conn->ws->observer);
	} else {
		conn_flush(conn);
	}
}

void ws_observer_renewed(struct conn *conn)
{
	ws_confirm_token(conn);
	if (conn->ws->observer) {
		observer_set_rights(
			conn->ws->observer, role_name(conn->grant->role), conn_hides(conn));
	}
}

static void observer_closed(struct conn *conn)
{
	ws_content_drop(conn);
	if (conn->ws->observer) {
		metrics_add(conn->server->metrics, ws_observer_metric(conn), (uint64_t)-1);
	}
	observer_destroy(conn->ws->observer);
	conn->ws->observer = NULL;
}

const struct conn_ops observer_conn_ops = {
	.read_query = query_read_observer,
	.open = observer_open,
	.message = observer_message,
	.writable = observer_writable,
	.closed = observer_closed,
	.sweep = ws_tell_presence,
	.renewed = ws_observer_renewed,
};

void http_open_sse(struct conn *conn)
{
	struct observer_config config = {0};
	struct load_request load = {0};
	const char *bad = query_read_stream(conn, &config, &load);
	if (bad) {
		http_refuse(conn, ERROR_bad_request, bad);
		return;
	}
	if (http_refuses_body_of_stream(conn)) {
		return;
	}
	const struct conn_ops *elsewhere = placement_stream_ops(conn);
	http_begin_sse(conn, elsewhere ? elsewhere : &observer_conn_ops, "", true);
	conn->ws->config.format = config.format;
	conn->ws->config.deltas = config.deltas;
	ws_begin(conn);
	if (conn->ws->observer) {
		observer_load(conn->ws->observer, &load);
	}
}

const struct route observer_routes[] = {
	{"/api/sessions/{id}/ws", "", .flags = ROUTE_SESSION | ROUTE_CHECKED,
		.socket = &observer_conn_ops},
	{0},
};
