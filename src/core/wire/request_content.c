/* Checks the images, files and links of a prompt (proto/protocol.md#images-and-files). */
#include "requests_internal.h"

#include <string.h>

/* Longest name or type, and longest URI, in bytes. */
#define NAME_MAX_SIZE 256
#define URI_MAX_SIZE  4096

static bool is_text(const json_t *value, size_t most)
{
	size_t len = json_string_length(value);
	return len > 0 && len <= most;
}

static bool is_blob_name(const json_t *value)
{
	const char *name = json_string_value(value);
	return json_string_length(value) == 64 && strspn(name, "0123456789abcdef") == 64;
}

static int check_block(const json_t *block, struct refusal *refusal)
{
	const char *type = json_string_value(json_object_get(block, "type"));
	const json_t *name = json_object_get(block, "name");
	const json_t *mime_type = json_object_get(block, "mime_type");
	bool is_link = type && strcmp(type, "resource_link") == 0;
	if (!type || (!is_link && strcmp(type, "image") != 0 && strcmp(type, "audio") != 0 &&
			     strcmp(type, "resource") != 0)) {
		return refuse(refusal, ERROR_bad_request,
			"each block of content must be of type image, audio, resource or resource_link");
	}
	if (is_link) {
		if (!is_text(json_object_get(block, "uri"), URI_MAX_SIZE) ||
			!is_text(name, NAME_MAX_SIZE)) {
			return refuse(refusal, ERROR_bad_request,
				"a resource_link needs a uri and a name, strings");
		}
		return json_check_names(block, "a resource_link",
			(const char *const[]){"type", "uri", "name", NULL}, refusal);
	}
	if (!is_blob_name(json_object_get(block, "blob"))) {
		return refuse(refusal, ERROR_bad_request,
			"an image, audio or resource needs a blob, the name in the answer to its upload");
	}
	if ((name && !is_text(name, NAME_MAX_SIZE)) ||
		(mime_type && !is_text(mime_type, NAME_MAX_SIZE))) {
		return refuse(refusal, ERROR_bad_request,
			"the name and the mime_type of a block must be strings of 1 to 256 bytes");
	}
	return json_check_names(block, "a block of content",
		(const char *const[]){"type", "blob", "name", "mime_type", NULL}, refusal);
}

int request_take_blocks(
	json_t *content, const struct limits *limits, struct request *ret, struct refusal *refusal)
{
	size_t count = json_array_size(content);
	ret->prompt.content = count ? content : NULL;
	if (content && !json_is_array(content)) {
		return refuse(refusal, ERROR_bad_request, "content must be a list of blocks");
	}
	if (count > limits->prompt_blocks) {
		return refuse_limit(refusal, LIMIT_prompt_blocks,
			"a prompt may have at most %zu images and files", limits->prompt_blocks);
	}
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		r = check_block(json_array_get(content, i), refusal);
	}
	return r;
}

int request_take_content(const json_t *data, const struct limits *limits, struct request *ret,
	struct refusal *refusal)
{
	return request_take_blocks(json_object_get(data, "content"), limits, ret, refusal);
}
