#include "transport.h"

#include "server/listen/peer.h"
#include "server/tls/tls.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/http_head.h"
#include "holdfast/send_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <libwebsockets.h>
#include <linux/close_range.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Up to this size lws sends a write as it is; it would copy a larger one first. */
#define WRITE_MAX ((size_t)8 * 1024 * 1024)
/* Most bytes read from a socket at a time. */
#define READ_MAX ((size_t)64 * 1024)
/* Most bytes encrypted at a time; larger TLS buffers are freed after use. */
#define TLS_PIECE ((size_t)256 * 1024)

/*
 * Gathered writes that force a flush; SEND_RING_SIZE if the loop sends alone, as one call takes no
 * more.
 */
#define GATHERED_MAX 1024

/* Turns of the loop in which lws closes its handles; it takes two. */
#define CLOSING_TURNS 8

static const char protocol_name[] = "holdfast";

/** One pending sock_write_later(), besides its send_job. */
struct gathered {
	struct sock *sock; /* NULL: closed meanwhile */
	void (*done)(void *arg);
	void *arg;
};

struct transport {
	uv_loop_t *loop;
	struct lws_context *context; /* NULL: not open */
	struct lws_vhost *vhost;
	struct lws_protocols protocols[2];
	struct tls_engine *tls;
	struct buffer plain; /* decrypted bytes, valid while the owner handles them */
	struct send_pool *pool;
	struct send_job jobs[GATHERED_MAX];
	struct gathered gathered[GATHERED_MAX];
	size_t gathered_count;
	size_t gathered_max;
};

static void apply_flow(struct sock *sock)
{
	bool is_stopped = sock->is_paused || lws_partial_buffered(sock->wsi);
	if (is_stopped != sock->is_stopped) { /* a change costs system calls */
		sock->is_stopped = is_stopped;
		lws_rx_flow_control(sock->wsi, !is_stopped);
	}
	if (sock->has_ended && !sock->is_paused) {
		sock->has_ended = false;
		sock->ops->ended(sock);
	}
}

/**
 * Updates sock.kept after `more` bytes were passed to lws. lws reports only when everything has
 * left: until then all bytes count.
 */
static void note_kept(struct sock *sock, size_t more)
{
	size_t kept = lws_partial_buffered(sock->wsi) ? sock->kept + more : 0;
	if (kept != sock->kept) {
		sock->kept = kept;
		sock->ops->kept(sock);
	}
}

/* --- TLS --- */

/** Sends a socket's gathered writes before anything else is done to it. */
static void flush_first(struct sock *sock)
{
	if (sock->is_gathered) {
		transport_flush(sock->transport);
	}
}

static int write_raw(struct sock *sock, const void *bytes, size_t len)
{
	flush_first(sock);
	/* lws takes a pointer to non-const, but does not change the bytes of a raw socket. */
	if (lws_write(sock->wsi, (unsigned char *)bytes, len, LWS_WRITE_RAW) < 0) {
		return -EIO;
	}
	note_kept(sock, len);
	return 0;
}

/** Sends the bytes that TLS has produced. */
static int flush_tls(struct sock *sock)
{
	struct buffer *out = tls_out(sock->transport->tls);
	int r = out->len ? write_raw(sock, out->data, out->len) : 0;
	if (out->cap > 2 * TLS_PIECE) {
		buffer_finish(out);
	}
	buffer_clear(out);
	return r;
}

static int write_tls(struct sock *sock, const char *bytes, size_t len)
{
	int r = 0;
	while (len && r == 0) {
		size_t n = len < TLS_PIECE ? len : TLS_PIECE;
		r = tls_write(sock->tls, bytes, n);
		r = r < 0 ? r : flush_tls(sock);
		bytes += n;
		len -= n;
	}
	return r;
}

/** Answers plain HTTP on a TLS port; a browser shows the message. */
static void answer_http(struct sock *sock)
{
	struct buffer answer = {0};
	buffer_append_str(&answer, "HTTP/1.1 400 Bad Request\r\nserver: holdfast\r\n");
	http_append_date(&answer, (int64_t)time(NULL) * 1000);
	buffer_append_str(&answer,
		"content-type: application/json\r\ncontent-length: 92\r\nconnection: close\r\n\r\n"
		"{\"error\":{\"code\":\"bad_request\",\"message\":"
		"\"this address speaks TLS: use https:// or wss://\"}}");
	write_raw(sock, answer.data, answer.len);
	buffer_finish(&answer);
}

