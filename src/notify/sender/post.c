#include "post_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 16384 /* of an answer */

/* A wait is looked at this often. What takes twice as long was no wait: we were stopped (ms). */
#define PIECE_MS 1000

/** A connection, and its deadline. */
struct line {
	int fd;
	int stop_fd;
	int64_t until_ms;
	int64_t seen_ms; /* when the time was read last */
	SSL *tls; /* NULL: plain HTTP */
};

/* --- addresses --- */

static bool is_allowed(const struct post *post, const struct sockaddr *sockaddr)
{
	struct address address = {.bytes = {[10] = 0xff, [11] = 0xff}};
	if (sockaddr->sa_family == AF_INET) {
		memcpy(address.bytes + 12, &((const struct sockaddr_in *)sockaddr)->sin_addr, 4);
	} else if (sockaddr->sa_family == AF_INET6) {
		memcpy(address.bytes, &((const struct sockaddr_in6 *)sockaddr)->sin6_addr, 16);
	} else {
		return false;
	}
	return post_may_connect(post->addresses, post->address_count, &address);
}

/* --- waiting --- */

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/** The time that the other side has left. That in which we were stopped is not its time. */
static int64_t left_ms(struct line *line)
{
	int64_t now = now_ms();
	int64_t gap = now - line->seen_ms;
	line->until_ms += gap > 2 * PIECE_MS ? gap - PIECE_MS : 0;
	line->seen_ms = now;
	return line->until_ms > now ? line->until_ms - now : 0;
}

static int wait_for(struct line *line, short events)
{
	for (;;) {
		struct pollfd fds[] = {{.fd = line->fd, .events = events},
			{.fd = line->stop_fd, .events = POLLIN}};
		int64_t left = left_ms(line);
		int n = poll(fds, 2, (int)(left < PIECE_MS ? left : PIECE_MS));
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		if (n == 0 && left == 0) {
			return -ETIMEDOUT;
		}
		if (n > 0) {
			return fds[1].revents ? -ECANCELED : 0;
		}
	}
}

/** Connects to an address; the socket is line->fd. */
static int connect_to(struct line *line, const struct addrinfo *at)
{
	int error = 0;
	socklen_t len = sizeof(error);
	line->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (line->fd < 0) {
		return -errno;
	}
	int r = connect(line->fd, at->ai_addr, at->ai_addrlen) < 0 ? -errno : 0;
	if (r == -EINPROGRESS) {
		r = wait_for(line, POLLOUT);
		if (r == 0 && getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0) {
			r = -error;
		}
	}
	if (r < 0) {
		close(line->fd);
		line->fd = -1;
	}
	return r;
}

static int connect_host(const struct post *post, struct line *line)
{
	struct addrinfo *found;
	int r = post_lookup(post->url, post->stop_fd, &found);
	if (r < 0) {
		return r;
	}
	r = -EACCES;
	line->seen_ms = now_ms();
	line->until_ms = line->seen_ms + post->timeout_ms;
	for (const struct addrinfo *at = found; at && r != 0 && r != -ECANCELED; at = at->ai_next) {
		if (is_allowed(post, at->ai_addr)) {
			r = connect_to(line, at);
		}
	}
	freeaddrinfo(found);
	return r;
}

/* --- TLS --- */

/** Waits for what OpenSSL needs to go on. Returns 0, or a negative errno if it cannot. */
static int wait_for_tls(struct line *line, int result)
{
	switch (SSL_get_error(line->tls, result)) {
	case SSL_ERROR_WANT_READ:
		return wait_for(line, POLLIN);
	case SSL_ERROR_WANT_WRITE:
		return wait_for(line, POLLOUT);
	case SSL_ERROR_ZERO_RETURN:
		return -ECONNRESET;
	default:
		return -EPROTO;
	}
}

static int shake_hands(const struct post *post, struct line *line)
{
	int result;
	line->tls = SSL_new(post->tls);
	/* SNI is for names, not for addresses (RFC 6066, section 3). */
	if (!line->tls || SSL_set_fd(line->tls, line->fd) != 1 ||
		(!post->url->is_literal &&
			SSL_set_tlsext_host_name(line->tls, post->url->host) != 1) ||
		SSL_set1_host(line->tls, post->url->host) != 1) {
		return -ENOMEM;
	}
	SSL_set_verify(line->tls, SSL_VERIFY_PEER, NULL);
	for (;;) {
		ERR_clear_error();
		result = SSL_connect(line->tls);
		int r = result == 1 ? 0 : wait_for_tls(line, result);
		if (result == 1 || r < 0) {
			return r;
		}
	}
}

/* --- bytes --- */

/* Both return how many bytes were written or read, 0 to be called again, or a negative errno. */
static ssize_t write_some(struct line *line, const char *bytes, size_t len)
{
	size_t n = 0;
	if (!line->tls) {
		ssize_t sent = send(line->fd, bytes, len, MSG_NOSIGNAL);
		bool waits = sent < 0 && (errno == EAGAIN || errno == EINTR);
		return sent >= 0 ? sent : waits ? wait_for(line, POLLOUT) : -errno;
	}
	ERR_clear_error();
	int result = SSL_write_ex(line->tls, bytes, len, &n);
	return result == 1 ? (ssize_t)n : wait_for_tls(line, result);
}

