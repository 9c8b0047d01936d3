#include "client.h"

#include "tool.h"
#include "ws.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE            ((size_t)256 << 10)
#define CONNECTIONS_A_SOURCE 4096
#define DROP_SIZE            ((size_t)16 << 20)
/* So much comes to a sink between two reads, at most. */
#define SINK_SIZE (1 << 20)

static int connect_from(unsigned index, unsigned port, int type)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		die("socket: %s", strerror(errno));
	}
	const int on = 1;
	struct sockaddr_in from = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + index / CONNECTIONS_A_SOURCE)};
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/*
	 * The port is chosen by connect(), which knows that only the whole pair of addresses has to
	 * be free.
	 */
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0) {
		die("bind: %s", strerror(errno));
	}
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS) {
		die("cannot connect to port %u: %s", port, strerror(errno));
	}
	return fd;
}

static void watch(struct client *client, int operation, bool wants_write)
{
	struct epoll_event event = {
		.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = client};
	client->wants_write = wants_write;
	if (epoll_ctl(client->epoll, operation, client->fd, &event) < 0) {
		die("epoll_ctl: %s", strerror(errno));
	}
}

/** A server with --auth on has given its token to whoever starts us. */
static void append_token(struct buffer *out)
{
	const char *token = getenv("HOLDFAST_TOKEN");
	if (token) {
		buffer_printf(out, "Authorization: Bearer %s\r\n", token);
	}
}

void client_open(struct client *client, int epoll, unsigned port, unsigned index, const char *path)
{
	client->epoll = epoll;
	client->fd = connect_from(index, port, SOCK_STREAM | SOCK_NONBLOCK);
	buffer_printf(&client->tx,
		"GET %s HTTP/1.1\r\n"
		"Host: 127.0.0.1:%u\r\n",
		path, port);
	append_token(&client->tx);
	buffer_append_str(&client->tx,
		"Connection: Upgrade\r\n"
		"Upgrade: websocket\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " WS_KEY "\r\n\r\n");
	watch(client, EPOLL_CTL_ADD, true);
}

void client_open_http(struct client *client, int epoll, unsigned port)
{
	client->epoll = epoll;
	client->is_http = true;
	client->fd = connect_from(0, port, SOCK_STREAM | SOCK_NONBLOCK);
	watch(client, EPOLL_CTL_ADD, true);
}

void client_open_plain(struct client *client, int epoll, unsigned port, unsigned index)
{
	client->epoll = epoll;
	client->fd = connect_from(index, port, SOCK_STREAM | SOCK_NONBLOCK);
	watch(client, EPOLL_CTL_ADD, true);
}

void client_close(struct client *client)
{
	close(client->fd);
	buffer_finish(&client->rx);
	buffer_finish(&client->tx);
}

/* --- writing --- */

void client_flush(struct client *client)
{
	if (!client->tx.len && !client->wants_write) {
		return;
	}
	ssize_t n = send(client->fd, client->tx.data, client->tx.len, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		die("a connection broke: %s", strerror(errno));
	}
	if (n > 0) {
		buffer_consume(&client->tx, (size_t)n);
	}
	bool wants_write = client->tx.len > 0;
	if (wants_write != client->wants_write) {
		watch(client, EPOLL_CTL_MOD, wants_write);
	}
}

static void send_frame(struct client *client, enum ws_opcode opcode, const char *text, size_t len)
{
	ws_append_masked(&client->tx, opcode, text, len);
	client_flush(client);
}

void client_queue(struct client *client, const char *bytes, size_t len)
{
	buffer_append(&client->tx, bytes, len);
}

void client_send(struct client *client, const char *text, size_t len)
{
	send_frame(client, WS_TEXT, text, len);
}

/* --- reading --- */

/** Returns the length of the answer to the handshake, 0 if it has not come whole. */
static size_t take_handshake(struct client *client, char *bytes, size_t len)
{
	const char *end = memmem(bytes, len, "\r\n\r\n", 4);
	if (!end) {
		return 0;
	}
	size_t size = (size_t)(end + 4 - bytes);
	if (size < 12 || memcmp(bytes, "HTTP/1.1 101", 12) != 0 ||
		!memmem(bytes, size, WS_ACCEPT, strlen(WS_ACCEPT))) {
		die("the handshake was answered with: %.*s", (int)size, bytes);
	}
	client->is_open = true;
	if (client->opened) {
		client->opened(client);
	}
	return size;
}

static void take_frame(struct client *client, const struct ws_frame *frame, uint64_t when)
{
	switch (frame->opcode) {
	case WS_TEXT:
		client->text(client, frame->payload, frame->len, when);
		break;
	case WS_PING:
		send_frame(client, WS_PONG, frame->payload, frame->len);
		break;
	case WS_PONG:
		break;
	default:
		die("the server closed a connection: %.*s",
			frame->len > 2 ? (int)frame->len - 2 : 0, frame->payload + 2);
	}
}

