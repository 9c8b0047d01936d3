/* Signs and verifies tokens, with libjwt. */
#include "token_key.h"

#include "holdfast/buffer.h"

#include <jwt.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define RSA_BITS_MIN 2048

struct token_key {
	jwt_alg_t alg;
	unsigned char *bytes; /* the secret, or the PEM; followed by a NUL */
	size_t len;
};

static struct token_key *create(jwt_alg_t alg, const void *bytes, size_t len)
{
	struct token_key *key = xcalloc(1, sizeof(*key));
	key->alg = alg;
	key->bytes = xmalloc(len + 1);
	memcpy(key->bytes, bytes, len);
	key->bytes[len] = '\0';
	key->len = len;
	return key;
}

struct token_key *token_key_secret(const void *bytes, size_t len, const char **ret_why)
{
	if (len < TOKEN_SECRET_MIN) {
		*ret_why = "a secret for tokens needs at least 32 bytes";
		return NULL;
	}
	return create(JWT_ALG_HS256, bytes, len);
}

/** The algorithm of a public key; JWT_ALG_INVAL if the key is not accepted. */
static jwt_alg_t algorithm_of(EVP_PKEY *pkey)
{
	char group[32] = "";
	if (EVP_PKEY_base_id(pkey) == EVP_PKEY_RSA) {
		return EVP_PKEY_bits(pkey) >= RSA_BITS_MIN ? JWT_ALG_RS256 : JWT_ALG_INVAL;
	}
	if (EVP_PKEY_base_id(pkey) != EVP_PKEY_EC ||
		!EVP_PKEY_get_utf8_string_param(
			pkey, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group), NULL)) {
		return JWT_ALG_INVAL;
	}
	return strcmp(group, "prime256v1") == 0 ? JWT_ALG_ES256 : JWT_ALG_INVAL;
}

/** Reads a public key, which must be the only one in the text. Returns NULL if it is not. */
static EVP_PKEY *read_public(const char *pem, size_t len)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)len);
	EVP_PKEY *pkey = NULL;
	size_t count = 0;
	char *name;
	char *header;
	unsigned char *bytes;
	long size;
	while (bio && PEM_read_bio(bio, &name, &header, &bytes, &size) == 1) {
		const unsigned char *at = bytes;
		if (strcmp(name, PEM_STRING_PUBLIC) == 0 && count++ == 0) {
			pkey = d2i_PUBKEY(NULL, &at, size);
		}
		OPENSSL_free(name);
		OPENSSL_free(header);
		OPENSSL_clear_free(bytes, (size_t)size);
	}
	bool is_whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	if (count != 1 || !is_whole) {
		EVP_PKEY_free(pkey);
		pkey = NULL;
	}
	BIO_free(bio);
	return pkey;
}

/* The key is written anew for libjwt, so that both libraries have the same one. */
static struct token_key *create_public(EVP_PKEY *pkey, jwt_alg_t alg)
{
	struct token_key *key = NULL;
	char *text;
	BIO *out = BIO_new(BIO_s_mem());
	if (out && PEM_write_bio_PUBKEY(out, pkey) == 1) {
		long len = BIO_get_mem_data(out, &text);
		key = create(alg, text, (size_t)len);
	}
	BIO_free(out);
	return key;
}

struct token_key *token_key_public(const char *pem, size_t len, const char **ret_why)
{
	ERR_clear_error();
	EVP_PKEY *pkey = read_public(pem, len);
	jwt_alg_t alg = pkey ? algorithm_of(pkey) : JWT_ALG_INVAL;
	struct token_key *key = alg != JWT_ALG_INVAL ? create_public(pkey, alg) : NULL;
	EVP_PKEY_free(pkey);
	ERR_clear_error();
	if (!key) {
		*ret_why =
			"a key for tokens is one public key in PEM, and no second: RSA of at least 2048 bits, or P-256";
	}
	return key;
}

void token_key_destroy(struct token_key *key)
{
	if (key) {
		OPENSSL_cleanse(key->bytes, key->len);
		free(key->bytes);
		free(key);
	}
}

