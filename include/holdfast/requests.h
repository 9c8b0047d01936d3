/*
 * What clients send, checked: observers' requests and producers' input events. Everything is
 * hostile here; a refusal is a code and words that say what to do, and nothing has changed. Pure.
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

/** Who sends something; borrowed. */
struct author {
	const char *client_id;
	const char *sub; /* of their token; "" if it has none */
	const char *name; /* what they call themselves; NULL: nothing */
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
	REQUEST_APPEND, /* of producers */
	REQUEST_APPEND_SNAPSHOT, /* the same */
};

/** Where to load from. */
struct load_request {
	enum { LOAD_NEWEST, LOAD_AFTER, LOAD_BEFORE } from;
	uint64_t seq;
	bool has_epoch;
	uint64_t epoch; /* 0 if what the client sent cannot be one of ours */
	size_t limit;
	bool follow;
	bool gaps; /* events that are damaged are replaced; else they fail the load */
};

/**
 * A request; strings and JSON are borrowed from `json`, or from `spans` and the text, and
 * request_finish() frees both.
 */
struct request {
	enum request_type type;
	json_t *json; /* NULL: an append */
	struct json_spans spans; /* of an append */
	union {
		struct load_request load;
		struct {
			char client_time[32]; /* JSON number, "" if there was none */
		} keepalive;
		struct {
			const char *message;
			size_t message_len;
			const char *prompt_id; /* of a list: NULL if it names none */
			json_t *content; /* images and files: not empty; NULL: none */
		} prompt; /* also to list, edit and remove them */
		struct {
			uint64_t turn; /* 0: the one that is running */
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
			const char
				*id; /* of the mode, the model, the option, or the way to log in */
			const json_t *value; /* of the option: a string or a boolean */
		} setting;
		struct {
			bool has_name;
			const char *name; /* NULL: none any more */
			bool has_watch;
			bool watch;
		} presence;
		struct {
			const char *token; /* NULL: it has a login */
			const char *login;
		} token;
		struct {
			const struct json_span *events; /* the first of them */
			size_t count;
			char ref[160]; /* JSON text of a string or integer, "" if there was none */
		} append;
		struct {
			const json_t *data; /* for intake_snapshot() */
			char ref[160];
		} snapshot;
	};
};

/** Which socket a frame came in on. */
enum request_side { SIDE_OBSERVER, SIDE_PRODUCER, SIDE_FEED };

/**
 * Parses and checks a frame; `ret` may borrow from its text. On refusal returns -EINVAL with `refusal` set, and `ret` needs no
 * finish.
 */
int request_parse(const char *text, size_t len, const struct limits *limits, enum request_side side,
	struct json_numbers *numbers, struct request *ret, struct refusal *refusal);
void request_finish(struct request *request);

/** The same checks for the query of `GET …/events`; NULL where the query has no such part. */
int load_request_from_query(const char *after_seq, const char *before_seq, const char *limit,
	const char *epoch, const char *gaps, const struct limits *limits, struct load_request *ret,
	struct refusal *refusal);

bool session_id_is_valid(const char *id, size_t len);
/** Whether a person may be called so: 1 to 64 bytes that can be seen, without space at the ends. */
bool person_name_is_valid(const char *text, size_t len);
/** [A-Za-z0-9._:-]{1,max} */
bool token_is_valid(const char *text, size_t len, size_t max);

/* A longer message_id of a producer is refused, one of an agent is not kept. */
#define MESSAGE_ID_MAX 256
/* Bytes of an idempotency key. */
#define KEY_MAX 256

/** An input event of a producer or an agent, checked. */
struct input_event {
	enum event_type type;
	const char *type_name;
	size_t type_len;
	const char *message_id; /* NULL: none */
	size_t message_id_len;
	const char *key; /* idempotency key; NULL: none */
	size_t key_len;
	struct key_sum sum; /* with a key: of type, message_id and data */
	const char *run_id; /* NULL: it names none */
	bool recovered; /* an agent told it when it went on with its session: it comes late */
	const char *data; /* text of a chunk, run_id of a run_start or run_end, else JSON */
	size_t data_len;
	char *data_json; /* owned; NULL: `data` is borrowed */
	const struct json_span *span; /* data as it came, borrowed; NULL: not from outside */
	const json_t *object; /* data, if the state reads more of it than its bytes */
	json_t *read; /* owned: `object`, if it was made for this */
};

/** text_complete and session_idle come out as turn_end. `ret` borrows from the spans. */
int input_event_parse(const struct json_span *event, const struct limits *limits,
	struct input_event *ret, struct refusal *refusal);
/** The check of `data` alone, for a type; what the agent's events go through too. */
int input_data_check(enum event_type type, const struct json_span *data, struct refusal *refusal);
void input_event_finish(struct input_event *event);

/** What a session is to be made with; strings are borrowed from the JSON, and NULL if they are missing. */
struct session_request {
	const char *id;
	const char *title;
	const char *agent;
	const char *cwd; /* absolute */
};

/** {id?, title?, agent?, cwd?} of POST /api/sessions. */
int session_request_parse(const char *text, size_t len, const struct limits *limits,
	json_t **ret_json, struct session_request *ret, struct refusal *refusal);

/** What PATCH /api/sessions/{id} changes; strings are borrowed from the JSON. */
struct labels_change {
	bool has_title;
	const char *title; /* NULL: nobody's but the agent's */
	int archived; /* -1: as it was */
	int pinned;
};
/** {title?, archived?, pinned?}, of which there is one at least. */
int labels_request_parse(const char *text, size_t len, const struct limits *limits,
	json_t **ret_json, struct labels_change *ret, struct refusal *refusal);
/** Refuses members that are not among `names` (NULL-terminated); `what`: whose they are. */
int json_check_names(
	const json_t *object, const char *what, const char *const names[], struct refusal *refusal);

#define JSON_DEPTH_MAX 64

/** Whether arrays and objects nest deeper than that: reading them would recurse as deep. */
bool json_is_deep(const char *text, size_t len);
/**
 * Loads JSON from outside: one value of any kind, valid UTF-8, no NUL in strings, at most
 * JSON_DEPTH_MAX levels deep. Refused with bad_utf8 or bad_json.
 */
json_t *json_parse(
	const char *text, size_t len, struct json_numbers *numbers, struct refusal *refusal);
/** The same without a tree. */
int json_spans_parse(const char *text, size_t len, struct json_spans *ret, struct refusal *refusal);

#endif
