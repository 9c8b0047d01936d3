/* Parses and checks an editor's messages: ACP v1 (JSON-RPC 2.0). Editors are not trusted. Pure. */
#ifndef HOLDFAST_EDITOR_REQUEST_H
#define HOLDFAST_EDITOR_REQUEST_H

#include "holdfast/requests.h"

/* Longest request id, in bytes of JSON. */
#define EDITOR_ID_MAX 256

enum editor_method {
	EDITOR_NOTHING, /* nothing to do, and no answer expected */
	EDITOR_INITIALIZE,
	EDITOR_LIST,
	EDITOR_NEW,
	EDITOR_LOAD,
	EDITOR_RESUME,
	EDITOR_PROMPT,
	EDITOR_CANCEL,
	EDITOR_CLOSE,
	EDITOR_DELETE,
	EDITOR_SET, /* a mode, a model or an option */
	EDITOR_TAKE_BACK, /* $/cancel_request */
	EDITOR_ANSWER, /* to a request of ours */
};

/**
 * A parsed message. Strings and JSON are borrowed from `json`, except `id`, `of`, `message` and
 * `content`.
 */
struct editor_request {
	enum editor_method method;
	json_t *json; /* NULL: not valid JSON */
	char *id; /* owned JSON; NULL: a notification or an answer */
	const char *session_id; /* valid; NULL: not about a session */
	union {
		struct {
			bool is_read_only;
			bool takes_forms;
			bool takes_urls;
		} initialize;
		struct {
			const char *cwd; /* NULL: any */
			const char *cursor; /* NULL: the first page */
		} list;
		struct {
			const char *cwd;
			const char *agent; /* NULL: the default */
			const json_t *additional; /* directories; NULL: none */
		} make; /* for load and resume, only `additional` */
	};
	/* Of load and resume: the position of the editor; all zero if it has none. */
	bool has_position;
	uint64_t after_seq;
	uint64_t epoch;
	uint64_t open; /* bytes that it has of the next event */
	/* `wish.prompt` of a prompt, `wish.setting` of EDITOR_SET. */
	struct request wish;
	struct buffer message;
	json_t *content; /* owned */
	char *of; /* owned; the answered id, or the request to cancel (JSON) */
	const json_t *result; /* of an answer; NULL: an error response */
};

/**
 * Parses a message. Returns 0, or -EINVAL with `refusal` set; then ret->id can be NULL although the
 * editor waits for an answer. The refusal's code is one of proto/protocol.md, unknown_method, or
 * bad_message for a message that is not JSON-RPC. Call editor_request_finish() in either case.
 */
int editor_request_parse(const char *text, size_t len, const struct limits *limits,
	struct editor_request *ret, struct refusal *refusal);
void editor_request_finish(struct editor_request *request);

#endif
