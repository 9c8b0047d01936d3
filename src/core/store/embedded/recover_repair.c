/*
 * The part of recovery that serves holdfast repair: completes interrupted repairs, brings back
 * sessions that were set aside, and keeps and replays the journal records of such sessions.
 */
#include "recover_internal.h"
#include "repair.h"

#include "holdfast/diag.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_ENDING ".journal"

/* --- interrupted repairs --- */

static bool is_fresh_log(const char *name)
{
	static const char front[] = "events.jsonl.";
	size_t len = strlen(front);
	return strncmp(name, front, len) == 0 && strspn(name + len, "0123456789abcdef") == 16 &&
	       strlen(name) == len + 16;
}

static bool is_segment(const char *name)
{
	size_t len = strlen(name);
	size_t end = strlen(SEGMENT_ENDING);
	return len > end && strcmp(name + len - end, SEGMENT_ENDING) == 0;
}

static int unlink_all(int dir_fd, bool (*is_wanted)(const char *name))
{
	char **names;
	size_t count;
	int r = disk_list(dir_fd, ".", is_wanted, &names, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = disk->unlinkat(dir_fd, names[i], 0) < 0 && errno != ENOENT ? -errno : 0;
	}
	disk_list_free(names, count);
	return r;
}

/** Renames the new log of metadata.json's epoch over events.jsonl, and deletes other new logs. */
static int finish_one(struct store *store, const char *id)
{
	struct embedded_store *emb = embedded_of(store);
	struct metadata meta;
	const char *why;
	char fresh[64];
	int dir_fd = disk->openat(emb->sessions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir_fd < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	int r = metadata_read(emb->sessions_fd, id, NULL, &meta, &why);
	bool has_epoch = r == 0;
	snprintf(fresh, sizeof(fresh), "events.jsonl.%016" PRIx64, has_epoch ? meta.epoch : 0);
	metadata_finish(&meta);
	r = r == -ENOENT || r == -EBADMSG ? 0 : r;
	bool is_there = has_epoch && faccessat(dir_fd, fresh, F_OK, 0) == 0;
	if (is_there) {
		diag(DIAG_INFO, "session %s: completed an interrupted repair", id);
		r = repair_put_log(store, id, dir_fd, fresh);
	}
	r = r < 0 ? r : unlink_all(dir_fd, is_fresh_log);
	/*
	 * If the new log is in place, the kept records were applied; otherwise the next repair
	 * needs them.
	 */
	r = r == 0 && is_there ? unlink_all(dir_fd, is_segment) : r;
	if (r == 0 && disk->fsync(dir_fd) < 0) {
		r = -errno;
	}
	close(dir_fd);
	return r;
}

void repair_end(struct store *store, const char *id)
{
	char path[160];
	int dir_fd = disk->openat(
		embedded_of(store)->sessions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir_fd >= 0) {
		unlink_all(dir_fd, is_segment);
		close(dir_fd);
	}
	snprintf(path, sizeof(path), "repair/%s", id);
	disk->unlinkat(store->dir_fd, path, 0);
	disk->unlinkat(store->dir_fd, "repair", AT_REMOVEDIR);
}

void repair_remove_rest(int parent_fd, const char *name)
{
	int dir_fd = disk->openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir_fd >= 0) {
		unlink_all(dir_fd, is_segment);
		unlink_all(dir_fd, is_fresh_log);
		close(dir_fd);
	}
}

int repair_finish_all(struct store *store)
{
	char **ids;
	size_t count;
	int r = disk_list(store->dir_fd, "repair", NULL, &ids, &count);
	if (r == -ENOENT) {
		return 0;
	}
	for (size_t i = 0; r == 0 && i < count; i++) {
		char path[320];
		snprintf(path, sizeof(path), "repair/%s", ids[i]);
		r = session_id_is_valid(ids[i], strlen(ids[i])) ? finish_one(store, ids[i]) : 0;
		if (r == 0) {
			disk->unlinkat(store->dir_fd, path, 0);
		}
	}
	disk_list_free(ids, count);
	if (r == 0) {
		disk->unlinkat(store->dir_fd, "repair", AT_REMOVEDIR);
	}
	return r == -ENOSPC || r == -EDQUOT ? 0 : r;
}

/* --- sessions set aside --- */

static int bring_back(struct recovery *rec)
{
	struct store *store = rec->store;
	struct embedded_store *emb = embedded_of(store);
	const char *only = emb->repair->only;
	struct set_aside *asides;
	size_t count;
	int r = set_aside_list(store->dir_fd, &asides, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		char from[320];
		const char *id = asides[i].id;
		if ((only && strcmp(only, id) != 0) || asides[i].is_older) {
			continue;
		}
		if (asides[i].has_session) {
			diag(DIAG_INFO,
				"session %s: set-aside/%s.%lu stays, because the session was made anew since",
				id, id, asides[i].number);
			continue;
		}
		snprintf(from, sizeof(from), "set-aside/%s.%lu", asides[i].id, asides[i].number);
		if (disk->renameat(store->dir_fd, from, emb->sessions_fd, asides[i].id) < 0) {
			r = recover_refuse(rec, -errno, "%s cannot be moved back to sessions/: %s",
				from, strerror(errno));
		}
	}
	free(asides);
	return r;
}

static bool guess_metadata(struct store *store, const char *id, struct metadata *ret)
{
	char path[192];
	uint64_t epoch = 0;
	uint64_t first_seq;
	snprintf(path, sizeof(path), "%s/events.index", id);
	int fd = disk->openat(embedded_of(store)->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0 && log_index_read_header(fd, &epoch, &first_seq) < 0) {
		epoch = 0;
	}
	if (fd >= 0) {
		close(fd);
	}
	*ret = (struct metadata){.is_guessed = true,
		.epoch = epoch ? epoch : 1,
		.first_seq = 1,
		.base_seq = 1,
		.facts_ops = store->ops->facts,
		.facts = store->ops->facts->create("{}", 2)};
	return true;
}

