/*
 * The state machine of a session: applies records, and emits events. Nothing here reads a clock, a
 * file or a random number: times come in with the records, so the same journal always gives the
 * same events.
 */
#include "state_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- callbacks of the stream buffer --- */

static void handle_emit(void *owner, const struct event_view *view)
{
	struct session_state *state = owner;
	bool is_due = state->is_due && view->type == EVENT_USER_PROMPT;
	if (!state->is_recovered) {
		state->ops->emit(state->owner, view, is_due);
		return;
	}
	struct buffer data = {0};
	struct event_view marked = *view;
	buffer_append(&data, view->data, view->data_len - 1);
	buffer_append_str(
		&data, view->data_len > 2 ? ",\"recovered\":true}" : "\"recovered\":true}");
	marked.data = data.data;
	marked.data_len = data.len;
	state->ops->emit(state->owner, &marked, is_due);
	buffer_finish(&data);
}

static void handle_held(void *owner, uint64_t seq, const struct stream_input *input)
{
	struct session_state *state = owner;
	state->ops->held(state->owner, seq, input);
}

static struct stream_buffer *make_stream(struct session_state *state, uint64_t next_seq)
{
	static const struct stream_buffer_ops ops = {.emit = handle_emit, .held = handle_held};
	return stream_buffer_create(state->limits, next_seq, &ops, state);
}

/* --- life --- */

void session_state_init(struct session_state *state, const struct limits *limits,
	const struct session_state_ops *ops, void *owner)
{
	*state = (struct session_state){.limits = limits, .ops = ops, .owner = owner};
	state->stream = make_stream(state, 1);
	state->usage = usage_total_create();
	session_ledger_init(state);
}

void session_state_finish(struct session_state *state)
{
	prompt_queue_unref(state->queue);
	session_ledger_finish(state);
	stream_buffer_destroy(state->stream);
	session_facts_finish(&state->facts);
	usage_total_destroy(state->usage);
	free(state->usage_text);
}

bool session_state_is_idle(const struct session_state *state)
{
	return !state->facts.in_turn && !state->queue && session_ledger_is_empty(state) &&
	       stream_buffer_is_idle(state->stream);
}

bool session_state_is_in_log(
	const struct session_state *state, const struct session_facts *log, uint64_t last_seq)
{
	return session_state_is_idle(state) && stream_buffer_is_fresh(state->stream) &&
	       stream_buffer_emitted_seq(state->stream) == last_seq && !state->usage_is_new &&
	       session_facts_agree(&state->facts, log);
}

/* --- the data of an input --- */

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

const json_t *session_state_data(struct session_state *state)
{
	if (!state->data && state->input) {
		state->read = session_read_object(state->input->data, state->input->data_len);
		state->data = state->read;
	}
	return state->data;
}

static void begin_input(struct session_state *state, const struct input_event *input)
{
	state->input = input;
	state->data = input->object;
}

static void end_input(struct session_state *state)
{
	json_decref(state->read);
	state->read = NULL;
	state->data = NULL;
	state->input = NULL;
}

/**
 * Whether the request of a permission_resolved is not open; *ret_seq is the earlier answer or 0.
 */
static bool is_resolved(struct session_state *state, uint64_t *ret_seq)
{
	const char *id = session_text_of(session_state_data(state), "request_id");
	if (session_state_asks(state, id, NULL)) {
		return false;
	}
	if (!state->ops->find(state->owner, LOG_KEY_ANSWER, id, ret_seq)) {
		*ret_seq = 0;
	}
	return true;
}

bool session_state_is_over(
	struct session_state *state, const struct input_event *input, uint64_t *ret_seq)
{
	if (input->type != EVENT_PERMISSION_RESOLVED && input->type != EVENT_ELICITATION_RESOLVED) {
		*ret_seq = state->facts.turn_end_seq;
		return input->type == EVENT_TURN_END && !state->facts.in_turn;
	}
	begin_input(state, input);
	bool is = is_resolved(state, ret_seq);
	end_input(state);
	return is;
}

/* --- applying inputs --- */

