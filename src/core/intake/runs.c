/*
 * Runs fence producers: once a run has started, only events that name it are accepted, so that late
 * events of an earlier run, still in transit, are refused and never shown.
 */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

/** Returns 1 if a run of this name was started, in the batch or before, 0 if not, or an error. */
static int was_started(const struct batch *batch, size_t i, const char *run_id)
{
	struct log_key had;
	if (batch_find(batch, i, NAME_RUN, run_id)) {
		return 1;
	}
	return session_find_name(batch->session, LOG_KEY_RUN, run_id, &had);
}

static int refuse_run(
	const struct batch *batch, const char *run_id, bool was, struct refusal *refusal)
{
	if (!was) {
		return refuse(refusal, ERROR_unknown_run,
			"no run \"%.60s\" was started; append run_start with this run_id first",
			run_id);
	}
	return refuse(refusal, ERROR_stale_run,
		"the run \"%.60s\" is over, and its events are refused%s%.60s", run_id,
		batch->run_id ? "; the current run is " : "", batch->run_id ? batch->run_id : "");
}

static bool is_current(const struct batch *batch, const char *run_id)
{
	return batch->run_id && strcmp(batch->run_id, run_id) == 0;
}

static void set_run(struct batch *batch, const char *run_id)
{
	free(batch->run_id);
	batch->run_id = run_id ? xstrdup(run_id) : NULL;
}

/** Starts a run. A run_start of the current run adds nothing: its producer has reconnected. */
static int start(struct batch *batch, size_t i, struct refusal *refusal)
{
	struct batch_entry *entry = &batch->entries[i];
	const char *run_id = entry->in.data;
	if (is_current(batch, run_id)) {
		entry->is_known = true;
		return 0;
	}
	int was = was_started(batch, i, run_id);
	if (was != 0) {
		return was < 0 ? refuse_names(refusal, session_storage(batch->session), was)
			       : refuse_run(batch, run_id, true, refusal);
	}
	batch_note(batch, i, NAME_RUN, run_id);
	set_run(batch, run_id);
	return 0;
}

static int end(struct batch *batch, size_t i, struct refusal *refusal)
{
	struct batch_entry *entry = &batch->entries[i];
	const char *run_id = entry->in.data;
	if (is_current(batch, run_id)) {
		set_run(batch, NULL);
		return 0;
	}
	int was = was_started(batch, i, run_id);
	entry->is_known = true; /* the run is over already */
	return was > 0   ? 0
	       : was < 0 ? refuse_names(refusal, session_storage(batch->session), was)
			 : refuse_run(batch, run_id, false, refusal);
}

int batch_check_run(struct batch *batch, size_t i, struct refusal *refusal)
{
	const struct input_event *in = &batch->entries[i].in;
	bool is_run = in->type == EVENT_RUN_START || in->type == EVENT_RUN_END;
	if (is_run && in->run_id && strcmp(in->run_id, in->data) != 0) {
		return refuse(refusal, ERROR_bad_request,
			"the event names the run \"%.60s\", and its data another", in->run_id);
	}
	if (is_run) {
		batch->acks[i] = (struct append_ack){.duplicate = true};
		return in->type == EVENT_RUN_START ? start(batch, i, refusal)
						   : end(batch, i, refusal);
	}
	if (!in->run_id && batch->run_id) {
		return refuse(refusal, ERROR_run_active,
			"the run \"%.60s\" is under way: only events that name it as their run_id are taken until its run_end, or the run_start of another",
			batch->run_id);
	}
	if (!in->run_id || is_current(batch, in->run_id)) {
		return 0;
	}
	int was = was_started(batch, i, in->run_id);
	return was < 0 ? refuse_names(refusal, session_storage(batch->session), was)
		       : refuse_run(batch, in->run_id, was > 0, refusal);
}