/* --- journal records of sessions set aside --- */

void repair_keep_records(struct recovery *rec, const char *id)
{
	struct embedded_store *emb = embedded_of(rec->store);
	const struct journal_view *view = &rec->view;
	char **names = NULL;
	size_t count = 0;
	/* If it already has kept segments, those are older and complete by themselves. */
	if (journal_view_has_id(view, id) &&
		disk_list(emb->sessions_fd, id, is_segment, &names, &count) == 0 && !count) {
		for (size_t i = 0; i < view->number_count; i++) {
			char name[32];
			char to[192];
			if (journal_view_is_useless(view, view->numbers[i])) {
				continue; /* it is deleted already */
			}
			journal_segment_name(view->numbers[i], name);
			snprintf(to, sizeof(to), "%s/%s", id, name);
			if (linkat(view->dir_fd, name, emb->sessions_fd, to, 0) < 0) {
				diag(DIAG_WARN,
					"session %s: its journal records cannot be kept: %s", id,
					strerror(errno));
			}
		}
	}
	disk_list_free(names, count);
}

/** Counts a record that is not used, because that or an earlier one of its session is damaged. */
static bool is_given_up(struct recovery *rec, struct session_log *log)
{
	bool is_damaged = journal_view_is_damaged(&rec->view, log->id, log->epoch);
	if (is_damaged) {
		repair_note_journal(log, RECORD_DAMAGED);
		repair_note_unused(log);
	}
	return is_damaged;
}

/** Notes a damaged record that no other record has followed, and lost names. */
static void end_replay(struct recovery *rec, struct session_log *log)
{
	if (hash_get(rec->kept, log->id, strlen(log->id))) {
		return;
	}
	is_given_up(rec, log);
	if (embedded_log_of(log)->repair || rec->store->journal_is_damaged || rec->was_cut) {
		log_keys_doubt(log);
	}
}

/** Replays the records kept in the session's folder. */
static int replay_kept(struct recovery *rec, struct session_log *log, bool *ret_had)
{
	struct store *store = rec->store;
	struct embedded_store *emb = embedded_of(store);
	char **names;
	size_t count;
	int r = disk_list(emb->sessions_fd, log->id, is_segment, &names, &count);
	disk_list_free(names, count);
	*ret_had = r == 0 && count;
	if (r < 0 || !count) {
		return r == -ENOENT ? 0 : r; /* its folder does not exist yet */
	}
	int dir_fd = disk->openat(emb->sessions_fd, log->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir_fd < 0) {
		return -errno;
	}
	struct recovery kept = recovery_begin(store, dir_fd, rec->ret_why);
	kept.only = log->id;
	kept.only_looks = true;
	r = journal_view_list(&kept.view);
	r = r < 0 ? r : recover_find_segments(&kept);
	r = r < 0 ? r : recover_walk_journal(&kept, recover_replay);
	end_replay(&kept, log);
	close(dir_fd);
	recovery_finish(&kept);
	return r;
}

/** Keeps a damaged journal segment in set-aside/, by a link. */
static void keep_segment(struct store *store, int dir_fd, const char *name)
{
	char to[64];
	unsigned number = 0;
	int r;
	do {
		snprintf(to, sizeof(to), "set-aside/%s.%u", name, ++number);
		r = linkat(dir_fd, name, store->dir_fd, to, 0);
	} while (r < 0 && errno == EEXIST && number < 1000);
}

/* --- damage --- */

/** Later segments begin with snapshots: what only the damaged part has is lost. */
static int go_on_without(
	struct recovery *rec, enum journal_damage damage, const struct journal_place *place)
{
	char name[32];
	journal_segment_name(place->segment->number, name);
	if (rec->store->journal_is_damaged) {
		return 0; /* the journal is walked more than once */
	}
	rec->store->journal_is_damaged = true;
	if (damage == JOURNAL_NEWEST_HEADLESS) {
		diag(DIAG_ERROR,
			"journal segment %s " JOURNAL_HEADLESS ": what was only there is lost",
			name);
		return 0;
	}
	diag(DIAG_ERROR,
		"journal segment %s is damaged at byte %zu: the rest of it is lost, and the sessions concerned are unknown",
		name, place->at);
	keep_segment(rec->store, rec->view.dir_fd, name);
	return 0;
}

/** Reads the whole log, and accepts a damaged one (embedded_log.repair). */
static int look_at_log(struct session_log *log, bool is_guessed)
{
	int r = repair_look(log, !is_guessed, is_guessed ? "metadata.json is damaged" : NULL);
	if (r == 0 && !embedded_log_of(log)->repair) {
		r = recover_check_log(log, is_guessed);
	}
	return r == -EBADMSG ? repair_look(log, true,
				       "its log does not have what its metadata says is certain")
			     : r;
}

/** Ignores the remaining records of a session. */
static void give_up_records(struct recovery *rec, struct session_log *log)
{
	repair_note_journal(log, "the journal does not fit its log");
	journal_view_note_damaged(
		&rec->view, journal_session_hash(log->id, strlen(log->id), log->epoch));
}

const struct damage_rules repair_rules = {
	.begin = bring_back,
	.journal = go_on_without,
	.metadata = guess_metadata,
	.log = look_at_log,
	.keeps_damaged = true,
	.replay = replay_kept,
	.ignores = is_given_up,
	.misfit = give_up_records,
	.replayed = end_replay,
};
