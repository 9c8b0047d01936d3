/*
 * Recovery: restores the running state from a data directory. The cases and what is done:
 *
 *   found                                     decision
 *   a segment, record or folder whose format  the server does not start, and has changed nothing
 *     this program does not know
 *   journal: torn batch at the end            cut off, logged; nothing in it was acknowledged
 *   the same, and a log has events of it      it was complete once: their keys count as lost
 *   journal: newest segment without a header  removed if blank, moved to set-aside/ if no batch is in
 *                                             it; otherwise it was damaged: the server does not start
 *   journal: segment outside the chain        removed: its batches were refused, or are in the logs
 *   journal: a damaged record before the end  its session is set aside, the server starts
 *   journal: damage of unknown sessions       the server does not start: two things broke at once
 *   session deleted in the journal            a folder of that epoch is removed
 *   session created in the journal, no        the folder is created from the journal; if a record
 *     folder                                    is damaged, it is set aside
 *   folder without metadata, in the journal   metadata is written from the CREATE record
 *   the same, after a session of that name    created from the journal, which has all of it; the
 *     was deleted                             folder's log might be that of the deleted session
 *   folder without metadata, empty log        incomplete or refused, never acknowledged: removed
 *   metadata damaged, not in the journal      set aside, even if the log is empty
 *   log: longer than log_size in metadata     the extra lines are read; a torn tail is cut off and
 *                                             logged, and replay appends it again
 *   log: shorter than log_size in metadata,   damaged: made anew if the session was created in the
 *     or another event ends there             journal, which has all of it; else set aside unchanged
 *   log: damaged before that                  found when it is read: those events are refused
 *   index missing, short or wrong             rebuilt from the log when it is needed
 *   index, keys: longer than metadata says    cut, and completed from the log's tail
 *   keys missing, short or damaged            rebuilt from the log and the file's good lines when a
 *                                             name is looked up
 *   log: begins with first_seq, not base_seq  its pruned lines are gone; metadata is rewritten
 *   log: goes beyond the journal's end        the log is right (the session handles that)
 *   any other inconsistency                   its session is set aside, the server starts
 *   EIO from a session's file                 the session is left out and retried later; it and the
 *                                             journal stay unchanged
 *   any other call fails                      the server does not start; the next start retries all
 */
#include "recover_internal.h"
#include "repair.h"

#include "holdfast/beneath.h"
#include "holdfast/diag.h"
#include "holdfast/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** Returns whether the record belongs to a session that is being recovered (rec->only). */
static bool is_wanted(const struct recovery *rec, const struct record *record)
{
	return !rec->only || journal_record_is_of(record, rec->only);
}

static int note_life(void *arg, const struct record *record, const struct journal_place *place)
{
	struct recovery *rec = arg;
	if (is_wanted(rec, record)) {
		journal_view_note(&rec->view, record, place);
	}
	return 0;
}

static void set_aside(struct recovery *rec, const char *id, const char *why)
{
	struct store *store = rec->store;
	struct embedded_store *emb = embedded_of(store);
	repair_keep_records(rec, id);
	aside_add(store, id, 0, 0);
	if (!recover_set_aside(store, emb->sessions_fd, id, why)) {
		emb->has_leftover = true;
		hash_put(emb->leftovers, id, strlen(id), &emb->leftovers);
	}
}

static void set_misfit_aside(struct recovery *rec, struct session_log *log)
{
	set_aside(rec, log->id, "the journal does not fit its log");
	session_log_free(log);
}

static const struct damage_rules start_rules = {
	.journal = recover_refuse_journal,
	.log = recover_check_log,
	.misfit = set_misfit_aside,
};

const struct damage_rules *recover_rules(const struct store *store, const char *id)
{
	const struct store_repair *repair = embedded_of(store)->repair;
	bool is_repair = repair && (!id || !repair->only || strcmp(repair->only, id) == 0);
	return is_repair ? &repair_rules : &start_rules;
}

