/* The lws context, and where its callbacks go: each case is one call. */
#include "net_internal.h"

#include "holdfast/diag.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* One write of ours is one write of lws's up to this size; what is larger it would copy first. */
#define WRITE_MAX ((size_t)8 * 1024 * 1024)

/*
 * lws_write's word for a close frame; it stands in lws's private header only (4, in 4.1 and later).
 */
#define WRITE_CLOSE ((enum lws_write_protocol)4)
/* How long a peer may take to answer our close frame. */
#define CLOSE_WAIT_SECS 2

static struct server *server_of(struct lws *wsi)
{
	return lws_context_user(lws_get_context(wsi));
}

/* --- upgrading --- */

static const char csp[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	"img-src 'self' data:; worker-src 'self'; base-uri 'none'; "
	"form-action 'none'; frame-ancestors 'none'";

/** A path's kind of socket; its session id is copied. NULL: there is no socket at this address. */
static const struct conn_ops *find_socket(const char *path, char id[129])
{
	static const char prefix[] = "/api/sessions/";
	id[0] = '\0';
	if (strcmp(path, "/api/events") == 0) {
		return &feed_conn_ops;
	}
	if (strncmp(path, prefix, sizeof(prefix) - 1) != 0) {
		return NULL;
	}
	const char *name = path + sizeof(prefix) - 1;
	size_t len = strcspn(name, "/");
	if (!session_id_is_valid(name, len)) {
		return NULL;
	}
	memcpy(id, name, len);
	id[len] = '\0';
	if (strcmp(name + len, "/ws") == 0) {
		return &observer_conn_ops;
	}
	return strcmp(name + len, "/produce") == 0 ? &producer_conn_ops : NULL;
}

static void copy_path(struct lws *wsi, char *path, size_t size)
{
	char *uri;
	int len;
	path[0] = '\0';
	if (lws_http_get_uri_and_method(wsi, &uri, &len) >= 0 && len > 0 && (size_t)len < size) {
		memcpy(path, uri, (size_t)len);
		path[len] = '\0';
	}
}

/** Answers an upgrade with an error, at once; the connection ends. */
static int refuse_upgrade(struct lws *wsi, unsigned status, const char *code, const char *message)
{
	struct buffer body = {0};
	struct buffer out = {0};
	buffer_printf(&body, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}", code, message);
	buffer_reserve(&out, LWS_PRE);
	out.len = LWS_PRE;
	buffer_printf(&out,
		"HTTP/1.1 %u %s\r\nserver: holdfast\r\ncontent-type: application/json\r\n"
		"content-length: %zu\r\nconnection: close\r\n\r\n",
		status,
		status == 403   ? "Forbidden"
		: status == 404 ? "Not Found"
				: "Service Unavailable",
		body.len);
	buffer_append(&out, body.data, body.len);
	lws_write(wsi, (unsigned char *)out.data + LWS_PRE, out.len - LWS_PRE, LWS_WRITE_HTTP);
	buffer_finish(&out);
	buffer_finish(&body);
	return -1;
}

static int confirm_upgrade(struct lws *wsi, const char *protocol)
{
	const struct server *server = server_of(wsi);
	char path[300];
	char id[129];
	copy_path(wsi, path, sizeof(path));
	const char *code = auth_check(server, wsi);
	if (code) {
		return refuse_upgrade(wsi, 403, code,
			strcmp(code, "forbidden_host") == 0
				? "this server answers to localhost and 127.0.0.1 only"
				: "a page of another site may not use this server");
	}
	if (strcmp(protocol, "websocket") != 0 || !find_socket(path, id)) {
		return refuse_upgrade(
			wsi, 404, "not_found", "there is no WebSocket at this address");
	}
	if (server->is_draining) {
		return refuse_upgrade(wsi, 503, "shutting_down", "the server is shutting down");
	}
	return 0;
}

static void make_client_id(struct conn *conn)
{
	unsigned char bytes[8];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		memcpy(bytes, &conn, sizeof(bytes));
	}
	for (size_t i = 0; i < sizeof(bytes); i++) {
		snprintf(conn->client_id + 2 * i, 3, "%02x", bytes[i]);
	}
}

/** The last look at the headers before the handshake is answered. */
static int begin_socket(struct lws *wsi, struct conn **slot)
{
	char path[300];
	copy_path(wsi, path, sizeof(path));
	struct conn *conn = *slot ? *slot : conn_create(server_of(wsi), wsi);
	*slot = conn;
	conn->ops = find_socket(path, conn->session_id);
	if (!conn->ops) {
		return -1;
	}
	make_client_id(conn);
	query_read_socket(conn);
	return 0;
}

