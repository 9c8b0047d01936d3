/* Reads the journal for recovery: finds the segments that count, and visits their records. */
#include "recover_internal.h"

#include "holdfast/diag.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int recover_refuse(struct recovery *rec, int error, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	if (vasprintf(rec->ret_why, fmt, args) < 0) {
		*rec->ret_why = NULL;
	}
	va_end(args);
	return error;
}

int recover_refuse_foreign(
	struct recovery *rec, const char *dir, const char *name, const struct buffer *what)
{
	return recover_refuse(rec, -ENOTSUP,
		"%s/%s cannot be read: %.*s. Nothing has been changed: start a matching program, or restore a copy of the data directory that this program has made",
		dir, name, (int)what->len, what->data);
}

/**
 * Cuts off a torn tail durably: in the next recovery this segment is not the newest, where tails
 * can be torn.
 */
static int cut_segment(struct store *store, uint64_t number, size_t len)
{
	char name[32];
	journal_segment_name(number, name);
	diag(DIAG_WARN, "journal segment %s: cut off a torn batch at byte %zu", name, len);
	int fd = disk->openat(embedded_of(store)->journal.dir_fd, name, O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = disk->ftruncate(fd, (off_t)len) < 0 || disk->fdatasync(fd) < 0 ? -errno : 0;
	close(fd);
	return r;
}

bool recover_set_aside(struct store *store, int from_fd, const char *name, const char *why)
{
	char to[320];
	struct stat st;
	unsigned number = 0;
	do {
		snprintf(to, sizeof(to), "set-aside/%s.%u", name, ++number);
	} while (fstatat(store->dir_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0);
	if (disk->renameat(from_fd, name, store->dir_fd, to) < 0) {
		diag(DIAG_ERROR, "%s: %s; it cannot be moved to %s: %s", name, why, to,
			file_error(errno));
		return false;
	}
	diag(DIAG_ERROR, "%s: %s; set aside as %s", name, why, to);
	return true;
}

/**
 * Removes the newest segment, whose header is not good: power was lost before the header was on
 * disk, so nothing in it was acknowledged. If it is more than a blank beginning, it is kept in
 * set-aside/ for inspection.
 */
static void drop_headless(struct recovery *rec, uint64_t number)
{
	char name[32];
	struct journal_reader reader;
	int dir_fd = rec->view.dir_fd;
	journal_segment_name(number, name);
	int r = journal_reader_open(&reader, dir_fd, name);
	if (r == -EBADMSG && journal_reader_is_blank(&reader, JOURNAL_HEADER_SIZE)) {
		disk->unlinkat(dir_fd, name, 0);
	} else if (r == -EBADMSG) {
		recover_set_aside(rec->store, dir_fd, name,
			"the newest segment of the journal has no good header");
	}
	journal_reader_close(&reader);
}

void recover_drop_useless(struct recovery *rec)
{
	const struct journal_view *view = &rec->view;
	uint64_t newest = view->chain_count ? view->chain[view->chain_count - 1].number : 0;
	for (size_t i = view->number_count; i-- > 0;) {
		char name[32];
		uint64_t number = view->numbers[i];
		if (!journal_view_is_useless(view, number)) {
			continue;
		}
		if (number > newest) {
			drop_headless(rec, number);
		} else {
			journal_segment_name(number, name);
			disk->unlinkat(view->dir_fd, name, 0);
		}
	}
}

int recover_look_at_segments(struct recovery *rec)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < rec->view.number_count; i++) {
		char name[32];
		struct journal_reader reader;
		journal_segment_name(rec->view.numbers[i], name);
		if (journal_reader_open_header(&reader, rec->view.dir_fd, name) == -ENOTSUP) {
			struct buffer what = {0};
			versions_tell_segment(&reader, &what);
			r = recover_refuse_foreign(rec, "journal", name, &what);
			buffer_finish(&what);
		}
		journal_reader_close(&reader);
	}
	return r;
}

/** Whether what a crash cannot do is damage: without syncs a power cut may take any page. */
static bool is_certain(const struct recovery *rec)
{
	return embedded_of(rec->store)->journal.durability == DURABILITY_FSYNC;
}

