#include "holdfast/agent_host.h"

#include "agent_host_internal.h"

#include "agents/acp/acp_agent.h"
#include "agent_command.h"
#include "holdfast/agent_env.h"
#include "holdfast/descriptors.h"
#include "holdfast/diag.h"
#include "holdfast/intake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what agents report --- */

static void complain(const struct hosted *hosted, const char *what)
{
	diag(DIAG_WARN,
		"session %s: %s from the agent was rejected: its data does not fit its type",
		session_id(hosted->session), what);
}

/** After an input: notes whether it began a turn, which the host will have to end. */
static void note_turn(struct hosted *hosted, bool was_in_turn)
{
	if (!was_in_turn && session_is_prompting(hosted->session)) {
		hosted->late_turn = true;
	}
}

/** agent_inputs.go_on: inputs that waited for a file or for the store may have been passed on. */
static void go_on(struct agent_inputs *inputs)
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
static void note_input(struct hosted *hosted, const char *what, int r)
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
	note_turn(hosted, was_in_turn);
	note_input(hosted, type, r);
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
	note_input(hosted, type, r);
}

static void handle_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	struct hosted *hosted = owner;
	bool was_in_turn = session_is_prompting(hosted->session);
	int r = agent_inputs_text(&hosted->inputs, thought, text, len, message_id);
	note_turn(hosted, was_in_turn);
	note_input(hosted, "text", r);
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
	note_turn(hosted, was_in_turn);
	note_input(hosted, type, r);
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

/** `errors`: the last lines of the agent's stderr; may be empty. */
static void append_stopped(
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
	append_stopped(owner, reason, detail, buffer_cstr(&errors));
	buffer_finish(&errors);
}

/* --- lifecycle --- */

struct agent_host *agent_host_create(const struct agent_host_config *config)
{
	struct agent_host *host = xcalloc(1, sizeof(*host));
	host->life = config->life;
	host->loop = config->loop;
	host->limits = config->limits;
	static const struct agent_list none;
	host->list = config->list ? config->list : &none;
	host->private_dir = config->private_dir ? xstrdup(config->private_dir) : NULL;
	host->spawner = config->spawner;
	host->box = config->box;
	host->envs = xcalloc(host->list->count + 1, sizeof(*host->envs));
	host->faults = xcalloc(host->list->count + 1, sizeof(*host->faults));
	for (size_t i = 0; i < host->list->count; i++) {
		const struct agent_entry *entry = &host->list->entries[i];
		host->envs[i] = agent_entry_env(entry, environ, config->env);
		host->faults[i] =
			agent_command_fault(entry->command, entry->roots[0], host->envs[i]);
		if (host->faults[i]) {
			diag(DIAG_WARN, "the agent \"%s\" cannot be started: %s", entry->name,
				host->faults[i]);
		}
	}
	list_init(&host->agents);
	list_init(&host->leaving);
	list_init(&host->traces);
	return host;
}

const char *agent_host_fault(const struct agent_host *host, const struct agent_entry *entry)
{
	return host->faults[entry - host->list->entries];
}

const struct agent_list *agent_host_list(const struct agent_host *host)
{
	return host->list;
}

const struct agent_entry *agent_host_agent(const struct agent_host *host, struct session *session)
{
	return agent_list_find(host->list, session_facts(session_channel(session)->log)->agent);
}

const char *agent_host_cwd(const struct agent_host *host, struct session *session)
{
	const struct agent_entry *entry = agent_host_agent(host, session);
	const char *cwd = session_facts(session_channel(session)->log)->cwd;
	return !entry ? NULL : cwd ? cwd : entry->roots[0];
}

const char *agent_host_private_dir(const struct agent_host *host)
{
	return host->private_dir;
}

const char *agent_host_lack(const struct agent_host *host)
{
	return host->list->count
		       ? "the agent of this session is no longer in the --agents file; put it back, or start a new session"
		       : "this server runs without an agent; start it with --agent \"COMMAND\" or --agents FILE";
}

struct agent_dirs *agent_host_dirs(struct agent_host *host)
{
	if (!host->dirs) {
		host->dirs = agent_dirs_create(host->loop);
	}
	return host->dirs;
}

