#include "player.h"

#include "holdfast/json_rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A recording can contain any time; for longer waits the timer fires and is set again. */
#define TIMER_MAX_MS 1e9

static void play(struct replay_player *p);

static double now_ms(void)
{
	return (double)uv_hrtime() / 1e6;
}

static size_t index_of(const struct replay_player *p, const struct replay_step *step)
{
	return (size_t)(step - p->recording->steps);
}

static bool is_ahead(const struct replay_player *p, const struct replay_step *step)
{
	return step && index_of(p, step) > p->next;
}

static bool is_open_session(const struct replay_player *p, const char *session)
{
	return !session || json_object_get(p->open_sessions, session);
}

static void open_session(struct replay_player *p, const char *session)
{
	if (session) {
		json_object_set_new(p->open_sessions, session, json_true());
	}
}

/* The step happens now: later steps keep their recorded distance to it. */
static void keep_time(struct replay_player *p, const struct replay_step *step)
{
	p->base_at_ms = step->at_ms;
	p->base_now_ms = now_ms();
}

static void handle_timer(uv_timer_t *timer)
{
	play(timer->data);
}

/* Whether a wait is over; if not, sets the timer to its end. */
static bool is_over(struct replay_player *p, double left_ms)
{
	if (!(left_ms > 0)) {
		return true;
	}
	double ms = left_ms < TIMER_MAX_MS ? left_ms : TIMER_MAX_MS;
	uv_timer_start(&p->timer, handle_timer, (uint64_t)ms + 1, 0);
	return false;
}

static bool is_due(struct replay_player *p, const struct replay_step *step)
{
	if (p->speed == 0) {
		return true;
	}
	return is_over(p, p->base_now_ms + (step->at_ms - p->base_at_ms) / p->speed - now_ms());
}

static void say(struct replay_player *p, const char *line, size_t len)
{
	buffer_append(agent_io_out(&p->io), line, len);
	buffer_append_char(agent_io_out(&p->io), '\n');
}

/*
 * Sends the recorded answer with the id of this client's request. Nothing else is ever rewritten.
 */
static void answer(struct replay_player *p, struct replay_step *request)
{
	const struct replay_step *recorded = request->peer;
	request->is_answered = true;
	if (json_equal(recorded->id, request->client_id)) {
		say(p, recorded->line, recorded->len);
		return;
	}
	struct buffer *out = agent_io_out(&p->io);
	size_t end = recorded->json + recorded->json_len;
	json_t *message = json_loadb(
		recorded->line + recorded->json, recorded->json_len, JSON_ALLOW_NUL, NULL);
	json_object_set(message, "id", request->client_id);
	buffer_append(out, recorded->line, recorded->json);
	json_rpc_encode(out, message);
	buffer_append(out, recorded->line + end, recorded->len - end);
	buffer_append_char(out, '\n');
	json_decref(message);
}

static bool is_cancel(const struct replay_step *step, const char *session)
{
	return step->kind == REPLAY_CLIENT_OTHER && step->method &&
	       strcmp(step->method, "session/cancel") == 0 && replay_step_is_of(step, session);
}

static bool is_prompting(const struct replay_player *p)
{
	for (size_t i = 0; i < p->recording->count; i++) {
		const struct replay_step *step = &p->recording->steps[i];
		if (replay_step_is(step, "session/prompt") && step->is_open && !step->is_answered) {
			return true;
		}
	}
	return false;
}

/* --- steps; each function returns false if its step has to wait --- */

/* Whether the client waits for something that is still ahead. */
static bool is_owed_something(const struct replay_player *p)
{
	for (size_t i = 0; i < p->recording->count; i++) {
		const struct replay_step *step = &p->recording->steps[i];
		bool is_waiting =
			step->kind == REPLAY_CLIENT_REQUEST && step->is_open && !step->is_answered;
		if (is_waiting && (is_ahead(p, step) || is_ahead(p, step->peer))) {
			return true;
		}
	}
	return false;
}

static bool play_client_request(struct replay_player *p, struct replay_step *step)
{
	if (step->is_open) {
		keep_time(p, step);
		p->in_unasked_load = false;
		return true;
	}
	if (!is_owed_something(p)) {
		return false;
	}
	p->in_unasked_load =
		replay_step_is(step, "session/load") || replay_step_is(step, "session/resume");
	return true;
}

