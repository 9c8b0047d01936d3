#include "holdfast/relay.h"

#include "config_file.h"
#include "notify.h"
#include "relay_agents.h"
#include "relay_doors.h"
#include "relay_leave.h"
#include "relay_raw.h"
#include "relay_reload.h"
#include "relay_sandbox.h"
#include "relay_senders.h"
#include "relay_urls.h"
#include "relay_wait.h"

#include "holdfast/access.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"
#include "holdfast/node_placement.h"
#include "holdfast/raw.h"
#include "holdfast/server.h"
#include "holdfast/session.h"
#include "holdfast/session_elsewhere.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What several nodes add; NULL in a program without them. */
static const struct placement_ops *const placement =
	HOLDFAST_HAS_POSTGRES ? &node_placement_ops : NULL;
static const struct session_elsewhere_ops *const elsewhere =
	HOLDFAST_HAS_POSTGRES ? &session_elsewhere_ops : NULL;

/* How long a shutdown waits for sockets to take their close frames (ms). */
#define DRAIN_MS 300

struct relay {
	struct server_life life;
	const struct config *config;
	const struct limits *limits;
	uv_loop_t loop;
	struct clock clock;
	struct metrics *metrics;
	struct turns turns; /* shares the time for pages among all clients */
	struct session_table *sessions;
	struct agent_host *agents; /* NULL: built without agents */
	struct access *access; /* NULL: --auth off */
	struct relay_senders senders; /* all zero without them */
	struct raw_store *raw; /* NULL with --store */
	struct inherited_sockets inherited;
	struct door doors[RELAY_DOORS];
	struct server *server;
	uv_prepare_t prepare;
	uv_check_t check;
	struct loop_watch watch;
	uint64_t tick_ns; /* when the last tick ended */
	uint64_t tick_idle_ns; /* how long the loop had slept in all by then */
	uv_signal_t sigterm;
	uv_signal_t sigint;
	uv_signal_t sighup;
	struct notify *notify; /* NULL: no service manager */
	uint64_t seen_lsn; /* the last durable record when the watchdog last checked */
	struct reload reload;
	uv_timer_t drain;
	uv_timer_t give_up;
	struct relay_leave leave;
	struct relay_wait wait;
	bool failed; /* stopping because of an error: the exit code is 1 */
	bool store_failing; /* the journal cannot be written */
};

/* --- callbacks of sessions --- */

static void handle_prompt_due(void *owner, struct session *session, uint64_t seq,
	const char *message, size_t len, const struct json_t *content)
{
	struct agent_host *agents = ((struct relay *)owner)->agents;
	if (agents) {
		agents->ops->prompt(agents, session, message, len, content);
	}
}

static void handle_answered(
	void *owner, struct session *session, const char *request_id, const char *option_id)
{
	struct agent_host *agents = ((struct relay *)owner)->agents;
	if (agents) {
		agents->ops->answer(agents, session, request_id, option_id);
	}
}

static void handle_changed(void *owner, struct session *session)
{
	struct relay *relay = owner;
	if (relay->server) {
		server_session_changed(relay->server, session);
	}
	if (HOLDFAST_HAS_NOTIFY) {
		relay_senders_session_changed(&relay->senders, session);
	}
}

static void handle_deleted(void *owner, struct session *session)
{
	struct relay *relay = owner;
	server_session_deleted(relay->server, session);
	if (HOLDFAST_HAS_NOTIFY) {
		relay_senders_session_deleted(&relay->senders, session_id(session));
	}
}

static void handle_moved(void *owner, struct session *session)
{
	struct relay *relay = owner;
	if (relay->server) { /* NULL during the start: a slow one can lose sessions again */
		server_session_moved(relay->server, session);
	}
}

static void handle_host_lost(void *owner, struct session *session)
{
	struct agent_host *agents = ((struct relay *)owner)->agents;
	agents->ops->forget(agents, session); /* which is the session's host */
}

