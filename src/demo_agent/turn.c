#include "agent.h"
#include "token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	TOKEN_PRICE = 1000, /* in thousandths, so that any rate comes out even */
	CREDIT_MAX_MS = 250, /* after a stall the tokens come at their rate, not all at once */
	BURST = 256, /* tokens of one turn in one turn of the loop, at rate 0 */
	PAUSE_MAX_S = 2,
	QUOTE_MAX = 160,
	FILL_TEXT_TOKENS = 200, /* more than any of them has */
	CONTEXT_SIZE = 200000, /* what a usage update says of the model that is not there */
};

static long turn_rate(const struct demo_session *session)
{
	const struct demo_reply *reply = &session->turn.reply;
	long own = session->is_quick ? 0 : session->agent->rate;
	return reply->has_rate ? reply->rate : own;
}

static struct buffer *out(struct demo_session *session)
{
	return agent_io_out(&session->agent->io);
}

bool demo_turn_is_on(const struct demo_session *session)
{
	return session->turn.prompt_id;
}

void demo_turn_update(struct demo_session *session, const char *kind, json_t *update)
{
	demo_put_update(out(session), session->id, demo_update_named(kind, update));
}

/* Calls. */

static struct demo_open_call *find_call(struct demo_session *session, const struct demo_call *call)
{
	for (size_t i = 0; i < DEMO_OPEN_CALLS_MAX; i++) {
		if (session->turn.calls[i].call == call) {
			return &session->turn.calls[i];
		}
	}
	return NULL;
}

const char *demo_turn_find_call(struct demo_session *session, const struct demo_call *call)
{
	struct demo_open_call *open = find_call(session, call);
	return open ? open->id : NULL;
}

void demo_turn_begin_call(
	struct demo_session *session, const struct demo_call *call, const char *status)
{
	struct demo_open_call *open = find_call(session, NULL);
	if (!open) {
		/* The scripts are ours: one that leaves its calls open is a mistake in them. */
		abort();
	}
	open->call = call;
	snprintf(open->id, sizeof(open->id), "call_%u", ++session->call_count);
	demo_turn_update(
		session, "tool_call", demo_call_object(call, open->id, session->cwd, status));
}

void demo_turn_forget_call(struct demo_session *session, const struct demo_call *call)
{
	struct demo_open_call *open = find_call(session, call);
	if (open) {
		open->call = NULL;
	}
}

static void update_call(struct demo_session *session, const struct demo_step *step)
{
	const char *id = demo_turn_find_call(session, step->call);
	if (!id) {
		return;
	}
	bool has_ended = strcmp(step->text, "in_progress") != 0;
	if (has_ended) {
		demo_turn_update(session, "tool_call_update",
			demo_call_end(step->call, id, session->cwd, step->text));
		demo_turn_forget_call(session, step->call);
		return;
	}
	size_t len = step->extra ? strlen(step->extra) : 0;
	demo_turn_update(
		session, "tool_call_update", demo_call_update(id, step->text, step->extra, len));
}

static void fail_open_calls(struct demo_session *session)
{
	for (size_t i = 0; i < DEMO_OPEN_CALLS_MAX; i++) {
		struct demo_open_call *open = &session->turn.calls[i];
		if (open->call) {
			demo_turn_update(session, "tool_call_update",
				demo_call_update(open->id, "failed", NULL, 0));
			open->call = NULL;
		}
	}
}

/* The end of a turn. */

void demo_turn_drop(struct demo_session *session)
{
	uv_timer_stop(&session->timer);
	json_decref(session->turn.prompt_id);
	buffer_finish(&session->turn.quote);
	buffer_finish(&session->turn.made);
	session->turn = (struct demo_turn){.request_id = -1};
}

void demo_turn_end(struct demo_session *session, const char *stop_reason)
{
	fail_open_calls(session);
	agent_rpc_put_result(out(session), session->turn.prompt_id,
		json_pack("{s:s}", "stopReason", stop_reason));
	demo_turn_drop(session);
}

void demo_turn_fail(struct demo_session *session, const char *message)
{
	fail_open_calls(session);
	agent_rpc_put_error(
		out(session), session->turn.prompt_id, AGENT_RPC_INTERNAL_ERROR, message);
	demo_turn_drop(session);
}

/* Text. */

static void begin_text(struct demo_turn *turn, const char *text, size_t len)
{
	turn->text = text;
	turn->text_len = len;
	turn->text_at = 0;
}

