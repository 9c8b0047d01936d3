/* Checks what producers, agents and controllers send, and gives it to the session. */
#include "batch.h"

#include "holdfast/elicitation.h"
#include "holdfast/hash.h"
#include "holdfast/session_state.h"
#include "holdfast/usage_total.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse_input(const struct session *session, struct refusal *refusal, int error)
{
	if (error == -ENOENT) {
		return refuse(refusal, ERROR_not_found, "the session is being deleted");
	}
	return refuse_storage(refusal, session_storage(session), STORAGE_WRITE);
}

/* --- producers --- */

/* Up to this many events are searched one by one; larger batches get a hash table. */
#define FEW_EVENTS 16

static void place_of(enum batch_name kind, const char *name, struct buffer *out)
{
	buffer_append_char(out, (char)kind);
	buffer_append(out, name, strlen(name));
}

struct batch_entry *batch_find(
	const struct batch *batch, size_t i, enum batch_name kind, const char *name)
{
	if (batch->names) {
		struct buffer place = {0};
		place_of(kind, name, &place);
		uintptr_t had = (uintptr_t)hash_get(batch->names, place.data, place.len);
		buffer_finish(&place);
		return had ? &batch->entries[had - 1] : NULL;
	}
	while (i-- > 0) {
		const char *noted = batch->entries[i].names[kind];
		if (noted && strcmp(noted, name) == 0) {
			return &batch->entries[i];
		}
	}
	return NULL;
}

void batch_note(struct batch *batch, size_t i, enum batch_name kind, const char *name)
{
	batch->entries[i].names[kind] = name;
	if (batch->names) {
		struct buffer place = {0};
		place_of(kind, name, &place);
		hash_put(batch->names, place.data, place.len, (void *)(uintptr_t)(i + 1));
		buffer_finish(&place);
	}
}

static bool asks(enum event_type type)
{
	return type == EVENT_PERMISSION_REQUEST || type == EVENT_ELICITATION_REQUEST;
}

static bool answers(enum event_type type)
{
	return type == EVENT_PERMISSION_RESOLVED || type == EVENT_ELICITATION_RESOLVED;
}

static enum permission_state state_of_question(
	const struct batch *batch, size_t i, const char *request_id)
{
	const struct batch_entry *newest = batch_find(batch, i, NAME_QUESTION, request_id);
	return !newest                 ? session_permission(batch->session, request_id).state
	       : asks(newest->in.type) ? PERMISSION_PENDING
				       : PERMISSION_RESOLVED;
}

/** Whether an open question takes an answer of this type: a form takes no option. */
static bool takes(const struct batch *batch, enum event_type type, const char *request_id)
{
	bool is_form = session_elicitation(batch->session, request_id);
	return is_form == (type == EVENT_ELICITATION_RESOLVED);
}

/**
 * Refuses a permission request whose id was used before, and an answer whose request is unknown or
 * resolved, in the session or in earlier events of the batch. The same goes for elicitations.
 */
static int check_permission(struct batch *batch, size_t i, struct refusal *refusal)
{
	const struct input_event *in = &batch->entries[i].in;
	struct permission_count *count = &batch->questions;
	if (in->type == EVENT_TURN_END || in->type == EVENT_AGENT_STOPPED) {
		count->open = 0; /* open requests end with their turn */
	}
	bool is_asked = asks(in->type);
	if (!is_asked && !answers(in->type)) {
		return 0;
	}
	const char *id = json_string_value(json_object_get(in->object, "request_id"));
	enum permission_state state = state_of_question(batch, i, id);
	if (is_asked && state != PERMISSION_UNKNOWN) {
		return refuse(refusal, ERROR_bad_request,
			"the request_id \"%.100s\" has been used before", id);
	}
	if (!is_asked && state == PERMISSION_RESOLVED) {
		return refuse(
			refusal, ERROR_already_resolved, "\"%.100s\" has been resolved before", id);
	}
	if (!is_asked && (state == PERMISSION_UNKNOWN || !takes(batch, in->type, id))) {
		return refuse(refusal, ERROR_unknown_request,
			"no permission request has the id \"%.100s\"", id);
	}
	if (is_asked && count->open >= count->most) {
		refuse_limit(refusal, LIMIT_open_permissions,
			"%zu permission requests of this session are already open; resolve some, or end the turn",
			count->open);
		return -ENOBUFS;
	}
	count->open += is_asked ? 1 : 0;
	count->open -= !is_asked && count->open > 0 ? 1 : 0;
	batch_note(batch, i, NAME_QUESTION, id);
	return 0;
}

