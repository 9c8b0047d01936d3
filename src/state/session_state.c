/*
 * The deterministic part of a session. Nothing here reads a clock, a file or a random number: times
 * come in with the records, so the same journal gives the same events, always.
 */
#include "../session/session_internal.h"

#include "holdfast/json_text.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void session_state_init(struct session *session, uint64_t next_seq)
{
	struct session_state *state = &session->state;
	*state = (struct session_state){0};
	state->stream = stream_buffer_create(
		session->table->limits, next_seq, session_stream_ops(), session);
	state->usage = usage_total_create();
	session_ledger_init(state);
}

void session_state_finish(struct session_state *state)
{
	prompt_queue_unref(state->queue);
	session_ledger_finish(state);
	stream_buffer_destroy(state->stream);
	free(state->last_prompt_id);
	usage_total_destroy(state->usage);
	free(state->usage_text);
	free(state->run_id);
	free(state->last_message_id);
}

bool session_state_is_idle(const struct session_state *state)
{
	return !state->in_turn && !state->queue && session_ledger_is_empty(state) &&
	       stream_buffer_is_idle(state->stream);
}

static bool same_text(const char *a, const char *b)
{
	return a ? b && strcmp(a, b) == 0 : !b;
}

bool session_state_is_in_log(const struct session *session)
{
	const struct session_state *state = &session->state;
	const struct session_facts *facts = session_facts(session->log);
	return session_state_is_idle(state) && !facts->in_turn &&
	       stream_buffer_is_fresh(state->stream) &&
	       stream_buffer_emitted_seq(state->stream) == session_log_last_seq(session->log) &&
	       state->turn == facts->turn && state->agent_running == facts->agent_running &&
	       state->last_turn_end_seq == facts->turn_end_seq &&
	       state->last_prompt_seq == facts->prompt_seq &&
	       same_text(state->last_prompt_id, facts->prompt_id) && session->usage_in_log &&
	       same_text(state->run_id, facts->run_id) &&
	       state->input_names == session_log_input_names(session->log);
}

/* --- what the inputs do --- */

json_t *session_read_object(const char *data, size_t len)
{
	json_t *json = json_read(data, len, 0, NULL, NULL);
	return json ? json : json_object();
}

const char *session_text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static void set_text(char **at, const char *text, size_t len)
{
	free(*at);
	*at = xstrndup(text, len);
}

uint64_t session_put(
	struct session *session, enum event_type type, const char *data, size_t len, int64_t ts)
{
	return stream_buffer_put(session->state.stream,
		&(struct stream_input){.type = type,
			.data = data,
			.data_len = len,
			.ts = ts,
			.at = session->applying_at,
			.turn = session->state.in_turn ? session->state.turn : 0});
}

static void begin_turn(struct session_state *state)
{
	if (!state->in_turn) {
		state->in_turn = true;
		state->turn++;
	}
}

/** Whether an input of this type, when no turn is running, begins one. */
static bool begins_turn(enum event_type type)
{
	return type == EVENT_MESSAGE_CHUNK || type == EVENT_THOUGHT_CHUNK ||
	       type == EVENT_USER_PROMPT || type == EVENT_TOOL_CALL || type == EVENT_PLAN ||
	       type == EVENT_PERMISSION_REQUEST;
}

/** A user_prompt, whoever sent it: if it has an id, the same prompt again adds nothing. */
static void note_prompt(struct session *session, const char *data, size_t len, uint64_t seq)
{
	struct session_state *state = &session->state;
	json_t *json = session_read_object(data, len);
	const char *prompt_id = session_text_of(json, "prompt_id");
	if (*prompt_id) {
		set_text(&state->last_prompt_id, prompt_id, strlen(prompt_id));
		state->last_prompt_seq = seq;
		session_remember_prompt(session, prompt_id, seq);
	}
	json_decref(json);
}

