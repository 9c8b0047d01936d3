/* The tool calls and questions of one turn, as chunks of a UI message stream (see ai_turn.h). */
#ifndef HOLDFAST_AI_TOOLS_H
#define HOLDFAST_AI_TOOLS_H

#include "holdfast/json_span.h"

struct ai_tools;

struct ai_tools *ai_tools_create(void);
void ai_tools_destroy(struct ai_tools *tools);
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
