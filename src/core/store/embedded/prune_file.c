/*
 * Removes pruned events (prune.c) from a session's files. At first only first_seq and first_at in
 * metadata.json change, which costs nothing. Once half of the file is pruned lines, the rest is
 * written to a new file that replaces it.
 *
 * After a crash between the new file and its metadata, the first line of the file tells which of
 * the two files it is: it is the line of base_seq or that of first_seq (recover_session.c).
 */
#include "embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define FRESH     "events.jsonl.new"
#define COPY_SIZE ((size_t)1 << 18)

/* --- on the loop --- */

void prune_look(struct store *store)
{
	prune_each_due(store, checkpoint_log);
}

void prune_begin(struct session_log *log, struct prune *ret)
{
	struct embedded_log *own = embedded_log_of(log);
	*ret = (struct prune){0};
	if (prune_may_begin(log) && own->index.state != INDEX_BUILDING) {
		own->is_frozen = true;
		prune_take(log, ret);
	} /* else the timer, or the next start, tries again */
}

/** The log has a new file: adjusts or drops all offsets. */
static void move_log(struct session_log *log, const struct metadata *meta)
{
	struct embedded_log *own = embedded_log_of(log);
	uint64_t cut = log->written - meta->log_size;
	own->is_moved = true;
	log->written = meta->log_size;
	session_log_forget_before(log, meta->base_seq);
	log->base_seq = meta->base_seq;
	log->size -= cut;
	log->hot_offset -= log->hot_count ? cut : 0;
	own->certain_size = meta->log_size;
	own->has_new_files = true;
	own->index.was_built = false;
	log_index_take(log, meta->max_seq + 1 - meta->base_seq);
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
	struct embedded_log *own = embedded_log_of(log);
	if (meta) {
		take_start(log, meta);
	}
	if (has_new_file) {
		move_log(log, meta);
	}
	own->is_frozen = false;
	log_index_resume(log);
	if (own->unwritten.len) {
		log_write_whole(log, NULL);
	}
}

/* --- on the thread pool --- */

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
