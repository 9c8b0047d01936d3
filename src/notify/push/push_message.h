/*
 * The cryptography of Web Push messages: their encryption (RFC 8291), and the signature by which
 * the server identifies itself (VAPID, RFC 8292). Pure, except for the random numbers in
 * signatures.
 */
#ifndef HOLDFAST_PUSH_MESSAGE_H
#define HOLDFAST_PUSH_MESSAGE_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define PUSH_POINT_SIZE  65 /* a point of P-256, uncompressed */
#define PUSH_SECRET_SIZE 16
/* Most bytes of a message, which push services take as one record (RFC 8291, section 4). */
#define PUSH_PLAIN_MAX 3993

/** The key pair that identifies the server to push services. */
struct push_key;
/** Derives the key pair from a secret text, deterministically. Returns NULL if OpenSSL fails. */
struct push_key *push_key_create(const char *text, size_t len);
/** Accepts NULL. */
void push_key_destroy(struct push_key *key);
/** The public key in base64url: the `applicationServerKey` of the page. */
const char *push_key_public(const struct push_key *key);

/** The keys of a browser's subscription. */
struct push_target {
	unsigned char point[PUSH_POINT_SIZE]; /* "p256dh" */
	unsigned char secret[PUSH_SECRET_SIZE]; /* "auth" */
};
/**
 * Reads the keys from base64url or base64, with or without padding. Returns false if they are not a
 * point of P-256 of 65 bytes and a secret of 16 (RFC 8291, section 2).
 */
bool push_target_read(const char *p256dh, const char *auth, struct push_target *ret);

/** Random bytes, new for each message. */
struct push_seed {
	unsigned char scalar[32];
	unsigned char salt[16];
};
/**
 * Encrypts a text, and appends it as the body of a request. Returns -EINVAL if a key is invalid (a
 * random scalar is, very rarely) or the text too long, or -EIO if OpenSSL fails.
 */
int push_encrypt(const struct push_target *target, const struct push_seed *seed, const char *text,
	size_t len, struct buffer *out);
/**
 * Appends the value of the Authorization header. `origin` is that of the endpoint, `contact` an
 * https: or mailto: URL or NULL, `expires_s` in seconds since 1970, at most 24 h ahead. Returns 0
 * or -EIO.
 */
int push_authorize(const struct push_key *key, const char *origin, const char *contact,
	int64_t expires_s, struct buffer *out);

#endif