static uint64_t put(
	struct session_state *state, const struct input_event *in, uint64_t turn, int64_t ts)
{
	/*
	 * The name counts for custom types only: otherwise live and replayed inputs differ in it.
	 */
	bool has_name = in->type == EVENT_CUSTOM;
	return stream_buffer_put(
		state->stream, &(struct stream_input){.type = in->type,
				       .type_name = has_name ? in->type_name : NULL,
				       .type_len = has_name ? in->type_len : 0,
				       .message_id = in->message_id,
				       .message_id_len = in->message_id_len,
				       .data = in->data,
				       .data_len = in->data_len,
				       .ts = ts,
				       .at = state->at,
				       .turn = turn});
}

uint64_t session_put(
	struct session_state *state, enum event_type type, const char *data, size_t len, int64_t ts)
{
	return put(state, &(struct input_event){.type = type, .data = data, .data_len = len},
		state->facts.in_turn ? state->facts.turn : 0, ts);
}

static void begin_turn(struct session_state *state)
{
	if (!state->facts.in_turn) {
		state->facts.in_turn = true;
		state->facts.turn++;
	}
}

/** Whether an input of this type begins a turn if none is running. */
static bool begins_turn(enum event_type type)
{
	return type == EVENT_MESSAGE_CHUNK || type == EVENT_THOUGHT_CHUNK ||
	       type == EVENT_USER_PROMPT || type == EVENT_TOOL_CALL || type == EVENT_PLAN ||
	       type == EVENT_PERMISSION_REQUEST || type == EVENT_ELICITATION_REQUEST;
}

static uint64_t put_input(struct session_state *state, const struct input_event *in, int64_t ts)
{
	if (begins_turn(in->type) && !state->is_recovered) {
		begin_turn(state);
	}
	return put(state, in, state->facts.in_turn ? state->facts.turn : 0, ts);
}

/** Notes a prompt that has begun, so that it is recognized if it is sent again. */
static void note_prompt(struct session_state *state, const char *prompt_id, uint64_t seq)
{
	session_facts_set(&state->facts.prompt_id, prompt_id);
	state->facts.prompt_seq = seq;
	session_names_note_prompt(state, prompt_id, seq);
}

/** Adds a user_prompt of a producer, which may have a prompt_id. */
static uint64_t put_prompt(struct session_state *state, const struct input_event *in, int64_t ts)
{
	stream_buffer_finish_turn(state->stream);
	uint64_t seq = put_input(state, in, ts);
	const char *prompt_id = session_text_of(session_state_data(state), "prompt_id");
	if (*prompt_id) {
		note_prompt(state, prompt_id, seq);
	}
	return seq;
}

/** Begins a turn with a prompt of a controller. */
static uint64_t start_prompt(
	struct session_state *state, const struct queued_prompt *prompt, int64_t ts)
{
	const char *id = prompt->prompt_id;
	stream_buffer_finish_turn(state->stream);
	begin_turn(state);
	state->facts.turn_of_prompt = true;
	state->is_due = true;
	uint64_t seq =
		session_put(state, EVENT_USER_PROMPT, prompt->data.data, prompt->data.len, ts);
	state->is_due = false;
	note_prompt(state, id, seq);
	session_names_note_message(state, id, strlen(id), seq);
	return seq;
}

/** Replaces the session's queue by the result of prompt_queue_with(). */
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

static void start_next_prompt(struct session_state *state, int64_t ts)
{
	if (state->queue) {
		struct queued_prompt *prompt = queued_prompt_ref(state->queue->prompts[0]);
		change_queue(state, 0, NULL);
		start_prompt(state, prompt, ts);
		queued_prompt_unref(prompt);
	}
}

/**
 * Ends the running turn: emits everything before it first, cancels open requests, adds the turn_end
 * and begins the next prompt. `carries`: answers of this turn are carried over to the next one.
 */
