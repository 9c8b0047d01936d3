/*
 * Retention: removes events that need not be kept from the front of a log. Which events these are
 * is decided here for all engines; pg_prune.c removes them from a database. In files, at first only
 * first_seq and first_at in metadata.json change, which costs nothing. Once half of the file is
 * pruned lines, the rest is written to a new file that replaces it. Events keep their seqs.
 *
 * After a crash between the new file and its metadata, the first line of the file tells which of
 * the two files it is: it is the line of base_seq or that of first_seq (recover_session.c).
 */
#include "store_internal.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAY_MS    ((int64_t)86400000)
#define FRESH     "events.jsonl.new"
#define COPY_SIZE ((size_t)1 << 18)

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
			      ages_true_ts(&store->ages, log->first_ts, now) < ts;
		if (is_due && log->first_seq <= log->last_seq && !log->wants_prune) {
			log->wants_prune = true;
			begin(log);
		}
	}
}

void prune_look(struct store *store)
{
	prune_each_due(store, checkpoint_log);
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
		.ages = store->ages,
		.now = now_ms(store),
		.rewrite_size = store->limits->prune_size,
		.sweeps = store_clock_is_trusted(store)};
	if (log->owner) {
		store->ops->append_waiting(log->owner, &ret->waiting);
	}
}

void prune_begin(struct session_log *log, struct prune *ret)
{
	*ret = (struct prune){0};
	if (prune_may_begin(log) && log->index.state != INDEX_BUILDING) {
		log->is_frozen = true;
		prune_take(log, ret);
	} /* else the timer, or the next start, tries again */
}

/** The log has a new file: adjusts or drops all offsets. */
static void move_log(struct session_log *log, const struct metadata *meta)
{
	uint64_t cut = log->written - meta->log_size;
	log->is_moved = true;
	log->written = meta->log_size;
	session_log_forget_before(log, meta->base_seq);
	log->base_seq = meta->base_seq;
	log->size -= cut;
	log->hot_offset -= log->hot_count ? cut : 0;
	log->certain_size = meta->log_size;
	log->has_new_files = true;
	log->index.was_built = false;
	log_index_take(log, meta->max_seq + 1 - meta->base_seq);
}

void prune_tell(const struct session_log *log, uint64_t count)
{
	if (count) {
		diag(DIAG_INFO, "session %s: pruned %llu events; its first seq is %llu now",
			log->id, (unsigned long long)count, (unsigned long long)log->first_seq);
	}
}

static void take_start(struct session_log *log, const struct metadata *meta)
{
	uint64_t pruned = meta->first_seq - log->first_seq;
	log->first_seq = meta->first_seq;
	log->first_at = meta->first_at;
	log->first_ts = meta->first_ts;
	if (log->damage_from && log->damage_to < log->first_seq) {
		log->damage_from = log->damage_to = 0;
		store_add_damaged(log->store, -1);
	}
	prune_tell(log, pruned);
}

void prune_end(struct session_log *log, const struct metadata *meta, bool has_new_file)
{
	if (meta) {
		take_start(log, meta);
	}
	if (has_new_file) {
		move_log(log, meta);
	}
	log->is_frozen = false;
	log_index_resume(log);
	if (log->unwritten.len) {
		log_write_whole(log, NULL);
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

/** A line that cannot be read is pruned with those around it. */
static int see_line(void *arg, const struct event_view *view, uint64_t offset, size_t len)
{
	return view && prune_search_line(arg, view->seq, view->ts, offset, len);
}

int prune_find(const struct prune *prune, int fd, struct metadata *meta)
{
	struct prune_search search = {.prune = prune, .meta = meta};
	int r = log_scan(fd, meta->first_at, meta->log_size, see_line, &search);
	if (r >= 0 && !search.found) {
		meta->first_seq = meta->max_seq + 1;
		meta->first_at = meta->log_size;
		meta->first_ts = 0;
	}
	return r < 0 ? r : 0;
}

bool prune_is_due(const struct prune *prune, const struct metadata *meta)
{
	return prune->wanted && meta->first_at >= prune->rewrite_size &&
	       meta->first_at >= meta->log_size / 2;
}

static int copy(int from, int to, uint64_t offset, uint64_t end)
{
	char *bytes = xmalloc(COPY_SIZE);
	int r = 0;
	while (r == 0 && offset < end) {
		size_t len = end - offset < COPY_SIZE ? (size_t)(end - offset) : COPY_SIZE;
		r = disk_read_at(from, offset, bytes, len);
		if (r == 0) {
			r = disk_write_all(to, bytes, len);
		}
		offset += len;
	}
	free(bytes);
	return r;
}

/**
 * Makes the new file's index before the file: by its base_seq a reader sees that it does not fit.
 */
static int make_index(int dir_fd, int fd, const struct metadata *meta)
{
	struct index_damage damage;
	if (meta->first_seq > meta->max_seq) {
		return disk->unlinkat(dir_fd, "events.index", 0) < 0 && errno != ENOENT ? -errno
											: 0;
	}
	const struct index_source source = {.epoch = meta->epoch,
		.first_seq = meta->first_seq,
		.last_seq = meta->max_seq,
		.end = meta->log_size - meta->first_at,
		.fd = fd,
		.dir_fd = dir_fd};
	return log_index_make(&source, &damage);
}

int prune_rewrite(int dir_fd, int fd, struct metadata *meta)
{
	int fresh = disk->openat(dir_fd, FRESH, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fresh < 0) {
		return -errno;
	}
	int r = copy(fd, fresh, meta->first_at, meta->log_size);
	if (r == 0 && disk->fdatasync(fresh) < 0) {
		r = -errno;
	}
	if (r == 0) {
		r = make_index(dir_fd, fresh, meta);
	}
	close(fresh);
	if (r == 0 && disk->renameat(dir_fd, FRESH, dir_fd, "events.jsonl") < 0) {
		r = -errno;
	}
	if (r < 0) {
		disk->unlinkat(dir_fd, FRESH, 0);
		return r;
	}
	/* They have HTML of pruned events. Without them, HTML is rendered again. */
	disk->unlinkat(dir_fd, "events.html.index", 0);
	disk->unlinkat(dir_fd, "events.html", 0);
	meta->base_seq = meta->first_seq;
	meta->log_size -= meta->first_at;
	meta->first_at = 0;
	return 0;
}