static void start_prompt(
	struct session *session, const char *data, size_t len, const char *prompt_id, int64_t ts)
{
	struct session_state *state = &session->state;
	stream_buffer_finish_turn(state->stream);
	begin_turn(state);
	state->turn_of_prompt = true;
	session->emitting_prompt = true;
	uint64_t seq = session_put(session, EVENT_USER_PROMPT, data, len, ts);
	session->emitting_prompt = false;
	set_text(&state->last_prompt_id, prompt_id, strlen(prompt_id));
	state->last_prompt_seq = seq;
	session_remember_prompt(session, prompt_id, seq);
	session_names_note_prompt(session, prompt_id, seq);
}

/** prompt_queue_with() for the session's own queue. */
static void change_queue(struct session_state *state, size_t at, struct queued_prompt *prompt)
{
	struct prompt_queue *next = prompt_queue_with(state->queue, at, prompt);
	prompt_queue_unref(state->queue);
	state->queue = next;
}

void session_queue_append(struct session_state *state, struct queued_prompt *prompt)
{
	change_queue(state, prompt_queue_count(state->queue), prompt);
}

static void start_next_prompt(struct session *session, int64_t ts)
{
	struct session_state *state = &session->state;
	if (!state->queue) {
		return;
	}
	struct queued_prompt *prompt = queued_prompt_ref(state->queue->prompts[0]);
	change_queue(state, 0, NULL);
	start_prompt(session, prompt->data.data, prompt->data.len, prompt->prompt_id, ts);
	queued_prompt_unref(prompt);
}

/**
 * One ordered path: everything before the end goes out before it, and a turn ends once. What was
 * answered in it is carried over, if it shall be asked again.
 */
static uint64_t end_turn(
	struct session *session, const char *data, size_t len, bool carries, int64_t ts)
{
	struct session_state *state = &session->state;
	stream_buffer_finish_turn(state->stream);
	session_ledger_cancel_all(session, ts);
	session_ledger_end_turn(state, carries);
	uint64_t turn = state->turn;
	state->in_turn = false;
	state->turn_of_prompt = false;
	state->last_turn_end_seq =
		stream_buffer_put(state->stream, &(struct stream_input){.type = EVENT_TURN_END,
							 .data = data,
							 .data_len = len,
							 .ts = ts,
							 .at = session->applying_at,
							 .turn = turn});
	uint64_t seq = state->last_turn_end_seq;
	start_next_prompt(session, ts);
	return seq;
}

/** The turn that the agent was at work on is over; one that it had not heard of yet is not. */
static uint64_t stop_agent(struct session *session, const char *data, size_t len, int64_t ts)
{
	struct session_state *state = &session->state;
	json_t *stopped = session_read_object(data, len);
	bool ends_turn = state->in_turn && !json_is_true(json_object_get(stopped, "between_turns"));
	bool is_cancelled = json_is_true(json_object_get(stopped, "cancelled"));
	json_decref(stopped);
	stream_buffer_finish_turn(state->stream);
	state->agent_running = false;
	uint64_t seq = session_put(session, EVENT_AGENT_STOPPED, data, len, ts);
	if (ends_turn) {
		const char *ended = is_cancelled ? "{\"stop_reason\":\"cancelled\"}"
						 : "{\"stop_reason\":\"agent_stopped\"}";
		end_turn(session, ended, strlen(ended), !is_cancelled, ts);
	}
	return seq;
}

static uint64_t put_input(struct session *session, const struct input_event *in, int64_t ts)
{
	struct session_state *state = &session->state;
	if (begins_turn(in->type) && !session->emitting_recovered) {
		begin_turn(state);
	}
	return stream_buffer_put(state->stream, &(struct stream_input){.type = in->type,
							.type_name = in->type_name,
							.type_len = in->type_len,
							.message_id = in->message_id,
							.message_id_len = in->message_id_len,
							.data = in->data,
							.data_len = in->data_len,
							.ts = ts,
							.at = session->applying_at,
							.turn = state->in_turn ? state->turn : 0});
}