int recover_replay(void *arg, const struct record *record, const struct journal_place *place)
{
	struct recovery *rec = arg;
	struct store *store = rec->store;
	struct session_log *log = log_table_get(&store->by_id, record->id, record->id_len);
	if (!log || log->epoch != record->epoch || !is_wanted(rec, record) ||
		hash_get(rec->kept, record->id, record->id_len)) {
		return 0;
	}
	const struct damage_rules *rules = recover_rules(store, log->id);
	if (rules->ignores && rules->ignores(rec, log)) {
		return 0;
	}
	if (!record_is_known(record)) {
		return 0; /* unknown kinds that must not be ignored have prevented the start */
	}
	/* Segments can be deleted only when the session's own files have all of this. */
	log->dirty = true;
	if (!journal_record_counts(record)) {
		return 0;
	}
	if (!log->owner) {
		log->owner = store->ops->found(store->owner, log);
	}
	int r = store_replay(log, record);
	if (r == -EBADMSG) {
		store->ops->lost(log->owner);
		log->owner = NULL;
		rules->misfit(rec, log);
		r = 0;
	}
	return r;
}

/**
 * Handles a session whose files cannot be read. EIO can concern these files alone: the session is
 * left out, unchanged, and its records stay in the journal. Any other error would hit all sessions,
 * so the server does not start.
 */
static int leave_out(struct recovery *rec, const char *id, int error)
{
	if (error != -EIO) {
		return recover_refuse(
			rec, error, "session %s cannot be read: %s", id, file_error(-error));
	}
	if (!rec->only) {
		diag(DIAG_ERROR, "session %s cannot be read: %s; this is retried", id,
			file_error(-error));
	}
	left_out_add(rec->store, id);
	return 0;
}

/** Removes the folder of a deleted session, to make room for a new one with the same id. */
static int remove_old(struct recovery *rec, const char *id)
{
	if (remove_folder(embedded_of(rec->store)->sessions_fd, id)) {
		return 0;
	}
	int r = -errno;
	embedded_of(rec->store)->has_leftover = true;
	hash_put(embedded_of(rec->store)->leftovers, id, strlen(id), rec->store);
	return journal_view_newest(&rec->view, id)->is_deleted
		       ? 0
		       : recover_refuse(
				 rec, r, "sessions/%s cannot be removed: %s", id, file_error(-r));
}

static void *create_facts(const struct store *store, const struct journal_life *life)
{
	return store->ops->facts->create(life->data.data, life->data.len);
}

/** The metadata of a session without events, of which the journal has all. */
static struct metadata metadata_of_life(const struct store *store, const struct journal_life *life)
{
	return (struct metadata){.epoch = life->epoch,
		.first_seq = 1,
		.base_seq = 1,
		.created_at = life->created_at,
		.updated_at = life->created_at,
		.facts_ops = store->ops->facts,
		.facts = create_facts(store, life)};
}

/** Recovers the session in a folder, once its metadata is known or made up. */
static int load_log(struct recovery *rec, const char *id, struct metadata *meta, bool has_meta)
{
	const char *why;
	struct session_log *log;
	bool is_in_journal = journal_view_folder(&rec->view, id, &meta->epoch) == FOLDER_IS_CREATED;
	int r = recover_session(rec->store, id, meta, &log, &why);
	if (r == -EBADMSG && has_meta && is_in_journal) {
		diag(DIAG_WARN,
			"session %s: %s; it is made anew from the journal, which has all of it", id,
			why);
		metadata_finish(meta);
		*meta = metadata_of_life(rec->store, journal_view_newest(&rec->view, id));
		r = repair_drop_log(rec->store, id); /* its lines may be those of another */
		return r < 0 ? leave_out(rec, id, r) : load_log(rec, id, meta, false);
	}
	if (r == -EBADMSG) {
		set_aside(rec, id, why);
		return 0;
	}
	if (r < 0) {
		return leave_out(rec, id, r);
	}
	log->dirty = log->dirty || !has_meta;
	return 0;
}

