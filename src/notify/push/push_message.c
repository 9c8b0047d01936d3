#include "push_message.h"

#include "holdfast/base64url.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <stdlib.h>
#include <string.h>

#define SUM_BYTES   32
#define RECORD_SIZE 4096 /* as the header of the body says */
#define TAG_SIZE    16
#define SIGNED_HALF 32 /* bytes of r, and of s, in a signature */

struct push_key {
	EVP_PKEY *pair;
	char *public;
};

/* --- keys of P-256 --- */

static EVP_PKEY *key_of(const OSSL_PARAM *params, int selection)
{
	EVP_PKEY *key = NULL;
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	if (!ctx || EVP_PKEY_fromdata_init(ctx) != 1 ||
		EVP_PKEY_fromdata(ctx, &key, selection, (OSSL_PARAM *)params) != 1) {
		key = NULL;
	}
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/** Returns NULL if the point is not on the curve. */
static EVP_PKEY *public_key(const unsigned char point[PUSH_POINT_SIZE])
{
	char group[] = "prime256v1";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
		OSSL_PARAM_construct_octet_string(
			OSSL_PKEY_PARAM_PUB_KEY, (void *)point, PUSH_POINT_SIZE),
		OSSL_PARAM_construct_end(),
	};
	return key_of(params, EVP_PKEY_PUBLIC_KEY);
}

/**
 * Computes the public point of a private number. Returns false if the number is not a valid key.
 */
static bool point_of(
	const EC_GROUP *group, const BIGNUM *number, unsigned char point[PUSH_POINT_SIZE])
{
	EC_POINT *at = EC_POINT_new(group);
	bool is_good = at && !BN_is_zero(number) &&
		       BN_cmp(number, EC_GROUP_get0_order(group)) < 0 &&
		       EC_POINT_mul(group, at, number, NULL, NULL, NULL) == 1 &&
		       EC_POINT_point2oct(group, at, POINT_CONVERSION_UNCOMPRESSED, point,
			       PUSH_POINT_SIZE, NULL) == PUSH_POINT_SIZE;
	EC_POINT_free(at);
	return is_good;
}

static EVP_PKEY *pair_of(const BIGNUM *number, const unsigned char point[PUSH_POINT_SIZE])
{
	EVP_PKEY *key = NULL;
	OSSL_PARAM *params = NULL;
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	if (build &&
		OSSL_PARAM_BLD_push_utf8_string(
			build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) &&
		OSSL_PARAM_BLD_push_octet_string(
			build, OSSL_PKEY_PARAM_PUB_KEY, point, PUSH_POINT_SIZE) &&
		OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, number)) {
		params = OSSL_PARAM_BLD_to_param(build);
		key = params ? key_of(params, EVP_PKEY_KEYPAIR) : NULL;
	}
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	return key;
}

/** Makes a key pair from a private number. Returns NULL if the number is not a valid key. */
static EVP_PKEY *key_pair(const unsigned char scalar[32], unsigned char point[PUSH_POINT_SIZE])
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	BIGNUM *number = BN_secure_new();
	EVP_PKEY *key = NULL;
	if (group && number && BN_bin2bn(scalar, 32, number)) {
		BN_set_flags(number, BN_FLG_CONSTTIME);
		key = point_of(group, number, point) ? pair_of(number, point) : NULL;
	}
	BN_clear_free(number);
	EC_GROUP_free(group);
	return key;
}

/* A hash that is not a valid key, which happens once in four billion times, is hashed again. */
struct push_key *push_key_create(const char *text, size_t len)
{
	unsigned char scalar[EVP_MAX_MD_SIZE];
	unsigned char point[PUSH_POINT_SIZE];
	struct buffer public = {0};
	struct push_key *key = xcalloc(1, sizeof(*key));
	bool is_made = EVP_Digest(text, len, scalar, NULL, EVP_sha256(), NULL) == 1;
	for (int i = 0; i < 4 && is_made && !key->pair; i++) {
		key->pair = key_pair(scalar, point);
		is_made = key->pair ||
			  EVP_Digest(scalar, SUM_BYTES, scalar, NULL, EVP_sha256(), NULL) == 1;
	}
	OPENSSL_cleanse(scalar, sizeof(scalar));
	if (!key->pair) {
		free(key);
		return NULL;
	}
	base64url_append(&public, point, sizeof(point));
	buffer_cstr(&public);
	key->public = public.data;
	return key;
}

