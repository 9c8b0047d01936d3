/* As much of an HTTP client as the commands need: one request, one answer, waiting for both. */
#ifndef HOLDFAST_HTTP_H
#define HOLDFAST_HTTP_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <sys/types.h>

struct http_url {
	enum { HTTP_TCP, HTTP_TLS, HTTP_UNIX } kind;
	char host[256]; /* of HTTP_UNIX the socket's path */
	char port[8];
	char path[256]; /* what our paths go behind; no slash at its end */
	const char *token; /* sent with each request; NULL: none */
	bool is_own; /* it is of this machine and of our data directory: any certificate will do */
};

/** Takes http:// or https://, HOST[:PORT][/PATH]; or unix:PATH; with no token; -EINVAL if it is none. */
int http_parse_url(const char *text, struct http_url *ret);
/**
 * POSTs a body to a path below the URL, on a connection of its own. Returns 0 with the status and
 * the answer's body, or a negative errno with *ret_why (caller frees): then it is not known whether
 * the server has taken it.
 */
int http_post(const struct http_url *url, const char *path, const char *content_type,
	const char *body, size_t len, int *ret_status, struct buffer *ret_answer, char **ret_why);

/** The same with another method; `content_type` NULL: there is no body. */
int http_request(const struct http_url *url, const char *method, const char *path,
	const char *content_type, const char *body, size_t len, int *ret_status,
	struct buffer *ret_answer, char **ret_why);

struct tls_client;
/** A connection, with TLS or without. */
struct http_wire {
	int fd;
	struct tls_client *tls; /* NULL: none */
};
/** Connects; reading and writing wait for a minute at most. On failure *ret_why (caller frees). */
int http_wire_open(const struct http_url *url, struct http_wire *ret, char **ret_why);
void http_wire_close(struct http_wire *wire);
/** A server that refuses early may close before it has read all: its answer tells why. */
void http_wire_send(const struct http_wire *wire, const char *bytes, size_t len);
/** Appends what comes next: how many bytes, 0 at the end, -EAGAIN after a minute, another errno. */
ssize_t http_wire_read(const struct http_wire *wire, struct buffer *out);
/** Appends the head of a request, with the token; `more`: whole header lines. */
void http_append_head(struct buffer *out, const struct http_url *url, const char *method,
	const char *path, const char *version, const char *more);

#endif
