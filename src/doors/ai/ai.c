/*
 * Serves chats of the AI SDK (npm ai): the protocol of its WebSocketChatTransport at
 * /api/ai/{session}, and of its HTTP transport there and below (docs/ai-sdk.md). A chat sends all
 * of its messages each time; the log already has the others, so only the last one is used.
 */
#include "ai_internal.h"
#include "holdfast/door_ai.h"
#include "holdfast/websocket.h"

#include "holdfast/intake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- loading --- */

static uint64_t epoch_of(const struct conn *conn)
{
	return session_log_epoch(session_channel(conn_session(conn))->log);
}

/** Loads the events after this one. */
static struct load_request load_after(const struct conn *conn, uint64_t seq)
{
	return (struct load_request){.from = LOAD_AFTER,
		.seq = seq,
		.has_epoch = true,
		.epoch = epoch_of(conn),
		.limit = conn_limits(conn)->load_max,
		.follow = true};
}

/** Loads the whole running turn; of a turn without a prompt, the newest page. */
static struct load_request load_turn(const struct conn *conn)
{
	const struct channel *channel = session_channel(conn_session(conn));
	if (channel->last_prompt_seq) {
		return load_after(conn, channel->last_prompt_seq - 1);
	}
	return (struct load_request){
		.from = LOAD_NEWEST, .limit = conn_limits(conn)->load_max, .follow = true};
}

/* --- resume --- */

static bool is_turn_running(const struct conn *conn)
{
	return session_channel(conn_session(conn))->status.is_prompting;
}

static void resume(struct conn *conn, const char *request_id)
{
	struct ai_turn_config config = {
		.turn = session_turn(conn_session(conn)), .session_id = conn_session_id(conn)};
	struct load_request load = load_turn(conn);
	ai_response_load(ai_response_create(conn, request_id, &config), &load);
}

static void take_resume(struct conn *conn, const struct ai_request *request)
{
	if (is_turn_running(conn)) {
		resume(conn, request->request_id);
	} else {
		ai_say_nothing_active(conn, request->request_id);
	}
}

/* --- prompts --- */

static void handle_stored(struct conn_wait *wait, int status)
{
	struct ai_response *response =
		conn_state(wait->conn) ? ai_response_find(wait->conn, wait->text) : NULL;
	if (status < 0 && response) {
		ai_response_fail(response, storage_text(conn_storage(wait->conn), STORAGE_WRITE));
	}
}

/** Starts an answer, which waits for the prompt's turn. */
static void follow_prompt(struct conn *conn, const struct ai_request *request, uint64_t after)
{
	struct ai_turn_config config = {
		.prompt_id = request->prompt_id, .session_id = conn_session_id(conn)};
	struct load_request load = load_after(conn, after);
	struct ai_response *response = ai_response_create(conn, request->request_id, &config);
	struct conn_wait *wait = conn_wait_create(conn, conn_session(conn), handle_stored);
	wait->is_ordered = true;
	wait->text = xstrdup(request->request_id);
	ai_response_load(response, &load);
}

static int take_prompt(struct conn *conn, const struct ai_request *request, struct request *prompt,
	struct refusal *refusal)
{
	uint64_t seq;
	bool is_duplicate;
	struct prompt_view had = {.place = PROMPT_UNKNOWN};
	uint64_t after = session_channel(conn_session(conn))->max_seq;
	if (conn_take_prompt(conn, prompt, &seq, &is_duplicate, refusal) < 0) {
		return -EINVAL;
	}
	if (is_duplicate) {
		session_find_prompt(conn_session(conn), request->prompt_id, &had);
	}
	if (had.place == PROMPT_REMOVED) {
		return refuse(refusal, ERROR_not_queued, "the message was taken out of the queue");
	}
	if (had.place == PROMPT_BEGUN && had.seq && had.seq - 1 < after) {
		after = had.seq - 1; /* else it is not committed yet, and will come */
	}
	follow_prompt(conn, request, after);
	return 0;
}

/* --- answers to questions --- */

