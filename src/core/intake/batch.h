/*
 * A batch of input events, each of which is checked against the session and the events before it.
 */
#ifndef HOLDFAST_BATCH_H
#define HOLDFAST_BATCH_H

#include "holdfast/intake.h"

struct hash;
struct usage_total;

/** Kinds of names in an event against which later events of the batch are checked. */
enum batch_name { NAME_KEY, NAME_RUN, NAME_QUESTION, NAME_COUNT };

/** One event of the batch. */
struct batch_entry {
	struct input_event in;
	const char *names[NAME_COUNT]; /* set by batch_note(); borrowed from `in` */
	bool is_known; /* it adds nothing: its ack is set already, or is that of `same_as` */
	size_t same_as; /* index + 1 of an earlier event with the same key; 0: none */
};

struct batch {
	struct session *session;
	struct batch_entry *entries;
	size_t count;
	struct append_ack *acks;
	struct hash *names; /* index + 1 by kind and name; NULL: few events, searched one by one */
	/* The state after the events that have been checked so far. */
	struct permission_count questions;
	char *run_id; /* of the current run; NULL: none */
	struct usage_total *usage; /* NULL: that of the session */
};

/** Finds the newest event before index `i` that was noted for this name; NULL: none. */
struct batch_entry *batch_find(
	const struct batch *batch, size_t i, enum batch_name kind, const char *name);
/** Records that the event at index `i` has this name. */
void batch_note(struct batch *batch, size_t i, enum batch_name kind, const char *name);
/*
 * The checks return 0 or a negative value with the refusal filled in. They set is_known if the
 * entry adds nothing.
 */
/** keys.c: an entry whose key was used before is known; key_conflict if its content differs. */
int batch_check_key(struct batch *batch, size_t i, struct refusal *refusal);
/** runs.c: whether the current run allows the entry; stale_run, unknown_run or run_active. */
int batch_check_run(struct batch *batch, size_t i, struct refusal *refusal);
/** usage.c: whether the usage that the entry reports is valid; bad_request or too_large. */
int batch_check_usage(struct batch *batch, size_t i, struct refusal *refusal);
#endif
