#include "acp_internal.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Resumes the session of an earlier child. In order of preference: session/resume, which replays
 * nothing; session/load, which replays the whole history, so that it has to be reconciled with the
 * log; session/new, if the agent cannot or will not resume, or if it replays a different history.
 */

/* Limits what is kept of the log, of the replay, and of what is new, each. */
#define HISTORY_SIZE_MAX ((size_t)16 << 20)
/*
 * For some agents the answer to session/load is not the end of the history (gemini sends most of it
 * up to 5 ms later). The history has ended when nothing has arrived for QUIET_MS and SETTLE_MS have
 * passed since the answer. A pause can last LONG_QUIET_MS while the newest turn of the log has not
 * been replayed. It can also, if that turn was cut off and history has come behind the answer: the
 * agent may have more of this turn than the log. The prompt must not be sent earlier: the rest of
 * the history could not be told from the answer.
 */
#define QUIET_MS      20
#define SETTLE_MS     50
#define LONG_QUIET_MS 1500
#define SETTLE_MAX_MS 15000
#define FILES_MAX_MS  10000
/* Consecutive children that did not survive resuming. */
#define FAILURES_MAX 2
#define LOOK_MS      10

/**
 * gemini-cli 0.43 and later announces loadSession, but loading never works and destroys the
 * history.
 */
static bool loses_history(const json_t *agent_info)
{
	const char *name = json_string_value(json_object_get(agent_info, "name"));
	const char *version = json_string_value(json_object_get(agent_info, "version"));
	int major = 0;
	int minor = 0;
	return name && version && strcmp(name, "gemini-cli") == 0 &&
	       sscanf(version, "%d.%d", &major, &minor) == 2 && (major > 0 || minor >= 43);
}

void acp_resume_read(struct acp_agent *agent, const json_t *result)
{
	const json_t *can = json_object_get(result, "agentCapabilities");
	const json_t *resume =
		json_object_get(json_object_get(can, "sessionCapabilities"), "resume");
	agent->resume.can_resume = json_is_object(resume) || json_is_true(resume);
	agent->resume.can_load = json_is_true(json_object_get(can, "loadSession")) &&
				 !loses_history(json_object_get(result, "agentInfo"));
}

/* --- requests --- */

/** The session cannot be resumed: asks for a new one; started() will give the reason. */
static void give_up(struct acp_agent *agent, const char *why)
{
	struct buffer clean = {0};
	diag_clean(&clean, why, strlen(why));
	diag(DIAG_INFO, "session %s: the agent begins a new session, %s", agent->config.session_id,
		buffer_cstr(&clean));
	buffer_finish(&clean);
	acp_resume_finish(agent);
	free(agent->session.id);
	agent->session.id = NULL;
	json_decref(agent->session.early);
	agent->session.early = NULL;
	agent->session.early_bytes = 0;
	json_object_set_new(agent->session.info, "resumed", json_false());
	json_object_set_new(agent->session.info, "resume_error", json_string(why));
	acp_agent_await(agent, agent->config.start_timeout_ms);
	acp_agent_send_new_session(agent);
}

static void ask(struct acp_agent *agent, enum acp_stage stage, const char *method)
{
	const char *id = agent->ops->earlier_session(agent->owner);
	if (!id) {
		give_up(agent, "because the log no longer names an earlier one");
		return;
	}
	agent->session.stage = stage;
	/* Updates during the load belong to this session. */
	agent->session.id = stage == ACP_LOADING ? xstrdup(id) : NULL;
	acp_agent_send_request(agent, method,
		json_pack("{s:s, s:s, s:o}", "sessionId", id, "cwd", agent->config.cwd,
			"mcpServers", acp_agent_mcp_servers(agent)));
}

void acp_resume_begin(struct acp_agent *agent)
{
	if (!agent->ops->earlier_session(agent->owner)) {
		acp_agent_send_new_session(agent);
	} else if (agent->resume.failures >= FAILURES_MAX) {
		give_up(agent,
			"because it stopped each time that it was asked to resume the earlier one");
	} else if (agent->resume.can_resume) {
		agent->session.stage = ACP_RECALLING;
		agent->ops->history(agent->owner, true);
	} else if (agent->resume.can_load) {
		agent->session.stage = ACP_RECALLING;
		agent->resume.replay = reconcile_create(HISTORY_SIZE_MAX);
		agent->resume.is_late = false;
		agent->ops->history(agent->owner, false);
	} else {
		give_up(agent, "because it cannot resume an earlier one");
	}
}

void acp_agent_log_event(
	struct acp_agent *agent, const char *type, const json_t *data, const char *message_id)
{
	if (agent->session.stage != ACP_RECALLING) {
		return;
	}
	if (agent->resume.replay) {
		reconcile_log(agent->resume.replay, type, data, message_id);
	}
	acp_agent_is_known_state(agent, type, data);
}

void acp_agent_log_end(struct acp_agent *agent, bool is_cut)
{
	if (agent->session.stage == ACP_RECALLING && agent->resume.replay) {
		if (is_cut) {
			reconcile_log_is_cut(agent->resume.replay);
		}
		ask(agent, ACP_LOADING, "session/load");
	} else if (agent->session.stage == ACP_RECALLING) {
		ask(agent, ACP_RESUMING, "session/resume");
	}
}

void acp_agent_log_failed(struct acp_agent *agent)
{
	if (agent->session.stage == ACP_RECALLING && !agent->resume.replay) {
		/* without the log, known state may be reported again */
		acp_agent_log_end(agent, true);
	} else if (agent->session.stage == ACP_RECALLING) {
		give_up(agent, "because the log of the earlier one cannot be read");
	}
}

