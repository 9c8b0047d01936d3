/* What one append is checked against: the session, and the events that precede each. */
#ifndef HOLDFAST_BATCH_H
#define HOLDFAST_BATCH_H

#include "holdfast/intake.h"

struct hash;
struct usage_total;

/** What an event may name that later ones of the batch are checked against. */
enum batch_name { NAME_KEY, NAME_RUN, NAME_QUESTION, NAME_COUNT };

/** One event of the batch. */
struct batch_entry {
	struct input_event in;
	const char *names[NAME_COUNT]; /* batch_note(); borrowed from `in` */
	bool is_known; /* it adds nothing: its ack is set already, or is that of `same_as` */
	size_t same_as; /* index + 1 of the event in front that has its key; 0: none */
};

struct batch {
	struct session *session;
	struct batch_entry *entries;
	size_t count;
	struct append_ack *acks;
	struct hash
		*names; /* index + 1 by kind and name; NULL: few events, they are looked through */
	struct permission_count questions; /* at this place of the batch */
	char *run_id; /* of the run that is under way at this place of the batch; NULL: none */
	struct usage_total *usage; /* what is counted at this place of it; NULL: as the session */
};

/** The newest event in front of the place `i` that was noted for this name; NULL: none. */
struct batch_entry *batch_find(
	const struct batch *batch, size_t i, enum batch_name kind, const char *name);
void batch_note(struct batch *batch, size_t i, enum batch_name kind, const char *name);
/**
 * keys.c: whether the key of an entry has been taken before: then it is known. Refused with
 * key_conflict if it had another content then.
 */
int batch_check_key(struct batch *batch, size_t i, struct refusal *refusal);
/**
 * runs.c: whether an entry may be appended in the run that is under way. Refused with stale_run,
 * unknown_run or run_active.
 */
int batch_check_run(struct batch *batch, size_t i, struct refusal *refusal);
/** usage.c: whether what an entry reports can be counted; bad_request, too_large. */
int batch_check_usage(struct batch *batch, size_t i, struct refusal *refusal);
#endif
