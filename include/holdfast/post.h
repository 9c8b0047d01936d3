/*
 * Sends one HTTP request to another machine, for Web Push and webhooks. It connects only to allowed
 * addresses and follows no redirects. Only the head of the answer is read. One deadline covers all
 * steps.
 */
#ifndef HOLDFAST_POST_H
#define HOLDFAST_POST_H

#include "holdfast/address.h"
#include "holdfast/buffer.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define POST_URL_MAX 1024

/** The parts of a URL. */
struct post_url {
	bool is_tls; /* https, else http */
	bool is_literal; /* the host is an address */
	char host[256]; /* in lower case; without brackets */
	char port[6];
	bool has_port; /* the port is not the default of the scheme */
	char path[POST_URL_MAX]; /* with the query */
	char origin[280]; /* as a browser writes it */
};

/* What post_url_parse() accepts besides https and names. */
#define POST_URL_PLAIN   1U /* http */
#define POST_URL_ADDRESS 2U /* an address in place of a name */
#define POST_URL_TYPED   4U /* as a person writes it: upper-case letters, no path, `_` in the name */

/**
 * Parses a URL (RFC 3986) in the form in which browsers write it: scheme and host in lower case, with a
 * path. Refused, although it allows them: a user, who would be sent to whoever has the host; a fragment,
 * which is not sent; an empty port; a zone of an address; and escapes in a host. Returns false if invalid.
 */
bool post_url_parse(const char *text, unsigned also, struct post_url *ret);
/** Whether these bytes are the number of a port. */
bool post_port_is_valid(const char *text, size_t len);
/** Whether connecting is allowed: to an address in these ranges, or a public one. */
bool post_may_connect(
	const struct address_range *ranges, size_t count, const struct address *address);
/**
 * Creates a context that trusts the certificates of a PEM file (NULL: none); post_send() adds the
 * system's. Blocks. Returns NULL if the file cannot be read.
 */
SSL_CTX *post_tls_create(const char *ca_file);
/**
 * Makes the context trust the system's certificates, if it does not yet. Reads more than a hundred
 * from disk, so it is not for the loop's thread. May run on any other. Returns false on failure.
 */
bool post_tls_trust_system(SSL_CTX *tls);

struct post {
	const struct address_range *addresses; /* private addresses that are allowed */
	size_t address_count;
	SSL_CTX *tls; /* for https */
	const struct post_url *url;
	const char *headers; /* whole lines, each with CRLF */
	const struct buffer *body;
	int64_t timeout_ms; /* for all but resolving the name and loading certificates */
	int stop_fd; /* aborts the request when it becomes readable */
};
/**
 * Sends a request and reads the head of the answer. Blocks. Returns the status, with the seconds of
 * Retry-After as of `now_s` (0: none), or a negative errno: -EACCES if no address of the host is
 * allowed, -ETIMEDOUT, -ECANCELED by stop_fd, and others.
 */
int post_send(const struct post *post, int64_t now_s, int64_t *ret_retry_s);
/**
 * Parses the head of an answer, a NUL-terminated text; a body behind it is not read. Returns the status, with the seconds of
 * Retry-After as of `now_s` (0: none), or -EPROTO. A pure function.
 */
int post_read_answer(const char *head, int64_t now_s, int64_t *ret_retry_s);
/**
 * Parses the value of Retry-After (RFC 9110, section 10.2.3): digits, or a date in any of the three forms
 * of section 5.6.7. Returns seconds, at most 2^31 - 1, or 0 if it is invalid.
 */
int64_t post_retry_after(const char *value, int64_t now_s);

#endif