/**
 * Decrypts everything that can be, because the kernel does not report bytes buffered in OpenSSL. If
 * the peer has ended its side, the owner is told when it wants to read more, as with a FIN.
 */
static void receive_tls(struct sock *sock, const char *bytes, size_t len)
{
	struct transport *transport = sock->transport;
	buffer_clear(&transport->plain);
	int r = tls_take(transport->tls, sock->tls, bytes, len, &transport->plain);
	if (r == -EPROTONOSUPPORT) {
		buffer_clear(tls_out(transport->tls)); /* an alert, which the peer could not read */
		answer_http(sock);
	}
	flush_tls(sock);
	apply_flow(sock);
	if (transport->plain.len) {
		sock->ops->received(sock, transport->plain.data, transport->plain.len);
	}
	if (transport->plain.cap > 2 * TLS_PIECE) {
		buffer_finish(&transport->plain);
	}
	if (r < 0) {
		sock->has_ended = true;
		sock->is_paused = sock->is_paused && r == -ECONNRESET;
		apply_flow(sock);
	}
}

static void handle_received(struct sock *sock, char *bytes, size_t len)
{
	if (sock->tls) {
		receive_tls(sock, bytes, len);
	} else {
		sock->ops->received(sock, bytes, len);
	}
}

static void handle_writable(struct sock *sock)
{
	apply_flow(sock);
	note_kept(sock, 0);
	if (sock->wants_fin && !lws_partial_buffered(sock->wsi)) {
		sock->wants_fin = false;
		shutdown(lws_get_socket_fd(sock->wsi), SHUT_WR);
	}
	sock->ops->writable(sock);
}

/**
 * The descriptor is about to be closed, so no thread may still send to it: flushes, without
 * reporting the result to the owner.
 */
static void forget_gathered(struct sock *sock)
{
	struct transport *transport = sock->transport;
	if (!sock->is_gathered) {
		return;
	}
	size_t i = 0;
	while (transport->gathered[i].sock != sock) {
		i++;
	}
	transport->gathered[i].sock = NULL;
	sock->is_gathered = false;
	transport_flush(transport);
}

static void handle_closed(struct sock *sock)
{
	forget_gathered(sock);
	sock->wsi = NULL;
	tls_destroy(sock->tls);
	sock->tls = NULL;
	if (!sock->is_adopting) {
		sock->ops->closed(sock);
	}
}

/** lws makes a few calls before a socket has its owner; they are ignored. */
static int callback(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct sock *sock = wsi ? lws_get_opaque_user_data(wsi) : NULL;
	if (!sock) {
		return 0;
	}
	switch (reason) {
	case LWS_CALLBACK_RAW_RX:
		handle_received(sock, in, len);
		return 0;
	case LWS_CALLBACK_RAW_WRITEABLE:
		handle_writable(sock);
		return 0;
	case LWS_CALLBACK_RAW_CLOSE:
		lws_set_opaque_user_data(wsi, NULL);
		handle_closed(sock);
		return 0;
	default:
		return 0;
	}
}

/** Logs at debug level: callers report failures themselves, and lws's text only helps to debug. */
static void handle_lws_log(int level, const char *line)
{
	int len = (int)strcspn(line, "\n");
	diag(DIAG_DEBUG, "libwebsockets: %.*s", len, line);
}

struct transport *transport_create(uv_loop_t *loop, size_t send_threads)
{
	struct transport *transport = xcalloc(1, sizeof(*transport));
	transport->loop = loop;
	transport->tls = tls_engine_create();
	transport->pool = send_pool_create(send_threads);
	transport->gathered_max =
		send_pool_threads(transport->pool) > 1 ? GATHERED_MAX : SEND_RING_SIZE;
	transport->protocols[0] = (struct lws_protocols){
		.name = protocol_name, .callback = callback, .tx_packet_size = WRITE_MAX};
	return transport;
}

static void note_handle(uv_handle_t *handle, void *arg)
{
	buffer_append(arg, &handle, sizeof(handle));
}

