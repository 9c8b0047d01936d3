/* As much of an HTTP client as the commands need: one POST, one answer, waiting for both. */
#ifndef HOLDFAST_HTTP_H
#define HOLDFAST_HTTP_H

#include "holdfast/buffer.h"

#include <stdbool.h>

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

#endif
