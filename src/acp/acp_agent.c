#include "acp_internal.h"

#include "holdfast/clock.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANCEL_GRACE_MS  10000
#define START_TIMEOUT_MS 120000
#define RESTART_DELAY_MS 500
#define DELAY_MAX_MS     30000
#define LULL_MS          1000
#define QUESTIONS_MAX    64
#define FILE_MS          20000

static void start_child(struct acp_agent *agent);
static void handle_wake(uv_timer_t *timer);
static void handle_deadline(uv_timer_t *timer);

void acp_agent_wake(struct acp_agent *agent)
{
	if (!agent->destroying) {
		uv_timer_start(&agent->wake, handle_wake, 0, 0);
	}
}

void acp_agent_send(struct acp_agent *agent, struct buffer *message)
{
	if (!agent->process) {
		buffer_finish(message);
	} else if (acp_process_write(agent->process, message) == -ENOBUFS) {
		agent->overflowed = true;
		acp_agent_wake(agent);
	}
}

/* Between starts, and with nothing to do. */

/** How long the next start waits: an agent that fails each time must not keep the machine busy. */
static int delay_ms(const struct acp_agent *agent)
{
	int delay = agent->failures >= 2 ? agent->restart_delay_ms : 0;
	for (unsigned i = 2; i < agent->failures && delay < DELAY_MAX_MS; i++) {
		delay *= 2;
	}
	return delay < DELAY_MAX_MS ? delay : DELAY_MAX_MS;
}

static void handle_rested(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	agent->rested = true;
	if (agent->prompt && !agent->process) {
		start_child(agent);
	}
}

static void tell_delay(struct acp_agent *agent)
{
	json_t *data = json_pack(
		"{s:i, s:i}", "failures", (int)agent->failures, "delay_ms", delay_ms(agent));
	agent->ops->event(agent->owner, "x-acp-start_delayed", data);
	json_decref(data);
}

/** How long this child may have nothing to do; 0: for ever. */
static int idle_ms(const struct acp_agent *agent)
{
	bool goes_on = agent->can_resume || agent->can_load;
	int sooner = goes_on ? agent->resumable_idle_ms : 0;
	return sooner && (!agent->idle_ms || sooner < agent->idle_ms) ? sooner : agent->idle_ms;
}

static void handle_idle(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	bool busy = agent->prompting || agent->paused || agent->job || agent->question_count > 0 ||
		    agent->terminals_open > 0;
	if (busy) {
		uv_timer_start(timer, handle_idle, (uint64_t)idle_ms(agent), 0);
	} else if (agent->process) {
		acp_agent_stop_child(agent, "idle", "there was nothing to do");
	}
}

void acp_agent_await_idle(struct acp_agent *agent)
{
	if (idle_ms(agent) > 0 && agent->process) {
		uv_timer_start(&agent->rest, handle_idle, (uint64_t)idle_ms(agent), 0);
	}
}

/* The end of a child and of a turn. */

void acp_agent_end_turn(struct acp_agent *agent, const char *stop_reason, const char *message)
{
	agent->prompting = false;
	agent->cancelling = false;
	agent->cancelled_unsent = false;
	uv_timer_stop(&agent->deadline);
	agent->failures = 0;
	acp_agent_await_idle(agent);
	acp_agent_tell_metas(agent);
	agent->ops->turn_end(agent->owner, stop_reason, message);
}

/** Lets go of the child, which ends by itself now, and forgets all that was between us. */
static void drop_child(struct acp_agent *agent)
{
	if (agent->process) {
		acp_process_end(agent->process);
		agent->process = NULL;
	}
	agent->stage = ACP_IDLE;
	agent->late = false;
	agent->exited = false;
	agent->overflowed = false;
	agent->spawn_error = 0;
	uv_timer_stop(&agent->deadline);
	uv_timer_stop(&agent->rest);
	acp_agent_forget_questions(agent);
	acp_agent_release_terminals(agent);
	acp_agent_drop_wishes(agent);
	json_decref(agent->info);
	agent->info = NULL;
	json_decref(agent->auth_methods);
	agent->auth_methods = NULL;
	json_decref(agent->metas);
	agent->metas = NULL;
	json_decref(agent->early);
	agent->early = NULL;
	agent->early_bytes = 0;
	acp_resume_finish(agent);
	free(agent->agent_session_id);
	agent->agent_session_id = NULL;
}

