#include "acp_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The public interface of the room, and the lifecycle of an agent. */

#define CANCEL_GRACE_MS  10000
#define START_TIMEOUT_MS 120000
#define LOGIN_MS         600000
#define RESTART_DELAY_MS 500
#define QUIET_MS         1000
#define SELF_TURN_MS     3600000
#define QUESTIONS_MAX    64
#define FILE_MS          20000

static void handle_message(void *owner, struct buffer *message)
{
	acp_agent_send(owner, message);
}

static void handle_event(void *owner, const char *type, const json_t *data)
{
	struct acp_agent *agent = owner;
	if (workspace_is_waited_for(agent->workspace)) {
		acp_agent_note_sign(agent); /* the command may have put out something */
	}
	agent->ops->event(agent->owner, type, data);
}

static void handle_file_done(void *owner)
{
	acp_agent_wake(owner);
}

static void handle_workspace_freed(void *owner)
{
	struct acp_agent *agent = owner;
	agent->workspace = NULL;
	acp_agent_free_if_done(agent);
}

static struct workspace *create_workspace(struct acp_agent *agent)
{
	static const struct workspace_ops ops = {
		.send = handle_message,
		.event = handle_event,
		.file_done = handle_file_done,
		.freed = handle_workspace_freed,
	};
	const struct acp_agent_config *c = &agent->config;
	return workspace_create(agent->loop,
		&(struct workspace_config){.cwd = c->cwd,
			.cwd_is_real = c->box.sandbox != NULL,
			.private_dir = c->private_dir,
			.session_id = c->session_id,
			.file_max = c->file_max,
			.file_names_max = c->file_names_max,
			.file_ms = c->file_ms,
			.terminals_max = c->terminals_max,
			.commands = acp_process_config(agent)},
		&ops, agent);
}

static void set_default(int *value, int otherwise)
{
	*value = *value ? *value : otherwise;
}

static void copy_config(struct acp_agent_config *c, const struct acp_agent_config *config)
{
	*c = *config;
	c->command = xstrdup(config->command);
	c->cwd = xstrdup(config->cwd);
	c->private_dir = config->private_dir ? xstrdup(config->private_dir) : NULL;
	c->session_id = xstrdup(config->session_id);
	c->file_names_max = config->file_names_max ? config->file_names_max : 1;
	c->questions_max = config->questions_max ? config->questions_max : QUESTIONS_MAX;
	set_default(&c->cancel_grace_ms, CANCEL_GRACE_MS);
	set_default(&c->start_timeout_ms, START_TIMEOUT_MS);
	set_default(&c->login_ms, LOGIN_MS);
	set_default(&c->restart_delay_ms, RESTART_DELAY_MS);
	set_default(&c->quiet_ms, QUIET_MS);
	set_default(&c->self_turn_ms, SELF_TURN_MS);
	set_default(&c->file_ms, FILE_MS);
}

struct acp_agent *acp_agent_create(uv_loop_t *loop, const struct acp_agent_config *config,
	const struct acp_agent_ops *ops, void *owner)
{
	struct acp_agent *agent = xcalloc(1, sizeof(*agent));
	agent->loop = loop;
	agent->ops = ops;
	agent->owner = owner;
	copy_config(&agent->config, config);
	json_lines_init(&agent->process.lines, config->line_max);
	list_init(&agent->questions.list);
	list_init(&agent->settings.list);
	uv_timer_init(loop, &agent->wake);
	uv_timer_init(loop, &agent->deadline);
	uv_timer_init(loop, &agent->process.pause);
	agent->wake.data = agent->deadline.data = agent->process.pause.data = agent;
	agent->open_timers = 3;
	agent->process.box = box_create(&agent->config.box, acp_process_over, agent);
	agent->workspace = create_workspace(agent);
	return agent;
}

void acp_agent_free_if_done(struct acp_agent *agent)
{
	bool busy = agent->process.open > 0 || agent->workspace || agent->open_timers > 0;
	if (!agent->destroying || busy) {
		return;
	}
	void (*freed)(void *arg) = agent->freed;
	void *arg = agent->freed_arg;
	json_lines_finish(&agent->process.lines);
	free(agent->process.over);
	box_destroy(agent->process.box);
	json_decref(agent->turn.prompt);
	json_decref(agent->session.prompt_takes);
	json_decref(agent->state.models);
	free((char *)agent->config.command);
	free((char *)agent->config.cwd);
	free((char *)agent->config.private_dir);
	free((char *)agent->config.session_id);
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
	acp_process_drop(agent);
	workspace_close(agent->workspace);
	uv_close((uv_handle_t *)&agent->wake, handle_timer_closed);
	uv_close((uv_handle_t *)&agent->deadline, handle_timer_closed);
	uv_close((uv_handle_t *)&agent->process.pause, handle_timer_closed);
}