static void handle_elsewhere(
	void *owner, const char *id, const struct session_object *object, bool is_new)
{
	struct relay *relay = owner;
	if (relay->server) {
		server_session_elsewhere(relay->server, id, object, is_new);
	}
}

static void handle_store_failed(void *owner, int error)
{
	struct relay *relay = owner;
	bool is_database = relay->config->store;
	diag(DIAG_ERROR,
		"the %s cannot be written: %s. New events are refused until it can; everything acknowledged can still be read. Writing is retried: %s",
		is_database ? "database" : "journal",
		is_database && error == -EIO ? "it refuses, as said above" : strerror(-error),
		is_database ? "make room there, or see its log" : "make room, or fix the disk");
	relay->store_failing = true;
}

/** Ends the turn that recovery brought back, if there is one. */
static void recover_session(struct session *session, void *arg)
{
	relay_recover_turn(((struct relay *)arg)->agents, session);
}

static void handle_store_revived(void *owner)
{
	struct relay *relay = owner;
	diag(DIAG_INFO, "the %s can be written again",
		relay->config->store ? "database" : "journal");
	relay->store_failing = false;
	if (relay->agents) {
		relay->agents->ops->retry(relay->agents);
	}
}

static void handle_revoked(void *owner)
{
	server_grants_changed(((struct relay *)owner)->server);
}

static void handle_returned(void *owner, struct session *session)
{
	struct relay *relay = owner;
	recover_session(session, relay);
	if (HOLDFAST_HAS_NOTIFY) {
		webhooks_session_changed(relay->senders.webhooks, session);
	}
}

/* --- the end of a tick --- */

/** Ends a tick: all input has been added to the batch, and the loop is about to sleep. */
static void end_tick(struct relay *relay)
{
	session_table_end_tick(relay->sessions);
	relay_leave_tick(&relay->leave);
	bool behind = session_table_backlog(relay->sessions) > relay->limits->journal_backlog;
	if (relay->agents) {
		relay->agents->ops->end_tick(relay->agents,
			behind || relay->store_failing || !session_table_has_disk(relay->sessions));
	}
	server_end_tick(relay->server, behind);
	if (relay->raw) {
		raw_end_tick(relay->raw);
	}
}

/** Records how long the loop was busy since the last call: a client may have waited that long. */
static void note_lag(struct relay *relay)
{
	uint64_t now_ns = uv_hrtime();
	uint64_t idle_ns = uv_metrics_idle_time(&relay->loop);
	uint64_t busy_ns = (now_ns - relay->tick_ns) - (idle_ns - relay->tick_idle_ns);
	metrics_observe(relay->metrics, HISTOGRAM_LOOP_LAG_SECONDS, (double)busy_ns / 1e9);
	relay->tick_ns = now_ns;
	relay->tick_idle_ns = idle_ns;
}

static void handle_prepare(uv_prepare_t *handle)
{
	end_tick(handle->data);
	loop_note_sleep(handle->loop);
}

static void handle_check(uv_check_t *handle)
{
	loop_note_wake(handle->loop);
	turns_renew(&((struct relay *)handle->data)->turns); /* once in each turn of the loop */
	end_tick(handle->data);
	note_lag(handle->data);
}

/* --- shutdown --- */

static void stop_if_done(struct relay *relay)
{
	if (server_has_reached(&relay->life, SERVER_CLOSING) &&
		!uv_is_active((uv_handle_t *)&relay->drain)) {
		uv_stop(&relay->loop);
	}
}

static void handle_agents_gone(void *arg)
{
	struct relay *relay = arg;
	if (server_may(&relay->life, MAY_HAND_OVER)) { /* else time was up before they ended */
		session_table_hand_over(relay->sessions);
		stop_if_done(relay);
	}
}

static void handle_drained(uv_timer_t *timer)
{
	stop_if_done(timer->data);
}

/** Time is up: stops without waiting any longer for agents or their work on the disk. */
static void handle_give_up(uv_timer_t *timer)
{
	struct relay *relay = timer->data;
	if (!loop_put_off(timer, handle_give_up)) {
		uv_stop(&relay->loop);
	}
}

