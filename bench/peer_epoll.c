/*
 * The yardstick: the least that a program can do to pass what a producer sends on to all observers.
 * One epoll loop; everything that came in one turn is synced once, if at all, and leaves in one
 * write for each observer. It speaks as much of the protocol as the load tool needs, parses no
 * JSON, numbers nothing, keeps nothing that everybody has, and trusts whoever connects.
 */
#include "tool.h"
#include "ws.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE ((size_t)256 << 10)
/* An observer that is this far behind ends the run: there is no disk to read from. */
#define LOG_MAX ((size_t)256 << 20)

enum kind { HTTP, OBSERVER, PRODUCER };

struct conn {
	int fd;
	enum kind kind;
	bool wants_write;
	struct buffer rx;
	struct session *session;
	size_t at; /* observer: how much of the log it has */
	size_t slot; /* observer: where it is in the session's list */
	struct buffer acks; /* producer: of this turn */
};

struct session {
	char name[64];
	struct conn **observers;
	size_t count;
	size_t cap;
	size_t behind; /* observers that do not have the whole log */
	struct buffer log; /* frames that not everybody has yet, as they go over the wire */
	struct buffer batch; /* frames of this turn */
	bool is_due; /* there is something to do for it at the end of the turn */
};

struct peer {
	int epoll;
	int listen_fd;
	int sync_fd; /* -1: no sync */
	struct session **sessions;
	size_t session_count;
	struct session **due; /* as many as there are sessions at most */
	size_t due_count;
	struct buffer batch; /* frames of this turn, of all sessions: one write and one sync */
	struct buffer producers; /* struct conn *, those that have acks in this turn */
};

/* --- connections --- */

static void watch(struct peer *peer, struct conn *conn, int operation, bool wants_write)
{
	struct epoll_event event = {
		.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = conn};
	conn->wants_write = wants_write;
	if (epoll_ctl(peer->epoll, operation, conn->fd, &event) < 0) {
		die("epoll_ctl: %s", strerror(errno));
	}
}

/** Sessions are never removed. */
static struct session *find_session(struct peer *peer, const char *name, size_t len)
{
	struct session *session;
	for (size_t i = 0; i < peer->session_count; i++) {
		session = peer->sessions[i];
		if (strncmp(session->name, name, len) == 0 && !session->name[len]) {
			return session;
		}
	}
	session = xcalloc(1, sizeof(*session));
	memcpy(session->name, name, len);
	size_t size = (peer->session_count + 1) * sizeof(struct session *);
	peer->sessions = xrealloc(peer->sessions, size);
	peer->due = xrealloc(peer->due, size);
	peer->sessions[peer->session_count++] = session;
	return session;
}

static void make_due(struct peer *peer, struct session *session)
{
	if (!session->is_due) {
		session->is_due = true;
		peer->due[peer->due_count++] = session;
	}
}

static void add_observer(struct session *session, struct conn *conn)
{
	if (session->count == session->cap) {
		session->cap = session->cap ? 2 * session->cap : 16;
		session->observers =
			xrealloc(session->observers, session->cap * sizeof(struct conn *));
	}
	conn->kind = OBSERVER;
	conn->at = session->log.len;
	conn->slot = session->count;
	session->observers[session->count++] = conn;
}

static void remove_observer(struct session *session, struct conn *conn)
{
	session->observers[conn->slot] = session->observers[--session->count];
	session->observers[conn->slot]->slot = conn->slot;
	session->behind -= conn->at < session->log.len;
}

static void close_conn(struct peer *peer, struct conn *conn)
{
	struct conn **producers = (struct conn **)peer->producers.data;
	if (conn->kind == OBSERVER) {
		remove_observer(conn->session, conn);
	}
	for (size_t i = 0; i < peer->producers.len / sizeof(*producers); i++) {
		producers[i] = producers[i] == conn ? NULL : producers[i];
	}
	close(conn->fd);
	buffer_finish(&conn->rx);
	buffer_finish(&conn->acks);
	free(conn);
}

