#include "agent_rpc.h"

#include <stdlib.h>

static int append_bytes(const char *bytes, size_t len, void *arg)
{
	buffer_append(arg, bytes, len);
	return 0;
}

void agent_rpc_put(struct buffer *out, json_t *message)
{
	if (!message || json_dump_callback(message, append_bytes, out, JSON_COMPACT)) {
		abort();
	}
	buffer_append_char(out, '\n');
	json_decref(message);
}

void agent_rpc_put_result(struct buffer *out, json_t *id, json_t *result)
{
	agent_rpc_put(
		out, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

void agent_rpc_put_error(
	struct buffer *out, json_t *id, enum agent_rpc_error code, const char *message)
{
	agent_rpc_put(out, json_pack("{s:s, s:o, s:{s:i, s:s}}", "jsonrpc", "2.0", "id",
				   id ? json_incref(id) : json_null(), "error", "code", (int)code,
				   "message", message));
}
