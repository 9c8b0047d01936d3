#include "acp_host_internal.h"

#include "agents/acp/acp_agent.h"
#include "holdfast/agent_files.h"
#include "agent_command.h"
#include "holdfast/agent_env.h"
#include "holdfast/descriptors.h"
#include "holdfast/diag.h"
#include "holdfast/intake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- lifecycle --- */

/** The thread of directories begins with the first job. */
static struct agent_dirs_job *query_dirs(struct agent_host *base,
	const struct agent_dirs_query *query, agent_dirs_done *done, void *arg)
{
	struct acp_host *host = acp_host_of(base);
	if (!host->dirs) {
		host->dirs = agent_dirs_create(host->loop, host->private_dir);
	}
	return agent_dirs_query(host->dirs, query, done, arg);
}

static size_t count_running(const struct agent_host *base)
{
	size_t count = 0;
	list_for_each(link, &acp_host_of(base)->agents) {
		count += acp_agent_is_running(list_entry(link, struct hosted, link)->agent);
	}
	return count;
}

static bool is_busy(const struct hosted *hosted)
{
	return hosted && acp_agent_is_busy(hosted->agent);
}

bool acp_host_has_room(const struct agent_host *base, const struct session *session)
{
	const struct acp_host *host = acp_host_of(base);
	size_t count = 0;
	list_for_each(link, &host->agents) {
		count += is_busy(list_entry(link, struct hosted, link));
	}
	return count < host->limits->agents || is_busy(session_host(session));
}

static void finish_if_empty(struct acp_host *host)
{
	if (host->done && !host->count) {
		host->done(host->done_arg);
	}
}

static void destroy(struct agent_host *base)
{
	struct acp_host *host = acp_host_of(base);
	for (size_t i = 0; i < host->list->count; i++) {
		agent_env_free(host->envs[i]);
		free((char *)host->offers[i].fault);
	}
	free(host->envs);
	free(host->offers);
	agent_dirs_free(host->dirs);
	agent_traces_finish(host);
	spawner_close(host->spawner);
	sandbox_finish(&host->sandbox);
	free(host->cgroup);
	free(host->private_dir);
	free(host);
}

static void handle_freed(void *arg)
{
	struct hosted *hosted = arg;
	struct acp_host *host = hosted->host;
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

static size_t count(const struct agent_host *base)
{
	return acp_host_of(base)->count;
}

static bool is_leaving(const struct agent_host *base, const char *session_id)
{
	list_for_each(link, &acp_host_of(base)->leaving) {
		if (strcmp(list_entry(link, struct hosted, link)->left_id, session_id) == 0) {
			return true;
		}
	}
	return false;
}

static atomic_llong *deadline(const struct agent_host *base)
{
	return spawner_deadline(acp_host_of(base)->spawner);
}

static void stop(struct agent_host *base, bool is_waited_for, void (*done)(void *arg), void *arg)
{
	struct acp_host *host = acp_host_of(base);
	if (is_waited_for) {
		spawner_shorten_grace(host->spawner, host->limits->agent_hand_over_ms);
	}
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
			hosted_append_stopped(hosted, "server_stopped", NULL, "");
		}
		dismiss(hosted);
	}
	finish_if_empty(host);
}

/* --- requests of sessions --- */

static void cancel_request(void *arg, const char *request_id)
{
	agent_inputs_withdraw(arg, request_id);
}

