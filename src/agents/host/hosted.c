/* One session's agent: what it reports becomes inputs of the session. */
#include "acp_host_internal.h"

#include "holdfast/descriptors.h"
#include "holdfast/diag.h"
#include "holdfast/intake.h"

#include <stdlib.h>
#include <string.h>

/* --- what agents report --- */

static void complain(const struct hosted *hosted, const char *what)
{
	diag(DIAG_WARN,
		"session %s: %s from the agent was rejected: its data does not fit its type",
		session_id(hosted->session), what);
}

/** After an input: records whether it began a turn, which the host will have to end. */
static void record_turn(struct hosted *hosted, bool was_in_turn)
{
	if (!was_in_turn && session_is_prompting(hosted->session)) {
		hosted->late_turn = true;
	}
}

void hosted_go_on(struct agent_inputs *inputs)
{
	struct hosted *hosted = (struct hosted *)((char *)inputs - offsetof(struct hosted, inputs));
	hosted->late_turn = hosted->late_turn || inputs->begins_turn;
	inputs->begins_turn = false;
	acp_agent_pause(hosted->agent, hosted->host->paused || agent_inputs_wait(inputs));
}

/**
 * After an input: if inputs are being kept because they cannot be passed on, the agent is paused,
 * which bounds how many there can be.
 */
static void check_input(struct hosted *hosted, const char *what, int r)
{
	if (r < 0) {
		complain(hosted, what);
	}
	if (agent_inputs_wait(&hosted->inputs)) {
		acp_agent_pause(hosted->agent, true);
	}
}

static void append_event(struct hosted *hosted, const char *type, const json_t *data)
{
	bool was_in_turn = session_is_prompting(hosted->session);
	int r = agent_inputs_event(&hosted->inputs, type, data);
	record_turn(hosted, was_in_turn);
	check_input(hosted, type, r);
}

static struct session_log *log_of(const struct hosted *hosted)
{
	return session_channel(hosted->session)->log;
}

static const char *earlier_session(void *owner)
{
	return session_facts(log_of(owner))->agent_session_id;
}

static void handle_history(void *owner, bool state_only)
{
	struct hosted *hosted = owner;
	struct session_log *log = log_of(hosted);
	size_t page_size = hosted->host->limits->page_size;
	if (state_only) {
		agent_history_give_state(&hosted->history, log, page_size, hosted->agent);
	} else {
		agent_history_give(&hosted->history, log, session_facts(log)->agent_session_seq,
			page_size, hosted->agent);
	}
}

static void handle_started(void *owner, const json_t *info)
{
	struct hosted *hosted = owner;
	hosted->has_started = true;
	metrics_add(session_channel(hosted->session)->metrics, METRIC_AGENT_STARTS, 1);
	append_event(owner, "agent_started", info);
}

static void handle_recovered(
	void *owner, const char *type, const json_t *data, const char *message_id)
{
	struct hosted *hosted = owner;
	int r = agent_inputs_recovered(&hosted->inputs, type, data, message_id);
	check_input(hosted, type, r);
}

static void handle_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	struct hosted *hosted = owner;
	bool was_in_turn = session_is_prompting(hosted->session);
	int r = agent_inputs_text(&hosted->inputs, thought, text, len, message_id);
	record_turn(hosted, was_in_turn);
	check_input(hosted, "text", r);
}

static void handle_event(void *owner, const char *type, const json_t *data)
{
	append_event(owner, type, data);
}

static void handle_question(
	void *owner, const char *type, const char *request_id, const json_t *data)
{
	struct hosted *hosted = owner;
	bool was_in_turn = session_is_prompting(hosted->session);
	int r = agent_inputs_event(&hosted->inputs, type, data);
	record_turn(hosted, was_in_turn);
	check_input(hosted, type, r);
	if (r < 0) {
		acp_agent_answer(hosted->agent, request_id, NULL);
	}
}

static void handle_withdrawn(void *owner, const char *request_id)
{
	struct hosted *hosted = owner;
	agent_inputs_withdraw(&hosted->inputs, request_id);
}

static bool handle_is_resolved(void *owner, const char *request_id)
{
	struct hosted *hosted = owner;
	return session_permission(hosted->session, request_id).state == PERMISSION_RESOLVED;
}

void hosted_end_turn(void *owner, const char *stop_reason, const char *message)
{
	struct hosted *hosted = owner;
	hosted->is_at_work = false;
	json_t *data = json_object();
	json_object_set_new(data, "stop_reason", json_string(stop_reason));
	if (message) {
		json_object_set_new(data, "message", json_string(message));
	}
	json_t *login = hosted->agent ? acp_agent_login(hosted->agent) : NULL;
	if (login) {
		json_object_set(data, "login", login);
	}
	append_event(owner, "turn_end", data);
	json_decref(data);
}