static void accept_all(struct peer *peer)
{
	const int on = 1;
	int fd;
	while ((fd = accept4(peer->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct conn *conn = xcalloc(1, sizeof(*conn));
		conn->fd = fd;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		watch(peer, conn, EPOLL_CTL_ADD, false);
	}
	if (errno != EAGAIN && errno != ECONNABORTED) {
		die("accept: %s", strerror(errno));
	}
}

/** A short answer, which has to fit into the socket. */
static bool answer(struct conn *conn, const char *bytes, size_t len)
{
	return send(conn->fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool answer_text(struct conn *conn, const char *text)
{
	struct buffer frame = {0};
	ws_append(&frame, text, strlen(text));
	bool ok = answer(conn, frame.data, frame.len);
	buffer_finish(&frame);
	return ok;
}

/* --- the fan-out --- */

/** Sends what an observer does not have, as far as the socket takes it. */
static bool feed(struct peer *peer, struct conn *conn)
{
	struct session *session = conn->session;
	if (conn->kind != OBSERVER || conn->at == session->log.len) {
		return true;
	}
	const char *from = session->log.data + conn->at;
	ssize_t n = send(conn->fd, from, session->log.len - conn->at, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		return false;
	}
	conn->at += n > 0 ? (size_t)n : 0;
	bool is_behind = conn->at < session->log.len;
	session->behind -= !is_behind;
	if (is_behind != conn->wants_write) {
		watch(peer, conn, EPOLL_CTL_MOD, is_behind);
	}
	return true;
}

static void feed_all(struct peer *peer, struct session *session)
{
	for (size_t i = session->count; i > 0; i--) {
		struct conn *conn = session->observers[i - 1];
		if (!conn->wants_write && !feed(peer, conn)) {
			close_conn(peer, conn);
		}
	}
}

/** Everybody has everything: the log begins anew. */
static void trim(struct session *session)
{
	if (!session->behind && session->log.len) {
		for (size_t i = 0; i < session->count; i++) {
			session->observers[i]->at = 0;
		}
		buffer_clear(&session->log);
	}
}

static void sync_batch(struct peer *peer)
{
	ssize_t n = write(peer->sync_fd, peer->batch.data, peer->batch.len);
	if (n != (ssize_t)peer->batch.len || fdatasync(peer->sync_fd) < 0) {
		die("cannot write the log: %s", strerror(errno));
	}
}

static void end_session_turn(struct peer *peer, struct session *session)
{
	session->is_due = false;
	if (session->batch.len) {
		buffer_append(&session->log, session->batch.data, session->batch.len);
		buffer_clear(&session->batch);
		session->behind = session->count;
		if (session->log.len > LOG_MAX) {
			die("an observer is too far behind");
		}
	}
	feed_all(peer, session);
	trim(session);
}

static void send_acks(struct peer *peer)
{
	struct conn **producers = (struct conn **)peer->producers.data;
	for (size_t i = 0; i < peer->producers.len / sizeof(*producers); i++) {
		struct conn *conn = producers[i];
		if (conn && !answer(conn, conn->acks.data, conn->acks.len)) {
			close_conn(peer, conn);
		} else if (conn) {
			buffer_clear(&conn->acks);
		}
	}
	buffer_clear(&peer->producers);
}

static void end_turn(struct peer *peer)
{
	if (peer->batch.len && peer->sync_fd >= 0) {
		sync_batch(peer);
	}
	buffer_clear(&peer->batch);
	send_acks(peer);
	for (size_t i = 0; i < peer->due_count; i++) {
		end_session_turn(peer, peer->due[i]);
	}
	peer->due_count = 0;
}

/* --- what comes in --- */

static void take_append(struct peer *peer, struct conn *conn, const struct ws_frame *frame)
{
	static const char head[] = "{\"type\":\"append\",\"data\":{\"ref\":";
	const char *ref = frame->payload + sizeof(head) - 1;
	if (frame->len < sizeof(head) || memcmp(frame->payload, head, sizeof(head) - 1) != 0) {
		die("a producer sent something that is no append: %.*s", (int)frame->len,
			frame->payload);
	}
	char text[96];
	int len = snprintf(text, sizeof(text), "{\"type\":\"appended\",\"data\":{\"ref\":%llu}}",
		strtoull(ref, NULL, 10));
	if (!conn->acks.len) {
		buffer_append(&peer->producers, &conn, sizeof(struct conn *));
	}
	ws_append(&conn->acks, text, (size_t)len);
	struct buffer *batch = &conn->session->batch;
	size_t from = batch->len;
	ws_append(batch, frame->payload, frame->len);
	buffer_append(&peer->batch, batch->data + from, batch->len - from);
	make_due(peer, conn->session);
}

static bool take_frame(struct peer *peer, struct conn *conn, const struct ws_frame *frame)
{
	if (frame->opcode != WS_TEXT) {
		return false;
	}
	if (conn->kind == PRODUCER) {
		take_append(peer, conn, frame);
		return true;
	}
	return answer_text(
		conn, "{\"type\":\"events_loaded\",\"data\":{\"events\":[],\"has_more\":false}}");
}

static bool take_request(struct peer *peer, struct conn *conn, const char *bytes, size_t len)
{
	static const char created[] = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
	static const char upgraded[] =
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n\r\n";
	if (memcmp(bytes, "POST", 4) == 0) {
		return answer(conn, created, sizeof(created) - 1);
	}
	static const char head[] = "GET /api/sessions/";
	const char *name = bytes + sizeof(head) - 1;
	size_t name_len = len > sizeof(head) ? strcspn(name, "/ ") : 0;
	if (!name_len || name_len >= sizeof(conn->session->name) ||
		memcmp(bytes, head, sizeof(head) - 1) != 0) {
		return false;
	}
	conn->session = find_session(peer, name, name_len);
	if (memmem(bytes, len, "/produce", 8)) {
		conn->kind = PRODUCER;
	} else {
		add_observer(conn->session, conn);
	}
	return answer(conn, upgraded, sizeof(upgraded) - 1) &&
	       answer_text(conn, "{\"type\":\"connected\",\"data\":{}}");
}

/** A request's head; what follows it (a body) is of no interest. */
static bool take_http(struct peer *peer, struct conn *conn)
{
	if (!memmem(conn->rx.data, conn->rx.len, "\r\n\r\n", 4)) {
		return conn->rx.len < 8192;
	}
	bool ok = take_request(peer, conn, buffer_cstr(&conn->rx), conn->rx.len);
	buffer_clear(&conn->rx);
	return ok;
}

static bool take_bytes(struct peer *peer, struct conn *conn)
{
	if (conn->kind == HTTP) {
		return take_http(peer, conn);
	}
	size_t used = 0;
	struct ws_frame frame;
	int r;
	while ((r = ws_parse(conn->rx.data + used, conn->rx.len - used, &frame)) == 1) {
		if (!take_frame(peer, conn, &frame)) {
			return false;
		}
		used += frame.total;
	}
	buffer_consume(&conn->rx, used);
	if (!conn->rx.len) {
		buffer_finish(&conn->rx);
	}
	return r == 0;
}

static bool read_some(struct peer *peer, struct conn *conn)
{
	static char space[READ_SIZE];
	ssize_t n = recv(conn->fd, space, sizeof(space), 0);
	if (n <= 0) {
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	}
	buffer_append(&conn->rx, space, (size_t)n);
	return take_bytes(peer, conn);
}

static void handle_conn(struct peer *peer, struct conn *conn, uint32_t events)
{
	bool ok = !(events & EPOLLOUT) || feed(peer, conn);
	if ((events & EPOLLOUT) && conn->session) {
		make_due(peer, conn->session); /* perhaps everybody has everything now */
	}
	if (ok && (events & (EPOLLIN | EPOLLERR | EPOLLHUP))) {
		ok = read_some(peer, conn);
	}
	if (!ok) {
		close_conn(peer, conn);
	}
}

/* --- the program --- */

static void listen_anywhere(struct peer *peer)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	peer->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (peer->listen_fd < 0 || bind(peer->listen_fd, (struct sockaddr *)&address, len) < 0 ||
		listen(peer->listen_fd, SOMAXCONN) < 0 ||
		getsockname(peer->listen_fd, (struct sockaddr *)&address, &len) < 0 ||
		epoll_ctl(peer->epoll, EPOLL_CTL_ADD, peer->listen_fd, &event) < 0) {
		die("cannot listen: %s", strerror(errno));
	}
	fprintf(stderr, "peer: listening on http://127.0.0.1:%u\n", ntohs(address.sin_port));
}

int main(int argc, char **argv)
{
	struct peer peer = {.epoll = epoll_create1(EPOLL_CLOEXEC), .sync_fd = -1};
	struct epoll_event events[256];
	if (argc > 2) {
		die("usage: holdfast-bench-peer [FILE, to be synced before anything is passed on]");
	}
	if (argc == 2) {
		peer.sync_fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (peer.sync_fd < 0) {
			die("cannot open %s: %s", argv[1], strerror(errno));
		}
	}
	need_descriptors(64);
	listen_anywhere(&peer);
	for (;;) {
		int n = epoll_wait(peer.epoll, events, 256, -1);
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr) {
				handle_conn(&peer, events[i].data.ptr, events[i].events);
			} else {
				accept_all(&peer);
			}
		}
		end_turn(&peer);
	}
}