void push_key_destroy(struct push_key *key)
{
	if (key) {
		EVP_PKEY_free(key->pair);
		free(key->public);
		free(key);
	}
}

const char *push_key_public(const struct push_key *key)
{
	return key->public;
}

/**
 * Reads a key of a subscription. Browsers write base64url without padding (Push API, toJSON()). Pages
 * that take the bytes from getKey() write them with btoa(), so its digits and padding are taken, too.
 */
static bool read_key(const char *text, unsigned char *ret, size_t size)
{
	size_t len = strlen(text);
	char *key = xstrdup(text);
	for (char *at = key; *at; at++) {
		*at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
	}
	size_t padding = 0;
	while (padding < 2 && len > padding && len % 4 == 0 && key[len - 1 - padding] == '=') {
		padding++;
	}
	key[len - padding] = '\0';
	bool is_good = base64url_read(key, ret, size);
	free(key);
	return is_good;
}

bool push_target_read(const char *p256dh, const char *auth, struct push_target *ret)
{
	if (!read_key(p256dh, ret->point, sizeof(ret->point)) ||
		!read_key(auth, ret->secret, sizeof(ret->secret))) {
		return false;
	}
	EVP_PKEY *key = ret->point[0] == 4 ? public_key(ret->point) : NULL;
	EVP_PKEY_free(key);
	return key;
}

/* --- encryption --- */

static bool agree(EVP_PKEY *own, EVP_PKEY *other, unsigned char shared[32])
{
	size_t len = 32;
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, own, NULL);
	bool agreed = ctx && EVP_PKEY_derive_init(ctx) == 1 &&
		      EVP_PKEY_derive_set_peer(ctx, other) == 1 &&
		      EVP_PKEY_derive(ctx, shared, &len) == 1 && len == 32;
	EVP_PKEY_CTX_free(ctx);
	return agreed;
}

static void hmac(
	const void *key, size_t key_len, const void *data, size_t len, unsigned char sum[SUM_BYTES])
{
	HMAC(EVP_sha256(), key, (int)key_len, data, len, sum, NULL);
}

/** HKDF-Expand (RFC 5869) for at most 32 bytes of output: one block, of `info` and the number 1. */
static void expand(
	const unsigned char key[SUM_BYTES], const struct buffer *info, unsigned char ret[SUM_BYTES])
{
	struct buffer text = {0};
	buffer_append(&text, info->data, info->len);
	buffer_append_char(&text, 1);
	hmac(key, SUM_BYTES, text.data, text.len, ret);
	buffer_finish(&text);
}

static void expand_name(
	const unsigned char key[SUM_BYTES], const char *name, unsigned char ret[SUM_BYTES])
{
	struct buffer info = {0};
	buffer_append(&info, name, strlen(name) + 1);
	expand(key, &info, ret);
	buffer_finish(&info);
}

/** Derives the key and the nonce of the only record (RFC 8291, section 3.4). */
static void derive(const struct push_target *target, const unsigned char own[PUSH_POINT_SIZE],
	const unsigned char shared[32], const unsigned char salt[16], unsigned char key[SUM_BYTES],
	unsigned char nonce[SUM_BYTES])
{
	static const char name[] = "WebPush: info";
	unsigned char sum[SUM_BYTES];
	unsigned char input[SUM_BYTES];
	struct buffer info = {0};
	buffer_append(&info, name, sizeof(name));
	buffer_append(&info, target->point, PUSH_POINT_SIZE);
	buffer_append(&info, own, PUSH_POINT_SIZE);
	hmac(target->secret, PUSH_SECRET_SIZE, shared, 32, sum);
	expand(sum, &info, input);
	hmac(salt, 16, input, SUM_BYTES, sum);
	expand_name(sum, "Content-Encoding: aes128gcm", key);
	expand_name(sum, "Content-Encoding: nonce", nonce);
	OPENSSL_cleanse(sum, sizeof(sum));
	OPENSSL_cleanse(input, sizeof(input));
	buffer_finish(&info);
}

