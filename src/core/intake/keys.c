/*
 * Idempotency keys: an event whose key was used before adds nothing, whether the first one is in
 * the same batch, not yet durable, or pruned long ago.
 */
#include "batch.h"

static int conflict(const struct input_event *in, struct refusal *refusal)
{
	return refuse(refusal, ERROR_key_conflict,
		"the key \"%.80s\" was used before, for an event with other content; a retry sends the same type, message_id and data, a new event has a new key",
		in->key);
}

/** Refuses the input unless its content is that with which the key was stored before. */
static int compare(const struct input_event *in, const struct key_sum *had, struct refusal *refusal)
{
	struct key_sum sum;
	if (key_sum_make(in, had->rule, &sum) < 0) {
		return refuse(refusal, ERROR_storage_failed,
			"the key \"%.80s\" was stored by a newer version of the server, and this one cannot compare it; nothing was stored",
			in->key);
	}
	return sum.value == had->value ? 0 : conflict(in, refusal);
}

int batch_check_key(struct batch *batch, size_t i, struct refusal *refusal)
{
	struct batch_entry *entry = &batch->entries[i];
	const struct input_event *in = &entry->in;
	if (!in->key) {
		return 0;
	}
	const struct batch_entry *first = batch_find(batch, i, NAME_KEY, in->key);
	if (first) {
		entry->is_known = true;
		entry->same_as = (size_t)(first - batch->entries) + 1;
		return compare(in, &first->in.sum, refusal);
	}
	struct log_key had = {0};
	int r = session_find_name(batch->session, LOG_KEY_INPUT, in->key, &had);
	if (r < 0) {
		return refuse_names(refusal, session_storage(batch->session), r);
	}
	if (r == 0) {
		batch_note(batch, i, NAME_KEY, in->key);
		return 0;
	}
	entry->is_known = true;
	batch->acks[i] = (struct append_ack){.seq = had.seq, .duplicate = true};
	return compare(in, &had.sum, refusal);
}
