/*
 * Passes messages between an editor and the server. After a reconnect it resumes the sessions and
 * repeats requests that the lost connection has not answered.
 */
#include "attach_internal.h"

#include "holdfast/diag.h"
#include "holdfast/json_lines.h"
#include "holdfast/json_rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The most bytes of notifications that wait for a connection; beyond this, new ones are dropped. */
#define QUEUE_MAX ((size_t)64 << 20)
/*
 * While requests cannot be sent, new ones are refused beyond this many or beyond QUEUE_MAX bytes of
 * requests without an answer.
 */
#define WAITS_MAX 1000
/* How many answers of the editor are kept, in case the server asks again after a reconnect. */
#define ANSWERED_MAX 64
/* Ids of our own requests, named so that they differ from an editor's. */
#define HELLO_ID  "attach-hello"
#define RESUME_ID "attach-resume-"

/** A request of the editor that has no answer yet. */
struct wait {
	struct list link;
	char *id; /* JSON */
	json_t *message;
	size_t size; /* bytes that the editor sent */
	const char *method; /* points into `message` */
	bool is_sent; /* on this connection */
	bool has_begun; /* session/load: updates have arrived */
	bool names_session; /* the editor sent session/new: the answer must have the session's id */
};

/** A question that the server has asked the editor. */
struct question {
	struct list link;
	char *id; /* JSON */
	struct buffer answer; /* empty: not answered. The server may not have received it */
};

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static const char *session_of(const json_t *message)
{
	return text_of(json_object_get(message, "params"), "sessionId");
}

static bool is(const char *text, const char *other)
{
	return text && strcmp(text, other) == 0;
}

/** Returns NULL for NULL. */
static char *write_json(const struct attach *attach, const json_t *value)
{
	return value ? json_text(value, attach->numbers) : NULL;
}

void attach_init(struct attach *attach)
{
	unsigned char bytes[8];
	list_init(&attach->sessions);
	list_init(&attach->waits);
	list_init(&attach->questions);
	list_init(&attach->queue);
	list_init(&attach->to_server);
	attach->numbers = json_numbers_create();
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		abort();
	}
	strcpy(attach->client_id, "attach-");
	for (size_t i = 0; i < sizeof(bytes); i++) {
		snprintf(attach->client_id + 7 + 2 * i, 3, "%02x", bytes[i]);
	}
}

/* --- sending --- */

static void put(struct list *list, const char *text, size_t len)
{
	struct attach_message *message = xcalloc(1, sizeof(*message));
	buffer_append(&message->text, text, len);
	list_append(list, &message->link);
}

static void drop_all(struct list *list)
{
	list_for_each_safe(link, tmp, list) {
		struct attach_message *message = list_entry(link, struct attach_message, link);
		list_remove(&message->link);
		buffer_finish(&message->text);
		free(message);
	}
}

static void send_now(struct attach *attach, const json_t *message)
{
	char *text = write_json(attach, message);
	put(&attach->to_server, text, strlen(text));
	free(text);
}

/** Sends a notification, or queues it for the next connection. Says once that it drops some. */
static void send_or_queue(struct attach *attach, const char *text, size_t len)
{
	if (attach->is_connected && !attach->is_coming_back) {
		put(&attach->to_server, text, len);
		return;
	}
	size_t size = len + sizeof(struct attach_message);
	if (attach->queued + size <= QUEUE_MAX) {
		attach->queued += size;
		put(&attach->queue, text, len);
	} else if (!attach->has_dropped) {
		attach->has_dropped = true;
		diag(DIAG_WARN,
			"too many notifications wait for a connection to the server; new ones are dropped");
	}
}

static void tell_editor(struct attach *attach, const char *text, size_t len)
{
	buffer_append(&attach->to_editor, text, len);
	buffer_append_char(&attach->to_editor, '\n');
}

static void tell_editor_json(struct attach *attach, const json_t *message)
{
	char *text = write_json(attach, message);
	tell_editor(attach, text, strlen(text));
	free(text);
}

/* --- waits and questions --- */

/** Accepts a NULL `id`. */
static struct wait *find_wait(struct attach *attach, const char *id)
{
	for (int likeness = JSON_RPC_EQUAL; id && likeness <= JSON_RPC_SAME_NUMBER; likeness++) {
		list_for_each(link, &attach->waits) {
			struct wait *wait = list_entry(link, struct wait, link);
			if (json_rpc_same_id_text(id, wait->id, likeness)) {
				return wait;
			}
		}
	}
	return NULL;
}

static void drop_wait(struct attach *attach, struct wait *wait)
{
	attach->wait_count--;
	attach->wait_size -= wait->size;
	list_remove(&wait->link);
	free(wait->id);
	json_decref(wait->message);
	free(wait);
}

