/*
 * What the journal and the names on disk are made of. The numbers of kinds of records are part of
 * the format (proto/store-format.md).
 */
#ifndef HOLDFAST_RECORD_H
#define HOLDFAST_RECORD_H

#include "holdfast/key_sum.h"

#include <stdbool.h>
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
	RECORD_LABELS = 10, /* what people call a session, and where they put it */
	RECORD_NEWEST = RECORD_LABELS,
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

/**
 * A kind of name. By names events and inputs are found for as long as a session lives, pruned or
 * not; what the kinds are for, their owner knows.
 */
struct name_kind {
	const char *name; /* in keys.jsonl; NULL: there is no such kind */
	bool is_of_event; /* events tell them, and the last one counts; of those that inputs give,
			     the first one does */
	bool has_by; /* each is by somebody */
	bool has_sum;
	bool is_listed; /* all of them can be had, in their order; one kind at most */
};

/** A name; strings are borrowed. */
struct log_name {
	unsigned kind; /* a place in the owner's table; 0: one that it does not know */
	uint64_t seq; /* 0: its input had none */
	const char *key;
	const char *by; /* "": nobody */
	struct key_sum sum;
};
typedef void visit_name(void *arg, const struct log_name *name);

#endif