/* --- messages --- */

static int receive(struct conn *conn, const char *bytes, size_t len)
{
	size_t max = conn->ops->is_producer ? conn->server->limits->body_size
					    : conn->server->limits->frame_size;
	if (conn->is_closing) {
		return 0;
	}
	if (lws_is_first_fragment(conn->wsi)) {
		buffer_clear(&conn->rx);
		conn->rx_too_large = false;
	}
	conn->rx_too_large = conn->rx_too_large || conn->rx.len + len > max;
	if (conn->rx_too_large) {
		struct refusal refusal = {.request = ""};
		refuse(&refusal, "too_large", "a frame may have at most %zu bytes", max);
		conn_send_refusal(conn, &refusal, NULL);
		conn_close(conn, 1009, "too_large");
		return 0;
	}
	buffer_append(&conn->rx, bytes, len);
	if (!lws_is_final_fragment(conn->wsi) || lws_remaining_packet_payload(conn->wsi)) {
		return 0;
	}
	if (lws_frame_is_binary(conn->wsi)) {
		struct refusal refusal = {.request = ""};
		refuse(&refusal, "bad_request", "frames are text, not binary");
		conn_send_refusal(conn, &refusal, NULL);
	} else {
		conn->ops->message(conn, buffer_cstr(&conn->rx), conn->rx.len);
	}
	if (conn->rx.cap > 4096) {
		buffer_finish(&conn->rx); /* an idle connection keeps no large buffer */
	}
	return 0;
}

/**
 * Sends the close frame ourselves and waits for the peer's. lws would do that after a callback that
 * returns -1, but Debian's 4.1.6 is a debug build that closes every libuv socket twice, and the
 * second time cuts it off before the frame has left.
 */
static int send_close(struct conn *conn)
{
	if (conn->close_sent || lws_partial_buffered(conn->wsi)) {
		return 0;
	}
	unsigned char frame[LWS_PRE + 125];
	size_t len = strlen(conn->close_reason);
	frame[LWS_PRE] = (unsigned char)(conn->close_code >> 8);
	frame[LWS_PRE + 1] = (unsigned char)conn->close_code;
	memcpy(frame + LWS_PRE + 2, conn->close_reason, len);
	conn->close_sent = true;
	lws_set_timeout(conn->wsi, PENDING_TIMEOUT_CLOSE_ACK, CLOSE_WAIT_SECS);
	return lws_write(conn->wsi, frame + LWS_PRE, len + 2, WRITE_CLOSE) < 0 ? -1 : 0;
}

static int socket_writable(struct conn *conn)
{
	if (!conn->is_closing) {
		conn->ops->writable(conn);
		return 0;
	}
	return conn->close_code ? send_close(conn) : -1;
}

/** The peer's close frame: if it answers ours, that is the end. */
static int handle_peer_close(struct conn *conn)
{
	return conn && conn->close_sent ? -1 : 0;
}

static int close_conn(struct conn **slot)
{
	if (*slot) {
		lws_set_opaque_user_data((*slot)->wsi, NULL);
		conn_destroy(*slot);
		*slot = NULL;
	}
	return 0;
}

/**
 * When a file cannot be served, lws 4.1.6 asks us (LWS_CALLBACK_HTTP) before it binds the
 * connection to a protocol, and then gives it another slot without a word about the one before.
 */
static int bind_conn(struct lws *wsi, struct conn **slot)
{
	if (slot && !*slot) {
		*slot = lws_get_opaque_user_data(wsi);
	}
	return 0;
}

static int handle_http(struct lws *wsi, struct conn **slot)
{
	if (!*slot) {
		*slot = conn_create(server_of(wsi), wsi);
		lws_set_opaque_user_data(wsi, *slot);
	}
	return http_handle_request(*slot);
}

static int callback(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct conn **slot = user;
	switch (reason) {
	case LWS_CALLBACK_HTTP:
		return handle_http(wsi, slot);
	case LWS_CALLBACK_HTTP_BIND_PROTOCOL:
		return bind_conn(wsi, slot);
	case LWS_CALLBACK_HTTP_BODY:
		return *slot ? http_handle_body(*slot, in, len) : 0;
	case LWS_CALLBACK_HTTP_BODY_COMPLETION:
		return *slot ? http_handle_body_end(*slot) : 0;
	case LWS_CALLBACK_HTTP_WRITEABLE:
		return *slot ? http_handle_writable(*slot) : 0;
	case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
		return confirm_upgrade(wsi, in);
	case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
		return begin_socket(wsi, slot);
	case LWS_CALLBACK_ESTABLISHED:
		(*slot)->ops->open(*slot);
		return 0;
	case LWS_CALLBACK_RECEIVE:
		return receive(*slot, in, len);
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return socket_writable(*slot);
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		return handle_peer_close(*slot);
	case LWS_CALLBACK_CLOSED:
	case LWS_CALLBACK_CLOSED_HTTP:
	case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
	case LWS_CALLBACK_WS_SERVER_DROP_PROTOCOL:
		return slot ? close_conn(slot) : 0;
	default:
		return lws_callback_http_dummy(wsi, reason, user, in, len);
	}
}