/** `arg`: the handles that are not those of lws. */
static void unref_handle(uv_handle_t *handle, void *arg)
{
	const struct buffer *others = arg;
	for (size_t at = 0; at < others->len; at += sizeof(handle)) {
		if (memcmp(others->data + at, &handle, sizeof(handle)) == 0) {
			return;
		}
	}
	uv_unref(handle);
}

int transport_open(struct transport *transport)
{
	struct buffer others = {0};
	uv_walk(transport->loop, note_handle, &others);
	lws_set_log_level(LLL_ERR | LLL_WARN, handle_lws_log);
	struct lws_context_creation_info info = {
		.port = CONTEXT_PORT_NO_LISTEN,
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			   LWS_SERVER_OPTION_UV_NO_SIGSEGV_SIGFPE_SPIN,
		.foreign_loops = (void *[]){transport->loop},
		.pt_serv_buf_size = READ_MAX,
		.gid = (gid_t)-1,
		.uid = (uid_t)-1,
	};
	transport->context = lws_create_context(&info);
	/* Newer versions of lws (Debian 13) open a netlink socket without close-on-exec. */
	close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	info.vhost_name = protocol_name;
	info.protocols = transport->protocols;
	info.options = LWS_SERVER_OPTION_LIBUV;
	info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
	transport->vhost = transport->context ? lws_create_vhost(transport->context, &info) : NULL;
	uv_walk(transport->loop, unref_handle, &others);
	buffer_finish(&others);
	return transport->vhost ? 0 : -EIO;
}

/* --- the end --- */