static void stop(struct relay *relay)
{
	server_reach(&relay->life, SERVER_DRAINING);
	notify_stopping(relay->notify);
	uv_timer_start(&relay->drain, handle_drained, DRAIN_MS, 0);
	uv_timer_start(&relay->give_up, handle_give_up, (uint64_t)relay->limits->drain_ms, 0);
	if (relay->agents) {
		relay->agents->ops->stop(relay->agents, session_table_is_shared(relay->sessions),
			handle_agents_gone, relay);
	} else {
		handle_agents_gone(relay);
	}
	server_drain(relay->server);
}

static void handle_signal(uv_signal_t *handle, int number)
{
	struct relay *relay = handle->data;
	if (!server_has_reached(&relay->life, SERVER_DRAINING)) {
		diag(DIAG_INFO, "stopping (SIG%s)", sigabbrev_np(number));
		stop(relay);
	}
}

/** Stops the server, which can neither start agents nor end them any more. */
static void handle_agents_lost(void *owner)
{
	struct relay *relay = owner;
	diag(DIAG_ERROR,
		"the process that starts agents is gone, or does not answer: the server stops, and its agents with it");
	relay->failed = true;
	if (!relay->server) { /* it waits for its database */
		server_reach(&relay->life, SERVER_DRAINING);
	} else if (!server_has_reached(&relay->life, SERVER_DRAINING)) {
		stop(relay);
	}
}

static void handle_hangup(uv_signal_t *handle, int number)
{
	struct relay *relay = handle->data;
	if (!isatty(STDERR_FILENO) && errno == EIO) { /* its terminal has been closed */
		handle_signal(handle, number);
	}
	if (server_has_reached(&relay->life, SERVER_DRAINING)) {
		return;
	}
	if (relay->config->tls_cert) {
		server_reload_keys(relay->server);
	}
	relay_reload(&relay->reload, &relay->loop, relay->config, relay->senders.webhooks);
}

/* --- building --- */

/** For the watchdog: false if the disk hangs. If writes fail, a restart would not help: true. */
static bool journal_gets_on(void *arg)
{
	struct relay *relay = arg;
	uint64_t synced = session_table_synced_lsn(relay->sessions);
	bool is_well = !session_table_backlog(relay->sessions) || synced != relay->seen_lsn ||
		       session_table_is_failing(relay->sessions);
	relay->seen_lsn = synced;
	return is_well;
}

static void start_handles(struct relay *relay)
{
	relay->notify = notify_create(&relay->loop, journal_gets_on, relay);
	uv_prepare_init(&relay->loop, &relay->prepare);
	uv_check_init(&relay->loop, &relay->check);
	uv_signal_init(&relay->loop, &relay->sigterm);
	uv_signal_init(&relay->loop, &relay->sigint);
	uv_signal_init(&relay->loop, &relay->sighup);
	uv_timer_init(&relay->loop, &relay->drain);
	uv_timer_init(&relay->loop, &relay->give_up);
	relay->prepare.data = relay->check.data = relay;
	relay->sigterm.data = relay->sigint.data = relay->sighup.data = relay->drain.data =
		relay->give_up.data = relay;
	loop_watch(&relay->loop, &relay->watch);
	uv_prepare_start(&relay->prepare, handle_prepare);
	uv_check_start(&relay->check, handle_check);
	uv_signal_start(&relay->sigterm, handle_signal, SIGTERM);
	uv_signal_start(&relay->sigint, handle_signal, SIGINT);
	uv_signal_start(&relay->sighup, handle_hangup, SIGHUP);
}

static int open_access(struct relay *relay, char **ret_why)
{
	const struct config *config = relay->config;
	if (config->auth_off) {
		return 0;
	}
	return access_open(&(struct access_config){.loop = &relay->loop,
				   .clock = &relay->clock,
				   .data_dir = config->data_dir,
				   .shelf = session_table_shelf(relay->sessions),
				   .secret_file = config->auth_secret,
				   .public_key_file = config->auth_public_key,
				   .issuer = config->auth_issuer,
				   .audience = config->auth_audience,
				   .revoked = handle_revoked,
				   .owner = relay},
		&relay->access, ret_why);
}

