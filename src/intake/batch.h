/* What one append is checked against: the session, and the events that precede each. */
#ifndef HOLDFAST_BATCH_H
#define HOLDFAST_BATCH_H

#include "holdfast/intake.h"

struct hash;
struct usage_total;

/** One event of the batch. */
struct batch_entry {
	struct input_event in;
	bool is_known; /* it adds nothing: its ack is set already, or is that of `same_as` */
	size_t same_as; /* index + 1 of the event in front that has its key; 0: none */
};

/** What is asked at this place of the batch. */
struct questions {
	struct hash *states; /* enum permission_state, by request_id, of the events in front */
	struct permission_count count;
};

struct batch {
	struct session *session;
	struct batch_entry *entries;
	size_t count;
	struct append_ack *acks;
	struct questions questions;
	struct hash *keys; /* index + 1 of each event of the batch, by its key */
	char *run_id; /* of the run that is under way at this place of the batch; NULL: none */
	struct hash *runs; /* the batch itself, by run_id of each run_start in it */
	struct usage_total *usage; /* what is counted at this place of it; NULL: as the session */
};

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
/** The same for an event that is no batch. */
int intake_check_usage(
	const struct usage_total *total, const struct input_event *in, struct refusal *refusal);

#endif
