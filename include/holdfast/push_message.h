/*
 * What a Web Push message is made of: its encryption (RFC 8291) and the server's proof of who it is
 * (VAPID, RFC 8292). Pure, but for the random numbers in signatures.
 */
#ifndef HOLDFAST_PUSH_MESSAGE_H
#define HOLDFAST_PUSH_MESSAGE_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define PUSH_POINT_SIZE  65 /* of P-256, uncompressed */
#define PUSH_SECRET_SIZE 16
/* A message of one record, as push services take it: RFC 8291, section 4. */
#define PUSH_PLAIN_MAX 3993

/** The key that names the server to push services. */
struct push_key;
/** Makes it of a secret text, always the same of the same. NULL if OpenSSL cannot. */
struct push_key *push_key_create(const char *text, size_t len);
/** Accepts NULL. */
void push_key_destroy(struct push_key *key);
/** The public part, in base64url: the page's `applicationServerKey`. */
const char *push_key_public(const struct push_key *key);

/** For whom a message is: what a browser tells of its subscription. */
struct push_target {
	unsigned char point[PUSH_POINT_SIZE]; /* "p256dh" */
	unsigned char secret[PUSH_SECRET_SIZE]; /* "auth" */
};
/** False if these are no key and no secret. */
bool push_target_read(const char *p256dh, const char *auth, struct push_target *ret);

/** Random for each message. */
struct push_seed {
	unsigned char scalar[32];
	unsigned char salt[16];
};
/** Appends the body of the request. -EINVAL if a key is none; with random ones that may be bad luck. */
int push_encrypt(const struct push_target *target, const struct push_seed *seed, const char *text,
	size_t len, struct buffer *out);
/**
 * Appends the value of the Authorization header. `origin` is that of the endpoint; `contact` an https: or
 * mailto: URL, or NULL; `expires_s` in seconds since 1970, at most 24 h ahead.
 */
int push_authorize(const struct push_key *key, const char *origin, const char *contact,
	int64_t expires_s, struct buffer *out);

#endif