int acp_agent_prompt(struct acp_agent *agent, const char *message, size_t len)
{
	json_t *text = json_stringn(message, len);
	if (!text) {
		return agent->turn.prompting ? -EBUSY : -EINVAL;
	}
	return acp_agent_prompt_blocks(
		agent, json_pack("[{s:s, s:o}]", "type", "text", "text", text));
}

void acp_agent_trace(struct acp_agent *agent, const char *traceparent)
{
	snprintf(
		agent->turn.trace, sizeof(agent->turn.trace), "%s", traceparent ? traceparent : "");
}

bool acp_agent_accepts(const struct acp_agent *agent, const char *type)
{
	const char *name = strcmp(type, "resource") == 0 ? "embeddedContext" : type;
	bool is_optional = name != type || strcmp(type, "image") == 0 || strcmp(type, "audio") == 0;
	return !is_optional || !agent->session.prompt_takes ||
	       json_is_true(json_object_get(agent->session.prompt_takes, name));
}

bool acp_agent_accepts_prompt(const struct acp_agent *agent)
{
	const json_t *blocks = agent->turn.prompt;
	for (size_t i = 0; i < json_array_size(blocks); i++) {
		const json_t *type = json_object_get(json_array_get(blocks, i), "type");
		if (!acp_agent_accepts(agent, json_string_value(type))) {
			return false;
		}
	}
	return true;
}

int acp_agent_prompt_blocks(struct acp_agent *agent, json_t *blocks)
{
	if (agent->turn.prompting) {
		json_decref(blocks);
		return -EBUSY;
	}
	agent->turn.prompt = blocks;
	if (agent->session.stage == ACP_READY && !acp_agent_accepts_prompt(agent)) {
		json_decref(blocks);
		agent->turn.prompt = NULL;
		return -ENOTSUP;
	}
	agent->turn.prompting = true;
	if (agent->turn.late) {
		acp_agent_end_late(agent);
		uv_timer_stop(&agent->deadline);
	}
	if (agent->session.stage == ACP_READY) {
		uv_timer_stop(&agent->process.pause);
		acp_agent_send_prompt(agent);
	} else if (agent->session.stage == ACP_IDLE) {
		acp_process_start(agent);
	}
	return 0;
}

void acp_agent_cancel(struct acp_agent *agent)
{
	if (agent->turn.prompt) {
		json_decref(agent->turn.prompt);
		agent->turn.prompt = NULL;
		agent->turn.cancelled_unsent = true;
		acp_agent_wake(agent);
	} else if (agent->turn.prompting && !agent->turn.cancelling &&
		   !agent->turn.cancelled_unsent) {
		acp_agent_send_cancel(agent);
		agent->turn.cancelling = true;
		acp_agent_await(agent, agent->config.cancel_grace_ms);
	}
	agent->turn.is_let_go = true;
	acp_agent_cancel_questions(agent);
}

void acp_agent_pause(struct acp_agent *agent, bool paused)
{
	agent->paused = paused;
	acp_process_read(agent);
	workspace_pause(agent->workspace, paused);
	acp_agent_wake(agent);
}

json_t *acp_agent_login(const struct acp_agent *agent)
{
	return agent->session.login;
}

bool acp_agent_is_cancelling(const struct acp_agent *agent)
{
	return agent->turn.cancelling || agent->turn.cancelled_unsent;
}

enum limit acp_agent_limit(const struct acp_agent *agent)
{
	return agent->process.limit;
}

void acp_agent_last_errors(const struct acp_agent *agent, struct buffer *out)
{
	child_stderr_last(&agent->process.errors, agent->config.env, out);
}

bool acp_agent_is_running(const struct acp_agent *agent)
{
	return agent->process.child != NULL;
}

bool acp_agent_is_as_new(const struct acp_agent *agent)
{
	return !agent->process.open && !agent->turn.prompting &&
	       workspace_is_empty(agent->workspace) && !agent->process.failures &&
	       !agent->resume.failures && !agent->settings.count;
}

bool acp_agent_is_busy(const struct acp_agent *agent)
{
	return agent->process.open > 0 || agent->turn.prompting || acp_agent_wants_login(agent) ||
	       !workspace_is_empty(agent->workspace);
}
