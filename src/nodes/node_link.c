#include "node_internal.h"

#include "holdfast/loop.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct node_link {
	struct list link; /* nodes.links */
	struct list over_link; /* nodes.links_over; self otherwise */
	struct server *server;
	const struct node_link_ops *ops; /* NULL: its owner has left */
	void *owner;
	char *host;
	char *port;
	uv_getaddrinfo_t *lookup; /* NULL: not running */
	struct addrinfo *addresses;
	const struct addrinfo *next; /* the address to try next */
	uv_poll_t *poll; /* NULL: not connecting */
	int fd; /* the connecting socket; -1: none */
	struct sock sock; /* valid once connected */
	bool is_connected;
	int64_t deadline_ms; /* limit for connecting, on the loop's clock */
	int64_t stuck_ms; /* start of the current stall, on the same clock; 0: none */
	const char *why; /* why it has ended, or the last error */
};

static int64_t now_ms(const struct server *server)
{
	return loop_now_ms(server->loop);
}

static void end(struct node_link *link, const char *why)
{
	if (list_empty(&link->over_link)) {
		link->why = why;
		list_append(&nodes_of(link->server)->links_over, &link->over_link);
		uv_async_send(link->server->again);
	}
}

/* --- the socket --- */

static struct node_link *link_of(struct sock *sock)
{
	return list_entry(sock, struct node_link, sock);
}

static void handle_received(struct sock *sock, char *bytes, size_t len)
{
	struct node_link *link = link_of(sock);
	if (link->ops && list_empty(&link->over_link)) {
		link->ops->received(link->owner, bytes, len);
	}
}

static void handle_writable(struct sock *sock)
{
	struct node_link *link = link_of(sock);
	if (link->ops) {
		link->ops->writable(link->owner);
	}
}

static void handle_gone(struct sock *sock)
{
	end(link_of(sock), "the connection has ended");
}

static void handle_kept(struct sock *sock)
{
}

static const struct transport_ops link_transport_ops = {
	.received = handle_received,
	.writable = handle_writable,
	.ended = handle_gone,
	.broken = handle_gone,
	.kept = handle_kept,
	.closed = handle_gone,
};

/* --- connecting --- */

static void handle_poll_closed(uv_handle_t *handle)
{
	free(handle);
}

/**
 * Stops connecting. Returns the descriptor, which the caller closes or uses; -1 if there is none.
 */
static int stop_polling(struct node_link *link)
{
	int fd = link->fd;
	if (link->poll) {
		uv_poll_stop(link->poll);
		uv_close((uv_handle_t *)link->poll, handle_poll_closed);
	}
	link->poll = NULL;
	link->fd = -1;
	return fd;
}

static void connect_next(struct node_link *link);

static void handle_connected(uv_poll_t *poll, int status, int events)
{
	struct node_link *link = poll->data;
	int error = 0;
	socklen_t len = sizeof(error);
	int fd = stop_polling(link);
	if (!link->ops) {
		close(fd);
	} else if (status < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
		close(fd);
		link->why = error ? strerror(error) : "cannot connect to it";
		connect_next(link);
	} else if (transport_adopt(link->server->transport, &link->sock, &link_transport_ops, fd,
			   false) < 0) {
		end(link, "its socket cannot be used");
	} else {
		link->is_connected = true;
		link->ops->connected(link->owner);
	}
}

/** Sends without delay, and detects a dead machine. */
static void set_options(int fd)
{
	static const struct {
		int level;
		int name;
		int value;
	} options[] = {{IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 10}, {IPPROTO_TCP, TCP_KEEPINTVL, 5},
		{IPPROTO_TCP, TCP_KEEPCNT, 3}};
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
	}
}

/** Starts connecting to an address. Returns 0 or a negative errno. */
static int begin_connecting(struct node_link *link, const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	set_options(fd);
	if (connect(fd, at->ai_addr, at->ai_addrlen) < 0 && errno != EINPROGRESS) {
		int r = -errno;
		close(fd);
		return r;
	}
	uv_poll_t *poll = xcalloc(1, sizeof(*poll));
	if (uv_poll_init(link->server->loop, poll, fd) < 0) {
		free(poll);
		close(fd);
		return -EIO;
	}
	poll->data = link;
	uv_poll_start(poll, UV_WRITABLE, handle_connected);
	link->poll = poll;
	link->fd = fd;
	return 0;
}

/** Tries the name's next addresses, and ends the link if none is left. */
static void connect_next(struct node_link *link)
{
	while (link->next) {
		const struct addrinfo *at = link->next;
		link->next = at->ai_next;
		int r = begin_connecting(link, at);
		if (r == 0) {
			return;
		}
		link->why = strerror(-r);
	}
	end(link, link->why ? link->why : "its name has no address");
}

