/*
 * Parses and checks what clients send: observers' requests and producers' input events. Clients are
 * not trusted; a refusal is a code and a message that says what to do, and means that nothing has
 * changed. Pure.
 */
#ifndef HOLDFAST_REQUESTS_H
#define HOLDFAST_REQUESTS_H

#include "holdfast/event.h"
#include "holdfast/json_span.h"
#include "holdfast/json_text.h"
#include "holdfast/key_sum.h"
#include "holdfast/limits.h"
#include "holdfast/refusal.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/** The sender of a request; strings are borrowed. */
struct author {
	const char *client_id;
	const char *sub; /* of the token; "" if it has none */
	const char *name; /* the name they chose; NULL: none */
};

enum request_type {
	REQUEST_LOAD_EVENTS,
	REQUEST_KEEPALIVE,
	REQUEST_PROMPT,
	REQUEST_LIST_PROMPTS,
	REQUEST_EDIT_PROMPT,
	REQUEST_REMOVE_PROMPT,
	REQUEST_CANCEL,
	REQUEST_PERMISSION_ANSWER,
	REQUEST_ELICITATION_ANSWER,
	REQUEST_SET_MODE,
	REQUEST_SET_MODEL,
	REQUEST_SET_CONFIG_OPTION,
	REQUEST_AUTHENTICATE,
	REQUEST_TOKEN,
	REQUEST_PRESENCE,
	REQUEST_APPEND, /* from producers */
	REQUEST_APPEND_SNAPSHOT, /* from producers */
};

/** A load: where it starts, and its options. */
struct load_request {
	enum { LOAD_NEWEST, LOAD_AFTER, LOAD_BEFORE } from;
	uint64_t seq;
	bool has_epoch;
	uint64_t epoch; /* 0: not an epoch that we could have issued */
	size_t limit;
	bool follow;
	bool gaps; /* replace damaged events by placeholders; otherwise they fail the load */
};

/**
 * A parsed request. Strings and JSON are borrowed from `json`, or from `spans` and the text.
 * request_finish() frees `json` and `spans`.
 */
struct request {
	enum request_type type;
	json_t *json; /* NULL for an append */
	struct json_spans spans; /* of an append */
	union {
		struct load_request load;
		struct {
			char client_time[32]; /* JSON number; "" if there was none */
		} keepalive;
		struct {
			const char *message;
			size_t message_len;
			const char *prompt_id; /* NULL for a list of all prompts */
			json_t *content; /* non-empty list of images and files; or NULL */
		} prompt; /* also for list, edit and remove */
		struct {
			uint64_t turn; /* 0: the running turn */
		} cancel;
		struct {
			const char *request_id;
			const char *option_id;
		} answer;
		struct {
			const char *request_id;
			const char *action;
			const json_t *content; /* NULL: none */
		} elicited;
		struct {
			const char *id; /* of a mode, a model, an option or a login method */
			const json_t *value; /* of an option: a string or a boolean */
		} setting;
		struct {
			bool has_name;
			const char *name; /* NULL: removes the name */
			bool has_watch;
			bool watch;
		} presence;
		struct {
			const char *token; /* NULL if `login` is set */
			const char *login;
		} token;
		struct {
			const struct json_span *events; /* the first event */
			size_t count;
			char ref[160]; /* JSON text of a string or integer, or "" */
		} append;
		struct {
			const json_t *data; /* for intake_snapshot() */
			char ref[160];
		} snapshot;
	};
};

/** The kind of socket that a frame arrived on. */
enum request_side { SIDE_OBSERVER, SIDE_PRODUCER, SIDE_FEED };

/**
 * Parses and checks a frame; `ret` can borrow from `text`. Returns 0, or -EINVAL with `refusal`
 * set; then `ret` needs no request_finish().
 */
int request_parse(const char *text, size_t len, const struct limits *limits, enum request_side side,
	struct json_numbers *numbers, struct request *ret, struct refusal *refusal);
void request_finish(struct request *request);

/** Parses the query of `GET …/events` with the same checks; parameters are NULL if absent. */
int load_request_from_query(const char *after_seq, const char *before_seq, const char *limit,
	const char *epoch, const char *gaps, const struct limits *limits, struct load_request *ret,
	struct refusal *refusal);

