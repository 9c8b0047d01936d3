/*
 * Signs and verifies tokens: JSON Web Tokens in their compact form (RFC 7519, 7515). The key
 * decides the algorithm, never the token: a token whose header names another one is refused before
 * its signature is checked. libjwt makes and verifies the signatures. A token has one spelling: its parts
 * are base64url without padding (RFC 7515, section 2), and with bits behind the last byte they are refused.
 */
#ifndef HOLDFAST_TOKEN_KEY_H
#define HOLDFAST_TOKEN_KEY_H

#include <jansson.h>
#include <stddef.h>

/* Most bytes of a token, and fewest of a secret. */
#define TOKEN_MAX        4096
#define TOKEN_SECRET_MIN 32

struct token_key;

/**
 * Creates a key for HS256 from a secret, which is copied. Returns NULL, with a static message in
 * *ret_why, if the secret is shorter than TOKEN_SECRET_MIN bytes.
 */
struct token_key *token_key_secret(const void *bytes, size_t len, const char **ret_why);
/**
 * Creates a key from a public key in PEM (RFC 7468, section 13): RSA of at least 2048 bits for RS256,
 * P-256 for ES256. Text and other blocks around it are skipped (section 2), and a byte order mark. A second
 * public key is refused: it would be ignored, and so would the tokens that it signs. Returns NULL, with a
 * static message in *ret_why, if it is anything else.
 */
struct token_key *token_key_public(const char *pem, size_t len, const char **ret_why);
/** Wipes the secret and frees the key. Accepts NULL. */
void token_key_destroy(struct token_key *key);

/**
 * Verifies the signature of a token. Returns its claims, a JSON object whose reference the caller
 * drops, or NULL if this key has not signed it. Does not check the claims, such as "exp".
 */
json_t *token_key_verify(const struct token_key *key, const char *token);
/** Signs claims with a secret. Returns the token, which the caller frees, or NULL on failure. */
char *token_key_sign(const struct token_key *key, const json_t *claims);

#endif