/* --- life --- */

static void set_headers(struct server *server)
{
	static const struct {
		const char *name;
		const char *value;
	} list[] = {
		{"content-security-policy:", csp},
		{"x-content-type-options:", "nosniff"},
		{"referrer-policy:", "no-referrer"},
		{"cache-control:", "no-cache"},
	};
	size_t count = sizeof(list) / sizeof(list[0]);
	for (size_t i = 0; i < count; i++) {
		server->headers[i] = (struct lws_protocol_vhost_options){
			.next = i + 1 < count ? &server->headers[i + 1] : NULL,
			.name = list[i].name,
			.value = list[i].value,
		};
	}
}

static void set_mounts(struct server *server, const char *web_dir, const char *highlight_dir)
{
	static const char name[] = "holdfast";
	struct lws_http_mount *api = &server->mounts[0];
	*api = (struct lws_http_mount){.mountpoint = "/api",
		.mountpoint_len = 4,
		.origin = name,
		.origin_protocol = LWSMPRO_CALLBACK};
	server->mounts[1] = *api;
	server->mounts[1].mountpoint = "/healthz";
	server->mounts[1].mountpoint_len = 8;
	api->mount_next = &server->mounts[1];
	if (web_dir) {
		static const struct lws_protocol_vhost_options types[] = {
			{&types[1], NULL, ".mjs", "text/javascript"},
			{&types[2], NULL, ".js", "text/javascript"},
			{&types[3], NULL, ".svg", "image/svg+xml"},
			{NULL, NULL, ".json", "application/json"},
		};
		snprintf(server->web_dir, sizeof(server->web_dir), "%s", web_dir);
		server->mounts[2] = (struct lws_http_mount){.mountpoint = "/",
			.mountpoint_len = 1,
			.origin = server->web_dir,
			.def = "index.html",
			.extra_mimetypes = types,
			.origin_protocol = LWSMPRO_FILE};
		server->mounts[1].mount_next = &server->mounts[2];
	}
	if (web_dir && highlight_dir) {
		static const char at[] = "/javascript/highlight.js";
		snprintf(server->highlight_dir, sizeof(server->highlight_dir), "%s", highlight_dir);
		server->mounts[3] = server->mounts[2];
		server->mounts[3].mountpoint = at;
		server->mounts[3].mountpoint_len = sizeof(at) - 1;
		server->mounts[3].origin = server->highlight_dir;
		server->mounts[2].mount_next = &server->mounts[3];
	}
}

