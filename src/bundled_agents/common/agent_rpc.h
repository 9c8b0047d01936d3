/*
 * JSON-RPC 2.0 as the agents that we build speak it: each message is one line, appended to `out`.
 */
#ifndef HOLDFAST_AGENT_RPC_H
#define HOLDFAST_AGENT_RPC_H

#include "holdfast/buffer.h"

#include <jansson.h>

enum agent_rpc_error {
	AGENT_RPC_PARSE_ERROR = -32700,
	AGENT_RPC_INVALID_REQUEST = -32600,
	AGENT_RPC_METHOD_NOT_FOUND = -32601,
	AGENT_RPC_INVALID_PARAMS = -32602,
	AGENT_RPC_INTERNAL_ERROR = -32603,
};

/** Any message; takes it. NULL, which can only be for want of memory, aborts. */
void agent_rpc_put(struct buffer *out, json_t *message);
/** Answers the request `id` (borrowed); takes `result`. */
void agent_rpc_put_result(struct buffer *out, json_t *id, json_t *result);
/** Refuses the request `id`; borrowed, NULL if it could not be told. */
void agent_rpc_put_error(
	struct buffer *out, json_t *id, enum agent_rpc_error code, const char *message);

#endif