size_t agent_host_count_running(const struct agent_host *host)
{
	size_t count = 0;
	list_for_each(link, &host->agents) {
		count += acp_agent_is_running(list_entry(link, struct hosted, link)->agent);
	}
	return count;
}

static bool is_busy(const struct hosted *hosted)
{
	return hosted && acp_agent_is_busy(hosted->agent);
}

bool agent_host_has_room(const struct agent_host *host, const struct session *session)
{
	size_t count = 0;
	list_for_each(link, &host->agents) {
		count += is_busy(list_entry(link, struct hosted, link));
	}
	return count < host->limits->agents || is_busy(session_host(session));
}

static void finish_if_empty(struct agent_host *host)
{
	if (host->done && !host->count) {
		host->done(host->done_arg);
	}
}

void agent_host_free(struct agent_host *host)
{
	for (size_t i = 0; i < host->list->count; i++) {
		agent_env_free(host->envs[i]);
		free(host->faults[i]);
	}
	free(host->envs);
	free(host->faults);
	agent_dirs_free(host->dirs);
	agent_traces_finish(host);
	free(host->private_dir);
	free(host);
}

static void handle_freed(void *arg)
{
	struct hosted *hosted = arg;
	struct agent_host *host = hosted->host;
	list_remove(&hosted->link);
	free(hosted->left_id);
	free(hosted);
	host->count--;
	finish_if_empty(host);
}

/** Ends the agent; nothing it says reaches the session any more. */
static void dismiss(struct hosted *hosted)
{
	session_set_host(hosted->session, NULL);
	agent_inputs_finish(&hosted->inputs);
	agent_history_stop(&hosted->history);
	prompt_content_cancel(hosted->reading);
	list_remove(&hosted->link);
	list_append(&hosted->host->leaving, &hosted->link);
	hosted->left_id = xstrdup(session_id(hosted->session));
	acp_agent_destroy(hosted->agent, handle_freed, hosted);
}

size_t agent_host_count(const struct agent_host *host)
{
	return host->count;
}

bool agent_host_is_leaving(const struct agent_host *host, const char *session_id)
{
	list_for_each(link, &host->leaving) {
		if (strcmp(list_entry(link, struct hosted, link)->left_id, session_id) == 0) {
			return true;
		}
	}
	return false;
}

void agent_host_destroy(struct agent_host *host, void (*done)(void *arg), void *arg)
{
	if (host->dirs) {
		agent_dirs_close(host->dirs);
	}
	host->done = done;
	host->done_arg = arg;
	list_for_each_safe(link, tmp, &host->agents) {
		struct hosted *hosted = list_entry(link, struct hosted, link);
		/*
		 * If prompts are queued, the turn is left open: the next start of the server ends
		 * it, and then they run. Ended here, it would start them while the server stops.
		 */
		if (session_agent_is_running(hosted->session) &&
			!session_queue_length(hosted->session)) {
			append_stopped(hosted, "server_stopped", NULL, "");
		}
		dismiss(hosted);
	}
	finish_if_empty(host);
}

