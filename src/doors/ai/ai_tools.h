/*
 * Tracks the tool calls and questions (permission requests) of one turn, and writes them as chunks
 * of a UI message stream (see ai_turn.h).
 */
#ifndef HOLDFAST_AI_TOOLS_H
#define HOLDFAST_AI_TOOLS_H

#include "holdfast/json_span.h"

struct ai_tools;

/**
 * Returns one reference, the caller's. A set that is shared must not be changed; see
 * ai_tools_own().
 */
struct ai_tools *ai_tools_create(void);
struct ai_tools *ai_tools_ref(struct ai_tools *tools);
void ai_tools_unref(struct ai_tools *tools);
/**
 * Call before changing a set: takes a reference and returns one to an equal set that nobody else
 * shares.
 */
struct ai_tools *ai_tools_own(struct ai_tools *tools);
/** Returns a hash of everything the set was told, in order: sets with equal sums are equal. */
void ai_tools_sum(const struct ai_tools *tools, uint64_t ret[2]);
/** Notes that the client has answered this question. */
void ai_tools_note_answered(struct ai_tools *tools, const char *request_id);
/**
 * Takes the `data` of a tool_call or tool_call_update. `out` is NULL if the client already has the
 * chunks.
 */
void ai_tools_take(struct ai_tools *tools, const struct json_span *data, struct buffer *out);
/**
 * Likewise for a permission_request. Returns whether it is the last of those that the client has
 * answered.
 */
bool ai_tools_ask(struct ai_tools *tools, const struct json_span *data, struct buffer *out);
/** Likewise for a permission_resolved. */
void ai_tools_resolve(struct ai_tools *tools, const struct json_span *data, struct buffer *out);
/** Whether a question is unanswered. */
bool ai_tools_wait(const struct ai_tools *tools);

#endif