static int cancel(struct agent_host *base, struct session *session)
{
	struct acp_host *host = acp_host_of(base);
	bool starts = session_is_turn_of_prompt(session) && agent_host_agent(base, session) &&
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

static void record_content(struct agent_host *base, struct session *session, const char *request_id,
	const json_t *content)
{
	struct hosted *hosted = session_host(session);
	if (hosted) {
		acp_agent_record_content(hosted->agent, request_id, content);
	}
}

static void answer(struct agent_host *base, struct session *session, const char *request_id,
	const char *option_id)
{
	struct hosted *hosted = session_host(session);
	if (hosted) {
		acp_agent_answer(hosted->agent, request_id, option_id);
	}
}

static int set(struct agent_host *base, struct session *session, const struct request *request,
	const struct author *author)
{
	struct acp_host *host = acp_host_of(base);
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

static void forget(struct agent_host *base, struct session *session)
{
	struct hosted *hosted = session_host(session);
	if (hosted) {
		dismiss(hosted);
	}
}

static void recover(struct agent_host *base, struct session *session)
{
	struct acp_host *host = acp_host_of(base);
	if (!server_may(host->life, MAY_RUN_AGENTS) ||
		(!session_agent_is_running(session) && !session_is_turn_of_prompt(session))) {
		return;
	}
	/* A hosted agent is created because its inputs keep the event until it is stored. */
	struct hosted *gone = hosted_of(host, session);
	gone->is_over = host->has_over = gone->is_at_work = true;
	hosted_append_stopped(gone, "server_restart",
		"the server was restarted; the next prompt starts the agent again", "");
}

/** Stops reading from all agents, or resumes it. */
static void pause_all(struct acp_host *host, bool paused)
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

static void end_tick(struct agent_host *base, bool is_behind)
{
	struct acp_host *host = acp_host_of(base);
	pause_all(host, is_behind);
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

static void retry(struct agent_host *base)
{
	struct acp_host *host = acp_host_of(base);
	if (!server_may(host->life, MAY_RUN_AGENTS)) {
		return;
	}
	list_for_each(link, &host->agents) {
		struct hosted *hosted = list_entry(link, struct hosted, link);
		agent_inputs_retry(&hosted->inputs);
		hosted_go_on(&hosted->inputs);
	}
}

/* --- creating it --- */

/** Fills in what the server offers; the strings are those of the list, which outlives it. */
static struct agent_offer make_offer(const struct agent_entry *entry, char *const *env)
{
	char *fault = agent_command_fault(entry->command, entry->roots[0], env);
	if (fault) {
		diag(DIAG_WARN, "the agent \"%s\" cannot be started: %s", entry->name, fault);
	}
	return (struct agent_offer){.name = entry->name,
		.title = entry->title,
		.roots = entry->roots,
		.fault = fault,
		.is_demo = entry->is_demo};
}

static const struct agent_host_ops ops = {
	.has_room = acp_host_has_room,
	.accepts = hosted_accepts,
	.record_trace = agent_traces_record,
	.record_content = record_content,
	.cancel = cancel,
	.set = set,
	.query_dirs = query_dirs,
	.cancel_dirs = agent_dirs_cancel,
	.count_running = count_running,
	.prompt = hosted_prompt,
	.answer = answer,
	.forget = forget,
	.recover = recover,
	.end_tick = end_tick,
	.retry = retry,
	.count = count,
	.is_leaving = is_leaving,
	.deadline = deadline,
	.stop = stop,
	.destroy = destroy,
};

/** Returns 0 or a negative errno. */
static int start_spawner(struct acp_host *host, const struct acp_host_config *config)
{
	bool has_proc = access("/proc/self/exe", X_OK) == 0;
	const struct spawner_config wanted = {.is_program = has_proc,
		.has_guards = has_proc,
		.rules = &host->box,
		.has_deadline = has_proc && config->has_deadline,
		.helper = AGENT_FILES_COMMAND};
	return host->list->count ? spawner_create(host->loop, &wanted, config->lost, config->owner,
					   &host->spawner)
				 : 0;
}

static void list_offers(struct acp_host *host, char *const *env)
{
	size_t count = host->list->count;
	host->envs = xcalloc(count + 1, sizeof(*host->envs));
	host->offers = xcalloc(count + 1, sizeof(*host->offers));
	for (size_t i = 0; i < count; i++) {
		const struct agent_entry *entry = &host->list->entries[i];
		host->envs[i] = agent_entry_env(entry, environ, env);
		host->offers[i] = make_offer(entry, host->envs[i]);
	}
	host->base = (struct agent_host){.ops = &ops,
		.offers = host->offers,
		.offer_count = count,
		.is_named = host->list->is_named};
}

int acp_host_create(const struct acp_host_config *config, struct agent_host **ret, char **ret_why)
{
	struct acp_host *host = xcalloc(1, sizeof(*host));
	host->life = config->life;
	host->loop = config->loop;
	host->limits = config->limits;
	host->list = config->list;
	host->private_dir = config->private_dir ? xstrdup(config->private_dir) : NULL;
	host->cgroup = config->cgroup;
	host->sandbox = config->sandbox;
	host->box = (struct box_rules){.memory_max = host->limits->agent_memory,
		.processes_max = host->limits->agent_processes,
		.cgroup = host->cgroup,
		.sandbox = host->sandbox.tmp ? &host->sandbox : NULL};
	list_init(&host->agents);
	list_init(&host->leaving);
	list_init(&host->traces);
	int err = start_spawner(host, config);
	list_offers(host, config->env);
	if (err < 0) {
		*ret_why = xprintf(
			"the process that starts agents cannot be started: %s", strerror(-err));
		destroy(&host->base);
		return -1;
	}
	*ret = &host->base;
	return 0;
}