/** Whether the text matches [A-Za-z0-9._-]{1,128} and does not begin with a dot. */
bool session_id_is_valid(const char *id, size_t len);
/**
 * Whether this is a valid name of a person: 1 to 64 bytes, without invisible characters and without
 * a leading or trailing space.
 */
bool person_name_is_valid(const char *text, size_t len);
/** Whether the text matches [A-Za-z0-9._:-]{1,max}. */
bool token_is_valid(const char *text, size_t len, size_t max);

/*
 * Longest message_id in bytes. A longer one is refused from a producer, and dropped from an agent.
 */
#define MESSAGE_ID_MAX 256
/* Longest idempotency key, in bytes. */
#define KEY_MAX 256

/** A checked input event of a producer or an agent. */
struct input_event {
	enum event_type type;
	const char *type_name;
	size_t type_len;
	const char *message_id; /* NULL: none */
	size_t message_id_len;
	const char *key; /* idempotency key; NULL: none */
	size_t key_len;
	struct key_sum sum; /* if there is a key: sum of type, message_id and data */
	const char *run_id; /* NULL: none */
	bool recovered; /* replayed by an agent that resumed its session: it comes late */
	const char *data; /* text of a chunk, run_id of a run_start or run_end, else JSON */
	size_t data_len;
	char *data_json; /* owned; NULL: `data` is borrowed */
	const struct json_span *span; /* the data as received, borrowed; NULL: made by the server */
	const json_t *object; /* parsed data, if the session's state needs it */
	json_t *read; /* owned: `object`, if it was parsed here */
};

/**
 * Parses an input event. text_complete and session_idle become turn_end. `ret` borrows from the
 * spans. Returns 0, or -EINVAL with `refusal` set; then `ret` needs no finish.
 */
int input_event_parse(const struct json_span *event, const struct limits *limits,
	struct input_event *ret, struct refusal *refusal);
/**
 * Checks only the `data` of an event type, including events from agents. Returns 0, or -EINVAL with
 * `refusal` set.
 */
int input_data_check(enum event_type type, const struct json_span *data, struct refusal *refusal);
void input_event_finish(struct input_event *event);

/** The properties of a session to create; strings are borrowed from the JSON, NULL if missing. */
struct session_request {
	const char *id;
	const char *title;
	const char *agent;
	const char *cwd; /* absolute */
};

/**
 * Parses the body of POST /api/sessions: {id?, title?, agent?, cwd?}. Returns 0, and the JSON in
 * *ret_json, a new reference; or -EINVAL with `refusal` set.
 */
int session_request_parse(const char *text, size_t len, const struct limits *limits,
	json_t **ret_json, struct session_request *ret, struct refusal *refusal);

/** The changes of PATCH /api/sessions/{id}; strings are borrowed from the JSON. */
struct labels_change {
	bool has_title;
	const char *title; /* NULL: back to the agent's title */
	int archived; /* -1: unchanged */
	int pinned;
};
/**
 * Parses {title?, archived?, pinned?}, at least one of them. Returns as session_request_parse()
 * does.
 */
int labels_request_parse(const char *text, size_t len, const struct limits *limits,
	json_t **ret_json, struct labels_change *ret, struct refusal *refusal);
/**
 * Refuses an object with members that are not in `names` (NULL-terminated). `what` names the object
 * in the message.
 */
int json_check_names(
	const json_t *object, const char *what, const char *const names[], struct refusal *refusal);

/**
 * Parses untrusted JSON: one value of any kind, valid UTF-8, no NUL in strings, no duplicate
 * members, at most JSON_DEPTH_MAX levels deep. Returns a new reference, or NULL and refuses with
 * bad_utf8 or bad_json. `numbers` is as in json_read().
 */
json_t *json_parse(
	const char *text, size_t len, struct json_numbers *numbers, struct refusal *refusal);
/** Like json_parse(), but into spans instead of a tree. Returns 0 or -EINVAL. */
int json_spans_parse(const char *text, size_t len, struct json_spans *ret, struct refusal *refusal);
/**
 * Checks the content blocks of a prompt, its images and files (NULL: there are none), and sets
 * ret->prompt.content.
 */
int request_take_blocks(
	json_t *content, const struct limits *limits, struct request *ret, struct refusal *refusal);

#endif