static int answer_one(struct conn *conn, const struct ai_answer *answer, struct refusal *refusal)
{
	struct author author = conn_author(conn);
	const char *option = answer->option_id;
	if (!option || !session_permission_has_option(conn_session(conn), answer->id, option)) {
		option = session_permission_pick(conn_session(conn), answer->id, answer->approved);
	}
	if (!option) { /* no option denies it */
		return intake_cancel_permission(conn_session(conn), answer->id);
	}
	struct request request = {.type = REQUEST_PERMISSION_ANSWER,
		.answer = {.request_id = answer->id, .option_id = option}};
	return intake_answer(conn_session(conn), &request, &author, refusal);
}

/** Answers questions. Those that others have answered already are part of the turn that follows. */
static int take_answers(
	struct conn *conn, const struct ai_request *request, struct refusal *refusal)
{
	size_t known = 0;
	if (!conn_sees_questions(conn)) {
		return refuse(refusal, ERROR_forbidden,
			"the token hides tools, and so the questions about them");
	}
	for (size_t i = 0; i < request->answer_count; i++) {
		enum permission_state state =
			session_permission(conn_session(conn), request->answers[i].id).state;
		known += state != PERMISSION_UNKNOWN;
		if (state == PERMISSION_PENDING &&
			answer_one(conn, &request->answers[i], refusal) < 0) {
			return -EINVAL;
		}
	}
	if (!known) {
		return refuse(
			refusal, ERROR_unknown_request, "no known question matches this message");
	}
	if (request->turn && request->turn != session_turn(conn_session(conn))) {
		return refuse(refusal, ERROR_already_resolved,
			"the turn that asked is over, and another one has begun");
	}
	struct ai_turn_config config = {
		.turn = session_turn(conn_session(conn)), .session_id = conn_session_id(conn)};
	struct load_request load = load_turn(conn);
	struct ai_response *response = ai_response_create(conn, request->request_id, &config);
	for (size_t i = 0; i < request->answer_count; i++) {
		if (session_permission(conn_session(conn), request->answers[i].id).state !=
			PERMISSION_UNKNOWN) {
			ai_response_answered(response, request->answers[i].id);
		}
	}
	struct conn_wait *wait = conn_wait_create(conn, conn_session(conn), handle_stored);
	wait->text = xstrdup(request->request_id);
	ai_response_load(response, &load);
	return 0;
}

/* --- stop --- */

/**
 * Ends an answer, not the turn: a chat sends the same when a person presses stop and when its page
 * is left.
 */
static void take_abort(struct conn *conn, const struct ai_request *request)
{
	struct ai_response *response = ai_response_find(conn, request->request_id);
	if (response) {
		ai_response_stop(response);
	}
}

static void handle_removed(struct conn_wait *wait, int status)
{
	if (!conn_state(wait->conn)) {
		return;
	}
	if (status < 0) {
		struct refusal refusal = {0};
		refuse_storage(&refusal, conn_storage(wait->conn), STORAGE_WRITE);
		ai_refuse(wait->conn, wait->text, &refusal);
	} else {
		ai_say_done(wait->conn, wait->text);
	}
}

static int remove_queued(
	struct conn *conn, const struct ai_request *request, struct refusal *refusal)
{
	struct prompt_view had;
	struct request remove = {
		.type = REQUEST_REMOVE_PROMPT, .prompt = {.prompt_id = request->prompt_id}};
	if (!conn_may_change(conn, conn_session(conn), request->prompt_id)) {
		return refuse(refusal, ERROR_forbidden, "this prompt was sent by somebody else");
	}
	if (intake_remove_prompt(conn_session(conn), &remove, &had, refusal) < 0) {
		return -EINVAL;
	}
	struct conn_wait *wait = conn_wait_create(conn, conn_session(conn), handle_removed);
	wait->text = xstrdup(request->request_id);
	return 0;
}

