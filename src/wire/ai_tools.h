/* The tool calls and questions of one turn, as chunks of a UI message stream (see ai_turn.h). */
#ifndef HOLDFAST_AI_TOOLS_H
#define HOLDFAST_AI_TOOLS_H

#include "holdfast/json_span.h"

struct ai_tools;

/** With one reference, the caller's. Several may share what nobody changes. */
struct ai_tools *ai_tools_create(void);
struct ai_tools *ai_tools_ref(struct ai_tools *tools);
void ai_tools_unref(struct ai_tools *tools);
/** Takes a reference and gives one to the same tools that nobody else has: before they change. */
struct ai_tools *ai_tools_own(struct ai_tools *tools);
/** A sum of all that they were told, with its order: of the same sum, they are the same. */
void ai_tools_sum(const struct ai_tools *tools, uint64_t ret[2]);
/** The client has answered this question. */
void ai_tools_note_answered(struct ai_tools *tools, const char *request_id);
/** `data` of a tool_call or a tool_call_update; `out` NULL: the client has its chunks. */
void ai_tools_take(struct ai_tools *tools, const struct json_span *data, struct buffer *out);
/** The same of a permission_request. Whether it is the last one that the client has answered. */
bool ai_tools_ask(struct ai_tools *tools, const struct json_span *data, struct buffer *out);
/** The same of a permission_resolved. */
void ai_tools_resolve(struct ai_tools *tools, const struct json_span *data, struct buffer *out);
/** Whether a question is open. */
bool ai_tools_wait(const struct ai_tools *tools);

#endif
