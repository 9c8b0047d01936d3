/*
 * Builds the messages of the demo agent (JSON-RPC 2.0, ACP v1). The demo_put_ functions append one
 * line to `out`.
 */
#ifndef HOLDFAST_DEMO_AGENT_MESSAGES_H
#define HOLDFAST_DEMO_AGENT_MESSAGES_H

#include "script.h"

#include "holdfast/buffer.h"

#include <jansson.h>
#include <stdint.h>

/** Appends a request; takes over `params`. */
void demo_put_request(struct buffer *out, int64_t id, const char *method, json_t *params);
/** Appends a $/cancel_request: the answer to our request `id` is no longer awaited. */
void demo_put_cancel_request(struct buffer *out, int64_t id);
/** Appends a session/update; takes over `update`. */
void demo_put_update(struct buffer *out, const char *session_id, json_t *update);
/** Appends a chunk of the message, or of a thought. `text` must be valid UTF-8. */
void demo_put_chunk(
	struct buffer *out, const char *session_id, bool thought, const char *text, size_t len);

/** The absolute path of a call's file in `cwd`. The caller frees it. */
char *demo_call_path(const struct demo_call *call, const char *cwd);
/** A ToolCall with everything known before the call is done; also used in permission requests. */
json_t *demo_call_object(
	const struct demo_call *call, const char *call_id, const char *cwd, const char *status);
/**
 * A ToolCallUpdate with a status; `text` (may be NULL; clipped if it is long) becomes its content.
 */
json_t *demo_call_update(const char *call_id, const char *status, const char *text, size_t len);
/** A ToolCallUpdate for the end of a call, whose content is the call's result and diff. */
json_t *demo_call_end(
	const struct demo_call *call, const char *call_id, const char *cwd, const char *status);
json_t *demo_plan_update(const struct demo_plan *plan, int done);

/** Adds the kind (`sessionUpdate`) to an update; takes over `update`, returns the new object. */
json_t *demo_update_named(const char *kind, json_t *update);

#endif
