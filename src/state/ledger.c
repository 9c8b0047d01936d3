/*
 * The permission ledger: what agents ask, and what they were answered. A question is open until it
 * has its one answer. An answer that an agent died with, before it had done what it asked for, is
 * carried into the next turn: the same question, asked again there, has it at once.
 */
#include "../session/session_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Answers that are remembered for a question that may be asked again. */
#define ANSWERS_MAX 64
/* One with longer names than this is not remembered: it will be asked for again. */
#define NAMES_MAX ((size_t)2048)

/** An answer that is on its way to the disk, and then to the session's agent. */
struct pending_answer {
	struct list link; /* session.pending_answers */
	int64_t lsn;
	char *request_id;
	char *option_id; /* NULL: cancelled */
};

void session_ledger_add_permission(struct session_state *state, struct permission *permission)
{
	const char *id = permission->request_id;
	if (!state->permissions_by_id) {
		state->permissions_by_id = hash_create();
	}
	hash_put(state->permissions_by_id, id, strlen(id), permission);
	list_append(&state->permissions, &permission->link);
}

static void free_permission(struct session_state *state, struct permission *permission)
{
	hash_remove(
		state->permissions_by_id, permission->request_id, strlen(permission->request_id));
	list_remove(&permission->link);
	if (list_empty(&state->permissions)) {
		hash_destroy(state->permissions_by_id);
		state->permissions_by_id = NULL;
	}
	free(permission->request_id);
	free(permission->data);
	free(permission);
}

void session_ledger_add_answer(struct session_state *state, struct given_answer *answer)
{
	list_append(&state->answers, &answer->link);
	state->answer_count++;
}

static void free_answer(struct session_state *state, struct given_answer *answer)
{
	list_remove(&answer->link);
	state->answer_count--;
	free(answer->tool_call_id);
	free(answer->option_id);
	free(answer->by);
	free(answer);
}

static void forget_answers(struct session_state *state)
{
	list_for_each_safe(link, tmp, &state->answers) {
		free_answer(state, list_entry(link, struct given_answer, link));
	}
}

void session_ledger_init(struct session_state *state)
{
	list_init(&state->permissions);
	list_init(&state->answers);
}

void session_ledger_finish(struct session_state *state)
{
	list_for_each_safe(link, tmp, &state->permissions) {
		free_permission(state, list_entry(link, struct permission, link));
	}
	forget_answers(state);
}

bool session_ledger_is_empty(const struct session_state *state)
{
	return list_empty(&state->permissions) && list_empty(&state->answers);
}

static struct permission *find_permission(const struct session_state *state, const char *request_id)
{
	const struct hash *by_id = state->permissions_by_id;
	return by_id ? hash_get(by_id, request_id, strlen(request_id)) : NULL;
}

static bool has_option(const json_t *request, const char *option_id)
{
	size_t i;
	json_t *option;
	json_array_foreach(json_object_get(request, "options"), i, option) {
		if (strcmp(session_text_of(option, "option_id"), option_id) == 0) {
			return true;
		}
	}
	return false;
}

/* --- what a question is about --- */

/** A new object with those of the members `names` that `from` has. */
static json_t *pick(const json_t *from, const char *const names[])
{
	json_t *out = json_object();
	for (const char *const *name = names; *name; name++) {
		json_object_set(out, *name, json_object_get(from, *name));
	}
	return out;
}

/**
 * What a tool is called with. Codex puts the names and the time of this one call in it, which are
 * others when it asks again; where its call_id is not the call's id, all of it is the tool's own.
 */
static json_t *input_of(const json_t *call)
{
	json_t *input = json_object_get(call, "raw_input");
	const char *call_id = session_text_of(input, "call_id");
	if (!*call_id || strcmp(call_id, session_text_of(call, "tool_call_id")) != 0) {
		return json_incref(input);
	}
	json_t *out = json_copy(input);
	json_object_del(out, "call_id");
	json_object_del(out, "turn_id");
	json_object_del(out, "started_at_ms");
	return out;
}

/** All that whoever answers is shown: what is to be done, and the choice. */
static json_t *subject_of(const json_t *request)
{
	static const char *const of_call[] = {
		"title", "name", "kind", "content", "locations", NULL};
	static const char *const of_option[] = {"option_id", "name", "kind", NULL};
	const json_t *call = json_object_get(request, "tool_call");
	json_t *subject = pick(call, of_call);
	json_t *input = input_of(call);
	json_object_set(subject, "raw_input", input);
	json_decref(input);
	json_t *options = json_array();
	size_t i;
	json_t *option;
	json_array_foreach(json_object_get(request, "options"), i, option) {
		json_array_append_new(options, pick(option, of_option));
	}
	json_object_set_new(subject, "options", options);
	return subject;
}

/**
 * The sum of what a question is about: two with the same ask the same. False if the question does
 * not say itself what is to be done: a title alone ("Run a command") may stand for anything.
 */