static int load_session(struct recovery *rec, const char *id)
{
	struct store *store = rec->store;
	struct embedded_store *emb = embedded_of(store);
	const struct damage_rules *rules = recover_rules(store, id);
	struct metadata meta = {0};
	const char *why;
	int r = metadata_read(emb->sessions_fd, id, store->ops->facts, &meta, &why);
	bool has_meta = r == 0;
	if (r < 0 && r != -ENOENT && r != -EBADMSG) {
		return leave_out(rec, id, r);
	}
	enum journal_folder folder =
		journal_view_folder(&rec->view, id, has_meta ? &meta.epoch : NULL);
	if (folder == FOLDER_IS_DELETED) {
		metadata_finish(&meta);
		return remove_old(rec, id);
	}
	if (!has_meta && folder == FOLDER_IS_CREATED) {
		meta = metadata_of_life(store, journal_view_newest(&rec->view, id));
	} else if (r == -ENOENT && recover_log_is_empty(store, id)) {
		diag(DIAG_WARN, "session %s was incomplete and never acknowledged: removed", id);
		remove_folder(emb->sessions_fd, id);
		return 0;
	} else if (!has_meta && (!rules->metadata || !rules->metadata(store, id, &meta))) {
		set_aside(rec, id, "metadata.json is damaged");
		return 0;
	}
	if (journal_view_is_damaged(&rec->view, id, meta.epoch) && !rules->keeps_damaged) {
		set_aside(rec, id, RECORD_DAMAGED);
		r = 0;
	} else {
		r = load_log(rec, id, &meta, has_meta);
	}
	metadata_finish(&meta);
	return r;
}

static int each_folder(struct recovery *rec, int (*visit)(struct recovery *rec, const char *id))
{
	char **ids;
	size_t count;
	int r = store_list_ids(embedded_of(rec->store)->sessions_fd, &ids, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = visit(rec, ids[i]);
	}
	disk_list_free(ids, count);
	return r;
}

/** Sets a session aside of which only the journal knows: its id stays taken, and repair finds it. */
static void set_folderless_aside(struct recovery *rec, const struct journal_life *life)
{
	struct store *store = rec->store;
	struct embedded_store *emb = embedded_of(store);
	struct metadata meta = metadata_of_life(store, life);
	struct buffer json = {0};
	int made = disk->mkdirat(emb->sessions_fd, life->id, 0700);
	int dir_fd = made < 0 ? -1 : disk_open_dir(emb->sessions_fd, life->id);
	int r = dir_fd < 0 ? -errno : 0;
	if (r == 0) {
		meta.facts_ops->write(meta.facts, &meta.facts_text);
		metadata_append(life->id, &meta, &json);
		r = disk_replace(dir_fd, "metadata.json", &json, true);
		close(dir_fd);
	}
	if (r == 0) {
		set_aside(rec, life->id, RECORD_DAMAGED);
	} else if (r != -EEXIST) {
		rec->error = recover_refuse(rec, r,
			"session %s: " RECORD_DAMAGED ", and it cannot be set aside: %s", life->id,
			file_error(-r));
	}
	buffer_finish(&json);
	metadata_finish(&meta);
}

/**
 * Creates a session that is in the journal but has no folder on disk. If its folder exists, the
 * session was left out.
 */
static void make_missing(struct journal_life *life, void *arg)
{
	struct recovery *rec = arg;
	struct store *store = rec->store;
	bool has_folder = true;
	if (life->is_deleted || log_table_get(&store->by_id, life->id, strlen(life->id)) ||
		rec->error) {
		return;
	}
	if (journal_view_is_damaged(&rec->view, life->id, life->epoch) &&
		!recover_rules(store, life->id)->keeps_damaged) {
		if (!hash_get(store->aside, life->id, strlen(life->id))) {
			set_folderless_aside(rec, life);
		}
		return;
	}
	if (disk->mkdirat(embedded_of(store)->sessions_fd, life->id, 0700) < 0) {
		bool is_full = errno == ENOSPC || errno == EDQUOT;
		if (errno != EEXIST && !is_full) {
			rec->error = recover_refuse(rec, -errno,
				"session %s cannot be made again: %s", life->id, file_error(errno));
		}
		if (!is_full) {
			return;
		}
		has_folder = false;
	}
	struct session_log *log = embedded_log_new(
		store, life->id, life->epoch, life->created_at, create_facts(store, life));
	log->dirty = true;
	if (!has_folder) {
		log_write_wants_folder(log);
	}
}