/** What changes nothing (a figure that was told before, or a 0) is no event. */
static uint64_t put_usage(struct session *session, const struct input_event *in, int64_t ts)
{
	struct buffer data = {0};
	struct input_event event = *in;
	uint64_t seq = 0;
	if (session_usage_add(session, in, &data)) {
		event.data = data.data;
		event.data_len = data.len;
		seq = put_input(session, &event, ts);
	}
	buffer_finish(&data);
	return seq;
}

/** What it uses is counted from 0 on, unless it goes on with a session that it had before. */
static uint64_t start_agent(struct session *session, const struct input_event *in, int64_t ts)
{
	json_t *json = session_read_object(in->data, in->data_len);
	session_usage_begin_source(session, json_is_true(json_object_get(json, "resumed")));
	json_decref(json);
	session->state.agent_running = true;
	return put_input(session, in, ts);
}

static uint64_t apply_input(struct session *session, const struct input_event *in, int64_t ts)
{
	struct session_state *state = &session->state;
	uint64_t seq;
	switch (in->type) {
	case EVENT_TURN_END:
		return state->in_turn ? end_turn(session, in->data, in->data_len, false, ts)
				      : state->last_turn_end_seq;
	case EVENT_RUN_START:
		stream_buffer_end_message(state->stream);
		session_run_begin(session, in->data, in->data_len);
		session_usage_begin_source(session, false);
		return 0;
	case EVENT_RUN_END:
		stream_buffer_end_message(state->stream);
		session_run_end(session);
		return 0;
	case EVENT_AGENT_STOPPED:
		return stop_agent(session, in->data, in->data_len, ts);
	case EVENT_USER_PROMPT:
		stream_buffer_finish_turn(state->stream);
		seq = put_input(session, in, ts);
		note_prompt(session, in->data, in->data_len, seq);
		return seq;
	case EVENT_SESSION_END:
		stream_buffer_finish_turn(state->stream);
		return put_input(session, in, ts);
	case EVENT_AGENT_STARTED:
		return start_agent(session, in, ts);
	case EVENT_PERMISSION_REQUEST:
		seq = put_input(session, in, ts);
		session_ledger_ask(session, in->data, in->data_len, ts);
		return seq;
	case EVENT_PERMISSION_RESOLVED:
		if (!session_ledger_is_open(session, in->data, in->data_len, &seq)) {
			return seq;
		}
		seq = put_input(session, in, ts);
		session_ledger_resolve(session, in->data, in->data_len, seq);
		return seq;
	case EVENT_TOOL_CALL:
	case EVENT_TOOL_CALL_UPDATE:
		session_ledger_note_call(state, in->data, in->data_len);
		return put_input(session, in, ts);
	case EVENT_USAGE:
		return put_usage(session, in, ts);
	default:
		return put_input(session, in, ts);
	}
}

static int apply_prompt(struct session *session, const struct record *record, uint64_t *ret_seq)
{
	struct session_state *state = &session->state;
	struct queued_prompt *prompt = queued_prompt_create(record->data, record->data_len);
	if (!prompt) {
		return -EBADMSG;
	}
	if (!state->in_turn && !state->queue) {
		start_prompt(
			session, record->data, record->data_len, prompt->prompt_id, record->ts);
		queued_prompt_unref(prompt);
		*ret_seq = state->last_prompt_seq;
		return 0;
	}
	session_remember_prompt(session, prompt->prompt_id, 0);
	session_queue_append(state, prompt);
	return 0;
}

/** A prompt that has begun before the record does not wait any more: then nothing changes. */
static int apply_prompt_edit(struct session *session, const struct record *record)
{
	struct session_state *state = &session->state;
	json_t *json = session_read_object(record->data, record->data_len);
	const json_t *message = json_object_get(json, "message");
	size_t at = prompt_queue_find(state->queue, session_text_of(json, "prompt_id"));
	int r = json_is_string(message) ? 0 : -EBADMSG;
	if (r == 0 && at < prompt_queue_count(state->queue)) {
		change_queue(state, at,
			queued_prompt_edit(state->queue->prompts[at], json_string_value(message),
				json_string_length(message)));
	}
	json_decref(json);
	return r;
}