struct hosted *hosted_of(struct agent_host *host, struct session *session)
{
	static const struct acp_agent_ops ops = {
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
	hosted->inputs.go_on = go_on;
	/* Without an entry, it exists only to report that the agent has stopped. */
	const struct agent_entry *entry = agent_host_agent(host, session);
	const char *cwd = agent_host_cwd(host, session);
	hosted->agent = acp_agent_create(host->loop,
		&(struct acp_agent_config){.command = entry ? entry->command : "",
			.cwd = cwd ? cwd : "/",
			.mcp_servers = entry ? entry->mcp_servers : NULL,
			.private_dir = host->private_dir,
			.env = entry ? host->envs[entry - host->list->entries] : NULL,
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
		&ops, hosted);
	acp_agent_pause(hosted->agent, host->paused);
	list_append(&host->agents, &hosted->link);
	host->count++;
	session_set_host(session, hosted);
	return hosted;
}

/* --- requests of sessions --- */

static void cancel_request(void *arg, const char *request_id)
{
	agent_inputs_withdraw(arg, request_id);
}

int agent_host_cancel(struct agent_host *host, struct session *session)
{
	bool starts = session_is_turn_of_prompt(session) && agent_host_agent(host, session) &&
		      server_may(host->life, MAY_RUN_AGENTS);
	struct hosted *hosted = starts ? hosted_of(host, session) : session_host(session);
	if (!hosted || !(session_is_turn_of_prompt(session) || hosted->late_turn)) {
		return -ESRCH;
	}
	session_each_permission(session, cancel_request, &hosted->inputs);
	/* If the prompt is not durable yet, the agent must never get it. */
	if (session_is_turn_of_prompt(session) && !hosted->is_at_work) {
		hosted->cancelled_turn = session_turn(session);
	}
	acp_agent_cancel(hosted->agent);
	return 0;
}

void agent_host_note_content(struct agent_host *host, struct session *session,
	const char *request_id, const json_t *content)
{
	struct hosted *hosted = session_host(session);
	if (hosted) {
		acp_agent_note_content(hosted->agent, request_id, content);
	}
}

void agent_host_answer(struct agent_host *host, struct session *session, const char *request_id,
	const char *option_id)
{
	struct hosted *hosted = session_host(session);
	if (hosted) {
		acp_agent_answer(hosted->agent, request_id, option_id);
	}
}

int agent_host_set(struct agent_host *host, struct session *session, const struct request *request,
	const struct author *author)
{
	enum acp_setting_kind kind = request->type == REQUEST_SET_MODE       ? ACP_SET_MODE
				     : request->type == REQUEST_SET_MODEL    ? ACP_SET_MODEL
				     : request->type == REQUEST_AUTHENTICATE ? ACP_LOG_IN
									     : ACP_SET_OPTION;
	if (!server_may(host->life, MAY_RUN_AGENTS)) {
		return 0; /* the server is stopping; clients are about to be disconnected */
	}
	struct hosted *hosted = hosted_of(host, session);
	hosted->is_over = hosted->is_over && kind != ACP_LOG_IN;
	return acp_agent_set(hosted->agent,
		&(struct acp_setting){.kind = kind,
			.id = request->setting.id,
			.value = kind == ACP_SET_OPTION ? request->setting.value : NULL,
			.by = author->client_id,
			.sub = author->sub});
}

void agent_host_forget(struct agent_host *host, struct session *session)
{
	struct hosted *hosted = session_host(session);
	if (hosted) {
		dismiss(hosted);
	}
}

void agent_host_recover(struct agent_host *host, struct session *session)
{
	if (!server_may(host->life, MAY_RUN_AGENTS) ||
		(!session_agent_is_running(session) && !session_is_turn_of_prompt(session))) {
		return;
	}
	/* A hosted agent is created because its inputs keep the event until it is stored. */
	struct hosted *gone = hosted_of(host, session);
	gone->is_over = host->has_over = gone->is_at_work = true;
	append_stopped(gone, "server_restart",
		"the server was restarted; the next prompt starts the agent again", "");
}

void agent_host_end_tick(struct agent_host *host)
{
	if (!host->has_over) {
		return;
	}
	host->has_over = false;
	list_for_each_safe(link, tmp, &host->agents) {
		struct hosted *hosted = list_entry(link, struct hosted, link);
		if (hosted->is_over && acp_agent_is_as_new(hosted->agent) &&
			list_empty(&hosted->inputs.kept)) {
			dismiss(hosted);
		} else {
			host->has_over = host->has_over || hosted->is_over;
		}
	}
}

void agent_host_retry(struct agent_host *host)
{
	if (!server_may(host->life, MAY_RUN_AGENTS)) {
		return;
	}
	list_for_each(link, &host->agents) {
		struct hosted *hosted = list_entry(link, struct hosted, link);
		agent_inputs_retry(&hosted->inputs);
		go_on(&hosted->inputs);
	}
}

void agent_host_pause(struct agent_host *host, bool paused)
{
	if (host->paused == paused) {
		return;
	}
	host->paused = paused;
	list_for_each(link, &host->agents) {
		struct hosted *hosted = list_entry(link, struct hosted, link);
		acp_agent_pause(hosted->agent, paused || agent_inputs_wait(&hosted->inputs));
	}
}