/** Says how often this has happened now, and appends to the detail what comes of it. */
static void count_failure(struct acp_agent *agent, const char *reason, struct buffer *detail)
{
	if (!strcmp(reason, "stopped") || !strcmp(reason, "idle")) {
		return;
	}
	agent->failures++;
	if (delay_ms(agent) > 0) {
		buffer_printf(detail,
			"; it has failed %u times in a row, the next start waits %g s",
			agent->failures, delay_ms(agent) / 1000.0);
	}
}

void acp_agent_stop_child(struct acp_agent *agent, const char *reason, const char *why)
{
	struct buffer clean = {0};
	struct buffer detail = {0};
	buffer_append_str(&detail, why);
	count_failure(agent, reason, &detail);
	if (agent->stage >= ACP_RESUMING && agent->stage <= ACP_SETTLING) {
		agent->resume_failures++;
	}
	acp_diag_clean(&clean, detail.data ? detail.data : "", detail.len);
	diag(DIAG_INFO, "session %s: the agent stopped: %s: %s", agent->session_id, reason,
		buffer_cstr(&clean));
	buffer_finish(&clean);
	drop_child(agent);
	json_decref(agent->prompt);
	agent->prompt = NULL;
	agent->prompting = false;
	agent->ops->stopped(agent->owner, reason, buffer_cstr(&detail));
	agent->cancelling = false;
	agent->cancelled_unsent = false;
	buffer_finish(&detail);
}

static void handle_child_exit(struct acp_agent *agent)
{
	char detail[64];
	if (agent->term_signal != 0) {
		const char *name = sigabbrev_np(agent->term_signal);
		snprintf(detail, sizeof(detail), "killed by signal %d (SIG%s)", agent->term_signal,
			name ? name : "?");
	} else {
		snprintf(detail, sizeof(detail), "exit status %lld", (long long)agent->exit_status);
	}
	acp_agent_stop_child(agent, agent->term_signal != 0 ? "signal" : "exit", detail);
}

/**
 * One line at a time, and none while a file request is being done: so the order stays the agent's.
 */
static bool may_read(const struct acp_agent *agent)
{
	return agent->process && !agent->paused && !agent->job && !agent->overflowed;
}

static void drain(struct acp_agent *agent)
{
	if (agent->draining || agent->destroying) {
		return;
	}
	agent->draining = true;
	enum acp_line found = ACP_LINE_READY;
	while (may_read(agent) && found != ACP_LINE_NONE) {
		char *line;
		size_t len;
		found = acp_lines_next(&agent->lines, &line, &len);
		if (found == ACP_LINE_TOO_LONG) {
			const char *what = agent->lines.too_deep ? "JSON that nests too deep"
								 : "a line that is too long";
			acp_agent_report_noise(agent, what, "skipped", strlen("skipped"));
		} else if (found == ACP_LINE_SKIPPED) {
			acp_agent_handle_skipped(agent);
		} else if (found == ACP_LINE_READY && len > 0) {
			acp_agent_handle_line(agent, line, len);
		}
	}
	if (agent->process) {
		acp_process_pause(agent->process, !may_read(agent));
	}
	if (agent->exited && may_read(agent)) {
		handle_child_exit(agent);
	}
	agent->draining = false;
}

/* The child. */

static void handle_output(void *owner, const char *bytes, size_t len)
{
	struct acp_agent *agent = owner;
	acp_lines_push(&agent->lines, bytes, len);
	drain(agent);
}

static void handle_errors(void *owner, const char *bytes, size_t len)
{
	struct acp_agent *agent = owner;
	acp_stderr_push(&agent->errors, agent->session_id, bytes, len, uv_now(agent->loop));
}

static void handle_finished(void *owner, int64_t exit_status, int term_signal)
{
	struct acp_agent *agent = owner;
	agent->exited = true;
	agent->exit_status = exit_status;
	agent->term_signal = term_signal;
	drain(agent);
}

static void handle_closed(void *owner)
{
	struct acp_agent *agent = owner;
	agent->processes--;
	acp_stderr_finish(&agent->errors, agent->session_id);
	if (agent->prompt && !agent->process && !agent->spawn_error && !agent->destroying) {
		start_child(agent);
	}
	acp_agent_free_if_done(agent);
}

static const struct acp_process_ops process_ops = {
	.output = handle_output,
	.errors = handle_errors,
	.finished = handle_finished,
	.closed = handle_closed,
};

