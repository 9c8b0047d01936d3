#include "listen.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A name may have so many addresses. */
#define ADDRESSES_MAX 16
/* Connections taken in one loop tick; others have their turn then too. */
#define ACCEPTS_MAX 64
/* How long accepting pauses when there is no descriptor left (ms). */
#define PAUSE_MS 100
/* A free port at one address may be taken at another: it is tried again so often. */
#define FREE_PORT_TRIES 20

/*
 * Connections that were turned away and may read why: closed at once, the request that nobody read
 * would make the kernel drop the answer. As many of the reserve of descriptors at most, and so long
 * (ms).
 */
#define LEAVING_MAX 32
#define LEAVING_MS  1000

struct leaving {
	int fd;
	uint64_t until; /* on the loop's clock */
};

struct listener {
	struct listeners *all;
	int fd;
	uv_poll_t poll;
};

struct listeners {
	struct listen_config config;
	struct listener list[ADDRESSES_MAX];
	size_t count;
	int port;
	bool are_loopback;
	uv_timer_t pause;
	struct leaving leaving[LEAVING_MAX]; /* the oldest first */
	size_t leaving_count;
	uv_timer_t leave;
	struct diag_limit warned;
	size_t open; /* handles that are not closed yet */
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* --- accepting --- */

static void handle_readable(uv_poll_t *poll, int status, int events);

static void poll_all(struct listeners *all, bool on)
{
	for (size_t i = 0; i < all->count; i++) {
		if (on) {
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

/** Without this the loop would spin: the connection stays in the queue, and so readable. */
static void pause_accepting(struct listeners *all, int error)
{
	diag_limited(&all->warned, DIAG_WARN,
		"cannot accept a connection: %s. New connections wait; raise the limit of open files, or lower --limit connections",
		strerror(error));
	poll_all(all, false);
	uv_timer_start(&all->pause, handle_pause_end, PAUSE_MS, 0);
}

/** Closes the oldest of those that were turned away. */
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

/** Says why, as far as the socket takes it at once. */
static void turn_away(struct listeners *all, int fd)
{
	static const char answer[] =
		"HTTP/1.1 503 Service Unavailable\r\nserver: holdfast\r\nretry-after: 1\r\n"
		"content-type: application/json\r\ncontent-length: 99\r\nconnection: close\r\n\r\n"
		"{\"error\":{\"code\":\"too_many_connections\",\"message\":"
		"\"the server has no room for another connection\"}}";
	ssize_t sent = send(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0) {
		close(fd);
		return;
	}
	shutdown(fd, SHUT_WR);
	if (all->leaving_count == LEAVING_MAX) {
		let_go(all, 1);
	}
	if (!all->leaving_count) {
		uv_timer_start(&all->leave, handle_leave, LEAVING_MS, LEAVING_MS / 4);
	}
	all->leaving[all->leaving_count++] =
		(struct leaving){.fd = fd, .until = uv_now(all->config.loop) + LEAVING_MS};
}

/** A peer that is gone without a word is noticed, also while nothing is sent to it. */
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

/** Errors of one connection, which is gone, and not of the listening socket. */
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
		if (!all->config.has_room(all->config.owner)) {
			turn_away(all, fd);
			continue;
		}
		set_options(fd);
		all->config.accepted(all->config.owner, fd);
	}
}

/* --- binding --- */

static bool is_loopback(const union address *address)
{
	if (address->any.sa_family == AF_INET) {
		return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
	}
	return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

static int get_port(const union address *address)
{
	return ntohs(
		address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

static void set_port(union address *address, int port)
{
	if (address->any.sa_family == AF_INET) {
		address->v4.sin_port = htons((uint16_t)port);
	} else {
		address->v6.sin6_port = htons((uint16_t)port);
	}
}

static bool is_same_host(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family) {
		return false;
	}
	return a->any.sa_family == AF_INET
		       ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
		       : memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(struct in6_addr)) == 0;
}

static void say_why(char **ret_why, const struct listen_config *config, int error)
{
	bool is_v6 = strchr(config->host, ':') != NULL;
	const char *hint = error == EADDRINUSE ? "the port is taken; port 0 takes a free one"
			   : error == EACCES
				   ? "ports below 1024 need a privilege; choose a higher one"
			   : error == EADDRNOTAVAIL ? "this machine does not have the address"
						    : "see --listen in holdfast serve --help";
	*ret_why = xprintf("cannot listen on %s%s%s:%d: %s; %s", is_v6 ? "[" : "", config->host,
		is_v6 ? "]" : "", config->port, strerror(error), hint);
}

/**
 * What is listened on has to be what was asked for, and nothing more. Returns the socket or a
 * negative errno; the port becomes the one that was given.
 */
static int bind_one(union address *address)
{
	int on = 1;
	union address bound = {0};
	socklen_t size = sizeof(bound);
	socklen_t len =
		address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->any.sa_family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	}
	int error = 0;
	if (bind(fd, &address->any, len) < 0 || listen(fd, SOMAXCONN) < 0 ||
		getsockname(fd, &bound.any, &size) < 0) {
		error = -errno;
	} else if (!is_same_host(address, &bound)) {
		error = -EADDRNOTAVAIL;
	}
	if (error) {
		close(fd);
		return error;
	}
	set_port(address, get_port(&bound));
	return fd;
}

/** All addresses at one port: those of the config, or at a free one. A negative errno if not. */
static int bind_all(struct listeners *all, const union address *addresses, size_t count)
{
	int port = all->config.port;
	for (size_t i = 0; i < count; i++) {
		union address address = addresses[i];
		set_port(&address, port);
		int fd = bind_one(&address);
		if (fd < 0) {
			while (all->count) {
				close(all->list[--all->count].fd);
			}
			return fd;
		}
		port = get_port(&address);
		all->list[all->count++] = (struct listener){.all = all, .fd = fd};
		all->are_loopback = all->are_loopback && is_loopback(&address);
	}
	all->port = port;
	return 0;
}

/** The addresses of a host; their number, or -1 with *ret_why set. */
static int resolve(const struct listen_config *config, union address *addresses, char **ret_why)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found = NULL;
	int count = 0;
	int r = getaddrinfo(config->host, NULL, &hints, &found);
	for (struct addrinfo *one = found; one && count < ADDRESSES_MAX; one = one->ai_next) {
		if ((one->ai_family == AF_INET || one->ai_family == AF_INET6) &&
			one->ai_addrlen <= sizeof(union address)) {
			memcpy(&addresses[count++], one->ai_addr, one->ai_addrlen);
		}
	}
	if (found) {
		freeaddrinfo(found);
	}
	if (!count) {
		*ret_why = xprintf("cannot listen on \"%s\": %s", config->host,
			r ? gai_strerror(r) : "it has no address");
	}
	return count ? count : -1;
}

/**
 * A name may have the loopback address of a family that this machine has switched off (::1 of
 * localhost): it is left out as long as there is another address.
 */
static size_t drop_missing(union address *addresses, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count && count > 1; i++) {
		union address address = addresses[i];
		set_port(&address, 0);
		int fd = bind_one(&address);
		bool is_off =
			is_loopback(&address) && (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT);
		if (fd >= 0) {
			close(fd);
		}
		if (!is_off) {
			addresses[kept++] = addresses[i];
		}
	}
	return kept ? kept : count;
}

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