/** Answers over HTTP have a content-length (nginx: Content-Length), as the server's have. */
static size_t take_answers(struct client *client, char *bytes, size_t len, uint64_t when)
{
	static const char name[] = "ength: ";
	size_t used = 0;
	for (;;) {
		char *at = bytes + used;
		char *end = memmem(at, len - used, "\r\n\r\n", 4);
		char *length = end ? memmem(at, (size_t)(end - at), name, sizeof(name) - 1) : NULL;
		if (end && !length) {
			die("an answer without its length: %.*s", (int)(end - at), at);
		}
		size_t size = end ? strtoul(length + sizeof(name) - 1, NULL, 10) : 0;
		if (!end || (size_t)(bytes + len - (end + 4)) < size) {
			return used;
		}
		size += (size_t)(end + 4 - at);
		client->text(client, at, size, when);
		used += size;
	}
}

/** Returns how many of the bytes were used. */
static size_t take_bytes(struct client *client, char *bytes, size_t len, uint64_t when)
{
	if (client->take) {
		return client->take(client, bytes, len, when);
	}
	if (client->is_http) {
		return take_answers(client, bytes, len, when);
	}
	size_t used = client->is_open ? 0 : take_handshake(client, bytes, len);
	while (client->is_open) {
		struct ws_frame frame;
		int r = ws_parse(bytes + used, len - used, &frame);
		if (r < 0) {
			die("the server sent something that is no frame");
		}
		if (r == 0) {
			break;
		}
		take_frame(client, &frame, when);
		used += frame.total;
	}
	return used;
}

static size_t receive(struct client *client, char *bytes, size_t size)
{
	ssize_t n = recv(client->fd, bytes, size, 0);
	if (n == 0) {
		die("the server closed a connection");
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		die("a connection broke: %s", strerror(errno));
	}
	client->received += n > 0 ? (size_t)n : 0;
	return n > 0 ? (size_t)n : 0;
}

void client_make_sink(struct client *client)
{
	const int size = SINK_SIZE;
	setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	epoll_ctl(client->epoll, EPOLL_CTL_DEL, client->fd, NULL);
}

/** The kernel copies nothing. */
void client_drop(struct client *client)
{
	ssize_t n = recv(client->fd, NULL, DROP_SIZE, MSG_TRUNC | MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		die("the server closed a connection, or it broke");
	}
	client->received += n > 0 ? (size_t)n : 0;
}

static void read_some(struct client *client)
{
	/*
	 * Most reads end with a whole frame, so one space is enough for all; a rest is kept with
	 * its client.
	 */
	static char space[READ_SIZE];
	struct buffer *rx = &client->rx;
	if (!rx->len) {
		size_t len = receive(client, space, sizeof(space));
		size_t used = take_bytes(client, space, len, now_ns());
		buffer_append(rx, space + used, len - used);
		return;
	}
	buffer_reserve(rx, READ_SIZE);
	rx->len += receive(client, rx->data + rx->len, READ_SIZE);
	buffer_consume(rx, take_bytes(client, rx->data, rx->len, now_ns()));
	if (!rx->len) {
		buffer_finish(rx);
	}
}

static void handle(struct client *client, uint32_t events)
{
	if (events & EPOLLOUT) {
		client_flush(client);
	}
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
		read_some(client);
	}
	if (client->drained && !client->tx.len) {
		client->drained(client);
	}
}

void client_wait(int epoll, uint64_t until)
{
	struct epoll_event events[64];
	uint64_t now = now_ns();
	uint64_t left = until > now ? until - now : 0;
	struct timespec timeout = {
		.tv_sec = (time_t)(left / NS_PER_SECOND), .tv_nsec = (long)(left % NS_PER_SECOND)};
	int n = epoll_pwait2(epoll, events, 64, &timeout, NULL);
	if (n < 0 && errno != EINTR) {
		die("epoll_pwait2: %s", strerror(errno));
	}
	for (int i = 0; i < n; i++) {
		handle(events[i].data.ptr, events[i].events);
	}
}

/* --- plain HTTP --- */

void client_post(unsigned port, const char *path, const char *json, unsigned status)
{
	char want[16];
	struct buffer request = {0};
	char answer[4096];
	int fd = connect_from(0, port, SOCK_STREAM);
	buffer_printf(&request,
		"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: application/json\r\n",
		path, port);
	append_token(&request);
	buffer_printf(&request, "Content-Length: %zu\r\n\r\n%s", strlen(json), json);
	if (send(fd, request.data, request.len, MSG_NOSIGNAL) != (ssize_t)request.len) {
		die("POST %s: %s", path, strerror(errno));
	}
	ssize_t n = recv(fd, answer, sizeof(answer), 0);
	snprintf(want, sizeof(want), "HTTP/1.1 %u", status);
	if (n < (ssize_t)strlen(want) || memcmp(answer, want, strlen(want)) != 0) {
		die("POST %s was answered with: %.*s", path, n > 0 ? (int)n : 0, answer);
	}
	close(fd);
	buffer_finish(&request);
}