static ssize_t read_some(struct line *line, char *bytes, size_t len)
{
	size_t n = 0;
	if (!line->tls) {
		ssize_t got = recv(line->fd, bytes, len, 0);
		bool waits = got < 0 && (errno == EAGAIN || errno == EINTR);
		return got > 0    ? got
		       : got == 0 ? -ECONNRESET
		       : waits    ? wait_for(line, POLLIN)
				  : -errno;
	}
	ERR_clear_error();
	int result = SSL_read_ex(line->tls, bytes, len, &n);
	return result == 1 ? (ssize_t)n : wait_for_tls(line, result);
}

static int write_all(struct line *line, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = write_some(line, bytes, len);
		if (n < 0) {
			return (int)n;
		}
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/** Drops whole interim answers, such as 103 (Early Hints), which can come before the answer. */
static void drop_interim(struct buffer *head)
{
	static const char interim[] = "HTTP/1.1 1";
	char *end;
	while (strncmp(head->data, interim, sizeof(interim) - 1) == 0 &&
		(end = strstr(head->data, "\r\n\r\n"))) {
		head->len -= (size_t)(end + 4 - head->data);
		memmove(head->data, end + 4, head->len + 1);
	}
}

/** Reads until the head is complete. The deadline also holds if a byte comes at a time. */
static int read_head(struct line *line, struct buffer *head)
{
	bool was_late = false;
	while (head->len < HEAD_MAX) {
		buffer_reserve(head, 2048);
		bool is_late = left_ms(line) == 0;
		ssize_t n = is_late && was_late ? -ETIMEDOUT /* what was there has been read */
						: read_some(line, head->data + head->len, 2047);
		was_late = is_late;
		if (n < 0) {
			return (int)n;
		}
		head->len += (size_t)n;
		head->data[head->len] = '\0';
		drop_interim(head);
		if (strstr(head->data, "\r\n\r\n")) {
			return 0;
		}
	}
	return -EMSGSIZE;
}

/* --- the answer --- */

/** Whether nothing but blanks follows on the line. */
static bool is_end(const char *at)
{
	at += strspn(at, " \t");
	return !*at || *at == '\r' || *at == '\n';
}

/** Reads a date in seconds since 1970; -1 if it is none. */
static int64_t read_date(const char *text)
{
	static const char *const forms[] = {
		"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"};
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct tm tm = {0};
		const char *end = strptime(text, forms[i], &tm);
		int day = tm.tm_mday;
		int64_t at = end && is_end(end) ? (int64_t)timegm(&tm) : -1;
		if (at >= 0 && tm.tm_mday == day) { /* else the month has no such day */
			return at;
		}
	}
	return -1;
}

int64_t post_retry_after(const char *value, int64_t now_s)
{
	value += strspn(value, " \t");
	size_t digits = strspn(value, "0123456789");
	if (digits) {
		int64_t seconds = digits < 10 ? atoll(value) : INT32_MAX;
		return is_end(value + digits) ? seconds : 0;
	}
	int64_t at = read_date(value);
	return at > now_s ? at - now_s : 0;
}

int post_read_answer(const char *head, int64_t now_s, int64_t *ret_retry_s)
{
	static const char name[] = "\r\nretry-after:";
	int status = 0;
	char behind = ' ';
	const char *retry = strcasestr(head, name);
	const char *end = strstr(head, "\r\n\r\n");
	bool has_one = retry && (!end || retry < end);
	*ret_retry_s = has_one ? post_retry_after(retry + sizeof(name) - 1, now_s) : 0;
	int fields = sscanf(head, "HTTP/1.%*1[0-9] %3d%c", &status, &behind);
	return fields >= 1 && status >= 100 && strchr(" \r\n", behind) ? status : -EPROTO;
}

static int exchange(const struct post *post, struct line *line, struct buffer *head)
{
	struct buffer request = {0};
	buffer_printf(&request,
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n",
		post->url->path, strstr(post->url->origin, "://") + 3, post->body->len,
		post->headers);
	buffer_append(&request, post->body->data, post->body->len);
	int r = write_all(line, request.data, request.len);
	buffer_finish(&request);
	return r < 0 ? r : read_head(line, head);
}

int post_send(const struct post *post, int64_t now_s, int64_t *ret_retry_s)
{
	struct line line = {.fd = -1, .stop_fd = post->stop_fd};
	struct buffer head = {0};
	*ret_retry_s = 0;
	/* Before the deadline is set: this is not the time of the other machine. */
	int r = post->url->is_tls && !post_tls_trust_system(post->tls) ? -ENOMEM : 0;
	r = r < 0 ? r : connect_host(post, &line);
	r = r < 0 || !post->url->is_tls ? r : shake_hands(post, &line);
	r = r < 0 ? r : exchange(post, &line, &head);
	r = r < 0 ? r : post_read_answer(head.data, now_s, ret_retry_s);
	SSL_free(line.tls);
	if (line.fd >= 0) {
		close(line.fd);
	}
	ERR_clear_error();
	buffer_finish(&head);
	return r;
}