static struct question *find_question(struct attach *attach, const char *id)
{
	list_for_each(link, &attach->questions) {
		struct question *question = list_entry(link, struct question, link);
		if (strcmp(question->id, id) == 0) {
			return question;
		}
	}
	return NULL;
}

static void drop_question(struct question *question)
{
	list_remove(&question->link);
	buffer_finish(&question->answer);
	free(question->id);
	free(question);
}

void attach_finish(struct attach *attach)
{
	list_for_each_safe(link, tmp, &attach->sessions) {
		attach_drop_session(list_entry(link, struct open_session, link));
	}
	list_for_each_safe(link, tmp, &attach->waits) {
		drop_wait(attach, list_entry(link, struct wait, link));
	}
	list_for_each_safe(link, tmp, &attach->questions) {
		drop_question(list_entry(link, struct question, link));
	}
	drop_all(&attach->queue);
	drop_all(&attach->to_server);
	buffer_finish(&attach->to_editor);
	json_decref(attach->hello);
	json_numbers_destroy(attach->numbers);
}

/* --- from the editor --- */

static json_t *member(json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);
	if (!json_is_object(value)) {
		value = json_object();
		json_object_set_new(object, name, value);
	}
	return value;
}

static bool can_send(const struct attach *attach, const char *method)
{
	return attach->is_connected && (!attach->is_coming_back || is(method, "initialize"));
}

/** Sends a request, or leaves it for the next connection. */
static void send_wait(struct attach *attach, struct wait *wait)
{
	if (can_send(attach, wait->method)) {
		wait->is_sent = true;
		send_now(attach, wait->message);
	}
}

/** Answers a request that would have to wait for a connection, but too much waits already. */
static bool is_refused(struct attach *attach, const json_t *message, size_t size)
{
	bool has_room = attach->wait_count < WAITS_MAX && attach->wait_size + size <= QUEUE_MAX;
	if (has_room || can_send(attach, text_of(message, "method"))) {
		return false;
	}
	json_rpc_error(&attach->to_editor, json_object_get(message, "id"), JSON_RPC_INTERNAL_ERROR,
		"there is no connection to the server, and too many requests wait for one");
	return true;
}

/** Gives a prompt an id, by which the server recognizes it if it is sent again. */
static void name_prompt(struct attach *attach, json_t *message)
{
	char name[64];
	json_t *ours = member(member(member(message, "params"), "_meta"), "holdfast");
	snprintf(name, sizeof(name), "%s-%lu", attach->client_id, ++attach->prompts);
	if (!json_object_get(ours, "prompt_id")) {
		json_object_set_new(ours, "prompt_id", json_string(name));
	}
}

static void take_request(struct attach *attach, json_t *message, size_t size)
{
	if (is_refused(attach, message, size)) {
		return;
	}
	struct wait *wait = xcalloc(1, sizeof(*wait));
	const char *method = text_of(message, "method");
	wait->id = write_json(attach, json_object_get(message, "id"));
	wait->size = size;
	attach->wait_count++;
	attach->wait_size += size;
	wait->message = json_incref(message);
	if (is(method, "initialize")) {
		json_decref(attach->hello);
		attach->hello = json_incref(message);
		if (attach->is_read_only) {
			json_object_set_new(
				member(member(member(message, "params"), "_meta"), "holdfast"),
				"read_only", json_true());
		}
	} else if (is(method, "session/new") && attach->session) {
		wait->names_session = true;
		json_object_set_new(message, "method", json_string("session/load"));
		json_object_set_new(
			member(message, "params"), "sessionId", json_string(attach->session));
	} else if (is(method, "session/prompt")) {
		name_prompt(attach, message);
	}
	wait->method = text_of(message, "method");
	list_append(&attach->waits, &wait->link);
	send_wait(attach, wait);
}

/** Drops the oldest answered questions beyond ANSWERED_MAX. */
static void forget_answered(struct attach *attach)
{
	size_t count = 0;
	list_for_each(link, &attach->questions) {
		count += list_entry(link, struct question, link)->answer.len > 0;
	}
	list_for_each_safe(link, tmp, &attach->questions) {
		struct question *question = list_entry(link, struct question, link);
		if (question->answer.len && count > ANSWERED_MAX) {
			drop_question(question);
			count--;
		}
	}
}

static void take_answer(struct attach *attach, const json_t *id, const char *text, size_t len)
{
	char *key = write_json(attach, id);
	struct question *question = find_question(attach, key);
	if (question && !question->answer.len) {
		buffer_append(&question->answer, text, len);
		forget_answered(attach);
		if (attach->is_connected) {
			put(&attach->to_server, text, len);
		} /* otherwise the server asks again: is_new_question() then sends the answer */
	}
	free(key);
}

