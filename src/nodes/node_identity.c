#include "node_identity.h"

#include "holdfast/base64url.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#define SUM_SIZE ((size_t)32)

static const char context[] = "holdfast-node-v1.";

static void sign(
	const unsigned char *key, const char *part, size_t len, unsigned char sum[SUM_SIZE])
{
	struct buffer text = {0};
	buffer_append_str(&text, context);
	buffer_append(&text, part, len);
	if (!HMAC(EVP_sha256(), key, NODE_IDENTITY_KEY, (const unsigned char *)text.data, text.len,
		    sum, NULL)) {
		abort(); /* out of memory */
	}
	buffer_finish(&text);
}

/** Appends a hash of method and target: a target can be long, and need not be UTF-8. */
static void append_purpose(struct buffer *out, const char *method, const char *target)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	struct buffer text = {0};
	buffer_printf(&text, "%s ", method);
	buffer_append_str(&text, target);
	if (!EVP_Digest(text.data, text.len, sum, NULL, EVP_sha256(), NULL)) {
		abort();
	}
	base64url_append(out, sum, SUM_SIZE);
	buffer_finish(&text);
}

void node_identity_append(struct buffer *out, const unsigned char key[NODE_IDENTITY_KEY],
	const struct node_identity *identity, const char *method, const char *target,
	int64_t now_ms)
{
	char address[INET6_ADDRSTRLEN];
	unsigned char sum[SUM_SIZE];
	struct buffer purpose = {0};
	size_t begin = out->len;
	inet_ntop(AF_INET6, identity->client.bytes, address, sizeof(address));
	append_purpose(&purpose, method, target);
	json_t *json = json_pack("{s:o, s:s, s:b, s:I, s:s#}", "grant",
		grant_write(identity->grant), "address", address, "https", identity->is_https,
		"iat_ms", (json_int_t)now_ms, "for", purpose.data, (int)purpose.len);
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	if (!text) {
		abort();
	}
	base64url_append(out, text, strlen(text));
	sign(key, out->data + begin, out->len - begin, sum);
	buffer_append_char(out, '.');
	base64url_append(out, sum, sizeof(sum));
	free(text);
	json_decref(json);
	buffer_finish(&purpose);
}

/** Reads the claims, whose signature has been verified. Returns NULL or a message. */
static const char *read_claims(const json_t *json, const char *method, const char *target,
	int64_t now_ms, struct node_identity *ret)
{
	struct buffer purpose = {0};
	const char *why;
	const json_t *address = json_object_get(json, "address");
	const json_t *iat = json_object_get(json, "iat_ms");
	const char *is_for = json_string_value(json_object_get(json, "for"));
	append_purpose(&purpose, method, target);
	bool is_meant = is_for && strcmp(is_for, buffer_cstr(&purpose)) == 0;
	buffer_finish(&purpose);
	if (!is_meant) {
		return "it is for another request";
	}
	if (!json_is_integer(iat) || json_integer_value(iat) < now_ms - NODE_IDENTITY_MS ||
		json_integer_value(iat) > now_ms + NODE_IDENTITY_MS) {
		return "its time is too far from this node's clock: are the clocks of the nodes in step?";
	}
	if (!json_is_string(address) || !address_parse(json_string_value(address),
						json_string_length(address), &ret->client)) {
		return "it has no valid address";
	}
	ret->is_https = json_is_true(json_object_get(json, "https"));
	ret->grant = grant_read(json_object_get(json, "grant"), true, &why);
	return ret->grant ? NULL : why;
}

static json_t *decode(const char *text, size_t len)
{
	char *part = xstrndup(text, len);
	size_t size = len * 3 / 4;
	char *bytes = xmalloc(size + 1);
	json_t *json = base64url_read(part, bytes, size)
			       ? json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL)
			       : NULL;
	free(bytes);
	free(part);
	return json;
}

const char *node_identity_read(const char *text, size_t len,
	const unsigned char key[NODE_IDENTITY_KEY], const char *method, const char *target,
	int64_t now_ms, struct node_identity *ret)
{
	unsigned char wanted[SUM_SIZE];
	unsigned char sum[SUM_SIZE];
	const char *dot = len <= NODE_IDENTITY_MAX ? memchr(text, '.', len) : NULL;
	*ret = (struct node_identity){0};
	if (!dot) {
		return "it is malformed";
	}
	size_t first = (size_t)(dot - text);
	char *second = xstrndup(dot + 1, len - first - 1);
	bool is_sum = base64url_read(second, sum, sizeof(sum));
	free(second);
	sign(key, text, first, wanted);
	if (!is_sum || CRYPTO_memcmp(sum, wanted, sizeof(sum)) != 0) {
		return "its signature is wrong: does it come from a node on another database?";
	}
	json_t *json = decode(text, first);
	const char *why = json ? read_claims(json, method, target, now_ms, ret) : "it is malformed";
	json_decref(json);
	return why;
}