static uint64_t end_turn(
	struct session_state *state, const char *data, size_t len, bool carries, int64_t ts)
{
	const struct input_event end = {.type = EVENT_TURN_END, .data = data, .data_len = len};
	stream_buffer_finish_turn(state->stream);
	session_ledger_cancel_all(state, ts);
	session_ledger_end_turn(state, carries);
	state->facts.in_turn = false;
	state->facts.turn_of_prompt = false;
	uint64_t seq = put(state, &end, state->facts.turn, ts);
	state->facts.turn_end_seq = seq;
	start_next_prompt(state, ts);
	return seq;
}

/**
 * Ends the turn that the stopped agent was working on, but not one that it had not been told of.
 */
static uint64_t stop_agent(struct session_state *state, const struct input_event *in, int64_t ts)
{
	const json_t *stopped = session_state_data(state);
	bool ends_turn =
		state->facts.in_turn && !json_is_true(json_object_get(stopped, "between_turns"));
	bool is_cancelled = json_is_true(json_object_get(stopped, "cancelled"));
	stream_buffer_finish_turn(state->stream);
	state->facts.agent_running = false;
	uint64_t seq = session_put(state, EVENT_AGENT_STOPPED, in->data, in->data_len, ts);
	if (ends_turn) {
		const char *ended = is_cancelled ? "{\"stop_reason\":\"cancelled\"}"
						 : "{\"stop_reason\":\"agent_stopped\"}";
		end_turn(state, ended, strlen(ended), !is_cancelled, ts);
	}
	return seq;
}

/**
 * Counts a usage report. If the total has not changed (a repeated figure, or a 0), adds no event.
 */
static uint64_t put_usage(struct session_state *state, const struct input_event *in, int64_t ts)
{
	struct buffer data = {0};
	struct input_event event = *in;
	uint64_t seq = 0;
	if (session_usage_add(state, in, &data)) {
		event.data = data.data;
		event.data_len = data.len;
		seq = put_input(state, &event, ts);
	}
	buffer_finish(&data);
	return seq;
}

static uint64_t apply_input(struct session_state *state, const struct input_event *in, int64_t ts)
{
	uint64_t seq;
	switch (in->type) {
	case EVENT_TURN_END:
		return state->facts.in_turn ? end_turn(state, in->data, in->data_len, false, ts)
					    : state->facts.turn_end_seq;
	case EVENT_RUN_START:
		stream_buffer_end_message(state->stream);
		session_run_begin(state, in->data, in->data_len);
		session_usage_begin_source(state, false);
		return 0;
	case EVENT_RUN_END:
		stream_buffer_end_message(state->stream);
		session_run_end(state);
		return 0;
	case EVENT_AGENT_STOPPED:
		return stop_agent(state, in, ts);
	case EVENT_USER_PROMPT:
		return put_prompt(state, in, ts);
	case EVENT_SESSION_END:
		stream_buffer_finish_turn(state->stream);
		return put_input(state, in, ts);
	case EVENT_AGENT_STARTED:
		/* The agent counts usage from 0, unless it resumes an earlier session. */
		session_usage_begin_source(
			state, json_is_true(json_object_get(session_state_data(state), "resumed")));
		state->facts.agent_running = true;
		return put_input(state, in, ts);
	case EVENT_PERMISSION_REQUEST:
	case EVENT_ELICITATION_REQUEST:
		seq = put_input(state, in, ts);
		session_ledger_ask(state, in, ts);
		return seq;
	case EVENT_PERMISSION_RESOLVED:
	case EVENT_ELICITATION_RESOLVED:
		if (is_resolved(state, &seq)) {
			return seq;
		}
		seq = put_input(state, in, ts);
		session_ledger_resolve(state, session_state_data(state), seq);
		return seq;
	case EVENT_TOOL_CALL:
	case EVENT_TOOL_CALL_UPDATE:
		session_ledger_note_call(state);
		return put_input(state, in, ts);
	case EVENT_USAGE:
		return put_usage(state, in, ts);
	default:
		return put_input(state, in, ts);
	}
}

/**
 * Applies a recovered input. It stands alone: its text does not join the text before or after it.
 */
static uint64_t apply_recovered(
	struct session_state *state, const struct input_event *in, int64_t ts)
{
	stream_buffer_finish_turn(state->stream);
	state->is_recovered = true;
	uint64_t seq = apply_input(state, in, ts);
	stream_buffer_finish_turn(state->stream);
	state->is_recovered = false;
	return seq;
}

