/*
 * Keys that sign tokens, and the tokens: JSON Web Tokens in their compact form (RFC 7519, 7515).
 * The key decides the algorithm, never the token: a token whose header names another one is
 * refused before its signature is looked at. libjwt checks and makes the signatures.
 */
#ifndef HOLDFAST_TOKEN_KEY_H
#define HOLDFAST_TOKEN_KEY_H

#include <jansson.h>
#include <stddef.h>

/* Bytes of a token, and of a secret. */
#define TOKEN_MAX        4096
#define TOKEN_SECRET_MIN 32

struct token_key;

/**
 * A secret for HS256; the bytes are copied. Returns NULL, and sets *ret_why (static text), if it is
 * shorter than TOKEN_SECRET_MIN bytes.
 */
struct token_key *token_key_secret(const void *bytes, size_t len, const char **ret_why);
/** A public key in PEM: RSA of 2048 bits and more for RS256, P-256 for ES256. NULL as above. */
struct token_key *token_key_public(const char *pem, size_t len, const char **ret_why);
/** Accepts NULL. Wipes the secret. */
void token_key_destroy(struct token_key *key);

/**
 * The claims of a token that this key has signed, a JSON object that the caller frees; NULL if it
 * is none. Says nothing of their times, and nothing of what they claim.
 */
json_t *token_key_verify(const struct token_key *key, const char *token);
/** Signs claims with a secret; the caller frees the text. NULL if that fails. */
char *token_key_sign(const struct token_key *key, const json_t *claims);

#endif
