/*
 * An editor's requests to a session's agent: prompts, cancels, settings and answers to questions.
 */
#include "editor_internal.h"

#include "holdfast/http_exchange.h"
#include "holdfast/websocket.h"

#include "holdfast/intake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- prompts --- */

/** Splits `wait->text`: a session id, a blank, and the id of the prompt or question. */
static struct editor_session *find_waiting(const struct conn_wait *wait, const char **ret_rest)
{
	char id[129];
	size_t len = strcspn(wait->text, " ");
	snprintf(id, sizeof(id), "%.*s", (int)len, wait->text);
	*ret_rest = wait->text + len + 1;
	return editor_of(wait->conn) ? editor_find(wait->conn, id) : NULL;
}

static void end_prompt(
	struct editor_session *at, struct conn *conn, const char *prompt_id, const char *error)
{
	struct buffer out = {0};
	editor_view_end_prompt(editor_view_of(at), prompt_id,
		error ? ERROR_storage_failed : ERROR_NONE, error, &out);
	editor_send(conn, &out);
}

static void handle_prompt_stored(struct conn_wait *wait, int status)
{
	const char *prompt_id;
	struct editor_session *at = find_waiting(wait, &prompt_id);
	if (status < 0 && at) {
		end_prompt(at, wait->conn, prompt_id,
			storage_text(conn_storage(wait->conn),
				status == DURABLE_IN_DOUBT ? STORAGE_IN_DOUBT : STORAGE_WRITE));
	}
}

static void wait_for(struct conn *conn, const struct editor_session *at, const char *what,
	void (*answer)(struct conn_wait *wait, int status))
{
	struct conn_wait *wait = conn_wait_create(conn, editor_session_of(at), answer);
	wait->is_ordered = answer == handle_prompt_stored;
	wait->text = xprintf("%s %s", editor_session_id(at), what);
}

/** Refuses a request that would wait, before anything of it is done. */
static int check_room(const struct editor_view *view, struct refusal *refusal)
{
	return editor_view_has_room(view)
		       ? 0
		       : refuse(refusal, ERROR_queue_full,
				 "at most %d requests of an editor can wait in a session",
				 EDITOR_WAITS_MAX);
}

int editor_prompt(struct conn *conn, struct editor_session *at, struct editor_request *request,
	struct refusal *refusal)
{
	char made[160];
	uint64_t seq;
	bool is_duplicate;
	struct editor_view *view = editor_view_of(at);
	struct prompt_view had = {.place = PROMPT_UNKNOWN};
	const char *prompt_id = request->wish.prompt.prompt_id;
	if (!prompt_id) {
		unsigned long long n = ++editor_of(conn)->prompts;
		snprintf(made, sizeof(made), "acp-%s-%llx-%llu", conn_client_id(conn),
			(unsigned long long)uv_hrtime(), n);
		request->wish.prompt.prompt_id = prompt_id = made;
	}
	if (check_room(view, refusal) < 0) {
		return -EINVAL;
	}
	if (conn_take_prompt(conn, &request->wish, &seq, &is_duplicate, refusal) < 0) {
		return -EINVAL;
	}
	editor_view_add_prompt(view, request->id, prompt_id);
	session_find_prompt(conn_session(conn), prompt_id, &had);
	if (had.place == PROMPT_REMOVED) {
		end_prompt(at, conn, prompt_id, NULL);
		return 0;
	}
	wait_for(conn, at, prompt_id, handle_prompt_stored);
	if (is_duplicate && had.place == PROMPT_BEGUN && had.seq &&
		had.seq <= session_channel(conn_session(conn))->max_seq) {
		editor_load_from(at, had.seq);
	}
	return 0;
}

/* --- cancelling --- */