static int apply_prompt_remove(struct session *session, const struct record *record)
{
	struct session_state *state = &session->state;
	json_t *json = session_read_object(record->data, record->data_len);
	const char *prompt_id = session_text_of(json, "prompt_id");
	size_t at = prompt_queue_find(state->queue, prompt_id);
	int r = *prompt_id ? 0 : -EBADMSG;
	if (r == 0 && at < prompt_queue_count(state->queue)) {
		change_queue(state, at, NULL);
		session_forget_prompt(session, prompt_id);
		session_names_note_removed(session, prompt_id);
	}
	json_decref(json);
	return r;
}

/** What comes late stands by itself: no text that is open goes on in it, nor it in others. */
static uint64_t apply_recovered(struct session *session, const struct input_event *in, int64_t ts)
{
	stream_buffer_finish_turn(session->state.stream);
	session->emitting_recovered = true;
	uint64_t seq = apply_input(session, in, ts);
	stream_buffer_finish_turn(session->state.stream);
	session->emitting_recovered = false;
	return seq;
}

int session_apply(struct session *session, const struct record *record, uint64_t *ret_seq)
{
	struct input_event in;
	*ret_seq = 0;
	session_note_ts(session, record->ts);
	session->applying_at =
		session->table->recovering ? session->last_ts : session_time(session);
	switch (record->kind) {
	case RECORD_INPUT:
		if (session_input_unpack(record->data, record->data_len, &in) < 0) {
			return -EBADMSG;
		}
		*ret_seq = apply_input(session, &in, record->ts);
		session_names_note(session, &in, *ret_seq);
		return 0;
	case RECORD_RECOVERED:
		if (session_input_unpack(record->data, record->data_len, &in) < 0) {
			return -EBADMSG;
		}
		*ret_seq = apply_recovered(session, &in, record->ts);
		session_names_note(session, &in, *ret_seq);
		return 0;
	case RECORD_PROMPT:
		return apply_prompt(session, record, ret_seq);
	case RECORD_PROMPT_EDIT:
		return apply_prompt_edit(session, record);
	case RECORD_PROMPT_REMOVE:
		return apply_prompt_remove(session, record);
	case RECORD_FLUSH:
		if (record->data_len != 1) {
			return -EBADMSG;
		}
		stream_buffer_flush(session->state.stream, (enum stream_flush)record->data[0]);
		return 0;
	case RECORD_SNAPSHOT:
		return session_snapshot_load(session, record->data, record->data_len);
	default:
		return -EBADMSG;
	}
}

/* --- what the log tells --- */

/** What has begun waits no more, nor what was removed. */
static void drop_queued(struct session *session)
{
	struct session_state *state = &session->state;
	for (size_t i = prompt_queue_count(state->queue); i-- > 0;) {
		struct prompt_view had;
		const char *prompt_id = state->queue->prompts[i]->prompt_id;
		if (session_find_prompt(session, prompt_id, &had) == 0 &&
			(had.place == PROMPT_BEGUN || had.place == PROMPT_REMOVED)) {
			change_queue(state, i, NULL);
		}
	}
}

void session_state_follow_log(struct session *session)
{
	struct session_state *state = &session->state;
	const struct session_facts *facts = session_facts(session->log);
	stream_buffer_destroy(state->stream);
	state->stream = stream_buffer_create(session->table->limits,
		session_log_last_seq(session->log) + 1, session_stream_ops(), session);
	state->turn = facts->turn;
	state->in_turn = facts->in_turn;
	state->turn_of_prompt = state->turn_of_prompt && facts->in_turn;
	state->agent_running = facts->agent_running;
	state->last_turn_end_seq = facts->turn_end_seq;
	state->last_prompt_seq = facts->prompt_seq;
	free(state->last_prompt_id);
	state->last_prompt_id = facts->prompt_id ? xstrdup(facts->prompt_id) : NULL;
	session_usage_follow_log(session);
	free(state->run_id);
	state->run_id = facts->run_id ? xstrdup(facts->run_id) : NULL;
	state->input_names = session_log_input_names(session->log);
	session_ledger_follow_log(session);
	drop_queued(session);
}
