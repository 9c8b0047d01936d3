/* A small, blocking HTTP client for the commands: one request and its answer at a time. */
#ifndef HOLDFAST_HTTP_H
#define HOLDFAST_HTTP_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <sys/types.h>

struct http_url {
	enum { HTTP_TCP, HTTP_TLS, HTTP_UNIX } kind;
	char host[256]; /* with HTTP_UNIX the path of the socket */
	char port[8];
	char path[256]; /* prefix of the path of each request, without a slash at its end */
	const char *token; /* sent with each request; NULL: none */
	bool is_own; /* our data directory names this server: any certificate is accepted */
};

/**
 * Parses http:// or https:// and HOST[:PORT][/PATH], or unix:PATH. The token is left NULL. Returns
 * 0 or -EINVAL.
 */
int http_parse_url(const char *text, struct http_url *ret);
/**
 * POSTs a body to a path below the URL, on a connection of its own. Returns 0 with the status and
 * the answer's body, or a negative errno with *ret_why (caller frees): then the server may or may
 * not have processed the request.
 */
int http_post(const struct http_url *url, const char *path, const char *content_type,
	const char *body, size_t len, int *ret_status, struct buffer *ret_answer, char **ret_why);

/** The same with any method. `content_type` is NULL if the request has no body. */
int http_request(const struct http_url *url, const char *method, const char *path,
	const char *content_type, const char *body, size_t len, int *ret_status,
	struct buffer *ret_answer, char **ret_why);

struct tls_client;
/** A connection, with TLS or without. */
struct http_wire {
	int fd;
	struct tls_client *tls; /* NULL: none */
};
/**
 * Connects; reads and writes time out after a minute. Returns 0, or a negative errno with *ret_why
 * (caller frees).
 */
int http_wire_open(const struct http_url *url, struct http_wire *ret, char **ret_why);
void http_wire_close(struct http_wire *wire);
/**
 * Sends bytes, ignoring errors: a server that refuses a request may close before it has read all of
 * it, and its answer can still be read.
 */
void http_wire_send(const struct http_wire *wire, const char *bytes, size_t len);
/**
 * Appends the next bytes to `out`. Returns their number, 0 at the end, -EAGAIN after a minute, or
 * another negative errno.
 */
ssize_t http_wire_read(const struct http_wire *wire, struct buffer *out);
/** Appends the head of a request with the token, and `more`, which is complete header lines. */
void http_append_head(struct buffer *out, const struct http_url *url, const char *method,
	const char *path, const char *version, const char *more);

#endif
