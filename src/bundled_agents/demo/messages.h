/*
 * The messages the demo agent sends (JSON-RPC 2.0, ACP v1), each one line appended to `out`.
 */
#ifndef HOLDFAST_DEMO_AGENT_MESSAGES_H
#define HOLDFAST_DEMO_AGENT_MESSAGES_H

#include "script.h"

#include "holdfast/buffer.h"

#include <jansson.h>
#include <stdint.h>

/** Takes `params`. */
void demo_put_request(struct buffer *out, int64_t id, const char *method, json_t *params);
/** Tells the client that the answer to our request `id` is no longer waited for. */
void demo_put_cancel_request(struct buffer *out, int64_t id);
/** A session/update; takes `update`. */
void demo_put_update(struct buffer *out, const char *session_id, json_t *update);
/** A chunk of the message, or of a thought. `text` must be valid UTF-8. */
void demo_put_chunk(
	struct buffer *out, const char *session_id, bool thought, const char *text, size_t len);

/** The path of a call's file: absolute, in `cwd`. The caller frees. */
char *demo_call_path(const struct demo_call *call, const char *cwd);
/** What there is to know of a call before it is done: a ToolCall, also for a permission request. */
json_t *demo_call_object(
	const struct demo_call *call, const char *call_id, const char *cwd, const char *status);
/** A ToolCallUpdate with the status alone; `text` (clipped; may be NULL) becomes its content. */
json_t *demo_call_update(const char *call_id, const char *status, const char *text, size_t len);
/** The call has come to its end: its own result and diff are the content. */
json_t *demo_call_end(
	const struct demo_call *call, const char *call_id, const char *cwd, const char *status);
json_t *demo_plan_update(const struct demo_plan *plan, int done);

/** `update` with its kind, ACP's sessionUpdate, named in it; takes `update`. */
json_t *demo_update_named(const char *kind, json_t *update);

#endif