/** Completes deletions that were interrupted when the server stopped. */
static void empty_trash(struct store *store)
{
	char **names;
	size_t count;
	disk_list(store->dir_fd, "trash", NULL, &names, &count);
	for (size_t i = 0; i < count; i++) {
		char path[320];
		snprintf(path, sizeof(path), "trash/%s", names[i]);
		remove_folder(store->dir_fd, path);
	}
	disk_list_free(names, count);
}

/* --- version check --- */

static int look_at_record(void *arg, const struct record *record, const struct journal_place *place)
{
	struct recovery *rec = arg;
	struct buffer what = {0};
	char name[32];
	int r = 0;
	if (versions_tell_record(rec->store->ops->is_foreign, record, &what)) {
		journal_segment_name(place->segment->number, name);
		r = recover_refuse_foreign(rec, "journal", name, &what);
	}
	buffer_finish(&what);
	return r < 0 ? r : note_life(rec, record, place);
}

static int look_at_folder(struct recovery *rec, const char *id)
{
	struct buffer what = {0};
	char name[192];
	int r = 0;
	if (versions_tell_folder(embedded_of(rec->store)->sessions_fd, id, &what)) {
		snprintf(name, sizeof(name), "%s/metadata.json", id);
		r = recover_refuse_foreign(rec, "sessions", name, &what);
	}
	buffer_finish(&what);
	return r;
}

/** Checks all versions before anything is changed, so that data of a later program stays intact. */
static int look_around(struct recovery *rec)
{
	rec->only_looks = true;
	int r = journal_view_list(&rec->view);
	if (r == 0) {
		r = recover_look_at_segments(rec);
	}
	if (r == 0) {
		r = recover_find_segments(rec);
	}
	if (r == 0) {
		r = recover_walk_journal(rec, look_at_record);
	}
	if (r == 0) {
		r = each_folder(rec, look_at_folder);
	}
	rec->only_looks = false;
	return r;
}

/**
 * Makes moves and removals of folders durable: after a crash an old folder must not reappear in
 * place of a new one with the same name.
 */
static int sync_folders(struct store *store)
{
	int r = disk_sync(store->dir_fd, "set-aside", O_RDONLY | O_DIRECTORY);
	if (r == 0 && disk->fsync(embedded_of(store)->sessions_fd) < 0) {
		r = -errno;
	}
	return r == -ENOSPC || r == -EDQUOT ? 0 : r;
}

/** Says that keys are lost, if a log has events that no record gives: see struct recovery. */
static void doubt_keys(const struct recovery *rec, struct session_log *log)
{
	if (rec->was_cut && !hash_get(rec->kept, log->id, strlen(log->id)) && log_keys_doubt(log)) {
		diag(DIAG_ERROR,
			"session %s: its log has events of the batch that was cut off, which was complete once: keys of their inputs count as lost",
			log->id);
	}
}

static int replay_all(struct recovery *rec)
{
	struct store *store = rec->store;
	int r = 0;
	journal_view_forget_damaged(&rec->view); /* the walk notes it again, in order */
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		const struct damage_rules *rules = recover_rules(store, log->id);
		bool had = false;
		if (r == 0 && rules->replay) {
			r = rules->replay(rec, log, &had);
		}
		if (had) {
			hash_put(rec->kept, log->id, strlen(log->id), store);
		}
	}
	r = r < 0 ? r : recover_walk_journal(rec, recover_replay);
	list_for_each(link, &store->logs) {
		struct session_log *log = list_entry(link, struct session_log, link);
		const struct damage_rules *rules = recover_rules(store, log->id);
		if (rules->replayed) {
			rules->replayed(rec, log);
		}
		if (r == 0) {
			doubt_keys(rec, log);
		}
	}
	return r;
}

