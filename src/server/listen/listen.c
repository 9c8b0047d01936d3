#include "listen.h"

#include "bind.h"
#include "inherit.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections accepted in one tick, so that other work gets its turn. */
#define ACCEPTS_MAX 64
/* How long accepting pauses when there is no descriptor left (ms). */
#define PAUSE_MS 100

/*
 * Refused connections stay open for a while (ms), so that the peer can read why: closing at once,
 * with the request unread, would make the kernel drop the answer.
 */
#define LEAVING_MS 1000

struct leaving {
	int fd;
	uint64_t until; /* on the loop's clock */
};

/** One listening socket. */
struct listener {
	struct listeners *all;
	int fd;
	struct listen_kind kind;
	bool is_inherited;
	bool is_left; /* we no longer accept: the next process does */
	uv_poll_t poll;
};

struct listeners {
	struct listen_config config;
	struct bound *bound; /* one for each address of the config */
	struct listener *list;
	size_t count;
	uv_timer_t pause;
	struct leaving leaving[LISTEN_LEAVING_MAX]; /* the oldest first */
	size_t leaving_count;
	uv_timer_t leave;
	struct diag_limit warned;
	size_t open; /* handles that are not closed yet */
};

/* --- accepting --- */

static void handle_readable(uv_poll_t *poll, int status, int events);

static void poll_all(struct listeners *all, bool on)
{
	for (size_t i = 0; i < all->count; i++) {
		if (on && !all->list[i].is_left) {
			uv_poll_start(&all->list[i].poll, UV_READABLE, handle_readable);
		} else {
			uv_poll_stop(&all->list[i].poll);
		}
	}
}

static void handle_pause_end(uv_timer_t *timer)
{
	poll_all(timer->data, true);
}

/**
 * Stops polling for a while: the connection stays queued and the socket readable, so the loop would
 * spin.
 */
static void pause_accepting(struct listeners *all, int error)
{
	diag_limited(&all->warned, DIAG_WARN,
		"cannot accept a connection: %s. New connections wait; raise the limit of open files, or lower --limit connections",
		strerror(error));
	poll_all(all, false);
	uv_timer_start(&all->pause, handle_pause_end, PAUSE_MS, 0);
}

/** Closes the `count` oldest refused connections. */
static void let_go(struct listeners *all, size_t count)
{
	char dropped[4096];
	for (size_t i = 0; i < count; i++) {
		int fd = all->leaving[i].fd;
		for (int n = 0; n < 4 && recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT) > 0;
			n++) {
		}
		close(fd);
	}
	all->leaving_count -= count;
	memmove(all->leaving, all->leaving + count, all->leaving_count * sizeof(*all->leaving));
}

static void handle_leave(uv_timer_t *timer)
{
	struct listeners *all = timer->data;
	size_t count = 0;
	while (count < all->leaving_count && all->leaving[count].until <= uv_now(timer->loop)) {
		count++;
	}
	let_go(all, count);
	if (!all->leaving_count) {
		uv_timer_stop(timer);
	}
}

/** Sends the reason, if the socket takes it at once; on TLS an alert, as there is no handshake. */
static void turn_away(struct listeners *all, int fd, bool is_tls)
{
	static const char alert[] = {21, 3, 3, 0, 2, 2, 80}; /* fatal, internal_error */
	static const char answer[] =
		"HTTP/1.1 503 Service Unavailable\r\nserver: holdfast\r\nretry-after: 1\r\n"
		"content-type: application/json\r\ncontent-length: 99\r\nconnection: close\r\n\r\n"
		"{\"error\":{\"code\":\"too_many_connections\",\"message\":"
		"\"the server has no room for another connection\"}}";
	ssize_t sent = send(fd, is_tls ? alert : answer,
		is_tls ? sizeof(alert) : sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0) {
		close(fd);
		return;
	}
	shutdown(fd, SHUT_WR);
	if (all->leaving_count == all->config.leaving_max) {
		let_go(all, 1);
	}
	if (!all->leaving_count) {
		uv_timer_start(&all->leave, handle_leave, LEAVING_MS, LEAVING_MS / 4);
	}
	all->leaving[all->leaving_count++] =
		(struct leaving){.fd = fd, .until = uv_now(all->config.loop) + LEAVING_MS};
}

