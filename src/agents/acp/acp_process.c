#include "acp_internal.h"

#include "holdfast/clock.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The agent's process: when it is started, read from, timed out and stopped. */

#define DELAY_MAX_MS 30000

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
	if (!agent->process.child) {
		buffer_finish(message);
	} else if (child_write(agent->process.child, message) == -ENOBUFS) {
		agent->process.overflowed = true;
		acp_agent_wake(agent);
	}
}

/* --- delays and idleness --- */

/**
 * How long the next start is delayed: an agent that fails each time must not keep the machine busy.
 */
static int delay_ms(const struct acp_agent *agent)
{
	int delay = agent->process.failures >= 2 ? agent->config.restart_delay_ms : 0;
	for (unsigned i = 2; i < agent->process.failures && delay < DELAY_MAX_MS; i++) {
		delay *= 2;
	}
	return delay < DELAY_MAX_MS ? delay : DELAY_MAX_MS;
}

/** Whether something waits for the agent to start. */
static bool is_wanted(const struct acp_agent *agent)
{
	return agent->turn.prompt || acp_agent_wants_login(agent);
}

static void handle_rested(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	agent->process.rested = true;
	if (is_wanted(agent) && !agent->process.child) {
		acp_process_start(agent);
	}
}

static void tell_delay(struct acp_agent *agent)
{
	json_t *data = json_pack("{s:i, s:i}", "failures", (int)agent->process.failures, "delay_ms",
		delay_ms(agent));
	agent->ops->event(agent->owner, "x-acp-start_delayed", data);
	json_decref(data);
}

/** How long this child can be idle before it is stopped; 0: forever. */
static int idle_ms(const struct acp_agent *agent)
{
	bool goes_on = agent->resume.can_resume || agent->resume.can_load;
	int sooner = goes_on ? agent->config.resumable_idle_ms : 0;
	return sooner && (!agent->config.idle_ms || sooner < agent->config.idle_ms)
		       ? sooner
		       : agent->config.idle_ms;
}

static void handle_idle(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	bool busy = agent->turn.prompting || agent->paused || agent->questions.count > 0 ||
		    workspace_is_at_file(agent->workspace) ||
		    workspace_has_terminals(agent->workspace);
	if (loop_put_off(timer, handle_idle)) {
		return;
	}
	if (busy) {
		uv_timer_start(timer, handle_idle, (uint64_t)idle_ms(agent), 0);
	} else if (agent->process.child) {
		acp_agent_stop_child(agent, "idle", "there was nothing to do");
	}
}

void acp_agent_await_idle(struct acp_agent *agent)
{
	if (idle_ms(agent) > 0 && agent->process.child) {
		uv_timer_start(&agent->process.pause, handle_idle, (uint64_t)idle_ms(agent), 0);
	}
}

/* --- the end of a turn and of a child --- */

void acp_agent_end_turn(struct acp_agent *agent, const char *stop_reason, const char *message)
{
	acp_agent_give_half(agent);
	acp_agent_forget_missed(agent);
	acp_agent_end_late(agent);
	agent->turn.prompting = false;
	agent->turn.cancelling = false;
	agent->turn.cancelled_unsent = false;
	uv_timer_stop(&agent->deadline);
	agent->process.failures = 0;
	acp_agent_await_idle(agent);
	acp_agent_tell_metas(agent);
	agent->ops->turn_end(agent->owner, stop_reason, message);
}

void acp_process_drop(struct acp_agent *agent)
{
	if (agent->process.child) {
		child_end(agent->process.child);
		agent->process.child = NULL;
	}
	agent->session.stage = ACP_IDLE;
	acp_agent_drop_half(agent);
	acp_agent_forget_missed(agent);
	acp_agent_end_late(agent);
	agent->process.exited = false;
	agent->process.overflowed = false;
	agent->process.spawn_error = 0;
	free(agent->process.over);
	agent->process.over = NULL;
	uv_timer_stop(&agent->deadline);
	uv_timer_stop(&agent->process.pause);
	acp_agent_forget_questions(agent);
	workspace_abandon(agent->workspace);
	acp_agent_drop_settings(agent);
	json_decref(agent->session.info);
	agent->session.info = NULL;
	json_decref(agent->session.auth_methods);
	agent->session.auth_methods = NULL;
	json_decref(agent->state.metas);
	agent->state.metas = NULL;
	json_decref(agent->session.early);
	agent->session.early = NULL;
	agent->session.early_bytes = 0;
	acp_resume_finish(agent);
	free(agent->session.id);
	agent->session.id = NULL;
}

/** Counts a failure, and appends to the detail how long the next start is delayed. */
static void count_failure(struct acp_agent *agent, const char *reason, struct buffer *detail)
{
	if (strcmp(reason, "stopped") == 0 || strcmp(reason, "idle") == 0) {
		return;
	}
	agent->process.failures++;
	if (delay_ms(agent) > 0) {
		buffer_printf(detail,
			"; it has failed %u times in a row, the next start waits %g s",
			agent->process.failures, delay_ms(agent) / 1000.0);
	}
}

