#include "ai_request.h"

#include "holdfast/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static bool says(const json_t *object, const char *name, const char *text)
{
	const char *value = text_of(object, name);
	return value && strcmp(value, text) == 0;
}

/* --- a user's message --- */

/**
 * Returns the blob name at the end of a file's URL, or NULL if the file is elsewhere or inline (a
 * data: URL).
 */
static const char *blob_of(const char *url)
{
	static const char folder[] = "/blobs/";
	size_t len = url ? strlen(url) : 0;
	const char *name = len > 64 + sizeof(folder) - 1 ? url + len - 64 : NULL;
	bool is_blob = name && strspn(name, "0123456789abcdef") == 64 &&
		       memcmp(name - (sizeof(folder) - 1), folder, sizeof(folder) - 1) == 0;
	return is_blob ? name : NULL;
}

static int take_file(struct ai_request *ret, const json_t *part, struct refusal *refusal)
{
	const char *type = text_of(part, "mediaType");
	const char *name = text_of(part, "filename");
	const char *blob = blob_of(text_of(part, "url"));
	if (!blob || !type) {
		return refuse(refusal, ERROR_unsupported_content,
			"upload the file first (POST /api/sessions/{id}/blobs); its url must end with /blobs/ and the name in the answer");
	}
	const char *kind = strncmp(type, "image/", 6) == 0   ? "image"
			   : strncmp(type, "audio/", 6) == 0 ? "audio"
							     : "resource";
	json_t *block = json_object();
	json_object_set_new(block, "type", json_string(kind));
	json_object_set_new(block, "blob", json_string(blob));
	if (name) {
		json_object_set_new(block, "name", json_string(name));
	}
	if (!ret->content) {
		ret->content = json_array();
	}
	json_array_append_new(ret->content, block);
	return 0;
}