static int apply_input_record(struct session_state *state, const struct record *record,
	const struct input_event *input, uint64_t *ret_seq)
{
	struct input_event unpacked;
	if (!input) {
		if (session_input_unpack(record->data, record->data_len, &unpacked) < 0) {
			return -EBADMSG;
		}
		input = &unpacked;
	}
	begin_input(state, input);
	*ret_seq = record->kind == RECORD_RECOVERED ? apply_recovered(state, input, record->ts)
						    : apply_input(state, input, record->ts);
	session_names_note(state, input, *ret_seq);
	end_input(state);
	return 0;
}

static int apply_prompt(struct session_state *state, const struct record *record, uint64_t *ret_seq)
{
	struct queued_prompt *prompt = queued_prompt_create(record->data, record->data_len);
	if (!prompt) {
		return -EBADMSG;
	}
	if (!state->facts.in_turn && !state->queue) {
		*ret_seq = start_prompt(state, prompt, record->ts);
		queued_prompt_unref(prompt);
		return 0;
	}
	session_names_note_prompt(state, prompt->prompt_id, 0);
	session_queue_append(state, prompt);
	return 0;
}

/** Edits or removes a queued prompt. If the prompt has begun by now, nothing changes. */
static int apply_prompt_change(struct session_state *state, const struct record *record)
{
	json_t *json = session_read_object(record->data, record->data_len);
	const json_t *message = json_object_get(json, "message");
	const char *prompt_id = session_text_of(json, "prompt_id");
	size_t at = prompt_queue_find(state->queue, prompt_id);
	bool is_edit = record->kind == RECORD_PROMPT_EDIT;
	int r = is_edit ? json_is_string(message) : *prompt_id != '\0';
	if (r && at < prompt_queue_count(state->queue)) {
		change_queue(state, at,
			is_edit ? queued_prompt_edit(state->queue->prompts[at],
					  json_string_value(message), json_string_length(message))
				: NULL);
		if (!is_edit) {
			session_names_note_removed(state, prompt_id);
		}
	}
	json_decref(json);
	return r ? 0 : -EBADMSG;
}

int session_state_apply(struct session_state *state, const struct record *record, int64_t at,
	const struct input_event *input, uint64_t *ret_seq)
{
	*ret_seq = 0;
	state->at = at;
	switch (record->kind) {
	case RECORD_INPUT:
	case RECORD_RECOVERED:
		return apply_input_record(state, record, input, ret_seq);
	case RECORD_PROMPT:
		return apply_prompt(state, record, ret_seq);
	case RECORD_PROMPT_EDIT:
	case RECORD_PROMPT_REMOVE:
		return apply_prompt_change(state, record);
	case RECORD_FLUSH:
		if (record->data_len != 1) {
			return -EBADMSG;
		}
		stream_buffer_flush(state->stream, (enum stream_flush)record->data[0]);
		return 0;
	case RECORD_SNAPSHOT:
		return session_state_load(state, record->data, record->data_len);
	default:
		return -EBADMSG;
	}
}

/* --- following the log --- */

void session_state_follow_log(struct session_state *state, const struct session_facts *log,
	uint64_t last_seq, bool has_usage)
{
	stream_buffer_destroy(state->stream);
	state->stream = make_stream(state, last_seq + 1);
	session_facts_follow(&state->facts, log);
	state->facts.turn_of_prompt = state->facts.turn_of_prompt && log->in_turn;
	session_usage_follow_log(state, log->usage, has_usage);
	session_ledger_follow_log(state);
	/* Prompts that have begun, or were removed, leave the queue. */
	for (size_t i = prompt_queue_count(state->queue); i-- > 0;) {
		uint64_t seq;
		const char *prompt_id = state->queue->prompts[i]->prompt_id;
		if (state->ops->find(state->owner, LOG_KEY_PROMPT, prompt_id, &seq)) {
			change_queue(state, i, NULL);
		}
	}
}
