/*
 * The server: creates and destroys it, and does what concerns all connections: the end of a tick,
 * sessions that change or move, and draining.
 */
#include "server/http_internal.h"
#include "placement_internal.h"

#include "holdfast/deflate.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* How often deadlines are checked (ms). */
#define SWEEP_MS 1000

static void handle_sweep(uv_timer_t *timer)
{
	struct server *server = timer->data;
	server->reads_first = !server->reads_first && loop_missed_ms(timer->loop);
	if (server->reads_first) {
		return; /* what would keep them may lie unread; the next sweep judges */
	}
	list_for_each_safe(link, tmp, &server->conns) {
		conn_sweep(list_entry(link, struct conn, link));
	}
	placement_sweep(server);
}

/** Only wakes the loop; server_end_tick() does the work. */
static void handle_again(uv_async_t *async)
{
}

static bool has_room(void *owner, int fd, const struct listen_kind *kind)
{
	return room_for_connection(owner, fd, kind);
}

static void handle_accepted(void *owner, int fd, const struct listen_kind *kind)
{
	const struct server *server = owner;
	if (server_may(server->life, MAY_ACCEPT)) {
		conn_create(owner, fd, kind);
	} else {
		close(fd);
	}
}

/**
 * Descriptors that sockets may have. The rest is for the store and the agents: log files, journal
 * segments, pipes.
 */
static size_t most_sockets(const struct limits *limits)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY) {
		return SIZE_MAX;
	}
	size_t all = (size_t)files.rlim_cur;
	size_t reserve = limits->descriptor_reserve;
	return all - (reserve > all / 2 ? all / 2 : reserve);
}

/** Refused connections get an eighth of that at most, which is returned; the others, what is left. */
static size_t share_sockets(struct server *server)
{
	size_t all = most_sockets(server->limits);
	size_t leaving = all / 8 < LISTEN_LEAVING_MAX ? all / 8 : LISTEN_LEAVING_MAX;
	leaving = leaving ? leaving : 1;
	size_t left = all > leaving ? all - leaving : 1;
	server->conn_max = server->limits->connections < left ? server->limits->connections : left;
	return leaving;
}

static char *copy_dir(const char *dir)
{
	return dir ? xstrdup(dir) : NULL;
}

static struct server *server_new(const struct server_config *config)
{
	struct server *server = xcalloc(1, sizeof(*server));
	ws_prepare();
	server->life = config->life;
	server->loop = config->loop;
	server->limits = config->limits;
	server->clock = config->clock;
	server->sessions = config->sessions;
	server->agents = config->agents;
	server->access = config->access;
	server->doors = config->doors;
	server->metrics = config->metrics;
	ws_show_closes(config->metrics);
	server->trust = config->trust;
	server->turns = config->turns;
	placement_create(server, config->placement);
	server->tls_cert = config->tls_cert;
	server->tls_key = config->tls_key;
	server->everyone = grant_create(ROLE_ADMIN, "");
	server->wrong = hash_create();
	list_init(&server->denied);
	server->deny_timer = xcalloc(1, sizeof(*server->deny_timer));
	uv_timer_init(config->loop, server->deny_timer);
	server->deny_timer->data = server;
	server->web_dir = copy_dir(config->web_dir);
	server->highlight_dir = copy_dir(config->web_dir ? config->highlight_dir : NULL);
	server->households = hash_create();
	list_init(&server->half_open);
	list_init(&server->slowed);
	server->slow_timer = xcalloc(1, sizeof(*server->slow_timer));
	uv_timer_init(config->loop, server->slow_timer);
	server->slow_timer->data = server;
	list_init(&server->conns);
	list_init(&server->feeds);
	list_init(&server->producers);
	list_init(&server->in_tick);
	list_init(&server->behind);
	list_init(&server->announced);
	list_init(&server->searches);
	list_init(&server->searches_waiting);
	server->changed = hash_create();
	server->feed_timer = xcalloc(1, sizeof(*server->feed_timer));
	server->sweep = xcalloc(1, sizeof(*server->sweep));
	server->again = xcalloc(1, sizeof(*server->again));
	uv_timer_init(config->loop, server->feed_timer);
	uv_timer_init(config->loop, server->sweep);
	uv_async_init(config->loop, server->again, handle_again);
	server->feed_timer->data = server->sweep->data = server;
	uv_timer_start(server->sweep, handle_sweep, SWEEP_MS, SWEEP_MS);
	return server;
}

struct server *server_create(const struct server_config *config, char **ret_why)
{
	struct server *server = server_new(config);
	size_t leaving_max = share_sockets(server);
	server->transport = transport_create(config->loop, config->limits->send_threads);
	server->deflater = config->is_compression_off ? NULL : deflater_create();
	if (server_load_keys(server, ret_why)) {
		server->listeners = listeners_create(
			&(struct listen_config){
				.loop = config->loop,
				.addresses = config->listen,
				.count = config->listen_count,
				.inherited = config->inherited,
				.has_keys = config->tls_cert,
				.is_tls_off = config->is_tls_off,
				.leaving_max = leaving_max,
				.accepted = handle_accepted,
				.has_room = has_room,
				.owner = server,
			},
			ret_why);
	}
	/* Last: it must not be closed while the store still has files (transport.h). */
	if (!server->listeners || transport_open(server->transport) < 0) {
		server_close(server);
		server_destroy(server);
		return NULL;
	}
	return server;
}