/** Encrypts the text and the delimiter of the last record, and appends them and the tag. */
static int seal(const unsigned char *key, const unsigned char *nonce, const char *text, size_t len,
	struct buffer *out)
{
	static const unsigned char last = 2;
	int n;
	buffer_reserve(out, len + 1 + TAG_SIZE);
	unsigned char *to = (unsigned char *)out->data + out->len;
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	bool is_done = ctx && EVP_EncryptInit_ex(ctx, EVP_aes_128_gcm(), NULL, key, nonce) == 1 &&
		       EVP_EncryptUpdate(ctx, to, &n, (const unsigned char *)text, (int)len) == 1 &&
		       EVP_EncryptUpdate(ctx, to + len, &n, &last, 1) == 1 &&
		       EVP_EncryptFinal_ex(ctx, to + len + 1, &n) == 1 &&
		       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, to + len + 1) == 1;
	EVP_CIPHER_CTX_free(ctx);
	out->len += is_done ? len + 1 + TAG_SIZE : 0;
	return is_done ? 0 : -EIO;
}

int push_encrypt(const struct push_target *target, const struct push_seed *seed, const char *text,
	size_t len, struct buffer *out)
{
	static const char sizes[] = {
		0, 0, (char)(RECORD_SIZE >> 8), (char)(RECORD_SIZE & 255), PUSH_POINT_SIZE};
	unsigned char point[PUSH_POINT_SIZE];
	unsigned char shared[32];
	unsigned char key[SUM_BYTES];
	unsigned char nonce[SUM_BYTES];
	EVP_PKEY *own = key_pair(seed->scalar, point);
	EVP_PKEY *other = public_key(target->point);
	int r = own && other && len <= PUSH_PLAIN_MAX && agree(own, other, shared) ? 0 : -EINVAL;
	if (r == 0) {
		derive(target, point, shared, seed->salt, key, nonce);
		buffer_append(out, seed->salt, sizeof(seed->salt));
		buffer_append(out, sizes, sizeof(sizes));
		buffer_append(out, point, sizeof(point));
		r = seal(key, nonce, text, len, out);
		OPENSSL_cleanse(key, sizeof(key));
	}
	OPENSSL_cleanse(shared, sizeof(shared));
	EVP_PKEY_free(own);
	EVP_PKEY_free(other);
	return r;
}

/* --- VAPID --- */

/**
 * Signs with ES256, whose signature is r and s in 32 bytes each (RFC 7518, section 3.4), not DER.
 */
static bool sign(EVP_PKEY *key, const struct buffer *text, unsigned char ret[2 * SIGNED_HALF])
{
	unsigned char der[128];
	size_t len = sizeof(der);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool is_done =
		ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
		EVP_DigestSign(ctx, der, &len, (const unsigned char *)text->data, text->len) == 1;
	EVP_MD_CTX_free(ctx);
	const unsigned char *at = der;
	ECDSA_SIG *parts = is_done ? d2i_ECDSA_SIG(NULL, &at, (long)len) : NULL;
	is_done = parts && BN_bn2binpad(ECDSA_SIG_get0_r(parts), ret, SIGNED_HALF) == SIGNED_HALF &&
		  BN_bn2binpad(ECDSA_SIG_get0_s(parts), ret + SIGNED_HALF, SIGNED_HALF) ==
			  SIGNED_HALF;
	ECDSA_SIG_free(parts);
	return is_done;
}

int push_authorize(const struct push_key *key, const char *origin, const char *contact,
	int64_t expires_s, struct buffer *out)
{
	static const char head[] = "{\"typ\":\"JWT\",\"alg\":\"ES256\"}";
	unsigned char signature[2 * SIGNED_HALF];
	struct buffer claims = {0};
	struct buffer token = {0};
	buffer_append_str(&claims, "{\"aud\":");
	buffer_append_json(&claims, origin, strlen(origin));
	buffer_printf(&claims, ",\"exp\":%lld", (long long)expires_s);
	if (contact) {
		buffer_append_str(&claims, ",\"sub\":");
		buffer_append_json(&claims, contact, strlen(contact));
	}
	buffer_append_char(&claims, '}');
	base64url_append(&token, head, sizeof(head) - 1);
	buffer_append_char(&token, '.');
	base64url_append(&token, claims.data, claims.len);
	int r = sign(key->pair, &token, signature) ? 0 : -EIO;
	if (r == 0) {
		buffer_append_char(&token, '.');
		base64url_append(&token, signature, sizeof(signature));
		buffer_printf(out, "vapid t=%s, k=%s", buffer_cstr(&token), key->public);
	}
	buffer_finish(&claims);
	buffer_finish(&token);
	return r;
}
