/*
 * The journal's records and the names of a session. The numbers of the record kinds are part of the
 * format (proto/store-format.md).
 */
#ifndef HOLDFAST_RECORD_H
#define HOLDFAST_RECORD_H

#include "holdfast/key_sum.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_kind {
	RECORD_CREATE = 1, /* a session is created; data: {"title": …} */
	RECORD_DELETE = 2,
	RECORD_INPUT = 3, /* an input event */
	RECORD_PROMPT =
		4, /* a controller's prompt: becomes user_prompt now or when its turn comes */
	RECORD_FLUSH = 5, /* a timer has flushed open text */
	RECORD_SNAPSHOT = 6, /* a session's whole state: its first record in every segment */
	RECORD_PROMPT_EDIT = 7, /* a queued prompt gets another message */
	RECORD_PROMPT_REMOVE = 8, /* a prompt is removed from the queue and will not begin */
	RECORD_RECOVERED = 9, /* an input event recovered late from an agent's history */
	RECORD_LABELS = 10, /* people's labels: the session's name, archived, pinned */
	RECORD_NEWEST = RECORD_LABELS,
	/* Readers skip an unknown kind that has this bit, and refuse one that does not. */
	RECORD_MAY_BE_LEFT_OUT = 0x8000,
};

/** One journal record; bytes are borrowed. */
struct record {
	enum record_kind kind;
	const char *id; /* of the session; empty for a kind that belongs to no session */
	size_t id_len; /* at most 128 */
	uint64_t epoch;
	int64_t ts; /* ms since 1970 */
	const char *data;
	size_t data_len;
};

/**
 * A kind of name. A name finds an event or input by an id (a prompt id, an idempotency key, …) for
 * as long as the session exists, even if the event is pruned. The owner of the store defines the
 * kinds.
 */
struct name_kind {
	const char *name; /* in keys.jsonl; NULL: this number is not in use */
	bool is_of_event; /* derived from events: the last one with a key counts. Else given by
			     inputs: the first one counts */
	bool has_by; /* names of this kind have `by` */
	bool has_sum;
	bool is_listed; /* session_log_each_listed() visits this kind; at most one is */
	bool is_once; /* no two inputs give the same key: a second line of it is damage */
	bool is_count; /* the key is a number: so many names are lost, and their loss is known */
};

/** A name; strings are borrowed. */
struct log_name {
	unsigned kind; /* index into the owner's table; 0: a kind that it does not know */
	uint64_t seq; /* 0: its input had none */
	const char *key;
	const char *by; /* who gave it; "" if nobody did */
	struct key_sum sum;
};
typedef void visit_name(void *arg, const struct log_name *name);

#endif
