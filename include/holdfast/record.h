/*
 * What the journal and the names on disk are made of: kinds of records, and kinds of names. The
 * numbers are part of the format (proto/store-format.md).
 */
#ifndef HOLDFAST_RECORD_H
#define HOLDFAST_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum record_kind {
	RECORD_CREATE = 1, /* a session; data: {"title": …} */
	RECORD_DELETE = 2,
	RECORD_INPUT = 3, /* an input event */
	RECORD_PROMPT =
		4, /* a prompt of a controller: becomes user_prompt, now or when its turn comes */
	RECORD_FLUSH = 5, /* what a timer decided */
	RECORD_SNAPSHOT = 6, /* a session's whole state: its first record in every segment */
	RECORD_PROMPT_EDIT = 7, /* a prompt that waits has another message */
	RECORD_PROMPT_REMOVE = 8, /* it waits no more, and will not begin */
	RECORD_RECOVERED = 9, /* an input event out of an agent's history, late */
	RECORD_NEWEST = RECORD_RECOVERED,
	/* A kind with this bit may be left out by those who do not know it; another one may not. */
	RECORD_MAY_BE_LEFT_OUT = 0x8000,
};

/** One journal record; bytes are borrowed. */
struct record {
	enum record_kind kind;
	const char *id; /* session; of a kind that is of none: empty */
	size_t id_len; /* at most 128 */
	uint64_t epoch;
	int64_t ts; /* ms since 1970 */
	const char *data;
	size_t data_len;
};

/** What is found by name for as long as the session lives, pruned or not. */
enum log_key_kind {
	/* The log's events tell these. */
	LOG_KEY_PROMPT = 1, /* user_prompt, by prompt_id */
	LOG_KEY_ANSWER = 2, /* permission_resolved, by request_id */
	/* Inputs gave these: session_log_note_input(). */
	LOG_KEY_INPUT = 3, /* an idempotency key */
	LOG_KEY_MESSAGE = 4, /* a message_id */
	LOG_KEY_TOOL_CALL = 5, /* the tool_call_id of a tool_call */
	LOG_KEY_TOOL_RESULT = 6, /* that of an update which is completed or failed */
	LOG_KEY_RUN = 7, /* the run_id of a run_start */
	LOG_KEY_REMOVED = 8, /* the prompt_id of a prompt that was taken out of the queue */
};

#endif
