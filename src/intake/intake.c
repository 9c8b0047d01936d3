#include "holdfast/intake.h"

#include "holdfast/hash.h"
#include "holdfast/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse_storage(struct refusal *refusal, int error)
{
	if (error == -ENOENT) {
		return refuse(refusal, "not_found", "the session has been deleted");
	}
	return refuse(refusal, "storage_failed",
		"the server cannot write to its disk; nothing was stored, its messages say why");
}

/* --- producers --- */

/** What the events of a batch have done that stand in front of the one being checked. */
struct batch {
	const struct session *session;
	bool is_single; /* nothing comes behind it */
	struct hash *seen; /* enum permission_state, by request id */
	struct usage_total *usage; /* NULL: nothing, the session's own counts */
};

static void batch_init(struct batch *batch, const struct session *session, size_t count)
{
	*batch = (struct batch){.session = session, .is_single = count == 1, .seen = hash_create()};
}

static void batch_finish(struct batch *batch)
{
	hash_destroy(batch->seen);
	usage_total_destroy(batch->usage);
}

/** Counts ahead what the batch reports, so that all of it fits the bounds of a total, or none. */
static int check_usage(struct batch *batch, const struct input_event *in, struct refusal *refusal)
{
	struct usage_report report;
	if (in->type != EVENT_USAGE && in->type != EVENT_AGENT_STARTED) {
		return 0;
	}
	const struct usage_total *total = session_usage(batch->session);
	if (!batch->is_single) {
		batch->usage = batch->usage ? batch->usage : usage_total_copy(total);
		total = batch->usage;
	}
	if (in->type == EVENT_AGENT_STARTED) {
		if (batch->usage) {
			bool resumed = json_is_true(json_object_get(in->object, "resumed"));
			usage_total_new_source(batch->usage, resumed);
		}
		return 0;
	}
	int r = usage_report_parse(in->object, in->message_id, &report, refusal);
	r = r < 0 ? r : usage_total_check(total, &report, refusal);
	if (r == 0 && batch->usage) {
		usage_total_add(batch->usage, &report);
	}
	return r;
}

/**
 * A permission request must not ask what has been asked, nor an answer answer what has not: in the
 * session, and in the events of the batch that stand in front.
 */
static int check_permission(
	struct batch *batch, const struct input_event *in, struct refusal *refusal)
{
	const struct session *session = batch->session;
	struct hash *seen = batch->seen;
	if (in->type != EVENT_PERMISSION_REQUEST && in->type != EVENT_PERMISSION_RESOLVED) {
		return 0;
	}
	const char *id = json_string_value(json_object_get(in->object, "request_id"));
	enum permission_state state =
		(enum permission_state)(uintptr_t)hash_get(seen, id, strlen(id));
	if (state == PERMISSION_UNKNOWN) {
		state = session_permission(session, id).state;
	}
	bool asks = in->type == EVENT_PERMISSION_REQUEST;
	if (asks && state != PERMISSION_UNKNOWN) {
		return refuse(refusal, "bad_request",
			"the request_id \"%.100s\" has been used before", id);
	}
	if (!asks && state == PERMISSION_RESOLVED) {
		return refuse(
			refusal, "already_resolved", "\"%.100s\" has been resolved before", id);
	}
	if (!asks && state == PERMISSION_UNKNOWN) {
		return refuse(refusal, "unknown_request",
			"no permission request has the id \"%.100s\"", id);
	}
	uintptr_t next = asks ? PERMISSION_PENDING : PERMISSION_RESOLVED;
	hash_put(seen, id, strlen(id), (void *)next);
	return 0;
}

static int check_in_batch(
	struct batch *batch, const struct input_event *in, struct refusal *refusal)
{
	int r = check_permission(batch, in, refusal);
	return r < 0 ? r : check_usage(batch, in, refusal);
}

/** An end of a turn that does not say why is an ordinary one. */
static void complete_turn_end(struct input_event *in)
{
	if (in->type != EVENT_TURN_END || json_object_get(in->object, "stop_reason")) {
		return;
	}
	json_t *data = json_deep_copy(in->object);
	json_object_set_new(data, "stop_reason", json_string("end_turn"));
	free(in->data_json);
	in->data_json = json_dumps(data, JSON_COMPACT);
	in->data = in->data_json;
	in->data_len = strlen(in->data_json);
	json_decref(data);
}

static void finish_all(struct input_event *inputs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		input_event_finish(&inputs[i]);
	}
	free(inputs);
}