/** Takes a prompt out of the queue, unless it is one of somebody else that was sent again. */
static void remove_queued(struct editor_session *at, const char *prompt_id)
{
	struct session *session = editor_session_of(at);
	struct prompt_view had;
	struct refusal refusal = {0};
	struct request remove = {.type = REQUEST_REMOVE_PROMPT, .prompt = {.prompt_id = prompt_id}};
	if (session_find_prompt(session, prompt_id, &had) == 0 && had.place == PROMPT_QUEUED &&
		conn_may_change(editor_conn(at), session, prompt_id)) {
		intake_remove_prompt(session, &remove, &had, &refusal);
	}
}

static void remove_waiting(void *arg, const char *prompt_id)
{
	remove_queued(arg, prompt_id);
}

struct running {
	const struct session *session;
	bool is_found;
};

static void find_running(void *arg, const char *prompt_id)
{
	struct running *running = arg;
	running->is_found = running->is_found || session_is_turn_of(running->session, prompt_id);
}

/** Whether the running turn is that of one of the editor's prompts, told of it or not. */
static bool is_at_work(const struct editor_session *at)
{
	struct running running = {.session = editor_session_of(at)};
	editor_view_each_waiting(editor_view_of(at), find_running, &running);
	return running.is_found || editor_view_is_at_work(editor_view_of(at));
}

void editor_cancel(struct conn *conn, struct editor_session *at)
{
	struct session *session = editor_session_of(at);
	const struct editor_view *view = editor_view_of(at);
	bool has_any = editor_view_count_prompts(view) > 0;
	editor_view_each_waiting(view, remove_waiting, at);
	/* An editor without a prompt of its own stops the running turn. */
	if (is_at_work(at) || !has_any) {
		conn_cancel_turn(conn, session);
	}
	editor_look_for_removed(at);
}

static void handle_removed(struct conn_wait *wait, int status)
{
	const char *prompt_id;
	struct editor_session *at = find_waiting(wait, &prompt_id);
	struct prompt_view had;
	if (status == 0 && at && session_find_prompt(editor_session_of(at), prompt_id, &had) == 0 &&
		had.place == PROMPT_REMOVED) {
		end_prompt(at, wait->conn, prompt_id, NULL);
	}
}

static void find_removed(void *arg, const char *prompt_id)
{
	struct editor_session *at = arg;
	struct prompt_view had;
	if (session_find_prompt(editor_session_of(at), prompt_id, &had) == 0 &&
		had.place == PROMPT_REMOVED) {
		wait_for(editor_conn(at), at, prompt_id, handle_removed);
	}
}

void editor_look_for_removed(struct editor_session *at)
{
	if (session_has_names(editor_session_of(at))) {
		editor_view_each_waiting(editor_view_of(at), find_removed, at);
	}
}

static bool take_back(struct conn *conn, const char *id, enum json_rpc_likeness likeness)
{
	bool is_found = false;
	list_for_each(link, &editor_of(conn)->sessions) {
		struct editor_session *at = editor_session_at(link);
		struct prompt_view had;
		const char *prompt_id = editor_view_prompt_of(editor_view_of(at), id, likeness);
		struct session *session = editor_session_of(at);
		is_found = is_found || prompt_id;
		if (!prompt_id || !session || !session_has_names(session) ||
			session_find_prompt(session, prompt_id, &had) < 0) {
			continue;
		}
		if (had.place == PROMPT_QUEUED) {
			remove_queued(at, prompt_id);
			editor_look_for_removed(at);
		} else if (session_is_turn_of(session, prompt_id)) {
			conn_cancel_turn(conn, session);
		}
	}
	return is_found;
}

void editor_take_back(struct conn *conn, const char *id)
{
	if (!take_back(conn, id, JSON_RPC_EQUAL)) {
		take_back(conn, id, JSON_RPC_SAME_NUMBER);
	}
}

/* --- settings --- */

