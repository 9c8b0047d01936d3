/* JSON-RPC 2.0 with one message per line, as spoken with agents and editors. Pure. */
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
	/* Defined by ACP: */
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
 * Parses a line, which it can modify. Escapes that a C string cannot hold (NUL, lone surrogates)
 * and invalid UTF-8 become U+FFFD, so that the message is not lost. `numbers` is as in json_read().
 * Returns a new reference, or NULL if the line is not a JSON object or array, with the reason in
 * ret_error.
 */
json_t *json_rpc_parse(
	char *line, size_t len, struct json_numbers *numbers, json_error_t *ret_error);
/**
 * Half a character at the beginning or end of a string, where an agent has cut its text: a surrogate, or
 * bytes of UTF-8. In the parsed text `marks` U+FFFD stand for it; 0: there is none.
 */
struct json_rpc_half {
	size_t marks;
	unsigned unit; /* 0: it is bytes */
	char bytes[4];
};
struct json_rpc_halves {
	struct json_rpc_half front;
	struct json_rpc_half back;
};
/** Likewise, and finds the halves, unless several strings begin or end with one. */
json_t *json_rpc_parse_cut(char *line, size_t len, struct json_numbers *numbers,
	struct json_rpc_halves *ret_halves, json_error_t *ret_error);
/**
 * Writes the character of two halves, the back of a text and the front of the next, and returns its
 * length; 0 if they are not halves of one.
 */
size_t json_rpc_join(
	const struct json_rpc_half *back, const struct json_rpc_half *front, char ret[4]);
/** Determines the kind of a message from its members. A null method is none. */
enum json_rpc_message json_rpc_classify(const json_t *message);
/**
 * Some peers answer 7 with "7", 7.0 or 7e0. Where several ids are open look for an equal one first,
 * because a peer may use 7 and "7" at once; then for one that is the same number.
 */
enum json_rpc_likeness { JSON_RPC_EQUAL, JSON_RPC_SAME_NUMBER };
/** Whether two ids are equal, or the same whole number. NULL is no id. */
bool json_rpc_same_id(const json_t *a, const json_t *b, enum json_rpc_likeness likeness);
/** The same of two ids as JSON texts. */
bool json_rpc_same_id_text(const char *a, const char *b, enum json_rpc_likeness likeness);
/** Whether an id is this number, in whatever spelling. */
bool json_rpc_is_id(const json_t *id, json_int_t number);
/**
 * Returns what is visible of a skipped line: an object with its "id" and "method", if they are in
 * the usual places. New reference.
 */
json_t *json_rpc_peek(const struct json_lines *lines);
/** Likewise of a line that cannot be read, from its first `{` on. */
json_t *json_rpc_peek_line(const char *line, size_t len);
/**
 * These append a whole message and a newline, in ASCII. `message`, `params` and `result` are
 * consumed (stolen references), `id` is borrowed; for an error `id` can be NULL if it is unknown.
 */
void json_rpc_put(struct buffer *out, json_t *message);
void json_rpc_request(struct buffer *out, json_int_t id, const char *method, json_t *params);
void json_rpc_notification(struct buffer *out, const char *method, json_t *params);
void json_rpc_result(struct buffer *out, const json_t *id, json_t *result);
void json_rpc_error(struct buffer *out, const json_t *id, int code, const char *message);
/** Appends a value as JSON in ASCII. */
void json_rpc_encode(struct buffer *out, const json_t *value);
/** Appends the text of an error object, bounded in length. */
void json_rpc_describe_error(struct buffer *out, const json_t *error);

#endif
