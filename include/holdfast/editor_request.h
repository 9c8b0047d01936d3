/*
 * What an editor sends: messages of ACP v1 (JSON-RPC 2.0), checked. Everything is hostile here. Pure.
 */
#ifndef HOLDFAST_EDITOR_REQUEST_H
#define HOLDFAST_EDITOR_REQUEST_H

#include "holdfast/requests.h"

/* Bytes of a request's id, as JSON. */
#define EDITOR_ID_MAX 256

enum editor_method {
	EDITOR_NOTHING, /* nobody waits for an answer, and nothing is to be done */
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

/** Strings and JSON are borrowed from `json`, but for `id`, `of` and `message`. */
struct editor_request {
	enum editor_method method;
	json_t *json; /* NULL: it is none */
	char *id; /* JSON; NULL: it is a notification, or an answer */
	const char *session_id; /* valid; NULL: it is about none */
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
		} make; /* also of a load and a resume, of which only `additional` counts */
	};
	/* Of a load and a resume: where the editor is; all 0: nowhere. */
	bool has_position;
	uint64_t after_seq;
	uint64_t epoch;
	uint64_t open; /* bytes of the next event that it has */
	/* Of a prompt; `setting` of EDITOR_SET. */
	struct request wish;
	struct buffer message;
	json_t *content; /* owned */
	char *of; /* id that an answer is to (without quotes), or of the request that is taken back (JSON) */
	const json_t *result; /* of an answer; NULL: it is an error */
};

/**
 * `ret` is to be finished in any case. -EINVAL: it is refused; then ret->id may be NULL though somebody waits. A code of a
 * refusal is one of proto/protocol.md, or unknown_method, or bad_message: it is no JSON-RPC.
 */
int editor_request_parse(const char *text, size_t len, const struct limits *limits,
	struct editor_request *ret, struct refusal *refusal);
void editor_request_finish(struct editor_request *request);

#endif
