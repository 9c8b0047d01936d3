#include "http.h"

#include "http_tls.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)64 << 20)
#define TIMEOUT_S  60
/* Including the NUL. */
#define UNIX_PATH_SIZE sizeof(((struct sockaddr_un *)NULL)->sun_path)

/* --- the URL --- */

static int copy_part(char *to, size_t size, const char *text, size_t len)
{
	if (!len || len >= size) {
		return -EINVAL;
	}
	memcpy(to, text, len);
	to[len] = '\0';
	return 0;
}

int http_parse_url(const char *text, struct http_url *ret)
{
	*ret = (struct http_url){.port = "80"};
	if (strncmp(text, "unix:", 5) == 0) {
		ret->kind = HTTP_UNIX;
		return copy_part(ret->host, UNIX_PATH_SIZE, text + 5, strlen(text + 5));
	}
	bool is_tls = strncasecmp(text, "https://", 8) == 0;
	if ((!is_tls && strncasecmp(text, "http://", 7) != 0) || strpbrk(text, " \t\r\n@?#")) {
		return -EINVAL;
	}
	text += is_tls ? 8 : 7;
	if (is_tls) {
		*ret = (struct http_url){.kind = HTTP_TLS, .port = "443"};
	}
	size_t len = strcspn(text, "/");
	const char *path = text + len;
	size_t host = len;
	if (*text == '[') { /* an IPv6 address */
		text++;
		len--;
		host = strcspn(text, "]");
		if (host >= len) {
			return -EINVAL;
		}
	} else {
		host = strcspn(text, ":/");
	}
	int r = copy_part(ret->host, sizeof(ret->host), text, host);
	text += host + (text[host] == ']');
	if (r == 0 && *text == ':') {
		size_t digits = strspn(text + 1, "0123456789");
		r = text + 1 + digits == path
			    ? copy_part(ret->port, sizeof(ret->port), text + 1, digits)
			    : -EINVAL;
	} else if (text != path) {
		r = -EINVAL;
	}
	len = strlen(path);
	while (len && path[len - 1] == '/') {
		len--;
	}
	return r < 0 || !len ? r : copy_part(ret->path, sizeof(ret->path), path, len);
}

/* --- the connection --- */

/** Returns a connected socket, or a negative errno. */
static int connect_one(const struct sockaddr *address, socklen_t len)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, address, len) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static int connect_unix(const struct http_url *url, char **ret_why)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, url->host, strlen(url->host));
	int fd = connect_one((const struct sockaddr *)&address, sizeof(address));
	if (fd < 0) {
		*ret_why = xprintf("cannot connect to unix:%s: %s", url->host, strerror(-fd));
	}
	return fd;
}

static int connect_to(const struct http_url *url, char **ret_why)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	if (url->kind == HTTP_UNIX) {
		return connect_unix(url, ret_why);
	}
	int error = getaddrinfo(url->host, url->port, &hints, &found);
	if (error) {
		*ret_why = xprintf("%s: %s", url->host, gai_strerror(error));
		return -EHOSTUNREACH;
	}
	int fd = -ECONNREFUSED;
	for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
		fd = connect_one(at->ai_addr, at->ai_addrlen);
	}
	freeaddrinfo(found);
	if (fd < 0) {
		*ret_why = xprintf(
			"cannot connect to %s port %s: %s", url->host, url->port, strerror(-fd));
	}
	return fd;
}

int http_wire_open(const struct http_url *url, struct http_wire *ret, char **ret_why)
{
	*ret = (struct http_wire){.fd = connect_to(url, ret_why)};
	if (ret->fd < 0 || url->kind != HTTP_TLS) {
		return ret->fd < 0 ? ret->fd : 0;
	}
	ret->tls = tls_client_create(ret->fd, url->host, url->is_own, ret_why);
	if (!ret->tls) {
		close(ret->fd);
	}
	return ret->tls ? 0 : -EPROTO;
}

void http_wire_close(struct http_wire *wire)
{
	tls_client_destroy(wire->tls);
	close(wire->fd);
}

void http_wire_send(const struct http_wire *wire, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = wire->tls ? tls_client_write(wire->tls, bytes, len)
				      : send(wire->fd, bytes, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return;
		}
		bytes += n;
		len -= (size_t)n;
	}
}

