/*
 * One HTTP request to another machine, for messages that the server sends: Web Push, webhooks. It is made with an
 * address that has been looked at, follows no redirect, and of the answer only the head is read. All waiting has
 * one end.
 */
#ifndef HOLDFAST_POST_H
#define HOLDFAST_POST_H

#include "holdfast/address.h"
#include "holdfast/buffer.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define POST_URL_MAX 1024

/** A URL, apart. */
struct post_url {
	bool is_tls; /* https, else http */
	bool is_literal; /* the host is an address */
	char host[256]; /* in lower case; without brackets */
	char port[6];
	bool has_port; /* another one than its scheme has */
	char path[POST_URL_MAX]; /* with the query */
	char origin[280]; /* as a browser writes it */
};

/* What a URL may have besides https and a name. */
#define POST_URL_PLAIN   1U /* http */
#define POST_URL_ADDRESS 2U /* an address in place of a name */

/** False if it is not such a URL, with a path, no user and no fragment. */
bool post_url_parse(const char *text, unsigned also, struct post_url *ret);
/** Whether it is connected to: an address of the internet, or one in these ranges. */
bool post_may_connect(
	const struct address_range *ranges, size_t count, const struct address *address);
/** What trusts the certificates of a file (PEM; NULL: none). NULL if that cannot be read. post_send() adds the system's. */
SSL_CTX *post_tls_create(const char *ca_file);
/**
 * Adds the system's certificates, unless it has them. A hundred and more of them are read from disk: not on the loop, and not
 * before they are needed. From any thread. False if there is no memory.
 */
bool post_tls_trust_system(SSL_CTX *tls);

struct post {
	const struct address_range *addresses; /* private ones that the host may have */
	size_t address_count;
	SSL_CTX *tls; /* of URLs with https */
	const struct post_url *url;
	const char *headers; /* lines of its own, each with its end */
	const struct buffer *body;
	int64_t timeout_ms; /* for all of it, but for the name server and certificates of our own */
	int stop_fd; /* can be read when there is no more time */
};
/**
 * Sends a request and reads the head of the answer. Blocks. Returns the status, and the seconds of Retry-After (0:
 * none) as of `now_s`; or a negative errno: -EACCES if the host has no address that is allowed.
 */
int post_send(const struct post *post, int64_t now_s, int64_t *ret_retry_s);
/**
 * What the head of an answer says, which ends with a NUL: the status, or -EPROTO, and the seconds of Retry-After as of
 * `now_s` (0: none). Pure.
 */
int post_read_answer(const char *head, int64_t now_s, int64_t *ret_retry_s);
/** The seconds that a Retry-After says, or 0. */
int64_t post_retry_after(const char *value, int64_t now_s);

#endif