int recover_refuse_journal(
	struct recovery *rec, enum journal_damage damage, const struct journal_place *place)
{
	char name[32];
	journal_segment_name(place->segment->number, name);
	if (damage == JOURNAL_NEWEST_HEADLESS) {
		return recover_refuse(rec, -EBADMSG,
			"journal segment %s " JOURNAL_HEADLESS
			"; no crash does that, and inputs are lost. Restore a copy of the data directory, or run holdfast repair to continue without them",
			name);
	}
	if (damage == JOURNAL_LACKS_HEADER) {
		return recover_refuse(rec, -EBADMSG,
			"journal segment %s has no good header, although others follow; no crash does that. Restore a copy of the data directory, or run holdfast repair to continue without the damaged part",
			name);
	}
	return recover_refuse(rec, -EBADMSG,
		"journal segment %s is damaged at byte %zu, where no crash can cause it, and the sessions concerned are unknown. Restore a copy of the data directory, or run holdfast repair to continue without the damaged part",
		name, place->at);
}

static int handle_damage(void *arg, enum journal_damage damage, const struct journal_place *place)
{
	struct recovery *rec = arg;
	uint64_t number = place->segment->number;
	const struct damage_rules *rules = recover_rules(rec->store, NULL);
	switch (damage) {
	case JOURNAL_NEWEST_HEADLESS:
		return is_certain(rec) ? rules->journal(rec, damage, place) : 0;
	case JOURNAL_HEADER_DAMAGED:
		diag(DIAG_ERROR,
			"journal segment %016llx has a damaged header; its batches are good",
			(unsigned long long)number);
		return 0;
	case JOURNAL_RECORD_DAMAGED:
		journal_view_note_damaged(&rec->view, place->session);
		return 0;
	case JOURNAL_TORN:
		rec->was_cut = !rec->has_relaxed;
		return rec->only_looks ? 0 : cut_segment(rec->store, number, place->at);
	case JOURNAL_LACKS_HEADER:
	case JOURNAL_REST_DAMAGED:
	case JOURNAL_CUT:
		return rules->journal(rec, damage, place);
	case JOURNAL_UNREADABLE:
		return place->error;
	case JOURNAL_UNBEGUN:
	case JOURNAL_BATCH_DAMAGED:
		return 0;
	}
	return 0;
}

int recover_find_segments(struct recovery *rec)
{
	const struct journal_visitor visitor = {.damage = handle_damage, .arg = rec};
	return journal_view_find(&rec->view, &visitor);
}

/** journal_visitor.opened */
static void note_relaxed(void *arg, const struct journal_place *place)
{
	struct recovery *rec = arg;
	rec->has_relaxed = rec->has_relaxed || (place->reader->flags & JOURNAL_FLAG_RELAXED);
}

int recover_walk_journal(struct recovery *rec, visit_record visit)
{
	const struct journal_visitor visitor = {
		.record = visit, .damage = handle_damage, .opened = note_relaxed, .arg = rec};
	return journal_view_walk(&rec->view, &visitor);
}

void recover_tell_unknown(const struct recovery *rec)
{
	size_t count = journal_view_count_unknown(&rec->view);
	if (count) {
		diag(DIAG_ERROR, "damaged records in the journal, of %zu sessions: " RECORD_UNKNOWN,
			count);
	}
}

/**
 * Syncs a segment. The last batch of the newest one is written again first: if its sync failed in
 * an earlier run of the server, the kernel takes it for written, and another sync would do nothing.
 * A failure of this write (a full disk, for instance) does no other harm and is only logged.
 */
static int sync_segment(const struct journal_view *view, const struct journal_segment *segment)
{
	int dir_fd = view->dir_fd;
	char name[32];
	journal_segment_name(segment->number, name);
	if (segment->is_newest && view->newest.last_batch) {
		int r = journal_rewrite(dir_fd, name, view->newest.last_batch, view->newest.len);
		if (r < 0) {
			diag(DIAG_WARN,
				"journal segment %s: its last batch cannot be rewritten: %s", name,
				file_error(-r));
		}
	}
	return disk_sync(dir_fd, name, O_RDONLY);
}

int recover_sync_journal(struct recovery *rec)
{
	const struct journal_view *view = &rec->view;
	int r = 0;
	for (size_t i = 0; r == 0 && i < view->chain_count; i++) {
		r = sync_segment(view, &view->chain[i]);
	}
	if (r == 0 && disk->fsync(view->dir_fd) < 0) {
		r = -errno;
	}
	if (r == -ENOSPC || r == -EDQUOT) {
		diag(DIAG_WARN, "the journal cannot be synced: %s", file_error(-r));
		return 0;
	}
	return r < 0 && !*rec->ret_why
		       ? recover_refuse(rec, r, "the journal cannot be synced: %s", file_error(-r))
		       : r;
}