static bool play_client_answer(struct replay_player *p, struct replay_step *step)
{
	const struct replay_step *request = step->peer;
	if (request->is_open && !request->is_answered && !request->is_dropped) {
		if (!p->waiting_since_ms) {
			p->waiting_since_ms = now_ms();
		}
		if (!is_over(p, p->waiting_since_ms + p->wait_ms - now_ms())) {
			return false;
		}
	}
	p->waiting_since_ms = 0;
	if (request->is_open) {
		keep_time(p, step);
	}
	return true;
}

/*
 * A recorded cancel that this client has not sent waits for its time, since the client may still
 * send it until then.
 */
static bool play_client_other(struct replay_player *p, struct replay_step *step)
{
	if (!is_cancel(step, NULL)) {
		return true;
	}
	if (step->is_open) {
		keep_time(p, step);
		return true;
	}
	return !is_prompting(p) || is_due(p, step);
}

static bool play_agent_line(struct replay_player *p, struct replay_step *step)
{
	if (step->is_dropped || p->in_unasked_load || !is_open_session(p, step->session)) {
		return true;
	}
	if (agent_io_is_full(&p->io) || !is_due(p, step)) {
		return false;
	}
	say(p, step->line, step->len);
	step->is_open = step->kind == REPLAY_AGENT_REQUEST;
	return true;
}

static bool play_agent_answer(struct replay_player *p, struct replay_step *step)
{
	struct replay_step *request = step->peer;
	if (!request->is_open || request->is_answered) {
		return true;
	}
	if (agent_io_is_full(&p->io) || !is_due(p, step)) {
		return false;
	}
	answer(p, request);
	return true;
}

/*
 * The recorded agent's exit is played only during a prompt. Otherwise the agent stays, until this
 * client ends it.
 */
static bool play_exit(struct replay_player *p, struct replay_step *step)
{
	if (!is_prompting(p)) {
		return true;
	}
	if (!is_due(p, step)) {
		return false;
	}
	p->is_exiting = true;
	p->exit_code = step->exit_code;
	p->exit_signal = step->exit_signal;
	return true;
}

static bool play_step(struct replay_player *p, struct replay_step *step)
{
	switch (step->kind) {
	case REPLAY_CLIENT_REQUEST:
		return play_client_request(p, step);
	case REPLAY_CLIENT_ANSWER:
		return play_client_answer(p, step);
	case REPLAY_CLIENT_OTHER:
		return play_client_other(p, step);
	case REPLAY_AGENT_ANSWER:
		return play_agent_answer(p, step);
	case REPLAY_EXIT:
		return play_exit(p, step);
	default:
		return play_agent_line(p, step);
	}
}

static void close_all(struct replay_player *p)
{
	if (p->is_closed) {
		return;
	}
	p->is_closed = true;
	agent_io_close(&p->io);
	uv_close((uv_handle_t *)&p->timer, NULL);
}

static void play(struct replay_player *p)
{
	if (p->is_closed) {
		return;
	}
	uv_timer_stop(&p->timer);
	while (!p->is_exiting && p->next < p->recording->count &&
		play_step(p, &p->recording->steps[p->next])) {
		p->next++;
	}
	if (p->is_exiting && agent_io_is_empty(&p->io)) {
		close_all(p);
	}
}

/* --- messages of the client --- */

/*
 * Finds the recorded request that this one corresponds to; a skipped one only if it has an answer.
 */
static struct replay_step *find_request(
	struct replay_player *p, const char *method, const char *session)
{
	for (size_t i = 0; i < p->recording->count; i++) {
		struct replay_step *step = &p->recording->steps[i];
		bool fits = replay_step_is(step, method) && replay_step_is_of(step, session);
		if (fits && !step->is_open && (i >= p->next || step->peer)) {
			return step;
		}
	}
	return NULL;
}

/* Answers session/new: if the recorded client loaded its session, this one gets that session. */
static void answer_new_session(struct replay_player *p, json_t *id)
{
	const char *session = "replay";
	for (size_t i = p->next; i < p->recording->count; i++) {
		const struct replay_step *step = &p->recording->steps[i];
		if (replay_step_is(step, "session/prompt") && step->session) {
			session = step->session;
			break;
		}
	}
	open_session(p, session);
	json_rpc_result(agent_io_out(&p->io), id, json_pack("{s:s}", "sessionId", session));
}