/** Adds the stop_reason end_turn to an end of a turn that has none. */
static void complete_turn_end(struct input_event *in)
{
	if (in->type != EVENT_TURN_END || json_span_get(in->span, "stop_reason")) {
		return;
	}
	struct buffer data = {0};
	buffer_append(&data, in->data, in->data_len - 1);
	buffer_append_str(&data, in->data_len > 2 ? "," : "");
	buffer_append_str(&data, "\"stop_reason\":\"end_turn\"}");
	free(in->data_json);
	in->data = in->data_json = data.data;
	in->data_len = data.len;
}

static int check_disk(struct session *session, struct refusal *refusal)
{
	if (session_table_has_disk(session_table_of(session))) {
		return 0;
	}
	return refuse_limit(refusal, LIMIT_max_disk,
		"the server's data has reached its size limit; try again when there is room");
}

/** Refuses an event if the limit of names of the session, or of open blocks, is reached. */
static int check_room(
	const struct session *session, const struct input_event *in, struct refusal *refusal)
{
	bool is_text = in->type == EVENT_MESSAGE_CHUNK || in->type == EVENT_THOUGHT_CHUNK;
	bool names = in->key || in->message_id || in->type == EVENT_TOOL_CALL ||
		     in->type == EVENT_TOOL_CALL_UPDATE || in->type == EVENT_RUN_START;
	if (names && !session_has_room_for_names(session)) {
		return refuse_limit(refusal, LIMIT_names,
			"this session has reached its limit of keys and ids; continue in another session");
	}
	if (is_text && !session_has_room_for_block(session)) {
		return refuse_limit(refusal, LIMIT_open_blocks,
			"too many sessions have text whose block is incomplete; send it again in a moment");
	}
	return 0;
}

static int check_entry(struct batch *batch, size_t i, const struct json_span *event,
	const struct limits *limits, struct refusal *refusal)
{
	struct batch_entry *entry = &batch->entries[i];
	int r = input_event_parse(event, limits, &entry->in, refusal);
	if (r < 0) {
		return r;
	}
	complete_turn_end(&entry->in);
	r = batch_check_key(batch, i, refusal);
	if (r == 0 && !entry->is_known) {
		r = check_room(batch->session, &entry->in, refusal);
	}
	if (r == 0 && !entry->is_known) {
		r = batch_check_run(batch, i, refusal);
	}
	if (r == 0 && !entry->is_known) {
		r = check_permission(batch, i, refusal);
	}
	if (r == 0 && !entry->is_known) {
		r = batch_check_usage(batch, i, refusal);
	}
	return r;
}

static int append_entries(struct batch *batch)
{
	int r = 0;
	for (size_t i = 0; i < batch->count && r == 0; i++) {
		struct batch_entry *entry = &batch->entries[i];
		struct append_ack *ack = &batch->acks[i];
		if (entry->same_as) {
			*ack = batch->acks[entry->same_as - 1];
			ack->duplicate = true;
		} else if (!entry->is_known) {
			r = session_input(batch->session, &entry->in, &ack->seq, &ack->duplicate);
		}
	}
	return r;
}

static void batch_finish(struct batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		input_event_finish(&batch->entries[i].in);
	}
	free(batch->entries);
	hash_destroy(batch->names);
	free(batch->run_id);
	usage_total_destroy(batch->usage);
}

int intake_append(struct session *session, const struct json_span *events, size_t count,
	const struct limits *limits, struct append_ack *acks, size_t *ret_bad,
	struct refusal *refusal)
{
	*ret_bad = 0;
	if (check_disk(session, refusal) < 0) {
		return -EINVAL;
	}
	const char *run_id = session_run(session);
	struct batch batch = {.session = session,
		.count = count,
		.acks = acks,
		.questions = session_count_permissions(session),
		.run_id = run_id ? xstrdup(run_id) : NULL};
	batch.entries = xcalloc(batch.count, sizeof(*batch.entries));
	batch.names = batch.count > FEW_EVENTS ? hash_create() : NULL;
	int r = 0;
	for (size_t i = 0; i < batch.count && r == 0; i++) {
		*ret_bad = i;
		r = check_entry(&batch, i, events, limits, refusal);
		events = json_span_next(events);
	}
	if (r == 0) {
		*ret_bad = 0;
		r = append_entries(&batch);
		r = r < 0 ? refuse_input(session, refusal, r) : 0;
	}
	batch_finish(&batch);
	return r;
}