static int take_parts(struct ai_request *ret, const json_t *message, struct refusal *refusal)
{
	size_t i;
	json_t *part;
	json_array_foreach(json_object_get(message, "parts"), i, part) {
		const char *text = text_of(part, "text");
		int r = 0;
		if (says(part, "type", "text") && text) {
			buffer_append_str(&ret->message, ret->message.len ? "\n" : "");
			buffer_append_str(&ret->message, text);
		} else if (says(part, "type", "file")) {
			r = take_file(ret, part, refusal);
		} else {
			r = refuse(refusal, ERROR_unsupported_content,
				"the parts of a message must be of type text or file");
		}
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/**
 * Derives the prompt_id from both the message's id and its content, since either can repeat without
 * the other.
 */
static void make_prompt_id(
	struct ai_request *ret, const json_t *frame, const json_t *message, uint64_t salt)
{
	struct buffer name = {0};
	const char *id = text_of(message, "id");
	buffer_append_str(&name, id ? id : "");
	buffer_append_char(&name, '\0');
	buffer_append(&name, ret->message.data ? ret->message.data : "", ret->message.len);
	char *content = ret->content ? json_dumps(ret->content, JSON_SORT_KEYS) : NULL;
	buffer_append_str(&name, content ? content : "");
	free(content);
	uint64_t sum = XXH3_64bits_withSeed(
		name.data, name.len, says(frame, "trigger", "regenerate-message") ? salt + 1 : 0);
	snprintf(ret->prompt_id, sizeof(ret->prompt_id), "ai-%016llx", (unsigned long long)sum);
	buffer_finish(&name);
}

/* --- answers --- */

static bool is_answer(const json_t *part)
{
	const json_t *approval = json_object_get(part, "approval");
	return says(part, "state", "approval-responded") && text_of(approval, "id") &&
	       json_is_boolean(json_object_get(approval, "approved"));
}

/** Returns the turn of one of our messages, whose id is turn-EPOCH-NUMBER, or 0. */
static uint64_t turn_of(const json_t *message)
{
	const char *id = text_of(message, "id");
	size_t prefix = sizeof("turn-0123456789abcdef-") - 1;
	bool is_ours = id && strncmp(id, "turn-", 5) == 0 && strlen(id) > prefix &&
		       strlen(id) < prefix + 16 && id[prefix - 1] == '-' &&
		       strspn(id + prefix, "0123456789") == strlen(id + prefix);
	return is_ours ? strtoull(id + prefix, NULL, 10) : 0;
}

static void take_answers(struct ai_request *ret, const json_t *message)
{
	size_t i;
	json_t *part;
	json_t *parts = json_object_get(message, "parts");
	ret->answers = xcalloc(json_array_size(parts) + 1, sizeof(*ret->answers));
	ret->turn = turn_of(message);
	json_array_foreach(parts, i, part) {
		if (is_answer(part)) {
			const json_t *approval = json_object_get(part, "approval");
			ret->answers[ret->answer_count++] = (struct ai_answer){
				.id = text_of(approval, "id"),
				.approved = json_is_true(json_object_get(approval, "approved")),
				.option_id = text_of(approval, "reason"),
			};
		}
	}
}

/* --- requests --- */

static int take_send(
	struct ai_request *ret, uint64_t salt, const struct limits *limits, struct refusal *refusal)
{
	const json_t *messages = json_object_get(ret->json, "messages");
	size_t count = json_array_size(messages);
	const json_t *last = count ? json_array_get(messages, count - 1) : NULL;
	struct request prompt = {.type = REQUEST_PROMPT};
	if (!json_is_array(json_object_get(last, "parts"))) {
		return refuse(refusal, ERROR_bad_request,
			"messages must be a list of messages with parts; the last one is the prompt");
	}
	if (says(last, "role", "assistant")) {
		take_answers(ret, last);
		return ret->answer_count
			       ? 0
			       : refuse(refusal, ERROR_bad_request,
					 "the last message is the agent's and has no answer to a question; tools run on the agent's side");
	}
	if (!says(last, "role", "user")) {
		return refuse(refusal, ERROR_bad_request, "the last message must be the user's");
	}
	int r = take_parts(ret, last, refusal);
	if (r == 0 && !ret->message.len && !ret->content) {
		r = refuse(refusal, ERROR_bad_request, "the message is empty");
	}
	if (r == 0 && ret->message.len > limits->prompt_size) {
		r = refuse_limit(refusal, LIMIT_prompt_size, "a prompt may have at most %zu bytes",
			limits->prompt_size);
	}
	r = r < 0 ? r : request_take_blocks(ret->content, limits, &prompt, refusal);
	make_prompt_id(ret, ret->json, last, salt);
	return r;
}

/** Finds out what is to be cancelled: the turn of the last message, whoever wrote that. */
static int take_cancel(struct ai_request *ret, struct refusal *refusal)
{
	const json_t *messages = json_object_get(ret->json, "messages");
	size_t count = json_array_size(messages);
	const json_t *last = count ? json_array_get(messages, count - 1) : NULL;
	ret->type = AI_CANCEL;
	ret->turn = turn_of(last);
	if (!last || ret->turn) {
		return 0;
	}
	if (!says(last, "role", "user") || !json_is_array(json_object_get(last, "parts"))) {
		return refuse(refusal, ERROR_bad_request,
			"the last message must be the user's, or an answer with the id turn-EPOCH-NUMBER");
	}
	int r = take_parts(ret, last, refusal);
	make_prompt_id(ret, ret->json, last, 0);
	return r;
}

static const char *read_request_id(const json_t *json)
{
	const char *id = text_of(json, "requestId");
	size_t len = id ? strlen(id) : 0;
	return len && len <= AI_REQUEST_ID_MAX ? id : NULL;
}

int ai_request_parse(const char *text, size_t len, bool is_body, uint64_t salt,
	const struct limits *limits, struct ai_request *ret, struct refusal *refusal)
{
	*ret = (struct ai_request){.type = AI_SEND};
	ret->json = json_parse(text, len, NULL, refusal);
	if (!ret->json) {
		return -EINVAL;
	}
	ret->request_id = is_body ? "" : read_request_id(ret->json);
	if (!ret->request_id) {
		return refuse(refusal, ERROR_bad_request,
			"a frame needs a requestId of 1 to %d bytes", AI_REQUEST_ID_MAX);
	}
	if (is_body || says(ret->json, "type", "send")) {
		return take_send(ret, salt, limits, refusal);
	}
	if (says(ret->json, "type", "resume")) {
		ret->type = AI_RESUME;
		return 0;
	}
	if (says(ret->json, "type", "cancel")) {
		return take_cancel(ret, refusal);
	}
	ret->type = AI_ABORT;
	return says(ret->json, "type", "abort")
		       ? 0
		       : refuse(refusal, ERROR_bad_request,
				 "the type of a frame must be send, resume, abort or cancel");
}

void ai_request_finish(struct ai_request *request)
{
	json_decref(request->json);
	json_decref(request->content);
	buffer_finish(&request->message);
	free(request->answers);
}
