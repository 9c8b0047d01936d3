/* What the files of the push room share: one request to a push service. */
#ifndef HOLDFAST_PUSH_INTERNAL_H
#define HOLDFAST_PUSH_INTERNAL_H

#include "holdfast/push.h"

#include "holdfast/push_message.h"

#include <openssl/ssl.h>

#define PUSH_URL_MAX 1024

/** An endpoint, apart. */
struct push_url {
	char host[256]; /* in lower case */
	char port[6];
	bool has_port; /* it is written in the URL */
	char path[PUSH_URL_MAX]; /* with the query */
	char origin[280]; /* as a browser writes it */
};
/** False if it is not a URL of a push service: https, a name, no user and no fragment. */
bool push_url_parse(const char *text, struct push_url *ret);
/** Whether it is connected to: one of the internet, or one that the operator names. */
bool push_rules_allow_address(const struct push_rules *rules, const struct address *address);
/** Whether the operator lets messages go to this host. */
bool push_rules_allow(const struct push_rules *rules, const struct push_url *url);

struct push_post {
	const struct push_rules *rules;
	SSL_CTX *tls;
	const struct push_url *url;
	const char *headers; /* lines of its own, each with its end */
	const struct buffer *body;
	int64_t timeout_ms; /* for all of it, but for the name server */
	int stop_fd; /* can be read when there is no more time */
};
/**
 * Sends a request and reads the head of the answer. Blocks. Returns the status, and the seconds of Retry-After (0:
 * none) as of `now_s`; or a negative errno: -EACCES if the host has no address that is allowed.
 */
int push_post(const struct push_post *post, int64_t now_s, int64_t *ret_retry_s);
/** The seconds that a Retry-After says, or 0. */
int64_t push_retry_after(const char *value, int64_t now_s);

#endif
