/*
 * Plans loads (proto/protocol.md#loading-step-by-step): where one starts, its pages, and when the
 * client's position is no longer valid. observer_load(), in observer.c, carries the plan out.
 */
#include "holdfast/observer.h"

#include <inttypes.h>

static struct load_plan newest_page(const struct load_request *load, uint64_t first, uint64_t max)
{
	uint64_t from = max + 1 > load->limit ? max + 1 - load->limit : 1;
	return (struct load_plan){
		.from = from > first ? from : first, .to = max, .to_end = true, .is_newest = true};
}

static struct load_plan page_before(const struct load_request *load, uint64_t first, uint64_t max)
{
	uint64_t to = load->seq - 1 < max ? load->seq - 1 : max;
	uint64_t from = to + 1 > load->limit ? to + 1 - load->limit : 1;
	return (struct load_plan){.from = from > first ? from : first, .to = to, .prepend = true};
}

struct log_page load_plan_page(
	const struct load_plan *plan, size_t limit, const struct channel *channel)
{
	bool is_fixed_at_end = plan->prepend || plan->is_newest;
	/* The end of the log moves while pages are sent. */
	uint64_t to = plan->to_end && !plan->is_newest ? channel->max_seq : plan->to;
	if (to + 1 > plan->from && to + 1 - plan->from > limit) {
		to = plan->from + limit - 1;
	}
	return (struct log_page){.from = plan->from,
		.to = to,
		.max_bytes = channel->limits->page_size,
		.is_fixed_at_end = is_fixed_at_end};
}

void load_page_fill(const struct channel *channel, const struct load_plan *plan,
	struct event **events, size_t count, struct loaded_frame *ret_page)
{
	uint64_t first_kept = session_log_first_seq(channel->log);
	uint64_t first = count ? events[0]->seq : plan->from;
	uint64_t last = count ? events[count - 1]->seq : plan->from - 1;
	bool goes_forward = plan->to_end && !plan->is_newest;
	*ret_page = (struct loaded_frame){
		.events = events,
		.count = count,
		.prepend = plan->prepend,
		.has_more = goes_forward ? last < channel->max_seq : first > first_kept,
		.max_seq = channel->max_seq,
		.first_kept_seq = first_kept,
		.epoch = session_log_epoch(channel->log),
		.is_prompting = channel->status.is_prompting,
		.reset = plan->reset,
		.is_newest = plan->is_newest,
		.from = plan->from,
	};
}

static void count_reset(struct metrics *metrics, const char *reason)
{
	metrics_add(metrics,
		reason[0] == 'e'   ? METRIC_RESETS_EPOCH
		: reason[0] == 'a' ? METRIC_RESETS_AHEAD
				   : METRIC_RESETS_PRUNED,
		1);
}

void load_count(
	struct metrics *metrics, const struct load_request *load, const struct load_plan *plan)
{
	static const enum metric kinds[] = {[LOAD_NEWEST] = METRIC_LOADS_NEWEST,
		[LOAD_AFTER] = METRIC_LOADS_AFTER,
		[LOAD_BEFORE] = METRIC_LOADS_BEFORE};
	metrics_add(metrics, kinds[load->from], 1);
	if (plan->reset) {
		count_reset(metrics, plan->reset);
	}
}

struct load_plan load_plan_make(
	const struct load_request *load, uint64_t epoch, uint64_t first_seq, uint64_t max_seq)
{
	const char *reset = NULL;
	if (load->has_epoch && load->epoch != epoch) {
		reset = "epoch";
	} else if (load->from == LOAD_AFTER && load->seq > max_seq) {
		reset = "ahead";
	} else if (load->from == LOAD_AFTER && load->seq + 1 < first_seq) {
		reset = "pruned";
	}
	if (!reset && load->from == LOAD_AFTER) {
		return (struct load_plan){.from = load->seq + 1, .to = max_seq, .to_end = true};
	}
	if (!reset && load->from == LOAD_BEFORE) {
		return page_before(load, first_seq, max_seq);
	}
	struct load_plan plan = newest_page(load, first_seq, max_seq);
	plan.reset = reset;
	return plan;
}

#define REPAIR " (the operator can run holdfast repair)"

void refuse_events_read(struct refusal *refusal, const struct session_log *log)
{
	enum storage_kind storage = session_log_storage(log);
	uint64_t from;
	uint64_t to;
	if (!session_log_get_damage(log, &from, &to)) {
		refuse_storage(refusal, storage, STORAGE_EVENTS);
		return;
	}
	refuse(refusal, ERROR_storage_failed,
		"events %" PRIu64 " to %" PRIu64
		" are damaged on the server's %s; gaps=1 loads the others%s",
		from, to, storage_name(storage), storage == STORAGE_DISK ? REPAIR : "");
	refusal->detail.lost_from = from;
	refusal->detail.lost_to = to;
}