void acp_resume_finish(struct acp_agent *agent)
{
	acp_agent_drop_half(agent);
	reconcile_destroy(agent->resume.replay);
	agent->resume.replay = NULL;
	json_decref(agent->resume.loaded);
	agent->resume.loaded = NULL;
}

/* --- the answer --- */

static void go_on(struct acp_agent *agent, const json_t *result)
{
	char *id = agent->session.id;
	agent->session.id = NULL;
	json_object_set_new(agent->session.info, "resumed", json_true());
	acp_agent_begin(agent, id ? id : agent->ops->earlier_session(agent->owner), result);
	free(id);
}

static void handle_refusal(struct acp_agent *agent, const json_t *error)
{
	struct buffer words = {0};
	buffer_append_str(&words, "because it did not resume the earlier one: ");
	json_rpc_describe_error(&words, error);
	give_up(agent, buffer_cstr(&words));
	buffer_finish(&words);
}

void acp_resume_handle_answer(struct acp_agent *agent, const json_t *result, const json_t *error)
{
	if (error) {
		handle_refusal(agent, error);
	} else if (agent->session.stage == ACP_RESUMING &&
		   !agent->ops->earlier_session(agent->owner)) {
		give_up(agent, "because the log no longer names an earlier one");
	} else if (agent->session.stage == ACP_RESUMING) {
		go_on(agent, result);
		acp_agent_begun(agent);
	} else {
		agent->session.stage = ACP_SETTLING;
		agent->resume.loaded = json_incref((json_t *)result);
		agent->resume.loaded_at = agent->resume.replayed_at = loop_now_ms(agent->loop);
		acp_agent_await(agent, LOOK_MS);
	}
}

/* --- the history --- */

static void replay_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	reconcile_text(owner, thought ? SAID_THOUGHT : SAID_MESSAGE, text, len, message_id);
}

static void replay_event(void *owner, const char *type, const json_t *data)
{
	reconcile_event(owner, type, data);
}

void acp_resume_replay(struct reconcile *replay, const json_t *update, size_t size)
{
	static const struct acp_agent_ops ops = {.text = replay_text, .event = replay_event};
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	const char *why;
	if (!kind || !reconcile_begin_update(replay, size)) {
		return;
	}
	if (strcmp(kind, "user_message_chunk") != 0) {
		acp_update_report(update, &ops, replay, &why);
		return;
	}
	const json_t *text = json_object_get(json_object_get(update, "content"), "text");
	if (json_string_length(text)) {
		reconcile_text(replay, SAID_PROMPT, json_string_value(text),
			json_string_length(text),
			json_string_value(json_object_get(update, "messageId")));
	}
}

bool acp_resume_take(
	struct acp_agent *agent, const json_t *update, const json_t *params, size_t line_len)
{
	if (agent->session.stage != ACP_LOADING && agent->session.stage != ACP_SETTLING) {
		return false;
	}
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	const char *session = json_string_value(json_object_get(params, "sessionId"));
	if (session && strcmp(session, agent->session.id) != 0) {
		acp_agent_report_noise(
			agent, "an update of another session", session, strlen(session));
	} else if (kind && acp_agent_is_state(kind)) {
		acp_agent_keep_early(agent, params, line_len);
	} else if (kind) {
		agent->resume.replayed_at = loop_now_ms(agent->loop);
		agent->resume.is_late = agent->session.stage == ACP_SETTLING;
		acp_agent_join(agent, update);
		acp_resume_replay(agent->resume.replay, update, line_len);
	}
	return true;
}

static void end_history(struct acp_agent *agent)
{
	acp_agent_give_half(agent);
	json_t *fresh = reconcile_finish(agent->resume.replay);
	if (reconcile_is_foreign(agent->resume.replay)) {
		give_up(agent, "because it replayed a different history for the earlier one");
		json_decref(fresh);
		return;
	}
	if (reconcile_is_cut(agent->resume.replay)) {
		diag(DIAG_WARN,
			"session %s: the agent's history is too long to be compared with the log: new events in its later part are dropped",
			agent->config.session_id);
	}
	json_t *loaded = agent->resume.loaded;
	agent->resume.loaded = NULL;
	acp_resume_finish(agent);
	go_on(agent, loaded);
	json_decref(loaded);
	for (size_t i = 0; i < json_array_size(fresh); i++) {
		const json_t *item = json_array_get(fresh, i);
		agent->ops->recovered(agent->owner,
			json_string_value(json_object_get(item, "type")),
			json_object_get(item, "data"),
			json_string_value(json_object_get(item, "message_id")));
	}
	json_decref(fresh);
	acp_agent_begun(agent);
}

/** Whether all is replayed that the agent can be expected to have. */
static bool is_whole(const struct acp_agent *agent)
{
	bool may_go_on = agent->resume.is_late && reconcile_is_cut_off(agent->resume.replay);
	return !may_go_on && reconcile_is_complete(agent->resume.replay);
}

void acp_resume_settle(struct acp_agent *agent)
{
	int64_t now = loop_now_ms(agent->loop);
	int64_t since = now - agent->resume.loaded_at;
	int64_t quiet = now - agent->resume.replayed_at;
	bool is_over = since >= SETTLE_MS && quiet >= QUIET_MS &&
		       (quiet >= LONG_QUIET_MS || is_whole(agent));
	/*
	 * While reading is paused, more history may be in the pipe. An agent that asks for one file
	 * after another could keep it paused forever.
	 */
	bool is_read = !agent->paused &&
		       (!workspace_is_at_file(agent->workspace) || since >= FILES_MAX_MS);
	if (is_read && (is_over || since >= SETTLE_MAX_MS)) {
		end_history(agent);
	} else {
		acp_agent_await(agent, LOOK_MS);
	}
}