static bool sum_subject(const json_t *request, struct ledger_sum *ret)
{
	const json_t *call = json_object_get(request, "tool_call");
	if (!*session_text_of(call, "tool_call_id") ||
		(!json_object_size(json_object_get(call, "raw_input")) &&
			!json_array_size(json_object_get(call, "content")))) {
		return false;
	}
	json_t *subject = subject_of(request);
	char *text = json_dumps(subject, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(subject);
	if (!text) {
		return false;
	}
	XXH128_hash_t sum = XXH3_128bits(text, strlen(text));
	free(text);
	*ret = (struct ledger_sum){sum.low64, sum.high64};
	return true;
}

/* --- answers --- */

/** Remembers a person's answer until what was asked for is done. */
static void note_answer(struct session_state *state, const struct permission *permission,
	const json_t *resolved, uint64_t seq)
{
	const char *by = session_text_of(resolved, "by");
	const char *option_id = session_text_of(resolved, "option_id");
	if (strcmp(session_text_of(resolved, "outcome"), "selected") != 0 || !*by ||
		json_object_get(resolved, "bound_to")) {
		return;
	}
	json_t *request = session_read_object(permission->data, strlen(permission->data));
	const char *call = session_text_of(json_object_get(request, "tool_call"), "tool_call_id");
	struct ledger_sum sum;
	if (strlen(by) + strlen(option_id) + strlen(call) <= NAMES_MAX &&
		sum_subject(request, &sum)) {
		struct given_answer *answer = xcalloc(1, sizeof(*answer));
		answer->seq = seq;
		answer->subject = sum;
		answer->tool_call_id = xstrdup(call);
		answer->option_id = xstrdup(option_id);
		answer->by = xstrdup(by);
		session_ledger_add_answer(state, answer);
	}
	json_decref(request);
	if (state->answer_count > ANSWERS_MAX) {
		free_answer(state, list_entry(state->answers.next, struct given_answer, link));
	}
}

/** When it is durable, the session's agent hears of it. */
static void tell_later(struct session *session, const char *request_id, const json_t *resolved)
{
	if (session->table->recovering) {
		return; /* whoever asked is gone */
	}
	bool is_selected = strcmp(session_text_of(resolved, "outcome"), "selected") == 0;
	struct pending_answer *pending = xcalloc(1, sizeof(*pending));
	pending->lsn = session->applying_lsn;
	pending->request_id = xstrdup(request_id);
	pending->option_id = is_selected ? xstrdup(session_text_of(resolved, "option_id")) : NULL;
	list_append(&session->pending_answers, &pending->link);
}

void session_ledger_resolve(struct session *session, const char *data, size_t len, uint64_t seq)
{
	json_t *resolved = session_read_object(data, len);
	const char *request_id = session_text_of(resolved, "request_id");
	struct permission *permission = find_permission(&session->state, request_id);
	if (permission) {
		note_answer(&session->state, permission, resolved, seq);
		free_permission(&session->state, permission);
	}
	session_remember_resolution(session, request_id, session_text_of(resolved, "by"), seq);
	tell_later(session, request_id, resolved);
	json_decref(resolved);
}

/** Appends a permission_resolved of our own. */
static void put_resolved(struct session *session, const char *request_id, const char *outcome,
	const struct given_answer *bound, int64_t ts)
{
	struct buffer data = {0};
	buffer_append_str(&data, "{\"request_id\":");
	buffer_append_json(&data, request_id, strlen(request_id));
	buffer_printf(&data, ",\"outcome\":\"%s\"", outcome);
	if (bound) {
		buffer_append_str(&data, ",\"option_id\":");
		buffer_append_json(&data, bound->option_id, strlen(bound->option_id));
		buffer_append_str(&data, ",\"by\":");
		buffer_append_json(&data, bound->by, strlen(bound->by));
		buffer_printf(&data, ",\"bound_to\":%llu", (unsigned long long)bound->seq);
	}
	buffer_append_char(&data, '}');
	uint64_t seq = session_put(session, EVENT_PERMISSION_RESOLVED, data.data, data.len, ts);
	session_ledger_resolve(session, data.data, data.len, seq);
	buffer_finish(&data);
}

void session_ledger_cancel_all(struct session *session, int64_t ts)
{
	list_for_each_safe(link, tmp, &session->state.permissions) {
		struct permission *permission = list_entry(link, struct permission, link);
		put_resolved(session, permission->request_id, "cancelled", NULL, ts);
	}
}

/* --- questions --- */

/** The answer that this question had before its agent died, the first one if there are more. */
static struct given_answer *find_carried(const struct session_state *state, const json_t *request)
{
	struct ledger_sum sum;
	if (list_empty(&state->answers) || !sum_subject(request, &sum)) {
		return NULL;
	}
	list_for_each(link, &state->answers) {
		struct given_answer *answer = list_entry(link, struct given_answer, link);
		if (answer->is_carried && answer->subject.low == sum.low &&
			answer->subject.high == sum.high &&
			has_option(request, answer->option_id)) {
			return answer;
		}
	}
	return NULL;
}

void session_ledger_ask(struct session *session, const char *data, size_t len, int64_t ts)
{
	struct session_state *state = &session->state;
	json_t *request = session_read_object(data, len);
	const char *request_id = session_text_of(request, "request_id");
	struct permission *permission = xcalloc(1, sizeof(*permission));
	permission->request_id = xstrdup(request_id);
	permission->data = xstrndup(data, len);
	session_ledger_add_permission(state, permission);
	struct given_answer *bound = find_carried(state, request);
	if (bound) {
		put_resolved(session, request_id, "selected", bound, ts);
		free_answer(state, bound); /* "once" was said once */
	}
	json_decref(request);
}

bool session_ledger_is_open(
	const struct session *session, const char *data, size_t len, uint64_t *ret_seq)
{
	json_t *resolved = session_read_object(data, len);
	const char *request_id = session_text_of(resolved, "request_id");
	bool is_open = find_permission(&session->state, request_id) != NULL;
	struct log_key answer;
	*ret_seq = !is_open && session_find_answer(session, request_id, &answer) ? answer.seq : 0;
	json_decref(resolved);
	return is_open;
}

void session_ledger_note_call(struct session_state *state, const char *data, size_t len)
{
	if (list_empty(&state->answers)) {
		return;
	}
	json_t *call = session_read_object(data, len);
	const char *status = session_text_of(call, "status");
	const char *id = session_text_of(call, "tool_call_id");
	bool is_over = strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0;
	list_for_each_safe(link, tmp, &state->answers) {
		struct given_answer *answer = list_entry(link, struct given_answer, link);
		if (is_over && strcmp(answer->tool_call_id, id) == 0) {
			free_answer(state, answer);
		}
	}
	json_decref(call);
}

void session_ledger_end_turn(struct session_state *state, bool carries)
{
	if (!carries) {
		forget_answers(state);
		return;
	}
	list_for_each(link, &state->answers) {
		list_entry(link, struct given_answer, link)->is_carried = true;
	}
}

void session_ledger_follow_log(struct session *session)
{
	struct session_state *state = &session->state;
	list_for_each_safe(link, tmp, &state->permissions) {
		struct permission *permission = list_entry(link, struct permission, link);
		if (!state->in_turn || session_find_answer(session, permission->request_id, NULL)) {
			free_permission(state, permission);
		}
	}
	/* What became of the calls since then, nobody knows: they are asked for again. */
	forget_answers(state);
}

/* --- what the agent hears --- */

static void free_pending(struct pending_answer *pending)
{
	list_remove(&pending->link);
	free(pending->request_id);
	free(pending->option_id);
	free(pending);
}

void session_ledger_tell(struct session *session, uint64_t lsn)
{
	struct session_table *table = session->table;
	while (!list_empty(&session->pending_answers)) {
		struct pending_answer *pending =
			list_entry(session->pending_answers.next, struct pending_answer, link);
		if ((uint64_t)pending->lsn > lsn) {
			break;
		}
		if (!table->closing) {
			table->ops->answered(
				table->owner, session, pending->request_id, pending->option_id);
		}
		free_pending(pending);
	}
}

void session_ledger_drop(struct session *session)
{
	list_for_each_safe(link, tmp, &session->pending_answers) {
		free_pending(list_entry(link, struct pending_answer, link));
	}
}

/* --- looking --- */

struct permission_view session_permission(const struct session *session, const char *request_id)
{
	if (find_permission(&session->state, request_id)) {
		return (struct permission_view){.state = PERMISSION_PENDING, .by = ""};
	}
	struct log_key answer;
	if (!session_find_answer(session, request_id, &answer)) {
		return (struct permission_view){.state = PERMISSION_UNKNOWN, .by = ""};
	}
	return (struct permission_view){
		.state = PERMISSION_RESOLVED, .by = answer.by, .seq = answer.seq};
}

struct permission_count session_count_permissions(const struct session *session)
{
	const struct hash *by_id = session->state.permissions_by_id;
	return (struct permission_count){.open = by_id ? hash_count(by_id) : 0,
		.most = session->table->limits->open_permissions};
}

bool session_permission_has_option(
	const struct session *session, const char *request_id, const char *option_id)
{
	const struct permission *permission = find_permission(&session->state, request_id);
	if (!permission) {
		return false;
	}
	json_t *request = session_read_object(permission->data, strlen(permission->data));
	bool has = has_option(request, option_id);
	json_decref(request);
	return has;
}

void session_each_permission(
	struct session *session, void (*visit)(void *arg, const char *request_id), void *arg)
{
	const struct hash *by_id = session->state.permissions_by_id;
	size_t count = 0;
	char **ids = by_id ? xcalloc(hash_count(by_id), sizeof(*ids)) : NULL;
	list_for_each(link, &session->state.permissions) {
		ids[count++] = xstrdup(list_entry(link, struct permission, link)->request_id);
	}
	for (size_t i = 0; i < count; i++) {
		visit(arg, ids[i]);
		free(ids[i]);
	}
	free(ids);
}
