/*
 * Retention: decides which events need not be kept at the front of a log, for all engines.
 * prune_file.c removes them from files, pg_prune.c from a database. Events keep their seqs.
 */
#include "store_internal.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#define DAY_MS ((int64_t)86400000)

/* --- finding logs to prune --- */

static int64_t now_ms(const struct store *store)
{
	return clock_now_ms(store->ops->clock(store->owner));
}

/** Events before this time need not be kept; none if the wall clock is not trusted. */
static int64_t oldest_ts(struct store *store)
{
	int64_t days = store->limits->keep_days;
	return days && store_clock_is_trusted(store) ? now_ms(store) - days * DAY_MS : INT64_MIN;
}

static uint64_t oldest_seq(const struct session_log *log)
{
	uint64_t keep = (uint64_t)log->store->limits->keep_events;
	return keep && log->last_seq > keep ? log->last_seq - keep + 1 : 0;
}

/** Whether the log exceeds keep_bytes, and has more than one event. */
static bool is_too_long(const struct session_log *log)
{
	uint64_t keep = log->store->limits->keep_bytes;
	return keep && log->first_seq < log->last_seq && log->size - log->first_at > keep;
}

void prune_each_due(struct store *store, void (*begin)(struct session_log *log))
{
	int64_t ts = oldest_ts(store);
	int64_t now = now_ms(store);
	list_for_each_safe(link, tmp, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		bool is_due = log->first_seq < oldest_seq(log) || is_too_long(log) ||
			      ages_true_ts(&store->clock.ages, log->first_ts, now) < ts;
		if (is_due && log->first_seq <= log->last_seq && !log->wants_prune) {
			log->wants_prune = true;
			begin(log);
		}
	}
}

static void handle_timer(uv_timer_t *timer)
{
	store_prune(timer->data);
}

void prune_init(struct store *store)
{
	const struct limits *limits = store->limits;
	store->prune_timer = loop_timer(store->loop, store);
	if (limits->keep_events || limits->keep_days || limits->keep_bytes) {
		uint64_t ms = (uint64_t)limits->prune_ms;
		uv_timer_start(store->prune_timer, handle_timer, ms, ms);
	}
}

void prune_finish(struct store *store)
{
	loop_close(store->prune_timer);
}

/* --- on the loop --- */

bool prune_may_begin(const struct session_log *log)
{
	const struct store *store = log->store;
	/* While the store closes, the owners are gone: whether events are needed is unknown. */
	return log->wants_prune && server_may(store->life, MAY_KEEP_UP) &&
	       (!log->owner || store->ops->may_prune(log->owner));
}

void prune_take(struct session_log *log, struct prune *ret)
{
	struct store *store = log->store;
	*ret = (struct prune){.wanted = true,
		.keep_seq = oldest_seq(log),
		.keep_ts = oldest_ts(store),
		.keep_bytes = store->limits->keep_bytes,
		.ages = store->clock.ages,
		.now = now_ms(store),
		.rewrite_size = store->limits->prune_size,
		.sweeps = store_clock_is_trusted(store)};
	if (log->owner) {
		store->ops->append_waiting(log->owner, &ret->waiting);
	}
}

void prune_tell(const struct session_log *log, uint64_t count)
{
	if (count) {
		diag(DIAG_INFO, "session %s: pruned %llu events; its first seq is %llu now",
			log->id, (unsigned long long)count, (unsigned long long)log->first_seq);
	}
}

/* --- on the thread pool --- */

bool prune_search_line(
	struct prune_search *search, uint64_t seq, int64_t ts, uint64_t offset, size_t len)
{
	const struct prune *prune = search->prune;
	struct metadata *meta = search->meta;
	int64_t true_ts = ages_true_ts(&prune->ages, ts, prune->now);
	bool fits = !prune->keep_bytes || meta->log_size - offset <= prune->keep_bytes ||
		    offset + len >= meta->log_size;
	bool is_kept = seq >= prune->keep_seq && true_ts >= prune->keep_ts && fits;
	/*
	 * The clock was ahead and has been set back. As ts never falls within a session, all its
	 * inputs since then have had the same ts, and the age of these events is unknown.
	 */
	bool may_be_younger = true_ts < ts && seq >= prune->keep_seq && fits;
	if (!search->may_be_younger || ts > meta->first_ts) {
		meta->first_seq = seq;
		meta->first_at = offset;
		meta->first_ts = ts;
		search->may_be_younger = may_be_younger;
	}
	search->found = is_kept || may_be_younger;
	return is_kept;
}
