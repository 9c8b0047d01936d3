#include "agent.h"

#include <unistd.h>

enum {
	TOKEN_PRICE = 1000, /* thousandths of a token, so that every rate is exact */
	CREDIT_MAX_MS = 250, /* after a stall, tokens continue at their rate, not all at once */
	BURST = 256, /* most tokens of a turn in one tick of the loop at rate 0 */
	PAUSE_MAX_S = 2,
	CONTEXT_SIZE = 200000, /* context size in usage updates; there is no model */
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

/* --- the end of a turn --- */

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
	demo_calls_fail_open(session);
	json_rpc_result(out(session), session->turn.prompt_id,
		json_pack("{s:s}", "stopReason", stop_reason));
	demo_turn_drop(session);
}

/* Ends the turn and answers the prompt with an error. */
static void fail_turn(struct demo_session *session, const char *message)
{
	demo_calls_fail_open(session);
	json_rpc_error(out(session), session->turn.prompt_id, JSON_RPC_INTERNAL_ERROR, message);
	demo_turn_drop(session);
}

/* --- steps --- */

static bool is_text(enum demo_step_kind kind)
{
	return kind == DEMO_SAY || kind == DEMO_THINK || kind == DEMO_QUOTE || kind == DEMO_FILL;
}

/*
 * Behaves like an agent that violates the protocol, to test clients. The text on stderr fits into
 * any pipe that is being read, so it is written at once.
 */
static void make_noise(struct demo_session *session)
{
	static const char lines[] = "demo agent: a line on stderr\n"
				    "\x1b[33mdemo agent: one with a colour\x1b[0m\n"
				    "demo agent: and one that is not UTF-8: \xff\xfe\n";
	buffer_append_str(
		out(session), "This line on stdout is not JSON.\n{\"jsonrpc\":\"2.0\",\"met\n");
	if (write(STDERR_FILENO, lines, sizeof(lines) - 1) < 0) {
		return; /* stderr is not read, which does not matter */
	}
}

static void report_usage(struct demo_session *session)
{
	demo_turn_update(session, "usage_update",
		json_pack("{s:I, s:i}", "used", (json_int_t)session->token_count, "size",
			CONTEXT_SIZE));
}

/*
 * The length of a pause in tokens: the script's, limited so that slow replies do not pause for too
 * long.
 */
static long pause_length(const struct demo_session *session, long wanted)
{
	long longest = turn_rate(session) * PAUSE_MAX_S;
	return wanted < longest ? wanted : longest;
}

/* Executes a step that says nothing. The turn may have ended when it returns. */
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
		demo_calls_begin(session, step->call, step->text);
		break;
	case DEMO_CALL_UPDATE:
		demo_calls_update(session, step);
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
		fail_turn(session, step->text);
		break;
	default:
		break;
	}
}

/* Continues with the next script, or ends the turn. */
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

/* Plays one token or one silent step; returns its cost in tokens. */
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
	return demo_say_token(session);
}

/* --- pace --- */

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

static void handle_tick(uv_timer_t *timer)
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
	/* The timer is stopped while the turn waits for the client. */
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
	uv_timer_start(&session->timer, handle_tick, interval, interval);
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
