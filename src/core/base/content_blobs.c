#include "holdfast/content_blobs.h"

#include "holdfast/buffer.h"
#include "holdfast/hide.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct moving {
	unsigned hide;
	struct list *blobs; /* the bytes are discarded */
};

static void name_bytes(const char *bytes, size_t len, char name[65])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned size = 0;
	EVP_Digest(bytes, len, sum, &size, EVP_sha256(), NULL);
	for (unsigned i = 0; i < size; i++) {
		snprintf(name + 2 * (size_t)i, 3, "%02x", sum[i]);
	}
}

/** Decodes base64. Returns NULL if `text` is not valid; the caller frees the result. */
static char *decode(const char *text, size_t len, size_t *ret_len)
{
	if (!len || len % 4 || len > INT_MAX) {
		return NULL;
	}
	size_t padding = text[len - 1] != '=' ? 0 : text[len - 2] != '=' ? 1 : 2;
	if (memchr(text, '=', len - padding)) { /* EVP_DecodeBlock() takes it for an 'A' */
		return NULL;
	}
	char *bytes = xmalloc(len / 4 * 3);
	int n = EVP_DecodeBlock((unsigned char *)bytes, (const unsigned char *)text, (int)len);
	if (n < 0 || (size_t)n != len / 4 * 3) { /* fewer bytes: whitespace around the text */
		free(bytes);
		return NULL;
	}
	*ret_len = (size_t)n - padding;
	return bytes;
}

static char *copy(const char *text, size_t len, size_t *ret_len)
{
	char *bytes = xmalloc(len + 1);
	memcpy(bytes, text, len);
	*ret_len = len;
	return bytes;
}

/** Replaces `text` in `block` by a reference to a new blob. */
static void refer(struct moving *moving, json_t *block, const json_t *text, bool is_base64)
{
	struct content_blob *blob = xcalloc(1, sizeof(*blob));
	const char *chars = json_string_value(text);
	size_t len = json_string_length(text);
	list_init(&blob->link);
	blob->hide = moving->hide;
	blob->bytes = is_base64 ? decode(chars, len, &blob->len) : copy(chars, len, &blob->len);
	if (!blob->bytes) {
		json_object_set_new(block, "omitted", json_string("bad_base64"));
		content_blob_free(blob);
		return;
	}
	name_bytes(blob->bytes, blob->len, blob->name);
	json_object_set_new(block, "blob", json_string(blob->name));
	json_object_set_new(block, "size", json_integer((json_int_t)blob->len));
	if (moving->blobs) {
		list_append(moving->blobs, &blob->link);
	} else {
		content_blob_free(blob);
	}
}

/** Returns a string member that is too long to stay in the event, or NULL. */
static const json_t *large(const json_t *object, const char *name)
{
	const json_t *text = json_object_get(object, name);
	return json_string_length(text) > CONTENT_INLINE_MAX ? text : NULL;
}

/**
 * Moves the bytes of one content block (image, audio or resource); other blocks stay as they are.
 */
static json_t *move_block(struct moving *moving, const json_t *block)
{
	json_t *out = json_copy((json_t *)block);
	const json_t *resource = json_object_get(block, "resource");
	const json_t *data = large(block, "data");
	const json_t *bytes = large(resource, "blob");
	const json_t *text = large(resource, "text");
	if (data) {
		json_object_del(out, "data");
		refer(moving, out, data, true);
	} else if (bytes || text) {
		json_t *rest = json_copy((json_t *)resource);
		json_object_del(rest, bytes ? "blob" : "text");
		json_object_set_new(out, "resource", rest);
		refer(moving, out, bytes ? bytes : text, bytes != NULL);
	}
	return out;
}

/** Moves the blocks in a tool call's content. Each is wrapped in an item of its own. */
static json_t *move_call(struct moving *moving, const json_t *call)
{
	const json_t *list = json_object_get(call, "content");
	json_t *out = json_copy((json_t *)call);
	if (!json_is_array(list)) {
		return out;
	}
	json_t *blocks = json_array();
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *item = json_copy(json_array_get(list, i));
		const json_t *block = json_object_get(item, "content");
		if (json_is_object(block)) {
			json_object_set_new(item, "content", move_block(moving, block));
		}
		json_array_append_new(blocks, item);
	}
	json_object_set_new(out, "content", blocks);
	return out;
}

json_t *content_move(const char *type, const json_t *data, struct list *blobs)
{
	struct moving moving = {.hide = HIDE_TOOLS, .blobs = blobs};
	if (strcmp(type, "tool_call") == 0 || strcmp(type, "tool_call_update") == 0) {
		return move_call(&moving, data);
	}
	json_t *out = json_copy((json_t *)data);
	const json_t *call = json_object_get(data, "tool_call");
	const json_t *block = json_object_get(data, "content");
	if (strcmp(type, "permission_request") == 0 && json_is_object(call)) {
		json_object_set_new(out, "tool_call", move_call(&moving, call));
	} else if (strcmp(type, "x-acp-content") == 0 && json_is_object(block)) {
		bool is_thought = json_is_true(json_object_get(data, "thought"));
		moving.hide = is_thought ? HIDE_THOUGHTS : HIDE_NOTHING;
		json_object_set_new(out, "content", move_block(&moving, block));
	}
	return out;
}

void content_omit(json_t *data, const struct hash *reasons)
{
	const char *name = json_string_value(json_object_get(data, "blob"));
	const char *why = name ? hash_get(reasons, name, strlen(name)) : NULL;
	if (why) {
		json_object_del(data, "blob");
		json_object_set_new(data, "omitted", json_string(why));
	}
	const char *key;
	json_t *member;
	size_t i;
	json_object_foreach(data, key, member) {
		content_omit(member, reasons);
	}
	json_array_foreach(data, i, member) {
		content_omit(member, reasons);
	}
}

void content_blob_free(struct content_blob *blob)
{
	list_remove(&blob->link);
	free(blob->bytes);
	free(blob);
}