static size_t longest_backtick_run(const char *text, size_t len)
{
	size_t longest = 0;
	size_t run = 0;
	for (size_t i = 0; i < len; i++) {
		run = text[i] == '`' ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

/* Whatever it holds, the quote is one code span in one line: its own backticks are fewer than those
 * around it, and control characters, newlines among them, become spaces. */
static void make_quote(struct demo_turn *turn)
{
	if (!turn->quote.len) {
		buffer_append_str(&turn->quote, "(nothing)");
	}
	size_t len = demo_text_clip(turn->quote.data, turn->quote.len, QUOTE_MAX);
	size_t ticks = longest_backtick_run(turn->quote.data, len) + 1;
	struct buffer *made = &turn->made;
	buffer_clear(made);
	for (size_t i = 0; i < ticks; i++) {
		buffer_append_char(made, '`');
	}
	buffer_append_char(made, ' ');
	for (size_t i = 0; i < len; i++) {
		char c = turn->quote.data[i];
		buffer_append_char(made, (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c);
	}
	buffer_append_str(made, len < turn->quote.len ? "… " : " ");
	for (size_t i = 0; i < ticks; i++) {
		buffer_append_char(made, '`');
	}
}

/* The next of the texts to fill with; the last tokens are a paragraph, which can end anywhere. */
static void make_fill(struct demo_turn *turn)
{
	size_t which = turn->fill_text++ % demo_fill_text_count;
	if (turn->fill_left < FILL_TEXT_TOKENS) {
		which = demo_fill_text_count - 1;
	}
	buffer_clear(&turn->made);
	if (turn->fill_text > 1) {
		buffer_append_str(&turn->made, "\n\n");
	}
	buffer_append_str(&turn->made, demo_fill_texts[which]);
	begin_text(turn, turn->made.data, turn->made.len);
}

/* Sets the text of a step that says something; false if there is nothing (more) to say. */
static bool open_text(struct demo_turn *turn)
{
	const struct demo_step *step = turn->step;
	if (turn->needs_separator && step->kind != DEMO_THINK) {
		turn->needs_separator = false;
		turn->is_separator = true;
		begin_text(turn, "\n\n", 2);
		return true;
	}
	turn->is_separator = false;
	switch (step->kind) {
	case DEMO_QUOTE:
		make_quote(turn);
		begin_text(turn, turn->made.data, turn->made.len);
		return true;
	case DEMO_FILL:
		make_fill(turn);
		return turn->fill_left > 0;
	default:
		begin_text(turn, step->text, strlen(step->text));
		return turn->text_len;
	}
}

/* After the last token of a text: whether the step is over. */
static bool close_text(struct demo_turn *turn)
{
	turn->text = NULL;
	return !turn->is_separator && (turn->step->kind != DEMO_FILL || turn->fill_left <= 0);
}

static void say_token(struct demo_session *session)
{
	struct demo_turn *turn = &session->turn;
	size_t len = demo_token_length(turn->text, turn->text_len, turn->text_at);
	bool thought = turn->step->kind == DEMO_THINK;
	demo_put_chunk(out(session), session->id, thought, turn->text + turn->text_at, len);
	session->token_count++;
	turn->text_at += len;
	if (turn->step->kind == DEMO_FILL && !turn->is_separator) {
		turn->fill_left--;
	}
	bool is_out = turn->step->kind == DEMO_FILL && !turn->is_separator && turn->fill_left <= 0;
	if ((turn->text_at == turn->text_len || is_out) && close_text(turn)) {
		turn->step++;
	}
}

/* Steps. */

static bool is_text(enum demo_step_kind kind)
{
	return kind == DEMO_SAY || kind == DEMO_THINK || kind == DEMO_QUOTE || kind == DEMO_FILL;
}

/* For testing a client with an agent that does not keep to the protocol. What goes to stderr is
 * small enough for any pipe that somebody reads, so it is written at once. */
static void make_noise(struct demo_session *session)
{
	static const char lines[] = "demo agent: a line on stderr\n"
				    "\x1b[33mdemo agent: one with a colour\x1b[0m\n"
				    "demo agent: and one that is not UTF-8: \xff\xfe\n";
	buffer_append_str(
		out(session), "This line on stdout is not JSON.\n{\"jsonrpc\":\"2.0\",\"met\n");
	if (write(STDERR_FILENO, lines, sizeof(lines) - 1) < 0) {
		return; /* nobody listens there, which is no reason to stop */
	}
}

static void report_usage(struct demo_session *session)
{
	demo_turn_update(session, "usage_update",
		json_pack("{s:I, s:i}", "used", (json_int_t)session->token_count, "size",
			CONTEXT_SIZE));
}

/* In tokens: the script's, except that a slow reply does not pause for ages. */
static long pause_length(const struct demo_session *session, long wanted)
{
	long longest = turn_rate(session) * PAUSE_MAX_S;
	return wanted < longest ? wanted : longest;
}

/* Does a step that says nothing. The turn may be over when it returns. */
static void do_step(struct demo_session *session, const struct demo_step *step)
{
	struct demo_turn *turn = &session->turn;
	switch (step->kind) {
	case DEMO_PAUSE:
		turn->pause = pause_length(session, step->number);
		break;
	case DEMO_PLAN:
		demo_turn_update(session, "plan", demo_plan_update(step->plan, step->number));
		break;
	case DEMO_CALL:
		demo_turn_begin_call(session, step->call, step->text);
		break;
	case DEMO_CALL_UPDATE:
		update_call(session, step);
		break;
	case DEMO_ASK:
		demo_ask_permission(session, step->call);
		break;
	case DEMO_READ:
		demo_ask_read(session, step->call);
		break;
	case DEMO_WRITE:
		demo_ask_write(session, step->call);
		break;
	case DEMO_USAGE:
		report_usage(session);
		break;
	case DEMO_NOISE:
		make_noise(session);
		break;
	case DEMO_HANG:
		turn->is_waiting = true;
		break;
	case DEMO_EXIT:
		demo_agent_exit(session->agent, step->number);
		break;
	case DEMO_STOP:
		demo_turn_end(session, step->text);
		break;
	case DEMO_FAIL:
		demo_turn_fail(session, step->text);
		break;
	default:
		break;
	}
}

/* The next script, or the end of the turn. */
static void next_script(struct demo_session *session)
{
	struct demo_turn *turn = &session->turn;
	if (++turn->script == turn->reply.count) {
		demo_turn_end(session, "end_turn");
		return;
	}
	turn->step = turn->reply.scripts[turn->script];
	turn->needs_separator = true;
}

/* Plays one token or one silent step; returns its price in tokens. */
static int play(struct demo_session *session)
{
	struct demo_turn *turn = &session->turn;
	const struct demo_step *step = turn->step;
	if (turn->pause > 0) {
		turn->pause--;
		return 1;
	}
	if (step->kind == DEMO_END) {
		next_script(session);
		return 0;
	}
	if ((step->when && !(step->when & turn->outcome)) ||
		(step->kind == DEMO_THINK && session->hides_thoughts && !turn->text)) {
		turn->step++;
		return 0;
	}
	if (!is_text(step->kind)) {
		turn->step++;
		do_step(session, step);
		return 0;
	}
	if (!turn->text && !open_text(turn)) {
		turn->text = NULL;
		turn->step++;
		return 0;
	}
	say_token(session);
	return 1;
}

/* Pace. */

static void earn_credit(struct demo_session *session)
{
	struct demo_turn *turn = &session->turn;
	uint64_t now = uv_now(session->agent->loop);
	uint64_t elapsed = now - turn->played_at;
	turn->played_at = now;
	long rate = turn_rate(session);
	if (!rate) {
		turn->credit = BURST * TOKEN_PRICE;
		return;
	}
	turn->credit += (long)(elapsed < CREDIT_MAX_MS ? elapsed : CREDIT_MAX_MS) * rate;
}

static void on_tick(uv_timer_t *timer)
{
	struct demo_session *session = timer->data;
	struct demo_turn *turn = &session->turn;
	struct demo_agent *agent = session->agent;
	earn_credit(session);
	while (turn->credit >= TOKEN_PRICE && demo_turn_is_on(session) && !turn->is_waiting &&
		!agent->is_exiting) {
		if (agent_io_is_full(&agent->io)) {
			break;
		}
		turn->credit -= play(session) * TOKEN_PRICE;
	}
	/* The timer stands still while the client has to do something first. */
	if (turn->is_waiting || agent->is_exiting || agent_io_is_full(&agent->io)) {
		uv_timer_stop(timer);
	}
}

void demo_turn_resume(struct demo_session *session)
{
	struct demo_turn *turn = &session->turn;
	if (!demo_turn_is_on(session) || turn->is_waiting || session->agent->is_exiting ||
		uv_is_active((uv_handle_t *)&session->timer)) {
		return;
	}
	long rate = turn_rate(session);
	uint64_t interval = rate > 0 && rate < 1000 ? (uint64_t)(1000 / rate) : 1;
	turn->played_at = uv_now(session->agent->loop);
	turn->credit = 0;
	uv_timer_start(&session->timer, on_tick, interval, interval);
}

void demo_turn_start(
	struct demo_session *session, json_t *prompt_id, const char *prompt, size_t len)
{
	struct demo_turn *turn = &session->turn;
	turn->prompt_id = json_incref(prompt_id);
	demo_settings_tell_title(session, prompt, len);
	demo_reply_compose(&turn->reply, prompt, len);
	turn->step = turn->reply.scripts[0];
	turn->fill_left = turn->reply.fill;
	buffer_append(&turn->quote, prompt, len);
	demo_turn_resume(session);
}