/** Cancels a turn, or takes a prompt that still waits out of the queue. */
static int take_cancel(struct conn *conn, const struct ai_request *request, const char *text,
	size_t len, struct refusal *refusal)
{
	const char *prompt_id = request->prompt_id[0] ? request->prompt_id : NULL;
	struct prompt_view had = {.place = PROMPT_UNKNOWN};
	if (!conn_may(conn, RIGHT_CONTROL)) {
		return refuse_role(conn, refusal);
	}
	if (conn_waits_for_names(conn, conn_session(conn), text, len)) {
		return 0;
	}
	if (prompt_id) {
		session_find_prompt(conn_session(conn), prompt_id, &had);
	}
	if (had.place == PROMPT_QUEUED) {
		return remove_queued(conn, request, refusal);
	}
	bool is_running = prompt_id       ? session_is_turn_of(conn_session(conn), prompt_id)
			  : request->turn ? request->turn == session_turn(conn_session(conn))
					  : true;
	if (is_running && conn_cancel_turn(conn, conn_session(conn)) == 0) {
		ai_say_done(conn, request->request_id);
	} else {
		ai_say_nothing_active(conn, request->request_id);
	}
	return 0;
}

/* --- requests --- */

static int take_send(struct conn *conn, const struct ai_request *request, const char *text,
	size_t len, struct refusal *refusal)
{
	struct request prompt = {.type = REQUEST_PROMPT,
		.prompt = {.message = buffer_cstr((struct buffer *)&request->message),
			.message_len = request->message.len,
			.prompt_id = request->prompt_id,
			.content = request->content}};
	if (!conn_may(conn, RIGHT_CONTROL)) {
		return refuse_role(conn, refusal);
	}
	if (conn_waits_for_names(conn, conn_session(conn), text, len)) {
		return 0;
	}
	if (request->answer_count) {
		return take_answers(conn, request, refusal);
	}
	if (ws_waits_for_content(conn, &prompt, text, len)) {
		return 0;
	}
	int r = take_prompt(conn, request, &prompt, refusal);
	ws_content_drop(conn);
	return r;
}

static int take_request(struct conn *conn, const struct ai_request *request, const char *text,
	size_t len, struct refusal *refusal)
{
	if (request->type == AI_ABORT) {
		take_abort(conn, request);
		return 0;
	}
	if (ai_response_find(conn, request->request_id)) {
		return refuse(refusal, ERROR_bad_request, "this requestId is in use");
	}
	if (request->type == AI_CANCEL) {
		return take_cancel(conn, request, text, len, refusal);
	}
	const struct ai_door *door = conn_state(conn);
	if (door->count >= AI_RESPONSES_MAX) {
		if (request->type == AI_SEND) {
			conn_break_order(conn, ERROR_server_busy);
		}
		return refuse(refusal, ERROR_server_busy,
			"a connection gets at most %d answers at once", AI_RESPONSES_MAX);
	}
	if (request->type == AI_RESUME) {
		take_resume(conn, request);
		return 0;
	}
	return take_send(conn, request, text, len, refusal);
}

static void ai_message(struct conn *conn, const char *text, size_t len)
{
	struct ai_request request;
	struct refusal refusal = {0};
	if (!conn_session(conn) || !conn_state(conn)) {
		return;
	}
	int r = ai_request_parse(text, len, conn_is_stream(conn),
		session_channel(conn_session(conn))->max_seq, conn_limits(conn), &request,
		&refusal);
	if (!request.request_id) {
		conn_close(conn, WS_CLOSE_POLICY, "not a frame of the AI SDK");
	} else if (r < 0 || take_request(conn, &request, text, len, &refusal) < 0) {
		ai_refuse(conn, request.request_id, &refusal);
	}
	ai_request_finish(&request);
}

/* --- lifecycle --- */

/** Running answers have been told that the session was deleted. */
static void ai_session_lost(struct conn *conn, const struct session *session, bool is_deleted)
{
	const struct ai_door *door = conn_state(conn);
	if (!door || !is_deleted || conn_session(conn) != session) {
		return;
	}
	if (conn_is_stream(conn) &&
		!door->count) { /* its request waits: nothing has been said yet */
		struct refusal refusal = {0};
		refuse(&refusal, ERROR_not_found, SESSION_DELETED);
		ai_refuse(conn, "", &refusal);
	}
	conn_close(conn, 4404, "deleted");
}

static void make_door(struct conn *conn)
{
	struct ai_door *door = xcalloc(1, sizeof(*door));
	list_init(&door->responses);
	conn_set_state(conn, door);
}