/** Tells the client that asked, if it is still connected, why the setting was refused. */
static void handle_refused(void *owner, const struct acp_setting *setting, const char *why)
{
	struct hosted *hosted = owner;
	static const struct {
		enum error_about about;
		const char *request;
	} of[] = {
		[ACP_SET_MODE] = {ABOUT_MODE, "set_mode"},
		[ACP_SET_MODEL] = {ABOUT_MODEL, "set_model"},
		[ACP_SET_OPTION] = {ABOUT_OPTION, "set_config_option"},
		[ACP_LOG_IN] = {ABOUT_LOGIN, "authenticate"},
	};
	const struct error_detail detail = {.about = of[setting->kind].about, .id = setting->id};
	const struct author author = {.client_id = setting->by, .sub = setting->sub};
	metrics_refused(
		session_channel(hosted->session)->metrics, ERROR_setting_refused, LIMIT_NONE);
	channel_send_error(session_channel(hosted->session), &author,
		&(struct error_notice){
			ERROR_setting_refused, why, of[setting->kind].request, &detail});
}

void hosted_append_stopped(
	struct hosted *hosted, const char *reason, const char *detail, const char *errors)
{
	json_t *data = json_object();
	json_object_set_new(data, "reason", json_string(reason));
	if (detail && *detail) {
		json_object_set_new(data, "detail", json_string(detail));
	}
	if (*errors) {
		json_object_set_new(data, "stderr", json_string(errors));
	}
	json_t *login = hosted->agent ? acp_agent_login(hosted->agent) : NULL;
	if (login) {
		json_object_set(data, "login", login);
	}
	if (hosted->agent && acp_agent_is_cancelling(hosted->agent)) {
		json_object_set_new(data, "cancelled", json_true());
	}
	if (!hosted->is_at_work && session_is_turn_of_prompt(hosted->session)) {
		json_object_set_new(data, "between_turns", json_true());
	}
	hosted->is_at_work = false;
	append_event(hosted, "agent_stopped", data);
	json_decref(data);
}

static void handle_stopped(void *owner, const char *reason, const char *detail)
{
	struct hosted *hosted = owner;
	hosted->is_over = hosted->host->has_over = true;
	if (!hosted->has_started) {
		metrics_add(
			session_channel(hosted->session)->metrics, METRIC_AGENT_STARTS_FAILED, 1);
	}
	agent_history_stop(&hosted->history);
	if (strcmp(reason, "limit") == 0) {
		metrics_limit(
			session_channel(hosted->session)->metrics, acp_agent_limit(hosted->agent));
	}
	struct buffer errors = {0};
	if (strcmp(reason, "idle") != 0 && strcmp(reason, "stopped") != 0) {
		acp_agent_last_errors(hosted->agent, &errors);
	}
	hosted_append_stopped(owner, reason, detail, buffer_cstr(&errors));
	buffer_finish(&errors);
}

struct hosted *hosted_of(struct acp_host *host, struct session *session)
{
	static const struct acp_agent_ops reports = {
		.earlier_session = earlier_session,
		.history = handle_history,
		.started = handle_started,
		.recovered = handle_recovered,
		.text = handle_text,
		.event = handle_event,
		.question = handle_question,
		.permission_withdrawn = handle_withdrawn,
		.permission_is_resolved = handle_is_resolved,
		.turn_end = hosted_end_turn,
		.quiet = hosted_quiet,
		.prompt_waits = hosted_prompt_waits,
		.refused = handle_refused,
		.stopped = handle_stopped,
	};
	struct hosted *hosted = session_host(session);
	if (hosted) {
		return hosted;
	}
	hosted = xcalloc(1, sizeof(*hosted));
	hosted->host = host;
	hosted->session = session;
	agent_inputs_init(&hosted->inputs, session);
	hosted->inputs.go_on = hosted_go_on;
	/* Without an entry, it exists only to report that the agent has stopped. */
	const struct agent_offer *offer = agent_host_agent(&host->base, session);
	size_t index = offer ? (size_t)(offer - host->offers) : 0;
	const struct agent_entry *entry = offer ? &host->list->entries[index] : NULL;
	const char *cwd = agent_host_cwd(&host->base, session);
	hosted->agent = acp_agent_create(host->loop,
		&(struct acp_agent_config){.command = entry ? entry->command : "",
			.cwd = cwd ? cwd : "/",
			.mcp_servers = entry ? entry->mcp_servers : NULL,
			.private_dir = host->private_dir,
			.env = entry ? host->envs[index] : NULL,
			.session_id = session_id(session),
			.numbers = session_table_numbers(session_table_of(session)),
			.line_max = host->limits->agent_line_size,
			.file_max = host->limits->agent_file_size,
			.file_names_max = host->limits->agent_file_names,
			.terminals_max = host->limits->agent_terminals,
			.questions_max = host->limits->open_permissions,
			.descriptors_kept = DESCRIPTORS_FOR_STORE,
			.file_ms = host->limits->agent_file_ms,
			.self_turn_ms = host->limits->self_turn_ms,
			.box = host->box,
			.spawner = host->spawner,
			.idle_ms = host->limits->agent_idle_ms,
			.resumable_idle_ms = host->limits->agent_resumable_idle_ms,
			.stop_grace_ms = host->limits->agent_stop_ms},
		&reports, hosted);
	acp_agent_pause(hosted->agent, host->paused);
	list_append(&host->agents, &hosted->link);
	host->count++;
	session_set_host(session, hosted);
	return hosted;
}