struct listeners *listeners_create(const struct listen_config *config, char **ret_why)
{
	union address addresses[ADDRESSES_MAX] = {0};
	int found = resolve(config, addresses, ret_why);
	if (found < 0) {
		return NULL;
	}
	size_t count = drop_missing(addresses, (size_t)found);
	struct listeners *all = xcalloc(1, sizeof(*all));
	int r = -EADDRINUSE;
	all->config = *config;
	for (int i = 0; r == -EADDRINUSE && i < (config->port || count == 1 ? 1 : FREE_PORT_TRIES);
		i++) {
		all->are_loopback = true;
		r = bind_all(all, addresses, count);
	}
	if (r < 0) {
		say_why(ret_why, config, -r);
		free(all);
		return NULL;
	}
	start_polling(all);
	return all;
}

int listeners_port(const struct listeners *listeners)
{
	return listeners->port;
}

bool listeners_are_loopback(const struct listeners *listeners)
{
	return listeners->are_loopback;
}

static void handle_handle_closed(struct listeners *all)
{
	if (--all->open == 0) {
		free(all);
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

void listeners_close(struct listeners *listeners)
{
	if (!listeners) {
		return;
	}
	for (size_t i = 0; i < listeners->count; i++) {
		uv_close((uv_handle_t *)&listeners->list[i].poll, handle_poll_closed);
	}
	let_go(listeners, listeners->leaving_count);
	uv_close((uv_handle_t *)&listeners->pause, handle_timer_closed);
	uv_close((uv_handle_t *)&listeners->leave, handle_timer_closed);
}