void acp_agent_stop_child(struct acp_agent *agent, const char *reason, const char *why)
{
	struct buffer clean = {0};
	struct buffer detail = {0};
	buffer_append_str(&detail, why);
	count_failure(agent, reason, &detail);
	if (agent->session.stage >= ACP_RESUMING && agent->session.stage <= ACP_SETTLING) {
		agent->resume.failures++;
	}
	diag_clean(&clean, detail.data ? detail.data : "", detail.len);
	diag(DIAG_INFO, "session %s: the agent stopped: %s: %s", agent->config.session_id, reason,
		buffer_cstr(&clean));
	buffer_finish(&clean);
	acp_agent_give_half(agent);
	acp_process_drop(agent);
	json_decref(agent->turn.prompt);
	agent->turn.prompt = NULL;
	agent->turn.prompting = false;
	agent->ops->stopped(agent->owner, reason, buffer_cstr(&detail));
	agent->turn.cancelling = false;
	agent->turn.cancelled_unsent = false;
	buffer_finish(&detail);
}

static void handle_child_exit(struct acp_agent *agent)
{
	char detail[200];
	if (agent->process.term_signal != 0) {
		const char *name = sigabbrev_np(agent->process.term_signal);
		snprintf(detail, sizeof(detail), "killed by signal %d (SIG%s)",
			agent->process.term_signal, name ? name : "?");
	} else {
		int64_t status = agent->process.exit_status;
		bool is_not_run = status == 126 || status == 127;
		bool is_hidden = agent->config.box.sandbox && is_not_run;
		bool is_first = agent->session.stage == ACP_INITIALIZING;
		/* A status above 128 is the shell's way to report a signal. */
		const char *name =
			status > 128 && status < 256 ? sigabbrev_np((int)status - 128) : NULL;
		snprintf(detail, sizeof(detail), "exit status %lld%s%s%s%s", (long long)status,
			name ? " (SIG" : "", name ? name : "", name ? ")" : "",
			is_hidden
				? "; in the sandbox it can run only what is below /usr, its directory and --sandbox-read"
			: is_first && is_not_run
				? "; its command cannot be run: is it installed, and in the PATH of the server?"
			: is_first
				? "; it ended before it answered: check that its command speaks ACP on stdin and stdout"
				: "");
	}
	acp_agent_stop_child(agent, agent->process.term_signal != 0 ? "signal" : "exit", detail);
}

/**
 * Whether the next line can be handled: none is while a file request is being done, so that the
 * agent's order is kept.
 */
static bool may_read(const struct acp_agent *agent)
{
	return agent->process.child && !agent->paused && !agent->process.overflowed &&
	       !workspace_is_at_file(agent->workspace);
}

void acp_process_read(struct acp_agent *agent)
{
	if (agent->process.child) {
		child_pause(agent->process.child, !may_read(agent));
	}
}

static void drain(struct acp_agent *agent)
{
	if (agent->draining || agent->destroying) {
		return;
	}
	agent->draining = true;
	enum json_line found = JSON_LINE_READY;
	while (may_read(agent) && found != JSON_LINE_NONE) {
		char *line;
		size_t len;
		found = json_lines_next(&agent->process.lines, &line, &len);
		if (found == JSON_LINE_TOO_LONG) {
			const char *what = agent->process.lines.too_deep
						   ? "JSON that nests too deep"
						   : "a line that is too long";
			acp_agent_report_noise(agent, what, "skipped", strlen("skipped"));
		} else if (found == JSON_LINE_SKIPPED) {
			acp_agent_handle_skipped(agent);
		} else if (found == JSON_LINE_READY && len > 0) {
			acp_agent_handle_line(agent, line, len);
		}
	}
	acp_process_read(agent);
	if (agent->process.exited && may_read(agent)) {
		handle_child_exit(agent);
	}
	agent->draining = false;
}

/* --- the child --- */

static void handle_output(void *owner, const char *bytes, size_t len)
{
	struct acp_agent *agent = owner;
	json_lines_push(&agent->process.lines, bytes, len);
	drain(agent);
}

static void handle_errors(void *owner, const char *bytes, size_t len)
{
	struct acp_agent *agent = owner;
	child_stderr_push(
		&agent->process.errors, agent->config.session_id, bytes, len, uv_now(agent->loop));
}

static void handle_finished(void *owner, int64_t exit_status, int term_signal)
{
	struct acp_agent *agent = owner;
	agent->process.exited = true;
	agent->process.exit_status = exit_status;
	agent->process.term_signal = term_signal;
	drain(agent);
}