/* --- the agent --- */

static int put_text(struct session *session, enum event_type type, const char *text, size_t len,
	const char *message_id, bool recovered)
{
	uint64_t seq;
	bool duplicate;
	if (message_id && strlen(message_id) > MESSAGE_ID_MAX) {
		message_id = NULL; /* an agent's id is not refused; without one, texts join */
	}
	return session_input(session,
		&(struct input_event){.type = type,
			.message_id = message_id,
			.message_id_len = message_id ? strlen(message_id) : 0,
			.data = text,
			.data_len = len,
			.recovered = recovered},
		&seq, &duplicate);
}

int intake_text(
	struct session *session, bool thought, const char *text, size_t len, const char *message_id)
{
	return put_text(session, thought ? EVENT_THOUGHT_CHUNK : EVENT_MESSAGE_CHUNK, text, len,
		message_id, false);
}

static int put_event(struct session *session, const char *type, const json_t *data,
	const char *text, bool recovered)
{
	struct refusal refusal;
	struct batch_entry entry = {.in = {.type = event_type_of(type, strlen(type)),
					    .type_name = type,
					    .type_len = strlen(type),
					    .data = text,
					    .data_len = strlen(text),
					    .object = data,
					    .recovered = recovered}};
	struct batch batch = {.session = session,
		.entries = &entry,
		.count = 1,
		.questions = session_count_permissions(session)};
	struct json_spans spans = {0};
	int r = entry.in.type != EVENT_UNKNOWN ? json_spans_read(text, strlen(text), &spans)
					       : -EINVAL;
	r = r == 0 ? input_data_check(entry.in.type, spans.all, &refusal) : r;
	json_spans_finish(&spans);
	r = r == 0 ? check_permission(&batch, 0, &refusal) : r;
	r = r == 0 ? batch_check_usage(&batch, 0, &refusal) : r;
	uint64_t seq;
	bool duplicate;
	return r == 0 ? session_input(session, &entry.in, &seq, &duplicate) : r;
}

int intake_event(struct session *session, const char *type, const json_t *data, const char *text)
{
	return put_event(session, type, data, text, false);
}

int intake_recovered(struct session *session, const char *type, const json_t *data,
	const char *text, const char *message_id)
{
	enum event_type kind = event_type_of(type, strlen(type));
	if (kind != EVENT_MESSAGE_CHUNK && kind != EVENT_THOUGHT_CHUNK) {
		return put_event(session, type, data, text, true);
	}
	const json_t *said = json_object_get(data, "text");
	return put_text(
		session, kind, json_string_value(said), json_string_length(said), message_id, true);
}

/* --- controllers --- */

int intake_prompt(struct session *session, const struct request *request,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate,
	struct refusal *refusal)
{
	if (check_disk(session, refusal) < 0) {
		return -EINVAL;
	}
	int r = session_prompt_with(session, request, author, ret_seq, ret_duplicate);
	if (r == -ENOBUFS) {
		return refuse_limit(refusal, LIMIT_prompt_queue,
			"too many prompts are queued in this session; send it again when one has begun");
	}
	return r < 0 ? refuse_input(session, refusal, r) : 0;
}

int intake_refuse_not_queued(const struct prompt_view *had, struct refusal *refusal)
{
	static const char *const why[] = {
		[PROMPT_UNKNOWN] = "no prompt with this id is queued in this session",
		[PROMPT_QUEUED] = "this prompt is not stored yet; wait for its prompt_received",
		[PROMPT_BEGUN] = "this prompt is no longer queued: its turn has begun",
		[PROMPT_REMOVED] = "this prompt has been removed",
	};
	return refuse(refusal, ERROR_not_queued, "%s", why[had->place]);
}

int intake_edit_prompt(struct session *session, const struct request *request,
	struct prompt_view *ret_had, struct refusal *refusal)
{
	int r = session_edit_prompt(session, request->prompt.prompt_id, request->prompt.message,
		request->prompt.message_len, ret_had);
	if (r == -ESRCH) {
		return intake_refuse_not_queued(ret_had, refusal);
	}
	return r < 0 ? refuse_input(session, refusal, r) : 0;
}