static void handle_request(
	struct replay_player *p, const char *method, json_t *id, const char *session)
{
	struct replay_step *step = find_request(p, method, session);
	if (step) {
		step->is_open = true;
		step->client_id = json_incref(id);
		open_session(p, step->session);
		if (step->peer && index_of(p, step->peer) < p->next) {
			answer(p, step);
		}
	} else if (strcmp(method, "session/new") == 0) {
		answer_new_session(p, id);
	} else {
		fprintf(stderr, "holdfast-replay-agent: the recording has no (more) %s\n", method);
		json_rpc_error(agent_io_out(&p->io), id, JSON_RPC_METHOD_NOT_FOUND,
			"the recording has no (more) request like this");
	}
}

static void handle_answer(struct replay_player *p, const json_t *id)
{
	for (int likeness = JSON_RPC_EQUAL; likeness <= JSON_RPC_SAME_NUMBER; likeness++) {
		for (size_t i = 0; i < p->next; i++) {
			struct replay_step *step = &p->recording->steps[i];
			bool is_asked = step->kind == REPLAY_AGENT_REQUEST && step->is_open &&
					!step->is_answered;
			if (is_asked && json_rpc_same_id(step->id, id, likeness)) {
				step->is_answered = true;
				return;
			}
		}
	}
}

static struct replay_step *find_open_prompt(struct replay_player *p, const char *session)
{
	for (size_t i = 0; i < p->recording->count; i++) {
		struct replay_step *step = &p->recording->steps[i];
		if (replay_step_is(step, "session/prompt") && replay_step_is_of(step, session) &&
			step->is_open && !step->is_answered) {
			return step;
		}
	}
	return NULL;
}

/*
 * Drops what the session says up to where the recorded turn was cancelled, or up to the turn's end.
 * Returns true if the recorded agent continues from there, even if it never answered.
 */
static bool drop_turn(
	struct replay_player *p, const struct replay_step *prompt, const char *session)
{
	for (size_t i = p->next; i < p->recording->count; i++) {
		struct replay_step *step = &p->recording->steps[i];
		if (is_cancel(step, session)) {
			step->is_open = true;
			return true;
		}
		bool is_next_turn = replay_step_is(step, "session/prompt") && step != prompt;
		if (step == prompt->peer || (is_next_turn && !prompt->peer)) {
			break;
		}
		if (step->session && replay_step_is_of(step, session)) {
			step->is_dropped = true;
		}
	}
	return !prompt->peer;
}

static void handle_cancel(struct replay_player *p, const char *session)
{
	struct replay_step *prompt = find_open_prompt(p, session);
	if (prompt && !drop_turn(p, prompt, session)) {
		prompt->is_answered = true;
		json_rpc_result(agent_io_out(&p->io), prompt->client_id,
			json_pack("{s:s}", "stopReason", "cancelled"));
	}
}

static void handle_message(void *owner, const json_t *message)
{
	struct replay_player *p = owner;
	const char *method = plain_string(json_object_get(message, "method"));
	json_t *id = json_object_get(message, "id");
	const char *session =
		plain_string(json_object_get(json_object_get(message, "params"), "sessionId"));
	if (p->is_exiting) {
		return;
	}
	if (!json_is_object(message)) {
		json_rpc_error(agent_io_out(&p->io), NULL, JSON_RPC_PARSE_ERROR, "parse error");
	} else if (method && id) {
		handle_request(p, method, id, session);
	} else if (!method && id) {
		handle_answer(p, id);
	} else if (method && strcmp(method, "session/cancel") == 0) {
		handle_cancel(p, session);
	}
	play(p);
}

static void handle_drained(void *owner)
{
	play(owner);
}

static void handle_ended(void *owner)
{
	close_all(owner);
}

int replay_player_start(struct replay_player *p, uv_loop_t *loop,
	struct replay_recording *recording, double speed, double wait_ms)
{
	static const struct agent_io_ops ops = {
		.message = handle_message,
		.drained = handle_drained,
		.ended = handle_ended,
	};
	*p = (struct replay_player){
		.loop = loop,
		.recording = recording,
		.speed = speed,
		.wait_ms = wait_ms,
		.base_now_ms = now_ms(),
		.open_sessions = json_object(),
	};
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	return agent_io_open(&p->io, loop, &ops, p);
}

void replay_player_finish(struct replay_player *p)
{
	json_decref(p->open_sessions);
	agent_io_finish(&p->io);
}
