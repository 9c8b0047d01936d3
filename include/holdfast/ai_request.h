/*
 * What a chat of the AI SDK (npm ai) asks for: the frames of its WebSocketChatTransport and the body of
 * its HTTP requests, checked. Of the messages that it sends, all but the last are in our log. Pure.
 */
#ifndef HOLDFAST_AI_REQUEST_H
#define HOLDFAST_AI_REQUEST_H

#include "holdfast/buffer.h"
#include "holdfast/requests.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a requestId. */
#define AI_REQUEST_ID_MAX 256

/** A tool call that was approved or denied. */
struct ai_answer {
	const char *id; /* of the permission request */
	bool approved;
	const char *option_id; /* which one was meant; NULL: it is not said */
};

/** Strings are borrowed from `json`. */
struct ai_request {
	enum { AI_SEND, AI_RESUME, AI_ABORT } type;
	json_t *json;
	const char *request_id; /* NULL: there is none that could be answered */
	/* Of AI_SEND: a prompt, or answers. */
	struct buffer message;
	char prompt_id[32];
	json_t *content; /* images and files, as of a prompt; NULL: none */
	struct ai_answer *answers;
	size_t answer_count; /* not 0: it is no prompt */
	uint64_t turn; /* of the answers, as our message ids tell; 0: that is not known */
};

/**
 * Reads a frame, or (`is_body`) the body of a POST. The same message gives the same prompt_id, so that it is
 * asked once however often it is sent; one that is to be answered again gives another one, by `salt`.
 * Returns -EINVAL with `refusal` set; ai_request_finish() comes in any case.
 */
int ai_request_parse(const char *text, size_t len, bool is_body, uint64_t salt,
	const struct limits *limits, struct ai_request *ret, struct refusal *refusal);
void ai_request_finish(struct ai_request *request);

#endif
