/* What the files of the AI SDK's door share (ai.c, ai_response.c). */
#ifndef HOLDFAST_AI_INTERNAL_H
#define HOLDFAST_AI_INTERNAL_H

#include "http_internal.h"

#include "holdfast/ai_request.h"
#include "holdfast/ai_turn.h"

/* Answers that one connection gets at once. */
#define AI_RESPONSES_MAX 8

struct ai_response;

/** Of a connection. */
struct ai_door {
	struct list responses;
	size_t count;
};

/** An answer to a request, which is told that it begins. It frees itself when it is over. */
struct ai_response *ai_response_create(
	struct conn *conn, const char *request_id, const struct ai_turn_config *config);
/** See ai_turn_answered(). */
void ai_response_answered(struct ai_response *response, const char *request_id);
/** Its events come from here on. */
void ai_response_load(struct ai_response *response, const struct load_request *load);
/** NULL: there is none, or it is over. */
struct ai_response *ai_response_find(struct conn *conn, const char *request_id);
/** NULL: it has none. */
const char *ai_response_prompt_id(const struct ai_response *response);
/** 0: it has not begun. */
uint64_t ai_response_turn(const struct ai_response *response);
/** Ends it without a word. */
void ai_response_stop(struct ai_response *response);
void ai_response_fail(struct ai_response *response, const char *error);
void ai_say_nothing_active(struct conn *conn, const char *request_id);
/** Over HTTP that is the end. */
void ai_refuse(struct conn *conn, const char *request_id, const struct refusal *refusal);
/** The connection takes more. */
void ai_pump(struct conn *conn);
/** Frees what is over. */
void ai_end_tick(struct conn *conn);

#endif