ssize_t http_wire_read(const struct http_wire *wire, struct buffer *out)
{
	for (;;) {
		buffer_reserve(out, 1 << 16);
		char *at = out->data + out->len;
		ssize_t n = wire->tls ? tls_client_read(wire->tls, at, 1 << 16)
				      : recv(wire->fd, at, 1 << 16, 0);
		n = n < 0 && !wire->tls ? -errno : n;
		if (n == -EINTR) {
			continue;
		}
		out->len += n > 0 ? (size_t)n : 0;
		return n;
	}
}

static int read_all(const struct http_wire *wire, struct buffer *out)
{
	ssize_t n;
	while ((n = http_wire_read(wire, out)) > 0) {
		if (out->len > ANSWER_MAX) {
			return -EMSGSIZE;
		}
	}
	return (int)n;
}

/* --- the answer --- */

/** Returns the value of a header as a number, or -1 without it. `name`: "\r\nname:". */
static long header_number(const char *head, const char *name)
{
	const char *at = strcasestr(head, name);
	return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

/**
 * Reads the status, and leaves only the body in `answer`. Returns 0, or a negative errno if the
 * answer is incomplete: without a length it is complete only if the connection has ended well, with
 * `end_of_read` 0.
 */
static int take_answer(struct buffer *answer, int end_of_read, int *ret_status)
{
	const char *text = buffer_cstr(answer);
	const char *end = strstr(text, "\r\n\r\n");
	if (!end || sscanf(text, "HTTP/1.%*d %d", ret_status) != 1) {
		return -EPROTO;
	}
	char *head = xstrndup(text, (size_t)(end - text));
	long length = header_number(head, "\r\ncontent-length:");
	free(head);
	buffer_consume(answer, (size_t)(end + 4 - text));
	if (length < 0) {
		return end_of_read;
	}
	return answer->len < (size_t)length ? -EPROTO : 0;
}

void http_append_head(struct buffer *out, const struct http_url *url, const char *method,
	const char *path, const char *version, const char *more)
{
	bool is_v6 = url->kind != HTTP_UNIX && strchr(url->host, ':');
	const char *host = url->kind == HTTP_UNIX ? "localhost" : url->host;
	buffer_printf(out, "%s %s%s HTTP/%s\r\nHost: %s%s%s:%s\r\n%s", method, url->path, path,
		version, is_v6 ? "[" : "", host, is_v6 ? "]" : "", url->port, more);
	if (url->token) {
		buffer_printf(out, "Authorization: Bearer %s\r\n", url->token);
	}
	buffer_append_str(out, "\r\n");
}

/** Appends a request, of HTTP/1.0 so that the answer is not chunked and ends the connection. */
static void append_request(struct buffer *out, const struct http_url *url, const char *method,
	const char *path, const char *content_type, const char *body, size_t len)
{
	struct buffer more = {0};
	if (content_type) {
		buffer_printf(
			&more, "Content-Type: %s\r\nContent-Length: %zu\r\n", content_type, len);
	}
	buffer_append_str(&more, "Connection: close\r\n");
	http_append_head(out, url, method, path, "1.0", buffer_cstr(&more));
	buffer_append(out, body, len);
	buffer_finish(&more);
}

int http_request(const struct http_url *url, const char *method, const char *path,
	const char *content_type, const char *body, size_t len, int *ret_status,
	struct buffer *ret_answer, char **ret_why)
{
	*ret_why = NULL;
	struct http_wire wire;
	int r = http_wire_open(url, &wire, ret_why);
	if (r < 0) {
		return r;
	}
	struct buffer request = {0};
	append_request(&request, url, method, path, content_type, body, len);
	http_wire_send(&wire, request.data, request.len);
	buffer_finish(&request);
	buffer_clear(ret_answer);
	r = read_all(&wire, ret_answer);
	http_wire_close(&wire);
	int parsed = take_answer(ret_answer, r, ret_status);
	if (parsed == 0) {
		return 0;
	}
	r = r < 0 ? r : parsed;
	bool is_unix = url->kind == HTTP_UNIX;
	*ret_why = xprintf("no answer from %s%s%s%s: %s", is_unix ? "unix:" : "", url->host,
		is_unix ? "" : " port ", is_unix ? "" : url->port,
		r == -EAGAIN ? "it takes too long" : strerror(-r));
	return r;
}

int http_post(const struct http_url *url, const char *path, const char *content_type,
	const char *body, size_t len, int *ret_status, struct buffer *ret_answer, char **ret_why)
{
	return http_request(
		url, "POST", path, content_type, body, len, ret_status, ret_answer, ret_why);
}
