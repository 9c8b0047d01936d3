/*
 * JSON-RPC 2.0, one message a line: what the server and its agents say to each other. Pure.
 */
#ifndef HOLDFAST_JSON_RPC_H
#define HOLDFAST_JSON_RPC_H

#include "holdfast/buffer.h"
#include "holdfast/json_text.h"

#include <jansson.h>

struct json_lines;

enum json_rpc_code {
	JSON_RPC_PARSE_ERROR = -32700,
	JSON_RPC_INVALID_REQUEST = -32600,
	JSON_RPC_METHOD_NOT_FOUND = -32601,
	JSON_RPC_INVALID_PARAMS = -32602,
	JSON_RPC_INTERNAL_ERROR = -32603,
	/* ACP's own: */
	JSON_RPC_REQUEST_CANCELLED = -32800,
	JSON_RPC_AUTH_REQUIRED = -32000,
	JSON_RPC_NOT_FOUND = -32002,
};

enum json_rpc_message {
	JSON_RPC_INVALID,
	JSON_RPC_REQUEST,
	JSON_RPC_NOTIFICATION,
	JSON_RPC_RESPONSE,
};

/**
 * Parses a line, which may be changed by it. What C strings cannot hold is replaced rather than
 * losing the message: the escape of NUL and of a lone surrogate and invalid UTF-8 by U+FFFD.
 * `numbers` as in json_read(). NULL if it is no JSON object or array, with the reason in ret_error.
 */
json_t *json_rpc_parse(
	char *line, size_t len, struct json_numbers *numbers, json_error_t *ret_error);
enum json_rpc_message json_rpc_classify(const json_t *message);
/**
 * What can be seen of the line that was skipped: an object with its "id" and its "method", if they
 * are where messages have them. New reference.
 */
json_t *json_rpc_peek(const struct json_lines *lines);
/**
 * Append a whole message with its newline, all of it in ASCII. `message`, `params` and `result` are
 * taken, `id` is borrowed; that of an error may be NULL: it could not be told.
 */
void json_rpc_put(struct buffer *out, json_t *message);
void json_rpc_request(struct buffer *out, json_int_t id, const char *method, json_t *params);
void json_rpc_notification(struct buffer *out, const char *method, json_t *params);
void json_rpc_result(struct buffer *out, const json_t *id, json_t *result);
void json_rpc_error(struct buffer *out, const json_t *id, int code, const char *message);
/** Appends a value as JSON, all of it in ASCII. */
void json_rpc_encode(struct buffer *out, const json_t *value);
/** Appends what an error object says, in words, bounded. */
void json_rpc_describe_error(struct buffer *out, const json_t *error);

#endif
