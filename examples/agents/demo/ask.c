#include "agent.h"

#include "holdfast/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
	READ_LINES = 20, /* lines of the file that are requested */
	QUOTE_MAX = 80,
};

/* Sends a request and makes the turn wait. Takes over `params` and adds the session to them. */
static void ask(struct demo_session *session, const char *method, json_t *params)
{
	struct demo_turn *turn = &session->turn;
	json_object_set_new(params, "sessionId", json_string(session->id));
	turn->request_id = session->agent->next_request_id++;
	turn->is_waiting = true;
	demo_put_request(agent_io_out(&session->agent->io), turn->request_id, method, params);
}

static void end_call(struct demo_session *session, const struct demo_call *call, const char *status,
	const char *text, size_t len)
{
	const char *id = demo_calls_find(session, call);
	if (id) {
		demo_turn_update(
			session, "tool_call_update", demo_call_update(id, status, text, len));
		demo_calls_forget(session, call);
	}
}

static void end_call_saying(struct demo_session *session, const struct demo_call *call,
	const char *status, const char *text)
{
	end_call(session, call, status, text, strlen(text));
}

/* The step that waits; the turn has moved past it already. */
static const struct demo_step *asking_step(const struct demo_session *session)
{
	return session->turn.step - 1;
}

/* --- permission --- */

static json_t *option(const char *id, const char *name)
{
	return json_pack("{s:s, s:s, s:s}", "optionId", id, "name", name, "kind", id);
}

void demo_ask_permission(struct demo_session *session, const struct demo_call *call)
{
	if (!demo_calls_find(session, call)) {
		demo_calls_begin(session, call, "pending");
	}
	if (session->always_allowed) {
		session->turn.outcome = DEMO_ALLOWED_BEFORE;
		return;
	}
	const char *id = demo_calls_find(session, call);
	json_t *options = json_pack("[o, o, o]", option("allow_once", "Allow once"),
		option("allow_always", "Always allow in this session"),
		option("reject_once", "Reject"));
	ask(session, "session/request_permission",
		json_pack("{s:o, s:o}", "toolCall",
			demo_call_object(call, id, session->cwd, "pending"), "options", options));
}

static void permission_answered(
	struct demo_session *session, const struct demo_call *call, const json_t *result)
{
	json_t *outcome = json_object_get(result, "outcome");
	const char *kind = json_string_value(json_object_get(outcome, "outcome"));
	const char *option_id = json_string_value(json_object_get(outcome, "optionId"));
	if (kind && strcmp(kind, "cancelled") == 0) {
		demo_turn_end(session, "cancelled");
		return;
	}
	if (!kind || strcmp(kind, "selected") != 0 || !option_id) {
		session->turn.outcome = DEMO_UNASKED;
		end_call_saying(
			session, call, "failed", "The client could not ask for permission.");
		return;
	}
	bool always = strcmp(option_id, "allow_always") == 0;
	if (!always && strcmp(option_id, "allow_once") != 0) {
		session->turn.outcome = DEMO_REJECTED;
		end_call_saying(session, call, "failed", "Rejected.");
		return;
	}
	session->always_allowed = always;
	session->turn.outcome = DEMO_ALLOWED;
}

/* --- files --- */

static void show_in_progress(struct demo_session *session, const struct demo_call *call)
{
	const char *id = demo_calls_find(session, call);
	if (id) {
		demo_turn_update(
			session, "tool_call_update", demo_call_update(id, "in_progress", NULL, 0));
	} else {
		demo_calls_begin(session, call, "in_progress");
	}
}

void demo_ask_read(struct demo_session *session, const struct demo_call *call)
{
	if (!session->agent->client_reads_files) {
		session->turn.outcome = DEMO_UNSUPPORTED;
		return;
	}
	show_in_progress(session, call);
	char *path = demo_call_path(call, session->cwd);
	ask(session, "fs/read_text_file",
		json_pack("{s:s, s:i}", "path", path, "limit", READ_LINES));
	free(path);
}

void demo_ask_write(struct demo_session *session, const struct demo_call *call)
{
	if (!session->agent->client_writes_files) {
		session->turn.outcome = DEMO_UNSUPPORTED;
		end_call_saying(
			session, call, "failed", "The client does not offer to write files.");
		return;
	}
	show_in_progress(session, call);
	char *path = demo_call_path(call, session->cwd);
	ask(session, "fs/write_text_file",
		json_pack("{s:s, s:s}", "path", path, "content", call->new_text));
	free(path);
}

/* Keeps the first line that is not blank, to be quoted. */
static void quote_first_line(struct demo_turn *turn, const char *text, size_t len)
{
	size_t start = 0;
	while (start < len && (text[start] == '\n' || text[start] == '\r' || text[start] == ' ')) {
		start++;
	}
	const char *newline = memchr(text + start, '\n', len - start);
	size_t stop = newline ? (size_t)(newline - text) : len;
	buffer_clear(&turn->quote);
	buffer_append(
		&turn->quote, text + start, utf8_floor(text + start, stop - start, QUOTE_MAX));
	if (!turn->quote.len) {
		buffer_append_str(&turn->quote, "(an empty file)");
	}
}

static void file_failed(
	struct demo_session *session, const struct demo_call *call, const json_t *error)
{
	json_t *message = json_object_get(error, "message");
	session->turn.outcome = DEMO_FAILED;
	if (json_is_string(message)) {
		end_call(session, call, "failed", json_string_value(message),
			json_string_length(message));
	} else {
		end_call_saying(session, call, "failed", "The client's answer was not understood.");
	}
}

static void read_answered(struct demo_session *session, const struct demo_call *call,
	const json_t *result, const json_t *error)
{
	json_t *content = json_object_get(result, "content");
	if (!json_is_string(content)) {
		file_failed(session, call, error);
		return;
	}
	const char *text = json_string_value(content);
	size_t len = json_string_length(content);
	session->turn.outcome = DEMO_DONE;
	quote_first_line(&session->turn, text, len);
	end_call(session, call, "completed", text, len);
}

static void write_answered(struct demo_session *session, const struct demo_call *call,
	const json_t *result, const json_t *error)
{
	if (!result) {
		file_failed(session, call, error);
		return;
	}
	session->turn.outcome = DEMO_DONE;
	demo_turn_update(session, "tool_call_update",
		demo_call_end(call, demo_calls_find(session, call), session->cwd, "completed"));
	demo_calls_forget(session, call);
}

void demo_ask_answered(struct demo_session *session, const json_t *result, const json_t *error)
{
	const struct demo_step *step = asking_step(session);
	session->turn.request_id = -1;
	session->turn.is_waiting = false;
	switch (step->kind) {
	case DEMO_ASK:
		permission_answered(session, step->call, result);
		break;
	case DEMO_READ:
		read_answered(session, step->call, result, error);
		break;
	default:
		write_answered(session, step->call, result, error);
		break;
	}
	demo_turn_resume(session);
}

void demo_ask_withdraw(struct demo_session *session)
{
	struct demo_turn *turn = &session->turn;
	if (turn->request_id >= 0 && asking_step(session)->kind == DEMO_ASK) {
		demo_put_cancel_request(agent_io_out(&session->agent->io), turn->request_id);
	}
	turn->request_id = -1;
}
