/* Checks the usage that producers and agents report. */
#include "batch.h"

#include "holdfast/usage_total.h"

static int check(
	const struct usage_total *total, const struct input_event *in, struct refusal *refusal)
{
	struct usage_report report;
	if (in->type != EVENT_USAGE) {
		return 0;
	}
	int r = usage_report_parse(in->object, in->message_id, &report, refusal);
	return r < 0 ? r : usage_total_check(total, &report, refusal);
}

static void count(struct usage_total *total, const struct input_event *in)
{
	struct usage_report report;
	struct refusal refusal;
	if (in->type == EVENT_AGENT_STARTED) {
		bool resumed = json_is_true(json_object_get(in->object, "resumed"));
		usage_total_new_source(total, resumed);
	} else if (in->type == EVENT_RUN_START) {
		usage_total_new_source(total, false);
	} else if (usage_report_parse(in->object, in->message_id, &report, &refusal) == 0) {
		usage_total_add(total, &report);
	}
}

/**
 * Adds up usage in a copy of the total, so that the whole batch is within its bounds, or refused.
 */
int batch_check_usage(struct batch *batch, size_t i, struct refusal *refusal)
{
	const struct input_event *in = &batch->entries[i].in;
	const struct usage_total *total = session_usage(batch->session);
	if (in->type != EVENT_USAGE && in->type != EVENT_AGENT_STARTED &&
		in->type != EVENT_RUN_START) {
		return 0;
	}
	int r = check(batch->usage ? batch->usage : total, in, refusal);
	if (r == 0 && i + 1 < batch->count) {
		batch->usage = batch->usage ? batch->usage : usage_total_copy(total);
		count(batch->usage, in);
	}
	return r;
}