void attach_take_line(struct attach *attach, const char *text, size_t len)
{
	json_unwrap(&text, &len);
	if (!len) {
		return;
	}
	json_t *message = json_read(text, len, JSON_REJECT_DUPLICATES, attach->numbers, NULL);
	const json_t *id = json_object_get(message, "id");
	struct buffer out = {0};
	switch (json_rpc_classify(message)) {
	case JSON_RPC_REQUEST:
		take_request(attach, message, len);
		break;
	case JSON_RPC_RESPONSE:
		take_answer(attach, id, text, len);
		break;
	case JSON_RPC_NOTIFICATION:
		send_or_queue(attach, text, len);
		break;
	default:
		json_rpc_error(&out, NULL,
			message ? JSON_RPC_INVALID_REQUEST : JSON_RPC_PARSE_ERROR,
			message ? "this is not a JSON-RPC 2.0 message" : "this is not JSON");
		buffer_append(&attach->to_editor, out.data, out.len);
		buffer_finish(&out);
		break;
	}
	json_decref(message);
	json_numbers_sweep(attach->numbers);
}

/* --- connections --- */

static void resume(struct attach *attach, const struct open_session *session)
{
	json_t *message = json_pack("{s:s, s:o, s:s, s:{s:s, s:s, s:o}}", "jsonrpc", "2.0", "id",
		json_sprintf(RESUME_ID "%s", session->id), "method", "session/resume", "params",
		"sessionId", session->id, "cwd", "/", "_meta", attach_place_of(session));
	attach->resuming++;
	send_now(attach, message);
	json_decref(message);
}

/** Turns a load that was cut off into a resume from the editor's position. */
static void go_on_loading(struct attach *attach, struct wait *wait)
{
	const struct open_session *session = attach_find_session(attach, session_of(wait->message));
	if (wait->has_begun && session && session->epoch) {
		json_object_set_new(wait->message, "method", json_string("session/resume"));
		wait->method = text_of(wait->message, "method");
		json_object_set_new(
			member(wait->message, "params"), "_meta", attach_place_of(session));
	}
}

static bool is_opening(const struct wait *wait)
{
	return is(wait->method, "session/load") || is(wait->method, "session/resume");
}

/** Whether a request of the editor is opening the session, which then needs no resume of ours. */
static bool is_being_opened(struct attach *attach, const char *id)
{
	list_for_each(link, &attach->waits) {
		struct wait *wait = list_entry(link, struct wait, link);
		if (is_opening(wait) && is(session_of(wait->message), id)) {
			return true;
		}
	}
	return false;
}

/** The sessions are resumed: sends the requests and notifications that waited for that. */
static void catch_up(struct attach *attach)
{
	attach->is_coming_back = false;
	list_for_each(link, &attach->waits) {
		struct wait *wait = list_entry(link, struct wait, link);
		if (!wait->is_sent) {
			go_on_loading(attach, wait);
			send_wait(attach, wait);
		}
	}
	list_move_all(&attach->to_server, &attach->queue);
	attach->queued = 0;
	attach->has_dropped = false;
}

static void resume_all(struct attach *attach)
{
	attach->is_coming_back = true;
	list_for_each(link, &attach->sessions) {
		struct open_session *session = list_entry(link, struct open_session, link);
		if (session->epoch && !is_being_opened(attach, session->id)) {
			resume(attach, session);
		}
	}
	if (!attach->resuming) {
		catch_up(attach);
	}
}

void attach_connected(struct attach *attach)
{
	attach->is_connected = true;
	attach->resuming = 0;
	attach->is_coming_back = true;
	if (attach->is_greeted) {
		json_t *hello = json_copy(attach->hello);
		json_object_set_new(hello, "id", json_string(HELLO_ID));
		send_now(attach, hello);
		json_decref(hello);
		return;
	}
	list_for_each(link, &attach->waits) { /* send_wait() lets only `initialize` through now */
		send_wait(attach, list_entry(link, struct wait, link));
	}
}

void attach_lost(struct attach *attach)
{
	attach->is_connected = false;
	drop_all(&attach->to_server);
	list_for_each(link, &attach->waits) {
		list_entry(link, struct wait, link)->is_sent = false;
	}
}

/* --- from the server --- */