bool server_is_loopback(const struct server *server)
{
	return listeners_are_loopback(server->listeners);
}

void server_append_url(const struct server *server, size_t i, struct buffer *out)
{
	listeners_append_url(server->listeners, i, out);
}

void server_adopt(struct server *server, int fd)
{
	conn_create(server, fd, &(struct listen_kind){.is_loopback = true});
}

size_t server_connections(const struct server *server)
{
	return server->conn_count;
}

/** Takes the session from a connection. Returns false if the connection is of another one. */
static bool lose_session(struct conn *conn, const struct session *session, bool is_deleted)
{
	bool is_its = conn->session == session;
	if (conn->ops && conn->ops->session_lost) {
		conn->ops->session_lost(conn, session, is_deleted);
	}
	conn->session = is_its ? NULL : conn->session;
	return is_its;
}

void server_session_moved(struct server *server, struct session *session)
{
	struct refusal refusal = {0};
	refuse(&refusal, ERROR_shutting_down, SESSION_MOVED);
	list_for_each_safe(link, tmp, &server->conns) {
		struct conn *conn = list_entry(link, struct conn, link);
		if (!lose_session(conn, session, false)) {
			continue;
		}
		if (conn->ops) {
			conn_close(conn, 1001, SESSION_MOVED);
		} else {
			http_refuse_answer(conn, ANSWER_MOVED, &refusal);
		}
	}
}

void server_session_deleted(struct server *server, struct session *session)
{
	struct refusal refusal = {0};
	refuse(&refusal, ERROR_not_found, SESSION_DELETED);
	if (session_is_there(session)) {
		feed_tell_deleted(server, session_id(session));
	}
	list_for_each_safe(link, tmp, &server->conns) {
		struct conn *conn = list_entry(link, struct conn, link);
		if (!lose_session(conn, session, true) || !conn->http) {
			continue;
		}
		conn->http->is_nowhere = true;
		http_refuse_answer(conn, ANSWER_DELETED, &refusal);
	}
}

static void pause_producers(struct server *server, bool paused)
{
	if (server->is_paused == paused) {
		return;
	}
	server->is_paused = paused;
	if (paused) {
		metrics_limit(server->metrics, LIMIT_journal_backlog);
	}
	list_for_each_safe(link, tmp, &server->producers) {
		conn_update_flow(list_entry(link, struct conn, kind_link));
	}
}

void server_end_tick(struct server *server, bool is_behind)
{
	struct list due;
	pause_producers(server, is_behind);
	placement_begin_end_tick(server);
	list_init(&due);
	list_move_all(&due, &server->in_tick);
	while (!list_empty(&due)) {
		struct conn *conn = list_entry(due.next, struct conn, tick_link);
		list_remove(&conn->tick_link);
		conn_end_tick(conn);
	}
	placement_end_tick(server);
	transport_flush(server->transport);
	bool has_pages = server->turns && turns_go_on(server->turns);
	if (has_pages || !list_empty(&server->in_tick)) {
		uv_async_send(server->again); /* after other events */
	}
}

void server_drain(struct server *server)
{
	struct frame *draining = frame_draining(server->limits->drain_retry_ms);
	struct refusal refusal = {0};
	refuse(&refusal, ERROR_shutting_down, SHUTTING_DOWN);
	listeners_leave_inherited(server->listeners);
	list_for_each_safe(link, tmp, &server->conns) {
		struct conn *conn = list_entry(link, struct conn, link);
		if (conn->ops) {
			if (conn->sse && !conn->ops->is_one_answer) {
				sse_say_retry(conn, server->limits->drain_retry_ms);
			}
			conn_send_frame(conn, frame_ref(draining));
			conn_close(conn, 1001, "the server is shutting down");
		} else {
			http_refuse_answer(conn, ANSWER_DRAINED, &refusal);
		}
	}
	frame_unref(draining);
}

static void free_handle(uv_handle_t *handle)
{
	free(handle);
}

void server_close(struct server *server)
{
	if (!server) {
		return;
	}
	feed_forget(server);
	server_forget_keys(server);
	listeners_close(server->listeners);
	while (!list_empty(&server->conns)) {
		sock_close(&list_entry(server->conns.next, struct conn, link)->sock);
	}
	server_forget_searches(server);
	placement_destroy(server);
	uv_close((uv_handle_t *)server->feed_timer, free_handle);
	uv_close((uv_handle_t *)server->sweep, free_handle);
	uv_close((uv_handle_t *)server->deny_timer, free_handle);
	uv_close((uv_handle_t *)server->slow_timer, free_handle);
	uv_close((uv_handle_t *)server->again, free_handle);
}

void server_destroy(struct server *server)
{
	if (!server) {
		return;
	}
	transport_destroy(server->transport);
	deflater_destroy(server->deflater);
	hash_destroy_all(server->changed);
	hash_destroy(server->households);
	identity_finish(server);
	grant_unref(server->everyone);
	free(server->web_dir);
	free(server->highlight_dir);
	free(server);
}