/** Keepalive probes detect a dead peer even while nothing is sent to it. */
static void set_options(int fd)
{
	int on = 1;
	int idle_s = 60;
	int interval_s = 15;
	int count = 4;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

/**
 * Whether accept() failed because of one connection, which is gone, and not of the listening
 * socket.
 */
static bool is_of_peer(int error)
{
	static const int errors[] = {ECONNABORTED, EINTR, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN,
		ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, EPERM};
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i] == error) {
			return true;
		}
	}
	return false;
}

static void handle_readable(uv_poll_t *poll, int status, int events)
{
	struct listener *listener = poll->data;
	struct listeners *all = listener->all;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && is_of_peer(errno)) {
			continue;
		}
		if (fd < 0) {
			if (errno != EAGAIN && errno != EWOULDBLOCK) {
				pause_accepting(all, errno);
			}
			return;
		}
		if (!all->config.has_room(all->config.owner, fd, &listener->kind)) {
			turn_away(all, fd, listener->kind.is_tls);
			continue;
		}
		if (!listener->kind.is_unix) {
			set_options(fd);
		}
		all->config.accepted(all->config.owner, fd, &listener->kind);
	}
}

/* --- lifecycle --- */

static void start_polling(struct listeners *all)
{
	uv_timer_init(all->config.loop, &all->pause);
	uv_timer_init(all->config.loop, &all->leave);
	all->pause.data = all->leave.data = all;
	all->open = 2;
	for (size_t i = 0; i < all->count; i++) {
		uv_poll_init(all->config.loop, &all->list[i].poll, all->list[i].fd);
		all->list[i].poll.data = &all->list[i];
		all->open++;
	}
	poll_all(all, true);
}

/**
 * Checks that tokens are not sent in plain text over a network. Returns NULL, or an error that the
 * caller frees.
 */
static char *check_scheme(
	const struct listeners *all, const struct listen_address *address, bool is_loopback)
{
	if (address->is_metrics || address->scheme == LISTEN_NODE) {
		return NULL; /* clients send no tokens there */
	}
	bool is_plain = address->scheme == LISTEN_HTTP ||
			(address->scheme == LISTEN_BY_ADDRESS && all->config.is_tls_off);
	if (is_loopback && address->scheme != LISTEN_HTTPS) {
		return NULL;
	}
	if (is_plain && !all->config.is_tls_off) {
		return xprintf(
			"--listen http://%s:%d: other machines reach this address, and would send their tokens for everyone to read. Listen on https://, or say --tls off if a proxy in front speaks TLS",
			address->host, address->port);
	}
	if (is_loopback && !all->config.has_keys) {
		return xprintf("--listen https://%s:%d needs --tls-cert and --tls-key",
			address->host, address->port);
	}
	if (!is_plain && !all->config.has_keys) {
		return xprintf(
			"--listen %s:%d: other machines reach this address, so it needs TLS: give --tls-cert and --tls-key, or say --tls off if a proxy in front speaks TLS",
			address->host, address->port);
	}
	return NULL;
}

static bool has_tls(const struct listeners *all)
{
	for (size_t i = 0; i < all->count; i++) {
		if (all->list[i].kind.is_tls) {
			return true;
		}
	}
	return false;
}

static bool speaks_tls(const struct listeners *all, size_t i)
{
	enum listen_scheme scheme = all->config.addresses[i].scheme;
	if (all->config.addresses[i].is_metrics) {
		return false;
	}
	return scheme == LISTEN_HTTPS ||
	       (scheme == LISTEN_BY_ADDRESS && !all->bound[i].is_loopback &&
		       !all->config.is_tls_off);
}

static void add(struct listeners *all, size_t index)
{
	const struct bound *bound = &all->bound[index];
	size_t size = (all->count + bound->count) * sizeof(*all->list);
	all->list = xrealloc(all->list, size);
	for (size_t i = 0; i < bound->count; i++) {
		all->list[all->count++] = (struct listener){.all = all,
			.fd = bound->fds[i],
			.is_inherited = bound->is_inherited[i],
			.kind = {.is_loopback = bound->is_loopback,
				.is_unix = all->config.addresses[index].scheme == LISTEN_UNIX,
				.is_node = all->config.addresses[index].scheme == LISTEN_NODE,
				.is_tls = speaks_tls(all, index),
				.is_metrics = all->config.addresses[index].is_metrics}};
	}
}