int intake_remove_prompt(struct session *session, const struct request *request,
	struct prompt_view *ret_had, struct refusal *refusal)
{
	int r = session_remove_prompt(session, request->prompt.prompt_id, ret_had);
	if (r == -ESRCH) {
		return intake_refuse_not_queued(ret_had, refusal);
	}
	return r < 0 ? refuse_input(session, refusal, r) : 0;
}

/** Resolves an open permission request. The data is made here, so it needs no checks. */
static int append_resolution(struct session *session, const char *request_id, const char *option_id,
	const struct author *by)
{
	uint64_t seq;
	bool duplicate;
	json_t *data = json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:s*}", "request_id", request_id,
		"outcome", option_id ? "selected" : "cancelled", "option_id", option_id, "by",
		by ? by->client_id : NULL, "sub", by && *by->sub ? by->sub : NULL, "name",
		by ? by->name : NULL);
	char *text = json_text(data, NULL);
	int r = session_input(session,
		&(struct input_event){.type = EVENT_PERMISSION_RESOLVED,
			.data = text,
			.data_len = strlen(text),
			.object = data},
		&seq, &duplicate);
	free(text);
	json_decref(data);
	return r;
}

/**
 * Resolves an open elicitation. The content of the answer is for the agent only, and not stored.
 */
static int append_elicited(struct session *session, const char *request_id, const char *action,
	const struct author *by)
{
	uint64_t seq;
	bool duplicate;
	json_t *data = json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "request_id", request_id, "action",
		action, "by", by ? by->client_id : NULL, "sub", by && *by->sub ? by->sub : NULL,
		"name", by ? by->name : NULL);
	char *text = json_text(data, NULL);
	int r = session_input(session,
		&(struct input_event){.type = EVENT_ELICITATION_RESOLVED,
			.data = text,
			.data_len = strlen(text),
			.object = data},
		&seq, &duplicate);
	free(text);
	json_decref(data);
	return r;
}

static void tell_first(const struct permission_view *permission, struct error_detail *detail)
{
	char *by = xstrdup(permission->by);
	const char *sub = session_signature_split(by);
	detail->seq = permission->seq;
	snprintf(detail->by, sizeof(detail->by), "%s", by);
	snprintf(detail->sub, sizeof(detail->sub), "%s", sub);
	utf8_repair(detail->by);
	utf8_repair(detail->sub);
	free(by);
}

int intake_answer(struct session *session, const struct request *request,
	const struct author *author, struct refusal *refusal)
{
	const char *id = request->answer.request_id;
	struct permission_view permission = session_permission(session, id);
	if (permission.state == PERMISSION_UNKNOWN) {
		return refuse(refusal, ERROR_unknown_request,
			"no permission request has the id \"%.100s\"", id);
	}
	if (permission.state == PERMISSION_RESOLVED) {
		tell_first(&permission, &refusal->detail);
		return refuse(
			refusal, ERROR_already_resolved, "this request has been answered before");
	}
	if (!session_permission_has_option(session, id, request->answer.option_id)) {
		return refuse(refusal, ERROR_bad_request, "the request has no option \"%.100s\"",
			request->answer.option_id);
	}
	int r = append_resolution(session, id, request->answer.option_id, author);
	return r < 0 ? refuse_input(session, refusal, r) : 0;
}

int intake_elicited(struct session *session, const struct request *request,
	const struct author *author, struct refusal *refusal)
{
	const char *id = request->elicited.request_id;
	struct permission_view view = session_permission(session, id);
	const char *question = session_elicitation(session, id);
	if (view.state == PERMISSION_RESOLVED) {
		tell_first(&view, &refusal->detail);
		return refuse(
			refusal, ERROR_already_resolved, "this request has been answered before");
	}
	if (!question) {
		return refuse(
			refusal, ERROR_unknown_request, "no elicitation has the id \"%.100s\"", id);
	}
	json_t *data = json_read(question, strlen(question), 0, NULL, NULL);
	int r = elicitation_check(
		data, request->elicited.action, request->elicited.content, refusal);
	json_decref(data);
	if (r < 0) {
		return r;
	}
	r = append_elicited(session, id, request->elicited.action, author);
	return r < 0 ? refuse_input(session, refusal, r) : 0;
}

int intake_cancel_permission(struct session *session, const char *request_id)
{
	if (session_permission(session, request_id).state != PERMISSION_PENDING) {
		return 0;
	}
	return session_elicitation(session, request_id)
		       ? append_elicited(session, request_id, "cancel", NULL)
		       : append_resolution(session, request_id, NULL, NULL);
}