int intake_append(struct session *session, const json_t *events, const struct limits *limits,
	struct append_ack *acks, size_t *ret_bad, struct refusal *refusal)
{
	size_t count = json_array_size(events);
	struct input_event *inputs = xcalloc(count, sizeof(*inputs));
	struct batch batch;
	int r = 0;
	batch_init(&batch, session, count);
	for (size_t i = 0; i < count && r == 0; i++) {
		r = input_event_parse(json_array_get(events, i), limits, &inputs[i], refusal);
		r = r < 0 ? r : check_in_batch(&batch, &inputs[i], refusal);
		*ret_bad = i;
		if (r == 0) {
			complete_turn_end(&inputs[i]);
		}
	}
	batch_finish(&batch);
	if (r < 0) {
		finish_all(inputs, count);
		return r;
	}
	for (size_t i = 0; i < count && r == 0; i++) {
		r = session_input(session, &inputs[i], &acks[i].seq, &acks[i].duplicate);
	}
	finish_all(inputs, count);
	*ret_bad = 0;
	return r < 0 ? refuse_storage(refusal, r) : 0;
}

/* --- the agent --- */

int intake_text(
	struct session *session, bool thought, const char *text, size_t len, const char *message_id)
{
	uint64_t seq;
	bool duplicate;
	if (message_id && strlen(message_id) > MESSAGE_ID_MAX) {
		message_id = NULL; /* an agent's ids are its own; without one, its texts are one
				      message */
	}
	return session_input(session,
		&(struct input_event){.type = thought ? EVENT_THOUGHT_CHUNK : EVENT_MESSAGE_CHUNK,
			.message_id = message_id,
			.message_id_len = message_id ? strlen(message_id) : 0,
			.data = text,
			.data_len = len},
		&seq, &duplicate);
}

int intake_event(struct session *session, const char *type, const json_t *data)
{
	struct refusal refusal;
	struct input_event in = {.type = event_type_of(type, strlen(type)),
		.type_name = type,
		.type_len = strlen(type),
		.object = data};
	struct batch batch;
	batch_init(&batch, session, 1);
	bool good = in.type != EVENT_UNKNOWN && input_data_check(in.type, data, &refusal) == 0 &&
		    check_in_batch(&batch, &in, &refusal) == 0;
	batch_finish(&batch);
	if (!good) {
		return -EINVAL;
	}
	in.data_json = json_dumps(data, JSON_COMPACT);
	if (!in.data_json) {
		return -EINVAL;
	}
	in.data = in.data_json;
	in.data_len = strlen(in.data_json);
	uint64_t seq;
	bool duplicate;
	int r = session_input(session, &in, &seq, &duplicate);
	input_event_finish(&in);
	return r;
}

/* --- controllers --- */

int intake_prompt(struct session *session, const struct request *request, const char *client_id,
	uint64_t *ret_seq, bool *ret_duplicate, struct refusal *refusal)
{
	int r = session_prompt(session, request->prompt.message, request->prompt.message_len,
		request->prompt.prompt_id, client_id, ret_seq, ret_duplicate);
	if (r == -ENOBUFS) {
		return refuse(refusal, "queue_full",
			"too many prompts wait in this session already; send it again when one has "
			"begun");
	}
	return r < 0 ? refuse_storage(refusal, r) : 0;
}

static int append_resolution(
	struct session *session, const char *request_id, const char *option_id, const char *by)
{
	json_t *data = json_object();
	json_object_set_new(data, "request_id", json_string(request_id));
	json_object_set_new(data, "outcome", json_string(option_id ? "selected" : "cancelled"));
	if (option_id) {
		json_object_set_new(data, "option_id", json_string(option_id));
	}
	if (by) {
		json_object_set_new(data, "by", json_string(by));
	}
	int r = intake_event(session, "permission_resolved", data);
	json_decref(data);
	return r;
}

int intake_answer(struct session *session, const struct request *request, const char *client_id,
	struct answer_refusal *ret_first, struct refusal *refusal)
{
	const char *id = request->answer.request_id;
	struct permission_view permission = session_permission(session, id);
	*ret_first = (struct answer_refusal){0};
	if (permission.state == PERMISSION_UNKNOWN) {
		return refuse(refusal, "unknown_request",
			"no permission request has the id \"%.100s\"", id);
	}
	if (permission.state == PERMISSION_RESOLVED) {
		ret_first->already_resolved = true;
		ret_first->seq = permission.seq;
		snprintf(ret_first->by, sizeof(ret_first->by), "%s", permission.by);
		utf8_mend(ret_first->by);
		return refuse(refusal, "already_resolved", "this request has been answered before");
	}
	if (!session_permission_has_option(session, id, request->answer.option_id)) {
		return refuse(refusal, "bad_request", "the request has no option \"%.100s\"",
			request->answer.option_id);
	}
	int r = append_resolution(session, id, request->answer.option_id, client_id);
	return r < 0 ? refuse_storage(refusal, r) : 0;
}

int intake_cancel_permission(struct session *session, const char *request_id)
{
	if (session_permission(session, request_id).state != PERMISSION_PENDING) {
		return 0;
	}
	return append_resolution(session, request_id, NULL, NULL);
}