static void start_child(struct acp_agent *agent)
{
	if (agent->processes > 0) {
		return; /* the child before is still ending: handle_closed() comes back here */
	}
	if (delay_ms(agent) > 0 && !agent->rested) {
		if (!uv_is_active((uv_handle_t *)&agent->rest)) {
			uv_timer_start(&agent->rest, handle_rested, (uint64_t)delay_ms(agent), 0);
			agent->delay_untold = true;
			acp_agent_wake(agent);
		}
		return;
	}
	agent->rested = false;
	struct acp_process_config config = {
		.command = agent->command,
		.env = agent->env,
		.cwd = agent->cwd,
		.stop_grace_ms = agent->stop_grace_ms,
		.guard = agent->guard,
		.descriptors_kept = agent->descriptors_kept,
	};
	struct clock clock;
	clock_init(&clock);
	agent->start_ms = (uint64_t)clock_now_ms(&clock);
	agent->start_id++;
	agent->last_id = 0;
	acp_lines_finish(&agent->lines);
	agent->processes++;
	int err = acp_process_spawn(agent->loop, &config, &process_ops, agent, &agent->process);
	if (err < 0) {
		agent->spawn_error = err;
		acp_agent_wake(agent);
		return;
	}
	acp_process_pause(agent->process, agent->paused);
	acp_agent_await(agent, agent->start_timeout_ms);
	acp_agent_send_initialize(agent);
}

static void handle_wake(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	if (agent->spawn_error < 0) {
		acp_agent_stop_child(agent, "spawn_failed", uv_strerror(agent->spawn_error));
	} else if (agent->overflowed) {
		acp_agent_stop_child(agent, "protocol", "the agent does not read what it is sent");
	}
	if (agent->delay_untold) {
		agent->delay_untold = false;
		tell_delay(agent);
	}
	if (agent->cancelled_unsent) {
		agent->cancelled_unsent = false;
		agent->prompting = false;
		agent->ops->turn_end(agent->owner, "cancelled", NULL);
	}
	drain(agent);
}

void acp_agent_await(struct acp_agent *agent, int ms)
{
	uv_timer_start(&agent->deadline, handle_deadline, (uint64_t)ms, 0);
}

void acp_agent_note_late(struct acp_agent *agent)
{
	if (!agent->prompting && agent->stage == ACP_READY) {
		agent->late = true;
		acp_agent_await(agent, agent->lull_ms);
	}
}

static void handle_lull(struct acp_agent *agent)
{
	if (agent->question_count > 0) {
		acp_agent_note_late(agent);
		return;
	}
	agent->late = false;
	agent->ops->lull(agent->owner);
}

static void handle_deadline(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	if (agent->stage == ACP_SETTLING) {
		acp_resume_settle(agent);
	} else if (agent->paused || agent->job) {
		/* The answer may be here already, unread by our own fault. */
		acp_agent_await(agent, agent->cancel_grace_ms);
	} else if (agent->late) {
		handle_lull(agent);
	} else if (agent->stage == ACP_READY) {
		/* It may still answer, and nobody could tell that from the next prompt's work. */
		agent->failures = 0;
		acp_agent_tell_metas(agent);
		acp_agent_stop_child(agent, "stopped", "did not answer session/cancel");
	} else {
		acp_agent_stop_child(agent, "protocol",
			"did not answer initialize and session/new (or what goes on with an earlier session) in time");
	}
}

/* What the owner asks. */

struct acp_agent *acp_agent_create(uv_loop_t *loop, const struct acp_agent_config *config,
	const struct acp_agent_ops *ops, void *owner)
{
	struct acp_agent *agent = xcalloc(1, sizeof(*agent));
	agent->loop = loop;
	agent->command = xstrdup(config->command);
	agent->cwd = xstrdup(config->cwd);
	agent->session_id = xstrdup(config->session_id);
	agent->file_max = config->file_max;
	agent->file_names_max = config->file_names_max ? config->file_names_max : 1;
	agent->stop_grace_ms = config->stop_grace_ms;
	agent->cancel_grace_ms =
		config->cancel_grace_ms ? config->cancel_grace_ms : CANCEL_GRACE_MS;
	agent->start_timeout_ms =
		config->start_timeout_ms ? config->start_timeout_ms : START_TIMEOUT_MS;
	agent->ops = ops;
	agent->owner = owner;
	acp_lines_init(&agent->lines, config->line_max);
	agent->terminals_max = config->terminals_max;
	agent->questions_max = config->questions_max ? config->questions_max : QUESTIONS_MAX;
	agent->env = config->env;
	agent->descriptors_kept = config->descriptors_kept;
	agent->files_program = config->files_program ? xstrdup(config->files_program) : NULL;
	agent->file_ms = config->file_ms ? config->file_ms : FILE_MS;
	agent->guard = config->guard ? xstrdup(config->guard) : NULL;
	agent->idle_ms = config->idle_ms;
	agent->numbers = config->numbers;
	agent->resumable_idle_ms = config->resumable_idle_ms;
	agent->lull_ms = config->lull_ms ? config->lull_ms : LULL_MS;
	agent->restart_delay_ms =
		config->restart_delay_ms ? config->restart_delay_ms : RESTART_DELAY_MS;
	list_init(&agent->questions);
	list_init(&agent->wishes);
	list_init(&agent->terminals);
	uv_timer_init(loop, &agent->wake);
	uv_timer_init(loop, &agent->deadline);
	uv_timer_init(loop, &agent->tell);
	uv_timer_init(loop, &agent->rest);
	uv_timer_init(loop, &agent->file_timer);
	agent->wake.data = agent->deadline.data = agent->tell.data = agent->rest.data = agent;
	agent->file_timer.data = agent;
	agent->open_timers = 5;
	return agent;
}