static bool is_loopback_address(const char *host)
{
	struct in_addr v4;
	if (inet_pton(AF_INET, host, &v4) == 1) {
		return ntohl(v4.s_addr) >> 24 == 127;
	}
	return strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static void handle_lws_log(int level, const char *line)
{
	int len = (int)strcspn(line, "\n");
	diag(level & LLL_ERR ? DIAG_WARN : DIAG_DEBUG, "libwebsockets: %.*s", len, line);
}

static struct server *server_new(const struct server_config *config)
{
	struct server *server = xcalloc(1, sizeof(*server));
	server->loop = config->loop;
	server->limits = config->limits;
	server->clock = config->clock;
	server->sessions = config->sessions;
	server->agents = config->agents;
	server->is_loopback = is_loopback_address(config->host);
	list_init(&server->conns);
	list_init(&server->feeds);
	list_init(&server->producers);
	list_init(&server->turn);
	list_init(&server->announced);
	server->changed = hash_create();
	server->feed_timer = xcalloc(1, sizeof(*server->feed_timer));
	uv_timer_init(config->loop, server->feed_timer);
	server->feed_timer->data = server;
	server->protocols[0] = (struct lws_protocols){.name = "holdfast",
		.callback = callback,
		.per_session_data_size = sizeof(struct conn *),
		.rx_buffer_size = 2048,
		.tx_packet_size = WRITE_MAX};
	set_headers(server);
	set_mounts(server, config->web_dir, config->highlight_dir);
	return server;
}

struct server *server_create(const struct server_config *config, char **ret_why)
{
	lws_set_log_level(LLL_ERR | LLL_WARN, handle_lws_log);
	struct server *server = server_new(config);
	struct lws_context_creation_info info = {
		.port = CONTEXT_PORT_NO_LISTEN_SERVER,
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			   LWS_SERVER_OPTION_UV_NO_SIGSEGV_SIGFPE_SPIN,
		.foreign_loops = (void *[]){config->loop},
		.user = server,
		.gid = (gid_t)-1,
		.uid = (uid_t)-1,
	};
	server->context = lws_create_context(&info);
	info.options = LWS_SERVER_OPTION_LIBUV;
	info.port = config->port;
	info.iface = config->host;
	info.vhost_name = "holdfast";
	info.protocols = server->protocols;
	info.mounts = server->mounts;
	info.headers = server->headers;
	info.keepalive_timeout = 30;
	server->vhost = server->context ? lws_create_vhost(server->context, &info) : NULL;
	if (!server->vhost || lws_get_vhost_listen_port(server->vhost) <= 0) {
		if (asprintf(ret_why,
			    "cannot listen on %s:%d; is the port taken? --listen %s:0 takes a free "
			    "one",
			    config->host, config->port, config->host) < 0) {
			*ret_why = NULL;
		}
		server_close(server);
		/*
		 * With the context goes lws's code for this loop: no close callback of it may be
		 * due then, and one of them closes the next handle.
		 */
		uv_run(config->loop, UV_RUN_NOWAIT);
		uv_run(config->loop, UV_RUN_NOWAIT);
		server_destroy(server);
		return NULL;
	}
	return server;
}

int server_port(const struct server *server)
{
	return lws_get_vhost_listen_port(server->vhost);
}

void server_session_deleted(struct server *server, struct session *session)
{
	bool was_there = session_is_there(session);
	struct buffer data = {0};
	buffer_append_str(&data, "{\"session_id\":");
	buffer_append_json(&data, session_id(session), strlen(session_id(session)));
	buffer_append_char(&data, '}');
	if (was_there) {
		feed_broadcast(server, "session_deleted", data.data, data.len);
	}
	buffer_finish(&data);
	list_for_each_safe(link, tmp, &server->conns) {
		struct conn *conn = list_entry(link, struct conn, link);
		if (conn->session != session) {
			continue;
		}
		conn->session = NULL;
		if (conn->ops && conn->ops->is_producer && !was_there && conn->may_create) {
			continue; /* it could not be made: the next append tries it again */
		}
		if (conn->ops && conn->ops->is_producer) {
			conn_send(conn, frame_session_gone(session_id(session), "deleted"));
			conn_close(conn, 4404, "deleted");
		} else if (conn->stream) {
			struct refusal refusal = {0};
			refuse(&refusal, "not_found", "the session has been deleted");
			http_stream_fail(conn, &refusal);
		}
	}
}

static void pause_producers(struct server *server, bool paused)
{
	if (server->is_paused == paused) {
		return;
	}
	server->is_paused = paused;
	list_for_each_safe(link, tmp, &server->producers) {
		conn_update_flow(list_entry(link, struct conn, kind_link));
	}
}

void server_end_turn(struct server *server, bool is_behind)
{
	pause_producers(server, is_behind);
	while (!list_empty(&server->turn)) {
		struct conn *conn = list_entry(server->turn.next, struct conn, turn_link);
		list_remove(&conn->turn_link);
		conn_end_turn(conn);
	}
}

void server_drain(struct server *server)
{
	server->is_draining = true;
	list_for_each_safe(link, tmp, &server->conns) {
		struct conn *conn = list_entry(link, struct conn, link);
		if (conn->ops) {
			conn_close(conn, 1001, "the server is shutting down");
		} else if (conn->stream) {
			struct refusal refusal = {0};
			refuse(&refusal, "shutting_down",
				"the server is shutting down; send what follows again in a moment");
			http_stream_fail(conn, &refusal);
		}
	}
}

static void free_timer(uv_handle_t *handle)
{
	free(handle);
}

static void free_id(void *value, void *arg)
{
	free(value);
}

void server_close(struct server *server)
{
	if (!server) {
		return;
	}
	feed_forget(server);
	if (server->context) {
		lws_context_destroy(server->context);
	}
	uv_close((uv_handle_t *)server->feed_timer, free_timer);
	while (!list_empty(&server->conns) && uv_run(server->loop, UV_RUN_ONCE)) {
	}
}

void server_destroy(struct server *server)
{
	if (!server) {
		return;
	}
	if (server->context) {
		/*
		 * On a foreign loop lws frees the context with the second call, once its handles
		 * are closed.
		 */
		lws_context_destroy(server->context);
	}
	hash_each(server->changed, free_id, NULL);
	hash_destroy(server->changed);
	free(server);
}