static void handle_closed(void *owner)
{
	struct acp_agent *agent = owner;
	agent->process.open--;
	/* The box may have killed it; handle_wake() reports that. */
	agent->process.child = NULL;
	child_stderr_finish(&agent->process.errors, agent->config.session_id);
	if (is_wanted(agent) && !agent->process.spawn_error && !agent->process.over &&
		!agent->destroying) {
		acp_process_start(agent);
	}
	acp_agent_free_if_done(agent);
}

static const struct child_ops child_ops = {
	.output = handle_output,
	.errors = handle_errors,
	.finished = handle_finished,
	.closed = handle_closed,
};

struct child_config acp_process_config(const struct acp_agent *agent)
{
	const struct acp_agent_config *config = &agent->config;
	return (struct child_config){
		.env = config->env,
		.root = config->cwd,
		.stop_grace_ms = config->stop_grace_ms,
		.spawner = config->spawner,
		.box = agent->process.box,
		.descriptors_kept = config->descriptors_kept,
	};
}

void acp_process_start(struct acp_agent *agent)
{
	if (agent->process.open > 0) {
		return; /* the previous child is still ending; handle_closed() calls this again */
	}
	if (delay_ms(agent) > 0 && !agent->process.rested) {
		if (!uv_is_active((uv_handle_t *)&agent->process.pause)) {
			uv_timer_start(
				&agent->process.pause, handle_rested, (uint64_t)delay_ms(agent), 0);
			agent->process.delay_untold = true;
			acp_agent_wake(agent);
		}
		return;
	}
	agent->process.rested = false;
	struct child_config config = acp_process_config(agent);
	config.command = agent->config.command;
	config.cwd = agent->config.cwd;
	struct clock clock;
	clock_init(&clock);
	agent->process.start_ms = (uint64_t)clock_now_ms(&clock);
	agent->session.last_id = 0;
	json_lines_finish(&agent->process.lines);
	agent->process.open++;
	box_begin(agent->process.box);
	int err = child_spawn(agent->loop, &config, &child_ops, agent, &agent->process.child);
	if (err < 0) {
		agent->process.spawn_error = err;
		acp_agent_wake(agent);
		return;
	}
	child_pause(agent->process.child, agent->paused);
	acp_agent_await(agent, agent->config.start_timeout_ms);
	acp_agent_send_initialize(agent);
}

void acp_process_over(void *owner, enum limit limit, const char *why)
{
	struct acp_agent *agent = owner;
	if (agent->process.child) {
		free(agent->process.over);
		agent->process.over = xstrdup(why);
		agent->process.limit = limit;
		acp_agent_wake(agent);
	}
}

static void handle_wake(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	if (agent->process.spawn_error < 0) {
		acp_agent_stop_child(
			agent, "spawn_failed", uv_strerror(agent->process.spawn_error));
	} else if (agent->process.over) {
		acp_agent_stop_child(agent, "limit", agent->process.over);
	} else if (agent->process.overflowed) {
		acp_agent_stop_child(agent, "protocol", "the agent does not read its input");
	}
	if (agent->process.delay_untold) {
		agent->process.delay_untold = false;
		tell_delay(agent);
	}
	if (agent->turn.cancelled_unsent) {
		agent->turn.cancelled_unsent = false;
		agent->turn.prompting = false;
		agent->ops->turn_end(agent->owner, "cancelled", NULL);
	}
	drain(agent);
}

void acp_agent_await(struct acp_agent *agent, int ms)
{
	uv_timer_start(&agent->deadline, handle_deadline, (uint64_t)ms, 0);
}

static void handle_deadline(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	if (loop_put_off(timer, handle_deadline)) {
		return;
	}
	if (agent->session.stage == ACP_SETTLING) {
		acp_resume_settle(agent);
	} else if (agent->paused || workspace_is_at_file(agent->workspace)) {
		/* The answer may have arrived already: we are the ones who do not read. */
		acp_agent_await(agent, agent->config.cancel_grace_ms);
	} else if (agent->turn.late) {
		acp_agent_handle_quiet(agent);
	} else if (agent->turn.missed && !agent->turn.cancelling) {
		acp_agent_give_up_missed(agent);
	} else if (agent->session.stage == ACP_READY) {
		/*
		 * A late answer could not be told from the work of the next prompt, so the child
		 * must go.
		 */
		agent->process.failures = 0;
		acp_agent_tell_metas(agent);
		acp_agent_stop_child(agent, "stopped", "did not answer session/cancel");
	} else if (agent->session.stage == ACP_LOGGING_IN) {
		acp_agent_stop_for_login(
			agent, true, "authenticate: nobody logged in within the time limit");
	} else if (agent->session.stage == ACP_INITIALIZING) {
		acp_agent_stop_child(agent, "protocol",
			"did not answer initialize in time: check that its command speaks ACP on stdin and stdout");
	} else {
		acp_agent_stop_child(agent, "protocol",
			"did not answer initialize and session/new (or session/resume, or session/load) in time");
	}
}