static void handle_found(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
	struct node_link *link = lookup->data;
	free(lookup);
	if (!link) {
		uv_freeaddrinfo(found);
		return;
	}
	link->lookup = NULL;
	link->addresses = found;
	link->next = status == 0 ? found : NULL;
	connect_next(link);
}

/** Resolves the host: an address at once, a name on the thread pool. */
static void find(struct node_link *link)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	if (getaddrinfo(link->host, link->port, &hints, &link->addresses) == 0) {
		link->next = link->addresses;
		connect_next(link);
		return;
	}
	hints.ai_flags = AI_NUMERICSERV;
	link->addresses = NULL;
	link->lookup = xcalloc(1, sizeof(*link->lookup));
	link->lookup->data = link;
	if (uv_getaddrinfo(link->server->loop, link->lookup, handle_found, link->host, link->port,
		    &hints) < 0) {
		free(link->lookup);
		link->lookup = NULL;
		end(link, "its name cannot be looked up");
	}
}

static void split(struct node_link *link, const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : strlen(address);
	bool is_bracketed = len > 2 && address[0] == '[' && address[len - 1] == ']';
	link->host = xstrndup(address + is_bracketed, len - 2 * (size_t)is_bracketed);
	link->port = xstrdup(colon ? colon + 1 : "0");
}

/* --- for the owner --- */

struct node_link *node_link_open(
	struct server *server, const char *address, const struct node_link_ops *ops, void *owner)
{
	if (server->link_count >= server->limits->node_sockets ||
		server->conn_count + server->link_count >= server->conn_max) {
		return NULL;
	}
	struct node_link *link = xcalloc(1, sizeof(*link));
	link->server = server;
	link->ops = ops;
	link->owner = owner;
	link->fd = -1;
	link->deadline_ms = now_ms(server) + server->limits->node_connect_ms;
	list_init(&link->over_link);
	list_append(&nodes_of(server)->links, &link->link);
	server->link_count++;
	split(link, address);
	find(link);
	return link;
}

void node_link_write(struct node_link *link, const void *bytes, size_t len)
{
	if (sock_write(&link->sock, bytes, len) < 0) {
		end(link, "the connection has ended");
	} else if (sock_is_choked(&link->sock)) {
		sock_want_writable(&link->sock);
	}
}

bool node_link_is_choked(struct node_link *link)
{
	return sock_is_choked(&link->sock);
}

void node_link_pause(struct node_link *link, bool paused)
{
	sock_pause(&link->sock, paused);
}

void node_link_leave(struct node_link *link)
{
	if (link) {
		link->ops = NULL;
		end(link, "");
	}
}

/* --- lifecycle --- */

static void destroy(struct node_link *link)
{
	int fd = stop_polling(link);
	if (fd >= 0) {
		close(fd);
	}
	sock_close(&link->sock);
	list_remove(&link->over_link);
	list_remove(&link->link);
	link->server->link_count--;
	if (link->lookup) {
		link->lookup->data = NULL; /* handle_found() frees it */
		uv_cancel((uv_req_t *)link->lookup); /* unless it has begun */
	}
	if (link->addresses) {
		freeaddrinfo(link->addresses);
	}
	free(link->host);
	free(link->port);
	free(link);
}

/** Whether the peer's machine has acknowledged nothing for too long, whatever its programs do. */
static bool is_lost(struct node_link *link)
{
	int64_t now = now_ms(link->server);
	int64_t silent_ms = peer_silent_ms(sock_fd(&link->sock));
	if (silent_ms < 0) {
		link->stuck_ms = 0; /* everything is acknowledged */
		return false;
	}
	link->stuck_ms = link->stuck_ms ? link->stuck_ms : now;
	int64_t stuck = now - link->stuck_ms;
	if (silent_ms < stuck) {
		link->stuck_ms = now; /* there was an acknowledgement meanwhile */
		return false;
	}
	return stuck > 2 * link->server->limits->node_silence_ms;
}

void node_links_sweep(struct nodes *nodes)
{
	struct server *server = nodes->server;
	list_for_each_safe(at, tmp, &nodes->links) {
		struct node_link *link = list_entry(at, struct node_link, link);
		if (!link->is_connected && now_ms(server) >= link->deadline_ms) {
			metrics_limit(server->metrics, LIMIT_node_connect_ms);
			end(link, "it does not answer");
		} else if (link->is_connected && is_lost(link)) {
			end(link, "it does not answer any more");
		}
	}
}

void node_links_end_tick(struct nodes *nodes)
{
	while (!list_empty(&nodes->links_over)) {
		struct node_link *link =
			list_entry(nodes->links_over.next, struct node_link, over_link);
		const struct node_link_ops *ops = link->ops;
		if (ops) {
			link->ops = NULL;
			ops->ended(link->owner, link->why);
		}
		destroy(link);
	}
}

void node_links_close(struct nodes *nodes)
{
	while (!list_empty(&nodes->links)) {
		destroy(list_entry(nodes->links.next, struct node_link, link));
	}
}