/** Drops a session that could not be resumed, and answers the editor's requests to it. */
static void fail_session(struct attach *attach, const char *id, const json_t *error)
{
	attach_drop_session(attach_find_session(attach, id));
	list_for_each_safe(link, tmp, &attach->waits) {
		struct wait *wait = list_entry(link, struct wait, link);
		if (is(session_of(wait->message), id)) {
			json_t *answer = json_pack("{s:s, s:O, s:O}", "jsonrpc", "2.0", "id",
				json_object_get(wait->message, "id"), "error", error);
			tell_editor_json(attach, answer);
			json_decref(answer);
			drop_wait(attach, wait);
		}
	}
}

static bool take_own_answer(struct attach *attach, const char *id, const json_t *message)
{
	const json_t *error = json_object_get(message, "error");
	if (is(id, HELLO_ID)) {
		resume_all(attach);
		return true;
	}
	if (!id || strncmp(id, RESUME_ID, strlen(RESUME_ID)) != 0) {
		return false;
	}
	const char *session = id + strlen(RESUME_ID);
	if (error) {
		fail_session(attach, session, error);
	}
	if (attach->resuming && --attach->resuming == 0) {
		catch_up(attach);
	}
	return true;
}

static void note_answer(struct attach *attach, const struct wait *wait, const json_t *result)
{
	const char *id = is_opening(wait) ? session_of(wait->message) : NULL;
	if (is(wait->method, "session/new")) {
		id = text_of(result, "sessionId");
	} else if (is(wait->method, "session/close") || is(wait->method, "session/delete")) {
		attach_drop_session(attach_find_session(attach, session_of(wait->message)));
	}
	if (id) {
		attach_note_place(attach_make_session(attach, id),
			json_object_get(json_object_get(result, "_meta"), "holdfast"));
	}
}

static void take_server_answer(
	struct attach *attach, const json_t *message, const char *text, size_t len)
{
	char *key = write_json(attach, json_object_get(message, "id"));
	struct wait *wait = find_wait(attach, key);
	json_t *result = json_object_get(message, "result");
	free(key);
	if (take_own_answer(attach, json_string_value(json_object_get(message, "id")), message) ||
		!wait) {
		return;
	}
	if (result) {
		note_answer(attach, wait, result);
	}
	if (result && wait->names_session) {
		json_object_set_new(result, "sessionId", json_string(attach->session));
		tell_editor_json(attach, message);
	} else {
		tell_editor(attach, text, len);
	}
	bool was_hello = is(wait->method, "initialize");
	drop_wait(attach, wait);
	if (was_hello && result) {
		attach->is_greeted = true;
		resume_all(attach);
	}
}

static void note_update(struct attach *attach, const json_t *params)
{
	const char *id = text_of(params, "sessionId");
	const json_t *place = json_object_get(json_object_get(params, "_meta"), "holdfast");
	if (!id) {
		return;
	}
	attach_note_place(attach_make_session(attach, id), place);
	list_for_each(link, &attach->waits) {
		struct wait *wait = list_entry(link, struct wait, link);
		if (is_opening(wait) && is(session_of(wait->message), id)) {
			wait->has_begun = true;
		}
	}
}

/**
 * Whether the editor has not been asked this before. If it has answered already, the server cannot
 * have received the answer: it is sent again.
 */
static bool is_new_question(struct attach *attach, const json_t *message)
{
	char *key = write_json(attach, json_object_get(message, "id"));
	struct question *question = find_question(attach, key);
	if (question) {
		if (question->answer.len) {
			put(&attach->to_server, question->answer.data, question->answer.len);
		}
		free(key);
		return false;
	}
	note_update(attach, json_object_get(message, "params")); /* a question has a position too */
	question = xcalloc(1, sizeof(*question));
	question->id = key;
	list_append(&attach->questions, &question->link);
	return true;
}

/** Drops a question that the server has withdrawn. Returns whether it was still unanswered. */
static bool was_question(struct attach *attach, const json_t *params)
{
	char *key = write_json(attach, json_object_get(params, "requestId"));
	struct question *question = key ? find_question(attach, key) : NULL;
	bool is_open = question && !question->answer.len;
	free(key);
	if (question) {
		drop_question(question);
	}
	return is_open;
}

void attach_take_message(struct attach *attach, const char *text, size_t len)
{
	json_t *message = json_read(text, len, 0, attach->numbers, NULL);
	const char *method = text_of(message, "method");
	const json_t *params = json_object_get(message, "params");
	bool is_told = false;
	if (is(method, "session/update")) {
		note_update(attach, params);
		is_told = true;
	} else if (is(method, "$/cancel_request")) {
		is_told = was_question(attach, params);
	} else if (method) {
		is_told = !json_object_get(message, "id") || is_new_question(attach, message);
	} else if (message) {
		take_server_answer(attach, message, text, len);
	}
	if (is_told) {
		tell_editor(attach, text, len);
	}
	json_decref(message);
	json_numbers_sweep(attach->numbers);
}