static void ai_open(struct conn *conn)
{
	if (ws_refuse_absent(conn)) {
		return;
	}
	struct session *session = conn_find_session(conn);
	if (session && ws_room_in_session(conn, session)) {
		conn_hold_session(conn, session);
		make_door(conn);
	}
}

static const struct conn_ops ai_conn_ops = {
	.open = ai_open,
	.message = ai_message,
	.writable = ai_writable,
	.closed = ai_closed,
	.end_tick = ai_end_tick,
	.kept = ai_kept,
	.session_lost = ai_session_lost,
	.tell = ai_tell,
	.tell_error = ai_tell_error,
	.takes_bodies = true,
	.is_one_answer = true,
};

/* --- HTTP --- */

#define STREAM_HEADER "x-vercel-ai-ui-message-stream: v1\r\n"

/** Begins the answer's stream. Returns false if it has been refused and ended in the stream. */
static bool begin_stream(struct conn *conn, struct session *session)
{
	http_begin_sse(conn, &ai_conn_ops, STREAM_HEADER, false);
	room_note_known(conn);
	if (!ws_room_in_session(conn, session)) {
		return false;
	}
	conn_hold_session(conn, session);
	make_door(conn);
	return true;
}

/** Refuses an invalid body with an HTTP status; later errors are sent in the stream. */
static bool is_good_body(struct conn *conn)
{
	struct ai_request request;
	struct refusal refusal = {0};
	int r = ai_request_parse(http_body(conn)->data, http_body(conn)->len, true, 0,
		conn_limits(conn), &request, &refusal);
	ai_request_finish(&request);
	if (r < 0) {
		http_refuse_event(conn, &refusal);
	}
	return r == 0;
}

static void post_message(struct conn *conn, struct session *session)
{
	if (!http_may(conn, RIGHT_CONTROL) || !is_good_body(conn)) {
		return;
	}
	struct buffer body = http_take_body(conn);
	if (begin_stream(conn, session)) {
		ai_message(conn, buffer_cstr(&body), body.len);
	}
	buffer_finish(&body);
}

static void get_stream(struct conn *conn, struct session *session)
{
	if (http_has_body(conn)) {
		http_refuse(conn, ERROR_bad_request, "a request for a stream must not have a body");
		return;
	}
	conn_hold_session(conn, session);
	if (!is_turn_running(conn)) {
		conn_drop_session(conn);
		http_respond_with(conn, 204, "", NULL, 0);
	} else if (begin_stream(conn, session)) {
		resume(conn, "");
	}
}

static void serve(struct conn *conn)
{
	const struct path_part *id = http_part(conn, 0);
	if (!session_id_is_valid(id->at, id->len)) {
		http_refuse(conn, ERROR_not_found, NOTHING_HERE);
		return;
	}
	http_copy_session_id(conn);
	const char *bad = query_check(conn, (const char *const[]){NULL});
	struct session *session = session_table_get(conn_sessions(conn), id->at, id->len);
	bool is_there =
		session && session_is_there(session) && conn_sees(conn, conn_session_id(conn));
	if (http_method_of(conn) == HTTP_HEAD) {
		http_refuse_method(conn, "GET");
	} else if (bad) {
		http_refuse(conn, ERROR_bad_request, bad);
	} else if (!is_there || http_awaits_body(conn)) {
		http_refuse_no_session(conn);
	} else if (http_method_of(conn) == HTTP_GET) {
		get_stream(conn, session);
	} else {
		post_message(conn, session);
	}
}

#define OF_CHAT (ROUTE_SESSION | ROUTE_COOKIE)

/** The chat's own id is ignored. */
static const struct route routes[] = {
	{"/api/ai/{id}", "POST", .body = BODY_JSON, .flags = OF_CHAT, .serve = serve,
		.socket = &ai_conn_ops},
	{"/api/ai/{id}/stream", "GET", .flags = OF_CHAT, .serve = serve},
	{"/api/ai/{id}/{chat}/stream", "GET", .flags = OF_CHAT, .serve = serve},
	{"/api/ai/{id}/*", "", .flags = OF_CHAT},
	{"/api/ai/*", "", .flags = ROUTE_COOKIE},
	{0},
};

const struct door door_ai = {.routes = routes};