static void remove_files(const struct listeners *all)
{
	for (size_t i = 0; i < all->config.count; i++) {
		if (all->config.addresses[i].scheme == LISTEN_UNIX && all->bound[i].count &&
			!all->bound[i].is_inherited[0]) {
			bound_unlink(&all->bound[i], &all->config.addresses[i]);
		}
	}
}

static void destroy(struct listeners *all)
{
	free(all->bound);
	free(all->list);
	free(all);
}

struct listeners *listeners_create(const struct listen_config *config, char **ret_why)
{
	struct listeners *all = xcalloc(1, sizeof(*all));
	int r = 0;
	all->config = *config;
	all->bound = xcalloc(config->count, sizeof(*all->bound));
	for (size_t i = 0; r == 0 && i < config->count; i++) {
		r = bind_address(&config->addresses[i], config->inherited, &all->bound[i], ret_why);
		if (r == 0) {
			add(all, i);
			*ret_why =
				check_scheme(all, &config->addresses[i], all->bound[i].is_loopback);
		}
		r = r == 0 && *ret_why ? -EINVAL : r;
	}
	char *left = NULL;
	if (r == 0 && inherited_left(config->inherited, &left)) {
		r = -EINVAL;
		*ret_why = xprintf(
			"the service manager passes a socket for %s, which no --listen names: name it there, or take it out of the .socket unit",
			left);
		free(left);
	}
	if (r == 0 && config->has_keys && !has_tls(all)) {
		r = -EINVAL;
		*ret_why = xstrdup(
			"--tls-cert is given, but no address speaks TLS: on loopback, say --listen https://127.0.0.1:8443; elsewhere, leave out --tls off");
	}
	if (r < 0) {
		remove_files(all);
		for (size_t i = 0; i < all->count; i++) {
			close(all->list[i].fd);
		}
		destroy(all);
		return NULL;
	}
	start_polling(all);
	return all;
}

bool listeners_are_loopback(const struct listeners *listeners)
{
	for (size_t i = 0; i < listeners->count; i++) {
		const struct listen_kind *kind = &listeners->list[i].kind;
		if (!kind->is_loopback && !kind->is_metrics && !kind->is_node) {
			return false;
		}
	}
	return true;
}

void listeners_append_url(const struct listeners *listeners, size_t i, struct buffer *out)
{
	const struct listen_address *address = &listeners->config.addresses[i];
	bool is_v6 = strchr(address->host, ':') != NULL;
	if (address->scheme == LISTEN_UNIX) {
		buffer_printf(out, "unix:%s", address->host);
	} else {
		const char *scheme = address->scheme == LISTEN_NODE ? ""
				     : speaks_tls(listeners, i)     ? "https://"
								    : "http://";
		buffer_printf(out, "%s%s%s%s:%d", scheme, is_v6 ? "[" : "", address->host,
			is_v6 ? "]" : "", listeners->bound[i].port);
	}
}

static void handle_handle_closed(struct listeners *all)
{
	if (--all->open == 0) {
		destroy(all);
	}
}

static void handle_poll_closed(uv_handle_t *handle)
{
	struct listener *listener = handle->data;
	close(listener->fd);
	handle_handle_closed(listener->all);
}

static void handle_timer_closed(uv_handle_t *handle)
{
	handle_handle_closed(handle->data);
}

void listeners_leave_inherited(struct listeners *listeners)
{
	for (size_t i = 0; i < listeners->count; i++) {
		if (listeners->list[i].is_inherited) {
			listeners->list[i].is_left = true;
			uv_poll_stop(&listeners->list[i].poll);
		}
	}
}

void listeners_close(struct listeners *listeners)
{
	if (!listeners) {
		return;
	}
	remove_files(listeners);
	for (size_t i = 0; i < listeners->count; i++) {
		uv_close((uv_handle_t *)&listeners->list[i].poll, handle_poll_closed);
	}
	let_go(listeners, listeners->leaving_count);
	uv_close((uv_handle_t *)&listeners->pause, handle_timer_closed);
	uv_close((uv_handle_t *)&listeners->leave, handle_timer_closed);
}