void acp_agent_free_if_done(struct acp_agent *agent)
{
	bool busy = agent->processes > 0 || agent->terminal_count > 0 || agent->job ||
		    agent->file_process_open;
	if (!agent->destroying || busy || agent->open_timers > 0) {
		return;
	}
	void (*freed)(void *arg) = agent->freed;
	void *arg = agent->freed_arg;
	acp_lines_finish(&agent->lines);
	json_decref(agent->prompt);
	free(agent->command);
	free(agent->cwd);
	free(agent->guard);
	free(agent->files_program);
	free(agent->session_id);
	free(agent);
	if (freed) {
		freed(arg);
	}
}

static void handle_timer_closed(uv_handle_t *handle)
{
	struct acp_agent *agent = handle->data;
	agent->open_timers--;
	acp_agent_free_if_done(agent);
}

void acp_agent_destroy(struct acp_agent *agent, void (*freed)(void *arg), void *arg)
{
	if (!agent) {
		if (freed) {
			freed(arg);
		}
		return;
	}
	agent->destroying = true;
	agent->freed = freed;
	agent->freed_arg = arg;
	drop_child(agent);
	acp_agent_stop_files(agent);
	uv_close((uv_handle_t *)&agent->file_timer, handle_timer_closed);
	uv_close((uv_handle_t *)&agent->wake, handle_timer_closed);
	uv_close((uv_handle_t *)&agent->deadline, handle_timer_closed);
	uv_close((uv_handle_t *)&agent->tell, handle_timer_closed);
	uv_close((uv_handle_t *)&agent->rest, handle_timer_closed);
}

int acp_agent_prompt(struct acp_agent *agent, const char *message, size_t len)
{
	if (agent->prompting) {
		return -EBUSY;
	}
	json_t *text = json_stringn(message, len);
	if (!text) {
		return -EINVAL;
	}
	agent->prompting = true;
	agent->prompt = text;
	if (agent->late) {
		agent->late = false;
		uv_timer_stop(&agent->deadline);
	}
	if (agent->stage == ACP_READY) {
		uv_timer_stop(&agent->rest);
		acp_agent_send_prompt(agent);
	} else if (agent->stage == ACP_IDLE) {
		start_child(agent);
	}
	return 0;
}

void acp_agent_cancel(struct acp_agent *agent)
{
	if (agent->prompt) {
		json_decref(agent->prompt);
		agent->prompt = NULL;
		agent->cancelled_unsent = true;
		acp_agent_wake(agent);
	} else if (agent->prompting && !agent->cancelling && !agent->cancelled_unsent) {
		acp_agent_send_cancel(agent);
		agent->cancelling = true;
		acp_agent_await(agent, agent->cancel_grace_ms);
	}
	acp_agent_cancel_questions(agent);
}

void acp_agent_pause(struct acp_agent *agent, bool paused)
{
	agent->paused = paused;
	if (agent->process) {
		acp_process_pause(agent->process, !may_read(agent));
	}
	acp_agent_pause_terminals(agent, paused);
	acp_agent_wake(agent);
}

bool acp_agent_is_cancelling(const struct acp_agent *agent)
{
	return agent->cancelling || agent->cancelled_unsent;
}

bool acp_agent_is_running(const struct acp_agent *agent)
{
	return agent->process != NULL;
}

bool acp_agent_is_as_new(const struct acp_agent *agent)
{
	return !agent->processes && !agent->prompting && !agent->job && !agent->terminal_count &&
	       !agent->failures && !agent->resume_failures && !agent->wish_count;
}