/* --- recovery --- */

struct recovery recovery_begin(struct store *store, int journal_fd, char **ret_why)
{
	struct recovery rec = {.store = store, .kept = hash_create(), .ret_why = ret_why};
	journal_view_begin(&rec.view, journal_fd);
	return rec;
}

void recovery_finish(struct recovery *rec)
{
	journal_view_finish(&rec->view);
	hash_destroy(rec->kept);
}

/** The journal goes on behind all segments that were found. */
static void begin_behind(struct journal *journal, const struct journal_view *view)
{
	size_t count = view->chain_count;
	const struct journal_segment *newest = count ? &view->chain[count - 1] : NULL;
	if (view->number_count) {
		journal->segment = view->numbers[view->number_count - 1] + 1;
	}
	journal->oldest_segment = journal->segment;
	for (size_t i = view->number_count; i-- > 0;) {
		if (!journal_view_is_useless(view, view->numbers[i])) {
			journal->oldest_segment = view->numbers[i];
		}
	}
	journal->before_segment = newest ? newest->number : 0;
	journal->before_len = newest ? view->newest.len : 0;
}

int recover(struct store *store, char **ret_why)
{
	struct embedded_store *emb = embedded_of(store);
	struct recovery rec = recovery_begin(store, emb->journal.dir_fd, ret_why);
	int r = look_around(&rec);
	if (r == 0) {
		r = store_settle(store, ret_why);
	}
	if (r == 0) {
		r = repair_finish_all(store);
	}
	if (r == 0 && recover_rules(store, NULL)->begin) {
		r = recover_rules(store, NULL)->begin(&rec);
	}
	if (r == 0) {
		recover_drop_useless(&rec);
		r = recover_sync_journal(&rec);
	}
	if (r == 0) {
		empty_trash(store);
		r = each_folder(&rec, load_session);
	}
	if (r == 0) {
		journal_view_each_newest(&rec.view, make_missing, &rec);
		recover_tell_unknown(&rec);
		r = rec.error;
	}
	if (r == 0) {
		r = replay_all(&rec);
	}
	if (r == 0) {
		r = sync_folders(store);
	}
	begin_behind(&emb->journal, &rec.view);
	emb->found_segment = emb->journal.before_segment;
	recovery_finish(&rec);
	return r;
}

/* --- sessions left out --- */

/** Tries to read the session's files, before the whole journal is read for it. */
static int probe(struct store *store, const char *id)
{
	struct metadata meta = {0};
	struct session_log *log = NULL;
	const char *why;
	int r = metadata_read(embedded_of(store)->sessions_fd, id, store->ops->facts, &meta, &why);
	if (r == 0) {
		r = recover_session(store, id, &meta, &log, &why);
		metadata_finish(&meta);
	}
	if (log) {
		session_log_free(log);
	}
	return r == -ENOENT || r == -EBADMSG ? 0 : r;
}

/** Lists the segments that existed at the start: later ones have nothing of the session. */
static int list_found_segments(struct recovery *rec)
{
	struct journal_view *view = &rec->view;
	int r = journal_view_list(view);
	while (view->number_count &&
		view->numbers[view->number_count - 1] > embedded_of(rec->store)->found_segment) {
		view->number_count--;
	}
	return r < 0 ? r : recover_find_segments(rec);
}

int recover_left_out(struct recovery *rec, const char *id, visit_record visit)
{
	struct store *store = rec->store;
	int r = probe(store, id);
	rec->only_looks = true; /* the journal is in use, and its tail was cut at the start */
	if (r == 0) {
		r = list_found_segments(rec);
	}
	if (r == 0) {
		r = recover_walk_journal(rec, note_life);
	}
	if (r == 0) {
		r = load_session(rec, id);
	}
	if (r == 0 && left_out_has(store, id, strlen(id))) {
		r = -EIO;
	}
	return r < 0 ? r : recover_walk_journal(rec, visit);
}
