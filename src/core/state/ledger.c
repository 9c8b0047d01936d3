/*
 * The permission ledger: the requests of agents and their answers. A request is open until it gets
 * its one answer. If an agent dies before it has done what an answer permits, the answer is carried
 * over to the next turn, and resolves the same request at once if it is made there again.
 */
#include "state_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The most answers remembered for requests that may be made again. */
#define ANSWERS_MAX 64
/* An answer whose ids are longer than this, together, is not remembered. */
#define NAMES_MAX ((size_t)2048)

static void free_permission(struct session_state *state, struct permission *permission)
{
	const char *id = permission->request_id;
	hash_remove(state->permissions_by_id, id, strlen(id));
	list_remove(&permission->link);
	if (list_empty(&state->permissions)) {
		hash_destroy(state->permissions_by_id);
		state->permissions_by_id = NULL;
	}
	json_decref(permission->options);
	free(permission->tool_call_id);
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

static bool has_option(const json_t *options, const char *option_id)
{
	size_t i;
	json_t *option;
	json_array_foreach(options, i, option) {
		if (strcmp(session_text_of(option, "option_id"), option_id) == 0) {
			return true;
		}
	}
	return false;
}

/* --- the subject of a request --- */

/** Makes an object of the members of `from` that are listed in `names`. */
static json_t *pick(const json_t *from, const char *const names[])
{
	json_t *out = json_object();
	for (const char *const *name = names; *name; name++) {
		json_object_set(out, *name, json_object_get(from, *name));
	}
	return out;
}

/**
 * The input of a tool call, without what differs when the agent asks again: Codex puts ids and the
 * time of this one call into it. If its call_id is not the call's id, all members are the tool's.
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

/** Everything that is shown to those who answer: what is to be done, and the options. */
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
 * Computes the sum of a request's subject. Returns false if the request does not itself say what is
 * to be done: a title alone ("Run a command") may stand for anything.
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

/** Opens a request; takes over `request_id` and `data`, of which `request` is the parsed JSON. */
static struct permission *open_permission(
	struct session_state *state, char *request_id, char *data, const json_t *request)
{
	const json_t *call = json_object_get(request, "tool_call");
	struct permission *permission = xcalloc(1, sizeof(*permission));
	permission->request_id = request_id;
	permission->data = data;
	permission->tool_call_id = xstrdup(session_text_of(call, "tool_call_id"));
	permission->options = json_incref(json_object_get(request, "options"));
	permission->has_subject = sum_subject(request, &permission->subject);
	permission->is_elicitation = !permission->options;
	permission->asked_at = -1;
	if (!state->permissions_by_id) {
		state->permissions_by_id = hash_create();
	}
	hash_put(state->permissions_by_id, request_id, strlen(request_id), permission);
	list_append(&state->permissions, &permission->link);
	return permission;
}

bool session_ledger_add_permission(struct session_state *state, char *request_id, char *data)
{
	if (!request_id || !data) {
		free(request_id);
		free(data);
		return false;
	}
	json_t *request = session_read_object(data, strlen(data));
	open_permission(state, request_id, data, request);
	json_decref(request);
	return true;
}

/* --- answers --- */

/** Remembers a person's answer until the tool call that it permits is done. */
static void note_answer(struct session_state *state, const struct permission *permission,
	const struct session_answer *given)
{
	const char *call = permission->tool_call_id;
	if (permission->has_subject &&
		strlen(given->by) + strlen(given->option_id) + strlen(call) <= NAMES_MAX) {
		struct given_answer *answer = xcalloc(1, sizeof(*answer));
		answer->seq = given->seq;
		answer->subject = permission->subject;
		answer->tool_call_id = xstrdup(call);
		answer->option_id = xstrdup(given->option_id);
		answer->by = xstrdup(given->by);
		session_ledger_add_answer(state, answer);
	}
	if (state->answer_count > ANSWERS_MAX) {
		free_answer(state, list_entry(state->answers.next, struct given_answer, link));
	}
}

static int64_t waited_ms(const struct session_state *state, const struct permission *permission)
{
	int64_t ms = permission->asked_at < 0 ? -1 : state->at - permission->asked_at;
	return ms < 0 ? -1 : ms;
}

void session_ledger_resolve(struct session_state *state, const json_t *resolved, uint64_t seq)
{
	bool is_selected = strcmp(session_text_of(resolved, "outcome"), "selected") == 0;
	char *by = session_signature(resolved);
	struct session_answer answer = {
		.request_id = session_text_of(resolved, "request_id"),
		.option_id = is_selected ? session_text_of(resolved, "option_id") : NULL,
		.by = by,
		.seq = seq,
	};
	struct permission *permission = find_permission(state, answer.request_id);
	const char *action = session_text_of(resolved, "action");
	if (permission->is_elicitation && strcmp(action, "cancel") != 0) {
		answer.option_id = action;
	}
	answer.wait_ms = waited_ms(state, permission);
	if (is_selected && *answer.by && !json_object_get(resolved, "bound_to")) {
		note_answer(state, permission, &answer);
	}
	free_permission(state, permission);
	state->ops->answer(state->owner, &answer);
	free(by);
}

static void append_signature(struct buffer *data, const char *signature)
{
	char *by = xstrdup(signature);
	const char *sub = session_signature_split(by);
	buffer_append_member(data, "by", by);
	if (*sub) {
		buffer_append_member(data, "sub", sub);
	}
	free(by);
}

/** Resolves a request with a carried-over answer, or (NULL) cancels it. */
static void put_resolved(struct session_state *state, struct permission *permission,
	const struct given_answer *bound, int64_t ts)
{
	const char *id = permission->request_id;
	struct buffer data = {0};
	buffer_append_char(&data, '{');
	buffer_append_member(&data, "request_id", id);
	if (permission->is_elicitation) {
		buffer_append_member(&data, "action", "cancel");
	} else {
		buffer_append_member(&data, "outcome", bound ? "selected" : "cancelled");
	}
	if (bound) {
		buffer_append_member(&data, "option_id", bound->option_id);
		append_signature(&data, bound->by);
		buffer_printf(&data, ",\"bound_to\":%llu", (unsigned long long)bound->seq);
	}
	buffer_append_char(&data, '}');
	struct session_answer answer = {.request_id = id,
		.option_id = bound ? bound->option_id : NULL,
		.by = bound ? bound->by : "",
		.wait_ms = bound ? -1 : waited_ms(state, permission)};
	answer.seq = session_put(state,
		permission->is_elicitation ? EVENT_ELICITATION_RESOLVED : EVENT_PERMISSION_RESOLVED,
		data.data, data.len, ts);
	buffer_finish(&data);
	state->ops->answer(state->owner, &answer);
	free_permission(state, permission);
}

void session_ledger_cancel_all(struct session_state *state, int64_t ts)
{
	list_for_each_safe(link, tmp, &state->permissions) {
		put_resolved(state, list_entry(link, struct permission, link), NULL, ts);
	}
}

/* --- requests --- */

/** Finds the answer that the same request got before its agent died: the first, if several. */
static struct given_answer *find_carried(
	const struct session_state *state, const struct permission *permission)
{
	list_for_each(link, &state->answers) {
		struct given_answer *answer = list_entry(link, struct given_answer, link);
		if (permission->has_subject && answer->is_carried &&
			answer->subject.low == permission->subject.low &&
			answer->subject.high == permission->subject.high &&
			has_option(permission->options, answer->option_id)) {
			return answer;
		}
	}
	return NULL;
}

void session_ledger_ask(struct session_state *state, const struct input_event *in, int64_t ts)
{
	const json_t *request = session_state_data(state);
	struct permission *permission =
		open_permission(state, xstrdup(session_text_of(request, "request_id")),
			xstrndup(in->data, in->data_len), request);
	struct given_answer *bound = find_carried(state, permission);
	permission->asked_at = state->at;
	if (bound) {
		put_resolved(state, permission, bound, ts);
		free_answer(state, bound); /* "allow once" is used up */
	}
}

void session_ledger_note_call(struct session_state *state)
{
	if (list_empty(&state->answers)) {
		return;
	}
	const json_t *call = session_state_data(state);
	const char *status = session_text_of(call, "status");
	const char *id = session_text_of(call, "tool_call_id");
	bool is_over = strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0;
	list_for_each_safe(link, tmp, &state->answers) {
		struct given_answer *answer = list_entry(link, struct given_answer, link);
		if (is_over && strcmp(answer->tool_call_id, id) == 0) {
			free_answer(state, answer);
		}
	}
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

void session_ledger_follow_log(struct session_state *state)
{
	list_for_each_safe(link, tmp, &state->permissions) {
		struct permission *permission = list_entry(link, struct permission, link);
		uint64_t seq;
		if (!state->facts.in_turn || state->ops->find(state->owner, LOG_KEY_ANSWER,
						     permission->request_id, &seq)) {
			free_permission(state, permission);
		}
	}
	/* Whether their calls are done by now is unknown: such requests must be answered again. */
	forget_answers(state);
}

/* --- lookups --- */

bool session_state_asks(
	const struct session_state *state, const char *request_id, const char *option_id)
{
	const struct permission *permission = find_permission(state, request_id);
	return permission && (!option_id || has_option(permission->options, option_id));
}

const char *session_state_elicitation(const struct session_state *state, const char *request_id)
{
	const struct permission *permission = find_permission(state, request_id);
	return permission && permission->is_elicitation ? permission->data : NULL;
}

static const char *find_kind(const json_t *options, const char *kind)
{
	size_t i;
	json_t *option;
	json_array_foreach(options, i, option) {
		if (strcmp(session_text_of(option, "kind"), kind) == 0) {
			return session_text_of(option, "option_id");
		}
	}
	return NULL;
}

const char *session_state_pick(
	const struct session_state *state, const char *request_id, bool allows)
{
	const struct permission *permission = find_permission(state, request_id);
	const json_t *options = permission ? permission->options : NULL;
	const char *once = find_kind(options, allows ? "allow_once" : "reject_once");
	return once ? once : find_kind(options, allows ? "allow_always" : "reject_always");
}

size_t session_state_count_asked(const struct session_state *state)
{
	return state->permissions_by_id ? hash_count(state->permissions_by_id) : 0;
}

const char *session_state_newest_asked(const struct session_state *state)
{
	return list_empty(&state->permissions)
		       ? NULL
		       : list_entry(state->permissions.prev, struct permission, link)->request_id;
}

void session_state_each_asked(const struct session_state *state,
	void (*visit)(void *arg, const char *request_id), void *arg)
{
	size_t count = 0;
	char **ids = xcalloc(session_state_count_asked(state), sizeof(*ids));
	list_for_each(link, &state->permissions) {
		ids[count++] = xstrdup(list_entry(link, struct permission, link)->request_id);
	}
	for (size_t i = 0; i < count; i++) {
		visit(arg, ids[i]);
		free(ids[i]);
	}
	free(ids);
}
