/*
 * Parses and checks the requests of an AI SDK chat (npm ai): the frames of its
 * WebSocketChatTransport, one of our own to cancel, and the bodies of its HTTP requests. The client sends all messages; only
 * the last counts, because the others are in the log. Pure.
 */
#ifndef HOLDFAST_AI_REQUEST_H
#define HOLDFAST_AI_REQUEST_H

#include "holdfast/buffer.h"
#include "holdfast/requests.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest requestId, in bytes. */
#define AI_REQUEST_ID_MAX 256

/** The answer to a permission request: a tool call was approved or denied. */
struct ai_answer {
	const char *id; /* of the permission request */
	bool approved;
	const char *option_id; /* the option chosen; NULL: not given */
};

/** A parsed request. Strings are borrowed from `json`. */
struct ai_request {
	enum { AI_SEND, AI_RESUME, AI_ABORT, AI_CANCEL } type;
	json_t *json;
	const char *request_id; /* "" for a body; NULL: no valid one */
	/*
	 * Of AI_SEND: a prompt, or answers to permission requests. Of AI_CANCEL: the prompt, or the
	 * turn; neither: the running turn.
	 */
	struct buffer message;
	char prompt_id[32]; /* "": none */
	json_t *content; /* images and files; NULL: none */
	struct ai_answer *answers;
	size_t answer_count; /* nonzero: these are answers, not a prompt */
	uint64_t turn; /* the turn answered, from the message id; 0: unknown */
};

/**
 * Parses a frame, or with `is_body` the body of a POST. The same message always gets the same
 * prompt_id, so it is prompted only once however often it is sent; a request to regenerate the
 * answer gets another one, derived from `salt`. Returns 0, or -EINVAL with `refusal` set. Call
 * ai_request_finish() in either case.
 */
int ai_request_parse(const char *text, size_t len, bool is_body, uint64_t salt,
	const struct limits *limits, struct ai_request *ret, struct refusal *refusal);
void ai_request_finish(struct ai_request *request);

#endif
