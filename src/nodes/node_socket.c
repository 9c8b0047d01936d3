#include "node_socket.h"

#include "node_internal.h"

#include "holdfast/loop.h"
#include "node_identity.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Most bytes of a message of another node, and of the head of its answer. */
#define MESSAGE_MAX     ((size_t)256 * 1024 * 1024)
#define ANSWER_HEAD_MAX ((size_t)16 * 1024)

struct node_socket {
	struct server *server;
	struct node_link *link; /* NULL: it has ended */
	const struct node_socket_ops *ops;
	void *owner;
	char *address;
	struct buffer request; /* not sent yet */
	bool is_open; /* the handshake is done */
	bool is_paused;
	bool is_busy; /* handling input: it is freed only after that */
	struct buffer head; /* the incomplete head of the answer */
	struct ws_reader reader;
	struct buffer message; /* an incomplete message */
	struct buffer control;
	bool is_pinged; /* a ping was sent, and nothing received since */
	int64_t heard_ms; /* when the other node last sent anything; 0: not connected */
};

static int64_t now_ms(const struct node_socket *s)
{
	return loop_now_ms(s->server->loop);
}

static void read_random(void *bytes, size_t len)
{
	if (getrandom(bytes, len, 0) != (ssize_t)len) {
		memset(bytes, 0x55, len); /* masks protect proxies; there are none here */
	}
}

static void send_frame(struct node_socket *s, enum ws_opcode opcode, const char *bytes, size_t len)
{
	unsigned char mask[4];
	struct buffer out = {0};
	read_random(mask, sizeof(mask));
	ws_append_masked(&out, opcode, bytes, len, mask);
	node_link_write(s->link, out.data, out.len);
	buffer_finish(&out);
}

/* --- end --- */

static void free_socket(struct node_socket *s)
{
	buffer_finish(&s->request);
	buffer_finish(&s->head);
	buffer_finish(&s->message);
	buffer_finish(&s->control);
	free(s->address);
	free(s);
}

/** Releases the link, and frees the socket as soon as none of its functions is running. */
static void let_go(struct node_socket *s)
{
	node_link_leave(s->link);
	s->link = NULL;
	s->ops = NULL;
	metrics_add(s->server->metrics, METRIC_NODE_SOCKETS, (uint64_t)-1);
	if (!s->is_busy) {
		free_socket(s);
	}
}

static void close_owner(struct node_socket *s, unsigned code, const char *reason)
{
	s->ops->closed(s->owner, code, reason);
	let_go(s);
}

static void lose(struct node_socket *s, const char *why)
{
	metrics_add(s->server->metrics, METRIC_NODE_FAILURES, 1);
	node_warn(s->server, s->address, why);
	close_owner(s, WS_CLOSE_GOING_AWAY, "owner gone");
}

static void handle_ended(void *owner, const char *why)
{
	struct node_socket *s = owner;
	s->link = NULL;
	lose(s, why);
}

void node_socket_leave(struct node_socket *s)
{
	if (!s) {
		return;
	}
	if (s->is_open) {
		send_frame(s, WS_CLOSE, "\x03\xe9", 2); /* 1001 */
	}
	let_go(s);
}

/* --- input --- */

/** Handles the other node's close frame. */
static void take_close(struct node_socket *s)
{
	int code = ws_close_code(s->control.data, s->control.len);
	char *reason = s->control.len > 2 ? xstrndup(s->control.data + 2, s->control.len - 2)
					  : xstrdup("");
	send_frame(s, WS_CLOSE, s->control.data, code > 0 ? 2 : 0);
	close_owner(s, code < 0 ? WS_CLOSE_GOING_AWAY : (unsigned)code, reason);
	free(reason);
}

static void take_control(struct node_socket *s, const struct ws_piece *piece)
{
	buffer_append(&s->control, piece->bytes, piece->len);
	if (!piece->is_last) {
		return;
	}
	if (piece->opcode == WS_CLOSE) {
		take_close(s);
		return;
	}
	if (piece->opcode == WS_PING) {
		send_frame(s, WS_PONG, s->control.data, s->control.len);
	}
	buffer_finish(&s->control);
}

static void take_data(struct node_socket *s, const struct ws_piece *piece)
{
	if (piece->is_first && piece->is_last) {
		s->ops->message(s->owner, piece->bytes, piece->len); /* in one piece: not copied */
		return;
	}
	buffer_append(&s->message, piece->bytes, piece->len);
	if (piece->is_last) {
		struct buffer whole = s->message;
		buffer_init(&s->message);
		s->ops->message(s->owner, whole.data, whole.len);
		buffer_finish(&whole);
	}
}