int editor_set(struct conn *conn, struct editor_session *at, const struct editor_request *request,
	struct refusal *refusal)
{
	const struct request *wish = &request->wish;
	enum editor_setting kind = wish->type == REQUEST_SET_MODE    ? EDITOR_MODE
				   : wish->type == REQUEST_SET_MODEL ? EDITOR_MODEL
								     : EDITOR_OPTION;
	if (conn_check_agent(conn, conn_session(conn), refusal) < 0 ||
		check_room(editor_view_of(at), refusal) < 0 ||
		conn_apply_setting(conn, wish, refusal) < 0) {
		return -EINVAL;
	}
	struct buffer out = {0};
	char *value = kind == EDITOR_OPTION ? json_text(wish->setting.value, NULL) : NULL;
	bool waits = session_agent_is_running(conn_session(conn));
	editor_view_add_setting(
		editor_view_of(at), request->id, kind, wish->setting.id, value, waits, &out);
	free(value);
	editor_send(conn, &out);
	return 0;
}

/* --- answers --- */

static void handle_answer_stored(struct conn_wait *wait, int status)
{
	struct buffer out = {0};
	const char *request_id;
	struct editor_session *at = find_waiting(wait, &request_id);
	if (status < 0 && at) {
		editor_view_ask_again(editor_view_of(at), request_id, &out);
		editor_send(wait->conn, &out);
	}
}

/**
 * Handles an answer to a permission request. Without a valid choice the question stays open for
 * others.
 */
static void take_permission(
	struct conn *conn, struct editor_session *at, const char *request_id, const json_t *result)
{
	struct refusal refusal = {0};
	struct author author = conn_author(conn);
	const json_t *outcome = json_object_get(result, "outcome");
	const char *kind = json_string_value(json_object_get(outcome, "outcome"));
	const char *option = json_string_value(json_object_get(outcome, "optionId"));
	struct request answer = {.type = REQUEST_PERMISSION_ANSWER,
		.answer = {.request_id = request_id, .option_id = option}};
	if (!kind || strcmp(kind, "selected") != 0 || !option ||
		!session_permission_has_option(editor_session_of(at), request_id, option)) {
		return;
	}
	if (intake_answer(editor_session_of(at), &answer, &author, &refusal) == 0) {
		wait_for(conn, at, request_id, handle_answer_stored);
	} else if (refusal.code == ERROR_storage_failed) {
		struct buffer out = {0};
		editor_view_ask_again(editor_view_of(at), request_id, &out);
		editor_send(conn, &out);
	}
}

/** Handles an answer to an elicitation. An invalid one leaves the question open for others. */
static void take_elicited(
	struct conn *conn, struct editor_session *at, const char *request_id, const json_t *result)
{
	struct refusal refusal = {0};
	const char *action = json_string_value(json_object_get(result, "action"));
	const json_t *content = json_object_get(result, "content");
	bool accepts = action && strcmp(action, "accept") == 0;
	struct request answer = {.type = REQUEST_ELICITATION_ANSWER,
		.elicited = {.request_id = request_id,
			.action = action,
			.content = accepts && json_is_object(content) ? content : NULL}};
	if (!action) {
		return;
	}
	if (conn_take_elicited(conn, editor_session_of(at), &answer, &refusal) == 0) {
		wait_for(conn, at, request_id, handle_answer_stored);
	} else if (refusal.code == ERROR_storage_failed) {
		struct buffer out = {0};
		editor_view_ask_again(editor_view_of(at), request_id, &out);
		editor_send(conn, &out);
	}
}

void editor_take_answer(struct conn *conn, const struct editor_request *request)
{
	struct refusal refusal = {0};
	list_for_each(link, &editor_of(conn)->sessions) {
		struct editor_session *at = editor_session_at(link);
		const char *request_id;
		enum editor_question kind =
			editor_session_of(at)
				? editor_view_answered(editor_view_of(at), request->of, &request_id)
				: EDITOR_NO_QUESTION;
		if (kind == EDITOR_PERMISSION && editor_may_control(conn, &refusal)) {
			take_permission(conn, at, request_id, request->result);
		}
		if (kind == EDITOR_ELICITATION && editor_may_control(conn, &refusal)) {
			take_elicited(conn, at, request_id, request->result);
		}
		if (kind != EDITOR_NO_QUESTION) {
			return;
		}
	}
}
