/* Shared by the files that serve chats of the AI SDK (ai.c, ai_response.c). */
#ifndef HOLDFAST_AI_INTERNAL_H
#define HOLDFAST_AI_INTERNAL_H

#include "holdfast/http_exchange.h"

#include "ai_request.h"
#include "ai_turn.h"

/* Most answers that one connection gets at once. */
#define AI_RESPONSES_MAX 8

struct ai_response;

/** State of a chat's connection: conn.state. */
struct ai_door {
	struct list responses;
	size_t count;
};

/**
 * Creates an answer to a request and sends its start. It frees itself at the end of the tick in
 * which it ends.
 */
struct ai_response *ai_response_create(
	struct conn *conn, const char *request_id, const struct ai_turn_config *config);
/** See ai_turn_answered(). */
void ai_response_answered(struct ai_response *response, const char *request_id);
/** Starts loading its events. */
void ai_response_load(struct ai_response *response, const struct load_request *load);
/** Returns NULL if no answer to the request is running. */
struct ai_response *ai_response_find(struct conn *conn, const char *request_id);
/** Ends it without sending anything. */
void ai_response_stop(struct ai_response *response);
void ai_response_fail(struct ai_response *response, const char *error);
/** Says that a request was done that has no answer of its own. */
void ai_say_done(struct conn *conn, const char *request_id);
void ai_say_nothing_active(struct conn *conn, const char *request_id);
/** Refuses a request. Over HTTP this ends the connection. */
void ai_refuse(struct conn *conn, const char *request_id, const struct refusal *refusal);
/* Of ai_conn_ops. */
void ai_writable(struct conn *conn);
/** Frees answers that have ended. */
void ai_end_tick(struct conn *conn);
size_t ai_kept(const struct conn *conn);
void ai_tell(struct conn *conn, struct frame *frame);
void ai_tell_error(struct conn *conn, const char *message);
void ai_closed(struct conn *conn);

#endif