static int open_senders(struct relay *relay, char **ret_why)
{
	const struct relay_senders_config wanted = {.config = relay->config,
		.life = &relay->life,
		.loop = &relay->loop,
		.clock = &relay->clock,
		.metrics = relay->metrics,
		.access = relay->access,
		.sessions = relay->sessions};
	return HOLDFAST_HAS_NOTIFY ? relay_senders_open(&wanted, &relay->senders, ret_why) : 0;
}

static int open_agents(struct relay *relay, char **ret_why)
{
	return relay_open_agents(&(struct relay_agents_config){.life = &relay->life,
					 .loop = &relay->loop,
					 .config = relay->config,
					 .lost = handle_agents_lost,
					 .owner = relay},
		&relay->agents, ret_why);
}

/** See agent_host_ops.deadline; NULL: none. */
static atomic_llong *find_deadline(const struct relay *relay)
{
	return relay->agents ? relay->agents->ops->deadline(relay->agents) : NULL;
}

static const struct session_ops session_ops = {
	.prompt_due = handle_prompt_due,
	.answered = handle_answered,
	.changed = handle_changed,
	.deleted = handle_deleted,
	.moved = handle_moved,
	.host_lost = handle_host_lost,
	.elsewhere = handle_elsewhere,
	.store_failed = handle_store_failed,
	.store_revived = handle_store_revived,
	.returned = handle_returned,
};

static void make_server(struct relay *relay, char **ret_why)
{
	const struct config *config = relay->config;
	relay_list_doors(relay->doors, relay->senders.push, relay->raw);
	relay->server = server_create(
		&(struct server_config){.life = &relay->life,
			.loop = &relay->loop,
			.limits = relay->limits,
			.clock = &relay->clock,
			.listen = config->listen,
			.listen_count = config->listen_count,
			.inherited = &relay->inherited,
			.trust = &config->trust,
			.tls_cert = config->tls_cert,
			.tls_key = config->tls_key,
			.is_tls_off = config->tls_off,
			.is_compression_off = config->compression_off,
			.web_dir = config->web_dir,
			.highlight_dir = config->highlight_dir,
			.access = relay->access,
			.doors = relay->doors,
			.metrics = relay->metrics,
			.turns = &relay->turns,
			.sessions = relay->sessions,
			.placement = session_table_is_shared(relay->sessions) ? placement : NULL,
			.agents = relay->agents},
		ret_why);
}

static int open_rooms(struct relay *relay)
{
	const struct config *config = relay->config;
	char *why = NULL;
	relay->metrics = metrics_create();
	turns_init(&relay->turns, relay->limits->pages_ms);
	if (relay_make_data_dir(config, &why) == 0 && open_agents(relay, &why) == 0 &&
		session_table_open(&(struct session_table_config){.loop = &relay->loop,
					   .limits = relay->limits,
					   .clock = &relay->clock,
					   .metrics = relay->metrics,
					   .turns = &relay->turns,
					   .place = {.life = &relay->life,
						   .dir = config->data_dir,
						   .durability = config->durability,
						   .engine = config->engine,
						   .engine_arg = (void *)config->store,
						   .wait = relay_wait,
						   .wait_arg = &relay->wait,
						   .node_address = config->node_address,
						   .lease_end = find_deadline(relay)},
					   .ops = &session_ops,
					   .owner = relay,
					   .elsewhere = elsewhere},
			&relay->sessions, &why) == 0 &&
		open_access(relay, &why) == 0 && open_senders(relay, &why) == 0) {
		relay->raw = relay_open_raw(config, &relay->loop, &relay->clock, relay->sessions);
		make_server(relay, &why);
	}
	if (relay->server && config->auth_off && !server_is_loopback(relay->server)) {
		diag(DIAG_ERROR,
			"--auth off is for loopback and unix sockets only: anyone who reaches the server could run commands as you. Leave it out, or listen on 127.0.0.1");
		return -1;
	}
	if (relay->wait.is_stopped) {
		return -1;
	}
	if (!relay->server || relay_confine(config, &why) < 0) {
		diag(DIAG_ERROR, "%s", why ? why : "cannot start");
		free(why);
		return -1;
	}
	return 0;
}