static void take_frames(struct node_socket *s, char *bytes, size_t len)
{
	struct ws_piece piece;
	int r = 0;
	while (s->link && (r = ws_read(&s->reader, &bytes, &len, MESSAGE_MAX, &piece)) > 0) {
		if (piece.opcode < WS_CLOSE) {
			take_data(s, &piece);
		} else {
			take_control(s, &piece);
		}
	}
	if (r < 0 && s->link) {
		lose(s, "it sends invalid WebSocket frames");
	}
}

/** Handles a part of the answer to the handshake, and the frames after it. */
static void take_answer(struct node_socket *s, char *bytes, size_t len)
{
	static const char good[] = "HTTP/1.1 101 ";
	size_t had = s->head.len;
	buffer_append(&s->head, bytes, len);
	const char *end = memmem(s->head.data, s->head.len, "\r\n\r\n", 4);
	if (!end && s->head.len > ANSWER_HEAD_MAX) {
		lose(s, "the head of its answer is too long");
	} else if (end && (s->head.len < sizeof(good) ||
				  memcmp(s->head.data, good, sizeof(good) - 1) != 0)) {
		lose(s, "it refuses the WebSocket");
	} else if (end) {
		size_t used = (size_t)(end + 4 - s->head.data) - had; /* part of this input */
		s->is_open = true;
		buffer_finish(&s->head);
		s->ops->opened(s->owner);
		take_frames(s, bytes + used, len - used);
	}
}

static void handle_received(void *owner, char *bytes, size_t len)
{
	struct node_socket *s = owner;
	s->heard_ms = now_ms(s);
	s->is_pinged = false;
	s->is_busy = true;
	if (s->is_open) {
		take_frames(s, bytes, len);
	} else {
		take_answer(s, bytes, len);
	}
	s->is_busy = false;
	if (!s->ops) {
		free_socket(s);
	}
}

/* --- the connection --- */

static void handle_connected(void *owner)
{
	struct node_socket *s = owner;
	node_link_write(s->link, s->request.data, s->request.len);
	buffer_finish(&s->request);
	s->heard_ms = now_ms(s);
}

static void handle_writable(void *owner)
{
	struct node_socket *s = owner;
	if (s->is_open) {
		s->ops->writable(s->owner);
	}
}

static const struct node_link_ops link_ops = {
	.connected = handle_connected,
	.received = handle_received,
	.writable = handle_writable,
	.ended = handle_ended,
};

static void write_request(struct buffer *out, const struct node_socket_config *config)
{
	unsigned char bytes[16];
	char key[32];
	read_random(bytes, sizeof(bytes));
	EVP_EncodeBlock((unsigned char *)key, bytes, sizeof(bytes));
	buffer_printf(out,
		"GET %s HTTP/1.1\r\nhost: %s\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
		"sec-websocket-version: 13\r\nsec-websocket-key: %s\r\n",
		config->target, config->address, key);
	if (config->protocol) {
		buffer_printf(out, "sec-websocket-protocol: %s\r\n", config->protocol);
	}
	buffer_printf(out, NODE_IDENTITY_FIELD ": %s\r\n\r\n", config->identity);
}

struct node_socket *node_socket_open(struct server *server, const struct node_socket_config *config,
	const struct node_socket_ops *ops, void *owner)
{
	struct node_socket *s = xcalloc(1, sizeof(*s));
	s->server = server;
	s->ops = ops;
	s->owner = owner;
	s->address = xstrdup(config->address);
	s->reader.is_client = true;
	write_request(&s->request, config);
	s->link = node_link_open(server, config->address, &link_ops, s);
	if (!s->link) {
		free_socket(s);
		return NULL;
	}
	metrics_add(server->metrics, METRIC_NODE_SOCKETS, 1);
	return s;
}

void node_socket_send(struct node_socket *s, const char *text, size_t len)
{
	send_frame(s, WS_TEXT, text, len);
}

bool node_socket_is_choked(const struct node_socket *s)
{
	return node_link_is_choked(s->link);
}

void node_socket_pause(struct node_socket *s, bool paused)
{
	s->is_paused = paused;
	node_link_pause(s->link, paused);
}

size_t node_socket_kept(const struct node_socket *s)
{
	return s->message.cap;
}

void node_socket_sweep(struct node_socket *s)
{
	int64_t silent = now_ms(s) - s->heard_ms;
	int64_t most = s->server->limits->node_silence_ms;
	if (!s->heard_ms || s->is_paused) {
		s->heard_ms = s->heard_ms ? now_ms(s) : 0; /* nothing is read */
	} else if (silent > 2 * most) {
		metrics_limit(s->server->metrics, LIMIT_node_silence_ms);
		lose(s, "it does not answer any more");
	} else if (silent > most && s->is_open && !s->is_pinged) {
		s->is_pinged = true;
		send_frame(s, WS_PING, "", 0);
	}
}