/* --- parts of a token --- */

/**
 * Decodes a JSON object in base64url without padding (RFC 4648, section 5). NULL if it is invalid.
 */
static json_t *read_part(const char *part, size_t len)
{
	struct buffer text = {0};
	unsigned char *bytes = xmalloc(len + 4);
	json_t *json = NULL;
	for (size_t i = 0; i < len; i++) {
		buffer_append_char(&text, part[i] == '-' ? '+' : part[i] == '_' ? '/' : part[i]);
	}
	size_t padding = (4 - len % 4) % 4;
	buffer_append(&text, "===", padding);
	int n = padding < 3
			? EVP_DecodeBlock(bytes, (const unsigned char *)text.data, (int)text.len)
			: -1;
	if (n >= (int)padding) {
		json = json_loadb(
			(const char *)bytes, (size_t)n - padding, JSON_REJECT_DUPLICATES, NULL);
	}
	free(bytes);
	buffer_finish(&text);
	if (json && !json_is_object(json)) {
		json_decref(json);
		json = NULL;
	}
	return json;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/**
 * Whether the last digit has no bits that belong to no byte. With such bits (RFC 4648, section 3.5)
 * one token would have several spellings, and so could be another one for whoever compares them.
 */
static bool is_canonical(const char *part, size_t len)
{
	size_t last = (size_t)(strchr(digits, part[len - 1]) - digits);
	size_t spare[] = {0, 63, 15, 3};
	return len % 4 != 1 && (last & spare[len % 4]) == 0;
}

/**
 * Splits a token into three non-empty parts with dots between them, each in the one spelling that it
 * has in base64url without padding (RFC 7515, section 2). Returns false if it cannot.
 */
static bool split(const char *token, size_t lens[3])
{
	const char *at = token;
	if (strnlen(token, TOKEN_MAX + 1) > TOKEN_MAX) {
		return false;
	}
	for (int i = 0; i < 3; i++) {
		lens[i] = strspn(at, digits);
		if (!lens[i] || !is_canonical(at, lens[i]) || at[lens[i]] != (i < 2 ? '.' : '\0')) {
			return false;
		}
		at += lens[i] + 1;
	}
	return true;
}

/**
 * Whether the header names the key's algorithm, and no extension that would have to be understood.
 */
static bool is_for_key(const struct token_key *key, const char *token, size_t len)
{
	json_t *header = read_part(token, len);
	const char *alg = json_string_value(json_object_get(header, "alg"));
	bool fits = alg && strcmp(alg, jwt_alg_str(key->alg)) == 0 &&
		    !json_object_get(header, "crit") && !json_object_get(header, "zip") &&
		    !json_object_get(header, "enc");
	json_decref(header);
	return fits;
}

json_t *token_key_verify(const struct token_key *key, const char *token)
{
	size_t lens[3];
	jwt_t *jwt = NULL;
	if (!split(token, lens) || !is_for_key(key, token, lens[0])) {
		return NULL;
	}
	int r = jwt_decode(&jwt, token, key->bytes, (int)key->len);
	ERR_clear_error();
	bool is_signed = r == 0 && jwt_get_alg(jwt) == key->alg;
	if (r == 0) {
		jwt_free(jwt);
	}
	return is_signed ? read_part(token + lens[0] + 1, lens[1]) : NULL;
}

char *token_key_sign(const struct token_key *key, const json_t *claims)
{
	jwt_t *jwt = NULL;
	char *text = json_dumps(claims, JSON_COMPACT);
	char *made = NULL;
	char *token = NULL;
	if (key->alg == JWT_ALG_HS256 && text && jwt_new(&jwt) == 0 &&
		jwt_add_grants_json(jwt, text) == 0 &&
		jwt_set_alg(jwt, key->alg, key->bytes, (int)key->len) == 0) {
		made = jwt_encode_str(jwt);
		token = made ? xstrdup(made) : NULL;
	}
	free(made);
	jwt_free(jwt);
	free(text);
	return token;
}
