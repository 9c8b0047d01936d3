/*
 * Names that inputs give: idempotency keys, message ids, tool calls and their results, runs,
 * prompts that were removed. They come with their input and are kept by the log from the moment it
 * is durable; until then they are here, so that the same input on another connection finds them at
 * once.
 */
#include "session_internal.h"

#include "holdfast/json_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct pending_name {
	struct list link; /* session.pending_names */
	int64_t lsn;
	uint64_t nth;
	enum log_key_kind kind; /* 0: the end of the run, which has no name of its own */
	uint64_t seq;
	struct key_sum sum;
	char key[];
};

/** The kind in front, so that a key and a message may have the same name. */
static void place_of(enum log_key_kind kind, const char *key, struct buffer *out)
{
	buffer_append_char(out, (char)kind);
	buffer_append(out, key, strlen(key));
}

static void keep(struct session *session, const struct pending_name *name)
{
	if (name->kind) {
		session_log_note_input(
			session->log, name->nth, name->kind, name->key, name->seq, &name->sum);
	}
	if (!name->kind || name->kind == LOG_KEY_RUN) {
		session_facts_set_run(session->log, name->kind ? name->key : NULL);
	}
}

static void drop(struct session *session, struct pending_name *name)
{
	struct buffer place = {0};
	place_of(name->kind, name->key, &place);
	if (hash_get(session->fresh_names, place.data, place.len) == name) {
		hash_remove(session->fresh_names, place.data, place.len);
	}
	buffer_finish(&place);
	list_remove(&name->link);
	free(name);
}

static void add(struct session *session, enum log_key_kind kind, const char *key, size_t len,
	uint64_t seq, const struct key_sum *sum)
{
	struct pending_name *name = xcalloc(1, sizeof(*name) + len + 1);
	name->lsn = session->applying_lsn;
	name->kind = kind;
	name->seq = seq;
	name->sum = sum ? *sum : (struct key_sum){0};
	memcpy(name->key, key, len);
	if (kind) {
		name->nth = session->state.input_names++;
	}
	list_append(&session->pending_names, &name->link);
	struct buffer place = {0};
	place_of(kind, name->key, &place);
	if (!hash_get(session->fresh_names, place.data, place.len)) {
		hash_put(session->fresh_names, place.data, place.len, name);
	}
	buffer_finish(&place);
	if (session->table->recovering) { /* from disk: it is durable */
		keep(session, name);
		drop(session, name);
	}
}

void session_names_commit(struct session *session, uint64_t lsn)
{
	while (!list_empty(&session->pending_names)) {
		struct pending_name *name =
			list_entry(session->pending_names.next, struct pending_name, link);
		if ((uint64_t)name->lsn > lsn) {
			break;
		}
		keep(session, name);
		drop(session, name);
	}
}

void session_names_drop(struct session *session)
{
	while (!list_empty(&session->pending_names)) {
		drop(session, list_entry(session->pending_names.next, struct pending_name, link));
	}
}

int session_find_name(
	struct session *session, enum log_key_kind kind, const char *key, struct log_key *ret_key)
{
	struct buffer place = {0};
	place_of(kind, key, &place);
	const struct pending_name *name = hash_get(session->fresh_names, place.data, place.len);
	buffer_finish(&place);
	if (!name) {
		return session_log_find_key(session->log, kind, key, ret_key);
	}
	*ret_key = (struct log_key){.seq = name->seq, .by = "", .sum = name->sum};
	return 1;
}

bool session_has_names(const struct session *session)
{
	return session_log_has_names(session->log);
}

void session_load_names(struct session *session, struct names_wait *wait)
{
	session_log_load_names(session->log, wait);
}

int session_each_message(
	struct session *session, void (*visit)(void *arg, const char *message_id), void *arg)
{
	int r = session_log_each_message(session->log, visit, arg);
	list_for_each(link, &session->pending_names) {
		const struct pending_name *name = list_entry(link, struct pending_name, link);
		if (r == 0 && name->kind == LOG_KEY_MESSAGE) {
			visit(arg, name->key);
		}
	}
	return r;
}

/* --- what an input names --- */

/** Chunks of one message are many, and name it once. */
static void note_message(struct session *session, const char *id, size_t len, uint64_t seq)
{
	char **last = &session->state.last_message_id;
	if (*last && strlen(*last) == len && memcmp(*last, id, len) == 0) {
		return;
	}
	free(*last);
	*last = xstrndup(id, len);
	add(session, LOG_KEY_MESSAGE, id, len, seq, NULL);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static void note_data(struct session *session, const struct input_event *in, uint64_t seq)
{
	json_t *json = json_read(in->data, in->data_len, 0, NULL, NULL);
	const char *tool = text_of(json, "tool_call_id");
	const char *status = text_of(json, "status");
	const char *prompt = text_of(json, "prompt_id");
	size_t len = strlen(tool);
	/* No snapshot can name a longer one. */
	bool is_tool = in->type != EVENT_USER_PROMPT && len && len <= MESSAGE_ID_MAX;
	if (is_tool && in->type == EVENT_TOOL_CALL) {
		add(session, LOG_KEY_TOOL_CALL, tool, len, seq, NULL);
	}
	/* A call may come with its result. */
	if (is_tool && (strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0)) {
		add(session, LOG_KEY_TOOL_RESULT, tool, len, seq, NULL);
	}
	if (in->type == EVENT_USER_PROMPT && *prompt && !in->message_id) {
		note_message(session, prompt, strlen(prompt), seq);
	}
	json_decref(json);
}

void session_names_note(struct session *session, const struct input_event *in, uint64_t seq)
{
	if (in->key) {
		add(session, LOG_KEY_INPUT, in->key, in->key_len, seq, &in->sum);
	}
	if (in->message_id) {
		note_message(session, in->message_id, in->message_id_len, seq);
	}
	if (in->type == EVENT_TOOL_CALL || in->type == EVENT_TOOL_CALL_UPDATE ||
		in->type == EVENT_USER_PROMPT) {
		note_data(session, in, seq);
	}
}

void session_names_note_prompt(struct session *session, const char *prompt_id, uint64_t seq)
{
	note_message(session, prompt_id, strlen(prompt_id), seq);
}

void session_names_note_removed(struct session *session, const char *prompt_id)
{
	add(session, LOG_KEY_REMOVED, prompt_id, strlen(prompt_id), 0, NULL);
}

/* --- runs --- */

void session_run_begin(struct session *session, const char *run_id, size_t len)
{
	struct session_state *state = &session->state;
	free(state->run_id);
	state->run_id = xstrndup(run_id, len);
	add(session, LOG_KEY_RUN, run_id, len, 0, NULL);
}

void session_run_end(struct session *session)
{
	struct session_state *state = &session->state;
	free(state->run_id);
	state->run_id = NULL;
	add(session, (enum log_key_kind)0, "", 0, 0, NULL);
}

const char *session_run(const struct session *session)
{
	return session->state.run_id;
}