static void note_descriptor(uv_handle_t *handle, void *arg)
{
	uv_os_fd_t fd;
	if (handle->type == UV_POLL && uv_fileno(handle, &fd) == 0) {
		buffer_append(arg, &fd, sizeof(fd));
	}
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/**
 * lws 4.1.6 closes the descriptor of its event pipe, and once more when the handle has closed. In
 * between, the number is kept in use, so that the second close hits nothing else.
 */
static void close_context(struct transport *transport)
{
	struct buffer noted = {0};
	uv_walk(transport->loop, note_descriptor, &noted);
	lws_context_destroy(transport->context);
	int *fds = (int *)noted.data;
	size_t count = noted.len / sizeof(*fds);
	size_t held = 0;
	for (size_t i = 0; i < count; i++) {
		if (!is_open(fds[i]) && dup3(STDERR_FILENO, fds[i], O_CLOEXEC) >= 0) {
			fds[held++] = fds[i];
		}
	}
	for (int i = 0; i < CLOSING_TURNS && uv_loop_alive(transport->loop); i++) {
		uv_run(transport->loop, UV_RUN_NOWAIT);
	}
	for (size_t i = 0; i < held; i++) {
		if (is_open(fds[i])) { /* lws did not close it again */
			close(fds[i]);
		}
	}
	buffer_finish(&noted);
	lws_context_destroy(transport->context);
}

void transport_destroy(struct transport *transport)
{
	if (!transport) {
		return;
	}
	if (transport->context) {
		close_context(transport);
	}
	tls_engine_destroy(transport->tls);
	send_pool_destroy(transport->pool);
	buffer_finish(&transport->plain);
	free(transport);
}

void transport_use_keys(struct transport *transport, struct ssl_ctx_st *keys)
{
	tls_engine_use(transport->tls, keys);
}

int transport_adopt(struct transport *transport, struct sock *sock, const struct transport_ops *ops,
	int fd, bool is_tls)
{
	*sock = (struct sock){.transport = transport, .ops = ops, .is_adopting = true};
	lws_adopt_desc_t desc = {
		.vh = transport->vhost,
		.type = LWS_ADOPT_SOCKET,
		.fd = {.sockfd = fd},
		.vh_prot_name = protocol_name,
		.opaque = sock,
	};
	sock->wsi = lws_adopt_descriptor_vhost_via_info(&desc);
	sock->is_adopting = false;
	sock->tls = sock->wsi && is_tls ? tls_create(transport->tls) : NULL;
	return sock->wsi ? 0 : -EIO;
}

/** Passes what the kernel did not take to lws, which keeps it. */
static void finish_send(struct sock *sock, const struct send_job *job)
{
	size_t sent = job->result > 0 ? (size_t)job->result : 0;
	bool is_broken = job->result < 0 && job->result != -EAGAIN;
	sock->is_gathered = false;
	if (!is_broken && sent < job->len) {
		is_broken = write_raw(sock, (const char *)job->bytes + sent, job->len - sent) < 0;
		apply_flow(sock);
	}
	if (is_broken) {
		sock->ops->broken(sock);
	}
}

void transport_flush(struct transport *transport)
{
	size_t count = transport->gathered_count;
	transport->gathered_count = 0;
	send_pool_send(transport->pool, transport->jobs, count);
	for (size_t i = 0; i < count; i++) {
		struct gathered *gathered = &transport->gathered[i];
		if (gathered->sock) {
			finish_send(gathered->sock, &transport->jobs[i]);
		}
		gathered->done(gathered->arg);
	}
}

static void gather(
	struct sock *sock, const void *bytes, size_t len, void (*done)(void *arg), void *arg)
{
	struct transport *transport = sock->transport;
	if (transport->gathered_count == transport->gathered_max) {
		transport_flush(transport);
	}
	size_t i = transport->gathered_count++;
	transport->jobs[i] =
		(struct send_job){.fd = lws_get_socket_fd(sock->wsi), .bytes = bytes, .len = len};
	transport->gathered[i] = (struct gathered){.sock = sock, .done = done, .arg = arg};
	sock->is_gathered = true;
	send_pool_begin(transport->pool, transport->jobs, transport->gathered_count);
}

/** Encrypts the bytes and gathers a copy of the result. */
static int gather_tls(struct sock *sock, const void *bytes, size_t len)
{
	struct buffer *out = tls_out(sock->transport->tls);
	int r = tls_write(sock->tls, bytes, len);
	if (r == 0) {
		struct buffer copy = {0};
		buffer_append(&copy, out->data, out->len);
		gather(sock, copy.data, copy.len, free, copy.data);
	}
	buffer_clear(out);
	return r;
}

void sock_write_later(
	struct sock *sock, const void *bytes, size_t len, void (*done)(void *arg), void *arg)
{
	int r = 0;
	flush_first(sock);
	if (!sock->wsi || lws_partial_buffered(sock->wsi) || (sock->tls && len > TLS_PIECE)) {
		r = sock_write(sock, bytes, len);
	} else if (sock->tls) {
		r = gather_tls(sock, bytes, len);
	} else {
		gather(sock, bytes, len, done, arg);
		return;
	}
	if (r < 0) {
		sock->ops->broken(sock);
	}
	done(arg);
}

int sock_write(struct sock *sock, const void *bytes, size_t len)
{
	if (!sock->wsi) {
		return -EIO;
	}
	int r = sock->tls ? write_tls(sock, bytes, len) : write_raw(sock, bytes, len);
	if (r < 0) {
		return -EIO;
	}
	apply_flow(sock);
	return 0;
}

bool sock_is_choked(struct sock *sock)
{
	flush_first(sock);
	return sock->wsi && lws_partial_buffered(sock->wsi);
}

int sock_fd(const struct sock *sock)
{
	return sock->wsi ? lws_get_socket_fd(sock->wsi) : -1;
}

uint64_t sock_taken(const struct sock *sock)
{
	return sock->wsi ? peer_bytes_taken(lws_get_socket_fd(sock->wsi)) : 0;
}

void sock_want_writable(struct sock *sock)
{
	if (sock->wsi) {
		lws_callback_on_writable(sock->wsi);
	}
}

void sock_pause(struct sock *sock, bool paused)
{
	sock->is_paused = paused;
	if (sock->wsi) {
		apply_flow(sock);
	}
}

void sock_shutdown(struct sock *sock)
{
	flush_first(sock);
	if (sock->wsi && sock->tls) {
		tls_end(sock->tls);
		flush_tls(sock);
	}
	if (sock->wsi && lws_partial_buffered(sock->wsi)) {
		sock->wants_fin = true;
		lws_callback_on_writable(sock->wsi);
	} else if (sock->wsi) {
		shutdown(lws_get_socket_fd(sock->wsi), SHUT_WR);
	}
}

void sock_close(struct sock *sock)
{
	flush_first(sock);
	if (sock->wsi && sock->tls && !lws_partial_buffered(sock->wsi)) {
		tls_end(sock->tls);
		flush_tls(sock);
	}
	if (sock->wsi) {
		lws_set_timeout(sock->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);
	}
}
