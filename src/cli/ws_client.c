#include "ws_client.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define MESSAGE_MAX ((uint64_t)256 << 20)
#define HEAD_MAX    ((size_t)64 << 10)
#define GUID        "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

enum { OP_MORE = 0, OP_TEXT = 1, OP_CLOSE = 8, OP_PING = 9, OP_PONG = 10 };

struct ws_client {
	struct http_wire wire;
	struct buffer in; /* received, not consumed yet */
};

/** Reads until `wanted` bytes are in `in`. Returns 1, 0 at the end, or a negative errno. */
static int fill(struct ws_client *client, size_t wanted)
{
	while (client->in.len < wanted) {
		ssize_t n = http_wire_read(&client->wire, &client->in);
		if (n <= 0) {
			return (int)n;
		}
	}
	return 1;
}

/* --- the handshake --- */

static void make_key(char key[32])
{
	unsigned char bytes[16];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		abort();
	}
	EVP_EncodeBlock((unsigned char *)key, bytes, sizeof(bytes));
}

static void make_accept(const char *key, char accept[32])
{
	char text[96];
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	snprintf(text, sizeof(text), "%s" GUID, key);
	EVP_Digest(text, strlen(text), sum, &len, EVP_sha1(), NULL);
	EVP_EncodeBlock((unsigned char *)accept, sum, (int)len);
}

/** Reads the head of the answer. Returns 0, or a negative errno with *ret_why: no upgrade. */
static int take_upgrade(struct ws_client *client, const char *key, int *ret_status, char **ret_why)
{
	char accept[32];
	const char *end = NULL;
	int r = 1;
	while (r > 0 && !end && client->in.len < HEAD_MAX) {
		r = fill(client, client->in.len + 1);
		end = r > 0 ? strstr(buffer_cstr(&client->in), "\r\n\r\n") : NULL;
	}
	if (!end || sscanf(client->in.data, "HTTP/1.%*d %d", ret_status) != 1) {
		*ret_why = xprintf(
			"no answer: %s", r < 0 ? strerror(-r) : "the connection was closed");
		return r < 0 ? r : -EPROTO;
	}
	make_accept(key, accept);
	char *head = xstrndup(client->in.data, (size_t)(end - client->in.data));
	bool fits = *ret_status == 101 && strcasestr(head, "\r\nsec-websocket-accept:") &&
		    strstr(head, accept);
	free(head);
	buffer_consume(&client->in, (size_t)(end + 4 - client->in.data));
	if (!fits) {
		*ret_why = xprintf("the server answers with status %d", *ret_status);
		return -EPROTO;
	}
	return 0;
}

int ws_client_open(const struct http_url *url, const char *path, struct ws_client **ret,
	int *ret_status, char **ret_why)
{
	char key[32];
	char more[160];
	struct ws_client *client = xcalloc(1, sizeof(*client));
	struct buffer request = {0};
	*ret = NULL;
	*ret_status = 0;
	*ret_why = NULL;
	int r = http_wire_open(url, &client->wire, ret_why);
	if (r < 0) {
		free(client);
		return r;
	}
	make_key(key);
	snprintf(more, sizeof(more),
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: %s\r\n",
		key);
	http_append_head(&request, url, "GET", path, "1.1", more);
	http_wire_send(&client->wire, request.data, request.len);
	buffer_finish(&request);
	r = take_upgrade(client, key, ret_status, ret_why);
	if (r < 0) {
		ws_client_close(client);
		return r;
	}
	*ret = client;
	return 0;
}

bool ws_client_is_final(int status)
{
	return status >= 400 && status < 500 && status != 408 && status != 429;
}

void ws_client_close(struct ws_client *client)
{
	if (client) {
		http_wire_close(&client->wire);
		buffer_finish(&client->in);
		free(client);
	}
}

/* --- frames --- */

static void send_frame(struct ws_client *client, unsigned op, const char *bytes, size_t len)
{
	struct buffer out = {0};
	unsigned char mask[4];
	if (getrandom(mask, sizeof(mask), 0) != (ssize_t)sizeof(mask)) {
		abort();
	}
	buffer_append_char(&out, (char)(0x80 | op));
	if (len < 126) {
		buffer_append_char(&out, (char)(0x80 | len));
	} else if (len < 65536) {
		uint16_t size = htobe16((uint16_t)len);
		buffer_append_char(&out, (char)(0x80 | 126));
		buffer_append(&out, &size, sizeof(size));
	} else {
		uint64_t size = htobe64(len);
		buffer_append_char(&out, (char)(0x80 | 127));
		buffer_append(&out, &size, sizeof(size));
	}
	buffer_append(&out, mask, sizeof(mask));
	for (size_t i = 0; i < len; i++) {
		buffer_append_char(&out, (char)((unsigned char)bytes[i] ^ mask[i & 3]));
	}
	http_wire_send(&client->wire, out.data, out.len);
	buffer_finish(&out);
}

