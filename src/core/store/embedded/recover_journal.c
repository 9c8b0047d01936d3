/* Reads the journal for recovery: finds the segments that count, and visits their records. */
#include "recover_internal.h"
#include "repair.h"

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

int recover_list_segments(struct recovery *rec)
{
	int r = journal_list(
		embedded_of(rec->store)->journal.dir_fd, &rec->segments, &rec->segment_count);
	if (rec->segment_count) {
		rec->next_segment = rec->segments[rec->segment_count - 1] + 1;
	}
	return r;
}

/**
 * Cuts off a torn tail durably: in the next recovery this segment is not the newest, where tails
 * can be torn.
 */
static int cut_segment(struct store *store, const char *name, size_t len)
{
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
static void drop_headless(
	struct recovery *rec, const char *name, const struct journal_reader *reader)
{
	struct store *store = rec->store;
	struct embedded_store *emb = embedded_of(store);
	if (journal_reader_is_blank(reader, JOURNAL_HEADER_SIZE)) {
		disk->unlinkat(emb->journal.dir_fd, name, 0);
		return;
	}
	recover_set_aside(store, emb->journal.dir_fd, name,
		"the newest segment of the journal has no good header");
}

/** Removes a segment from rec->segments. */
static void forget_segment(struct recovery *rec, size_t i)
{
	rec->segment_count--;
	memmove(rec->segments + i, rec->segments + i + 1,
		(rec->segment_count - i) * sizeof(*rec->segments));
}

int recover_look_at_segments(struct recovery *rec)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < rec->segment_count; i++) {
		char name[32];
		struct journal_reader reader;
		journal_segment_name(rec->segments[i], name);
		if (journal_header_is_foreign(
			    &reader, embedded_of(rec->store)->journal.dir_fd, name)) {
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

/**
 * Reads the header of a segment, which names the segment before it and that one's length. Sets
 * *ret_is_lost if it is the newest one, and its header was damaged.
 */
static int read_before(
	struct recovery *rec, uint64_t number, struct link_of_chain *ret_before, bool *ret_is_lost)
{
	char name[32];
	struct journal_reader reader;
	journal_segment_name(number, name);
	int r = journal_reader_open(&reader, embedded_of(rec->store)->journal.dir_fd, name);
	bool is_headless = r == -EBADMSG && !rec->last_segment;
	*ret_is_lost = is_headless && is_certain(rec) && journal_reader_has_batch(&reader);
	if (is_headless && !rec->only_looks) {
		drop_headless(rec, name, &reader);
	}
	*ret_before = (struct link_of_chain){reader.before_segment, reader.before_len};
	journal_reader_close(&reader);
	return r;
}

/** Repair: gives up the rest of a segment. Later segments begin with snapshots. */
static void do_without_rest(struct recovery *rec, const char *name, size_t valid)
{
	if (!rec->store->journal_is_damaged) {
		diag(DIAG_ERROR,
			"journal segment %s is damaged at byte %zu: the rest of it is lost, and the sessions concerned are unknown",
			name, valid);
		repair_keep_segment(rec->store, name);
	}
	rec->store->journal_is_damaged = true;
}

/** Refuses to start without a segment that had inputs; repair goes on without it. */
static int refuse_headless(struct recovery *rec, uint64_t number)
{
	if (!embedded_of(rec->store)->repair) {
		return recover_refuse(rec, -EBADMSG,
			"journal segment %016llx " JOURNAL_HEADLESS
			"; no crash does that, and inputs are lost. Restore a copy of the data directory, or run holdfast repair to continue without them",
			(unsigned long long)number);
	}
	if (!rec->store->journal_is_damaged) {
		diag(DIAG_ERROR,
			"journal segment %016llx " JOURNAL_HEADLESS ": what was only there is lost",
			(unsigned long long)number);
	}
	rec->store->journal_is_damaged = true;
	return 0;
}

/**
 * Follows the headers from the newest segment back. *ret_chain (caller frees) has the segments that
 * count, newest first. Any other segment has only refused batches (its write failed, and the next
 * segment names the one before it), or was about to be deleted; those that are newer than the one
 * wanted next are deleted here, unless rec->only_looks.
 */
static int find_chain(struct recovery *rec, struct link_of_chain **ret_chain, size_t *ret_count)
{
	struct link_of_chain *chain = NULL;
	size_t count = 0;
	struct link_of_chain wanted = {0, SIZE_MAX};
	for (size_t i = rec->segment_count; i-- > 0;) {
		uint64_t number = rec->segments[i];
		struct link_of_chain before;
		if (count && number != wanted.number) {
			if (number > wanted.number && rec->only_looks) {
				continue;
			}
			if (number > wanted.number) {
				char name[32];
				journal_segment_name(number, name);
				disk->unlinkat(embedded_of(rec->store)->journal.dir_fd, name, 0);
				forget_segment(rec, i);
				continue;
			}
			break; /* the wanted segment was deleted; these were about to be */
		}
		bool is_lost;
		int r = read_before(rec, number, &before, &is_lost);
		if (is_lost && refuse_headless(rec, number) < 0) {
			free(chain);
			return -EBADMSG;
		}
		if (r == -EBADMSG && !count) {
			if (!rec->only_looks) {
				forget_segment(rec, i);
			}
			continue;
		}
		if (r == -EBADMSG && embedded_of(rec->store)->repair) {
			char name[32];
			journal_segment_name(number, name);
			do_without_rest(rec, name, 0);
			wanted = (struct link_of_chain){i ? rec->segments[i - 1] : 0, SIZE_MAX};
			continue;
		}
		if (r == -EBADMSG) {
			free(chain);
			return recover_refuse(rec, -EBADMSG,
				"journal segment %016llx has no good header, although others follow; no crash does that. Restore a copy of the data directory, or run holdfast repair to continue without the damaged part",
				(unsigned long long)number);
		}
		if (r < 0) {
			free(chain);
			return r;
		}
		chain = xrealloc(chain, (count + 1) * sizeof(*chain));
		chain[count++] = (struct link_of_chain){number, wanted.end};
		wanted = before;
		if (before.number == JOURNAL_BEFORE_UNKNOWN) {
			diag(DIAG_ERROR,
				"journal segment %016llx has a damaged header; its batches are good",
				(unsigned long long)number);
			wanted = (struct link_of_chain){i ? rec->segments[i - 1] : 0, SIZE_MAX};
		}
		rec->last_segment = chain[0].number;
	}
	*ret_chain = chain;
	*ret_count = count;
	return 0;
}

void recover_note_damage(struct recovery *rec, uint64_t session)
{
	if (!hash_get(rec->damaged, (const char *)&session, sizeof(session))) {
		hash_put(rec->damaged, (const char *)&session, sizeof(session), rec->store);
	}
}

bool recover_is_damaged(const struct recovery *rec, const char *id, uint64_t epoch)
{
	uint64_t session = journal_session_hash(id, strlen(id), epoch);
	bool is_damaged = hash_get(rec->damaged, (const char *)&session, sizeof(session)) != NULL;
	if (is_damaged) { /* another value: it is known whose it is */
		hash_put(rec->damaged, (const char *)&session, sizeof(session), rec->damaged);
	}
	return is_damaged;
}

struct unknown {
	const struct store *store;
	size_t count;
};

static void count_unknown(void *value, void *arg)
{
	struct unknown *unknown = arg;
	unknown->count += value == unknown->store;
}

void recover_tell_unknown(const struct recovery *rec)
{
	struct unknown unknown = {.store = rec->store};
	hash_each(rec->damaged, count_unknown, &unknown);
	if (unknown.count) {
		diag(DIAG_ERROR, "damaged records in the journal, of %zu sessions: " RECORD_UNKNOWN,
			unknown.count);
	}
}

int recover_walk_segment(struct recovery *rec, struct link_of_chain link, bool may_be_torn,
	visit_record visit, size_t *ret_valid)
{
	char name[32];
	struct journal_reader reader;
	journal_segment_name(link.number, name);
	rec->walked_segment = link.number;
	int r = journal_reader_open(&reader, embedded_of(rec->store)->journal.dir_fd, name);
	bool too_short = link.end != SIZE_MAX && link.end > reader.end;
	reader.may_be_torn = may_be_torn;
	reader.is_end_told = link.end != SIZE_MAX;
	reader.end = link.end < reader.end ? link.end : reader.end;
	enum journal_found found = JOURNAL_RECORD;
	while (r == 0 && found != JOURNAL_END && found != JOURNAL_LOST) {
		struct record record;
		uint64_t session;
		found = journal_reader_next(&reader, &record, &session);
		if (found == JOURNAL_RECORD) {
			r = visit(rec, &record);
		} else if (found == JOURNAL_DAMAGED) {
			recover_note_damage(rec, session);
		}
	}
	*ret_valid = reader.valid;
	rec->last_batch = reader.last_batch;
	bool torn = reader.valid < reader.end;
	journal_reader_close(&reader);
	if (r == 0 && may_be_torn && torn && found == JOURNAL_END) {
		return rec->only_looks ? 0 : cut_segment(rec->store, name, *ret_valid);
	}
	bool is_damaged = r == -EBADMSG || (r == 0 && (torn || too_short || found == JOURNAL_LOST));
	if (is_damaged && embedded_of(rec->store)->repair) {
		do_without_rest(rec, name, *ret_valid);
		return 0;
	}
	if (is_damaged) {
		return recover_refuse(rec, -EBADMSG,
			"journal segment %s is damaged at byte %zu, where no crash can cause it, and the sessions concerned are unknown. Restore a copy of the data directory, or run holdfast repair to continue without the damaged part",
			name, *ret_valid);
	}
	return r;
}

int recover_walk_journal(struct recovery *rec, visit_record visit)
{
	struct link_of_chain *chain = NULL;
	size_t count = 0;
	rec->last_segment = 0;
	int r = find_chain(rec, &chain, &count);
	for (size_t i = count; r == 0 && i-- > 0;) {
		r = recover_walk_segment(rec, chain[i], i == 0, visit, &rec->last_len);
	}
	free(chain);
	return r;
}

/**
 * Syncs a segment. The last batch of the newest one is written again first: if its sync failed in
 * an earlier run of the server, the kernel takes it for written, and another sync would do nothing.
 * A failure of this write (a full disk, for instance) does no other harm and is only logged.
 */
static int sync_segment(struct recovery *rec, struct link_of_chain link, bool is_newest)
{
	int dir_fd = embedded_of(rec->store)->journal.dir_fd;
	char name[32];
	journal_segment_name(link.number, name);
	if (is_newest && rec->last_batch) {
		int r = journal_rewrite(dir_fd, name, rec->last_batch, rec->last_len);
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
	struct link_of_chain *chain = NULL;
	size_t count = 0;
	rec->last_segment = 0;
	int r = find_chain(rec, &chain, &count);
	for (size_t i = count; r == 0 && i-- > 0;) {
		r = sync_segment(rec, chain[i], i == 0);
	}
	free(chain);
	if (r == 0 && disk->fsync(embedded_of(rec->store)->journal.dir_fd) < 0) {
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