static void ignore_gone(void *arg)
{
}

static void close_handles(struct relay *relay)
{
	notify_destroy(relay->notify);
	loop_watch(&relay->loop, NULL);
	uv_close((uv_handle_t *)&relay->prepare, NULL);
	uv_close((uv_handle_t *)&relay->check, NULL);
	uv_close((uv_handle_t *)&relay->sigterm, NULL);
	uv_close((uv_handle_t *)&relay->sigint, NULL);
	uv_close((uv_handle_t *)&relay->sighup, NULL);
	uv_close((uv_handle_t *)&relay->drain, NULL);
	uv_close((uv_handle_t *)&relay->give_up, NULL);
}

static bool is_over(void *arg)
{
	return !uv_loop_alive(arg);
}

/**
 * Returns whether everything is closed. A disk that does not answer can block a thread for ever:
 * then what it uses must not be freed, and only _exit() ends the process without waiting for it.
 */
static bool close_rooms(struct relay *relay)
{
	/* Of a start that was stopped, only an attempt to connect can be left. */
	int64_t ms = relay->wait.is_stopped ? DRAIN_MS : relay->limits->stop_wait_ms;
	return session_table_close(relay->sessions) &&
	       loop_run_until(&relay->loop, is_over, &relay->loop, ms);
}

int relay_run(const struct config *config)
{
	struct relay relay = {.config = config, .limits = &config->limits};
	relay.wait = (struct relay_wait){.loop = &relay.loop, .life = &relay.life};
	signal(SIGPIPE, SIG_IGN);
	inherited_take(&relay.inherited);
	relay_limit_process(&config->limits);
	relay_keep_heap();
	clock_init(&relay.clock);
	uv_loop_init(&relay.loop);
	uv_loop_configure(&relay.loop, UV_METRICS_IDLE_TIME);
	relay.tick_ns = uv_hrtime();
	int code = 1;
	bool opened = open_rooms(&relay) == 0;
	if (opened) {
		start_handles(&relay);
		relay_leave_init(&relay.leave, &relay.life, relay.agents, relay.sessions);
		session_table_each(relay.sessions, recover_session, &relay);
		relay_announce(config, relay.server, relay.access != NULL);
		notify_ready(relay.notify);
		server_reach(&relay.life, SERVER_SERVING);
		uv_run(&relay.loop, UV_RUN_DEFAULT);
		close_handles(&relay);
		code = relay.failed ? 1 : 0;
	} else {
		code = relay.wait.is_stopped ? 0 : 1;
		if (relay.agents) {
			relay.agents->ops->stop(relay.agents, false, ignore_gone, NULL);
		}
	}
	server_reach(&relay.life, SERVER_CLOSED);
	server_close(relay.server);
	raw_close(relay.raw);
	if (HOLDFAST_HAS_NOTIFY) {
		relay_senders_stop(&relay.senders);
	}
	access_stop(relay.access);
	if (!close_rooms(&relay)) {
		diag(DIAG_WARN,
			"a disk, a database or a name server does not answer; its work is abandoned");
		_exit(code);
	}
	if (relay.agents) {
		relay.agents->ops->destroy(relay.agents);
	}
	uv_run(&relay.loop, UV_RUN_DEFAULT);
	server_destroy(relay.server);
	if (HOLDFAST_HAS_NOTIFY) {
		relay_senders_destroy(&relay.senders);
	}
	access_close(relay.access);
	metrics_destroy(relay.metrics);
	if (uv_loop_close(&relay.loop) < 0) {
		diag(DIAG_DEBUG, "a handle was left open on the loop");
	}
	return code;
}