void ws_client_send(struct ws_client *client, const char *text, size_t len)
{
	send_frame(client, OP_TEXT, text, len);
}

/**
 * Reads a frame's head: its size, its first byte and the length of its payload. The head remains in
 * `in`, since the rest of the frame may be late. Returns as fill() does.
 */
static int read_head(
	struct ws_client *client, size_t *ret_size, unsigned *ret_first, uint64_t *ret_len)
{
	int r = fill(client, 2);
	if (r <= 0) {
		return r;
	}
	unsigned small = (unsigned char)client->in.data[1];
	size_t more = small == 126 ? 2 : small == 127 ? 8 : 0;
	r = small & 0x80 ? -EPROTO : fill(client, 2 + more); /* servers must not mask */
	if (r <= 0) {
		return r;
	}
	const unsigned char *bytes = (const unsigned char *)client->in.data;
	*ret_size = 2 + more;
	*ret_first = bytes[0];
	*ret_len = more ? 0 : small;
	for (size_t i = 0; i < more; i++) {
		*ret_len = *ret_len << 8 | bytes[2 + i];
	}
	return *ret_len > MESSAGE_MAX || (*ret_first & 0x70) ? -EPROTO : 1;
}

/** Handles a control frame. Returns 1, or 0 if it closes the connection. */
static int take_control(
	struct ws_client *client, unsigned op, const char *bytes, size_t len, unsigned *ret_code)
{
	if (op == OP_PING) {
		send_frame(client, OP_PONG, bytes, len);
	} else if (op == OP_CLOSE) {
		*ret_code =
			len >= 2
				? (unsigned)((unsigned char)bytes[0] << 8 | (unsigned char)bytes[1])
				: 1005;
		send_frame(client, OP_CLOSE, bytes, len < 2 ? len : 2);
		return 0;
	}
	return 1;
}

/**
 * Reads a frame, and appends it to `out` if it is part of a message. Returns 1, and whether it ends
 * a message; 0 if the connection is over; or a negative errno.
 */
static int take_frame(
	struct ws_client *client, struct buffer *out, unsigned *ret_code, bool *ret_is_whole)
{
	size_t head;
	unsigned first;
	uint64_t len;
	int r = read_head(client, &head, &first, &len);
	r = r <= 0                         ? r
	    : out->len + len > MESSAGE_MAX ? -EMSGSIZE
					   : fill(client, head + (size_t)len);
	if (r <= 0) {
		return r;
	}
	unsigned op = first & 15;
	if (op >= OP_CLOSE) {
		r = take_control(client, op, client->in.data + head, (size_t)len, ret_code);
	} else {
		buffer_append(out, client->in.data + head, (size_t)len);
	}
	buffer_consume(&client->in, head + (size_t)len);
	*ret_is_whole = op < OP_CLOSE && (first & 0x80);
	return r;
}

int ws_client_read(struct ws_client *client, struct buffer *out, unsigned *ret_code)
{
	bool is_whole = false;
	int r = 1;
	*ret_code = 1006;
	while (r > 0 && !is_whole) {
		r = take_frame(client, out, ret_code, &is_whole);
	}
	return r;
}

int ws_client_fd(const struct ws_client *client)
{
	return client->wire.fd;
}

void ws_client_ping(struct ws_client *client)
{
	send_frame(client, OP_PING, "", 0);
}

/** Whether take_frame() would not have to wait: a frame is complete, or invalid by its head. */
static bool has_frame(const struct ws_client *client)
{
	const unsigned char *bytes = (const unsigned char *)client->in.data;
	size_t had = client->in.len;
	if (had < 2) {
		return false;
	}
	size_t more = bytes[1] == 126 ? 2 : bytes[1] == 127 ? 8 : 0;
	uint64_t len = more ? 0 : bytes[1] & 0x7f;
	for (size_t i = 0; i < more && had >= 2 + more; i++) {
		len = len << 8 | bytes[2 + i];
	}
	bool is_wrong = (bytes[1] & 0x80) || len > MESSAGE_MAX;
	return had >= 2 + more && (is_wrong || had - 2 - more >= len);
}

/** Reads what has come, once. Over TLS a part of a record makes the socket readable. */
static ssize_t read_some(struct ws_client *client)
{
	int flags = fcntl(client->wire.fd, F_GETFL);
	fcntl(client->wire.fd, F_SETFL, flags | O_NONBLOCK);
	ssize_t n = http_wire_read(&client->wire, &client->in);
	fcntl(client->wire.fd, F_SETFL, flags);
	return n;
}

int ws_client_take(
	struct ws_client *client, bool is_readable, struct buffer *out, unsigned *ret_code)
{
	bool is_whole = false;
	*ret_code = 1006;
	if (is_readable) {
		ssize_t n = read_some(client);
		if (n <= 0) {
			return (int)n;
		}
	}
	while (has_frame(client)) {
		int r = take_frame(client, out, ret_code, &is_whole);
		if (r <= 0 || is_whole) {
			return r;
		}
	}
	return -EAGAIN;
}
