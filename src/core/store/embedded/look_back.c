/*
 * Reads the journal again while the server runs: for sessions whose newest inputs could not be
 * written (a rewind), and for sessions that were left out at the start. The thread pool reads and
 * copies the records, the loop gives them to the owner.
 */
#include "recover_internal.h"

#include "holdfast/beneath.h"
#include "holdfast/diag.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- copies of records --- */

struct kept_record {
	struct list link;
	struct record record;
	char bytes[];
};

static void keep(struct list *records, const struct record *record)
{
	struct kept_record *kept = xmalloc(sizeof(*kept) + record->id_len + record->data_len);
	memcpy(kept->bytes, record->id, record->id_len);
	memcpy(kept->bytes + record->id_len, record->data, record->data_len);
	kept->record = *record;
	kept->record.id = kept->bytes;
	kept->record.data = kept->bytes + record->id_len;
	list_append(records, &kept->link);
}

static void forget(struct list *records)
{
	list_for_each_safe(link, tmp, records) {
		list_remove(link);
		free(list_entry(link, struct kept_record, link));
	}
}

/* --- rewind, after a failure --- */

struct rewind {
	struct store *store;
	uv_work_t work;
	int journal_fd;
	struct journal_segment segment; /* number 0: none */
	struct hash *wanted; /* the sessions, by journal_session_hash(); the value is the store */
	struct list records;
	int status;
};

static bool is_wanted(const struct rewind *rewind, uint64_t session)
{
	return hash_get(rewind->wanted, (const char *)&session, sizeof(session)) != NULL;
}

static int keep_if_wanted(void *arg, const struct record *record, const struct journal_place *place)
{
	struct rewind *rewind = arg;
	uint64_t session = journal_session_hash(record->id, record->id_len, record->epoch);
	if (journal_record_counts(record) && is_wanted(rewind, session)) {
		keep(&rewind->records, record);
	}
	return 0;
}

/** A damaged record of another session does no harm here: the next start finds it. */
static int handle_damage(void *arg, enum journal_damage damage, const struct journal_place *place)
{
	bool is_of_another = damage == JOURNAL_RECORD_DAMAGED && !is_wanted(arg, place->session);
	return damage == JOURNAL_BATCH_DAMAGED || is_of_another ? 0
	       : place->error                                   ? place->error
								: -EBADMSG;
}

static void rewind_work(uv_work_t *work)
{
	struct rewind *rewind = work->data;
	struct journal_extent extent;
	const struct journal_visitor visitor = {
		.record = keep_if_wanted, .damage = handle_damage, .arg = rewind};
	if (rewind->segment.number) {
		rewind->status = journal_segment_walk(
			rewind->journal_fd, &rewind->segment, &visitor, &extent);
	}
}

static int replay_kept(struct store *store, struct list *records)
{
	int r = 0;
	list_for_each(link, records) {
		const struct record *record = &list_entry(link, struct kept_record, link)->record;
		struct session_log *log = log_table_get(&store->by_id, record->id, record->id_len);
		if (r == 0 && log && log->rewind && log->epoch == record->epoch) {
			r = store_replay(log, record);
		}
	}
	return r;
}

static void rewind_done(uv_work_t *work, int status)
{
	struct rewind *rewind = work->data;
	struct store *store = rewind->store;
	store->jobs--;
	if (rewind->status < 0) {
		diag(DIAG_ERROR, "journal segment %016llx cannot be read again: %s",
			(unsigned long long)rewind->segment.number, file_error(-rewind->status));
	}
	int r = rewind->status;
	if (r == 0 && server_may(store->life, MAY_KEEP_UP)) {
		r = replay_kept(store, &rewind->records);
	}
	store_rewound(store, r);
	forget(&rewind->records);
	hash_destroy(rewind->wanted);
	free(rewind);
}

void look_back_rewind(struct store *store)
{
	const struct journal *journal = &embedded_of(store)->journal;
	struct rewind *rewind = xcalloc(1, sizeof(*rewind));
	rewind->store = store;
	rewind->journal_fd = journal->dir_fd;
	rewind->work.data = rewind;
	rewind->segment =
		(struct journal_segment){journal->before_segment, journal->before_len, false};
	rewind->wanted = hash_create();
	list_init(&rewind->records);
	list_for_each(link, &store->logs) {
		const struct session_log *log = list_entry(link, struct session_log, link);
		uint64_t session = journal_session_hash(log->id, strlen(log->id), log->epoch);
		if (log->rewind) {
			hash_put(rewind->wanted, (const char *)&session, sizeof(session), store);
		}
	}
	store->jobs++;
	int r = uv_queue_work(store->loop, &rewind->work, rewind_work, rewind_done);
	assert(r == 0);
}

/* --- the return of a left-out session --- */

struct homecoming {
	struct recovery rec; /* must be first: keep_all() gets it and casts it back */
	uv_work_t work;
	struct store *store;
	struct store shadow; /* filled by the thread pool with the log, and nothing else */
	struct embedded_store state; /* of the shadow */
	char *id;
	struct list records;
	char *why;
	int status;
};

static int keep_all(void *arg, const struct record *record, const struct journal_place *place)
{
	struct homecoming *home = arg;
	if (journal_record_counts(record) && journal_record_is_of(record, home->id)) {
		keep(&home->records, record);
	}
	return 0;
}

static void home_work(uv_work_t *work)
{
	struct homecoming *home = work->data;
	home->status = recover_left_out(&home->rec, home->id, keep_all);
}

/** Moves the log that the thread pool has made to the store. */
static struct session_log *adopt(struct store *store, struct session_log *found)
{
	struct session_log *log =
		embedded_log_new(store, found->id, found->epoch, found->created_at, found->facts);
	found->facts = NULL;
	log->updated_at = found->updated_at;
	log->dirty = found->dirty;
	log->first_seq = found->first_seq;
	log->first_at = found->first_at;
	log->first_ts = found->first_ts;
	log->base_seq = found->base_seq;
	log->last_seq = found->last_seq;
	log->size = found->size;
	log->written = found->written;
	embedded_log_of(log)->certain_size = embedded_log_of(found)->certain_size;
	embedded_log_of(log)->is_suspect = embedded_log_of(found)->is_suspect;
	embedded_log_of(log)->index = embedded_log_of(found)->index;
	embedded_log_of(found)->index.fresh = (struct buffer){0};
	log->keys.size = found->keys.size;
	embedded_log_of(log)->keys.disk = embedded_log_of(found)->keys.disk;
	log->keys.input_names = found->keys.input_names;
	log->keys.unwritten = found->keys.unwritten;
	found->keys.unwritten = (struct buffer){0};
	return log;
}

/** Gives the owner the journal's records. Frees the log and returns NULL if they do not fit it. */
static struct session_log *replay_home(struct homecoming *home, struct session_log *log)
{
	struct store *store = home->store;
	list_for_each(link, &home->records) {
		const struct record *record = &list_entry(link, struct kept_record, link)->record;
		if (record->epoch != log->epoch) {
			continue;
		}
		log->dirty = true;
		log->owner = log->owner ? log->owner : store->ops->found(store->owner, log);
		if (store_replay(log, record) < 0) {
			store->ops->lost(log->owner);
			session_log_free(log);
			return NULL;
		}
	}
	return log;
}

static void come_home(struct homecoming *home)
{
	struct store *store = home->store;
	struct embedded_store *emb = embedded_of(store);
	struct session_log *found = log_table_get(&home->shadow.by_id, home->id, strlen(home->id));
	struct session_log *log = found ? replay_home(home, adopt(store, found)) : NULL;
	if (found && !log) {
		diag(DIAG_ERROR, "session %s: the journal does not fit its log", home->id);
		return;
	}
	left_out_remove(store, home->id);
	aside_move_all(&home->shadow, store);
	if (home->state.has_leftover) {
		emb->has_leftover = true;
		hash_put(emb->leftovers, home->id, strlen(home->id), &emb->leftovers);
	}
	if (log) {
		diag(DIAG_INFO, "session %s can be read again", home->id);
		/* The current round of checkpoints lacks its records: it must not drop segments. */
		emb->round_is_good = false;
		store->ops->returned(store->owner, log);
	}
}

static void home_done(uv_work_t *work, int status)
{
	struct homecoming *home = work->data;
	struct store *store = home->store;
	store->jobs--;
	if (home->status == 0 && server_may(store->life, MAY_TAKE)) {
		come_home(home);
	}
	list_for_each_safe(link, tmp, &home->shadow.logs) {
		session_log_free(list_entry(link, struct session_log, link));
	}
	recovery_finish(&home->rec);
	log_table_finish(&home->shadow.by_id);
	left_out_forget(&home->shadow);
	aside_finish(&home->shadow);
	embedded_finish(&home->state);
	forget(&home->records);
	free(home->why);
	free(home->id);
	free(home);
	if (!--embedded_of(store)
			->looking_back) { /* else a session might be read twice at a time */
		left_out_try_later(store);
	}
}

void look_back_for(struct store *store, const char *id)
{
	struct embedded_store *emb = embedded_of(store);
	struct homecoming *home = xcalloc(1, sizeof(*home));
	struct store *shadow = &home->shadow;
	home->work.data = home;
	home->store = store;
	home->id = xstrdup(id);
	list_init(&home->records);
	*shadow = (struct store){.life = store->life,
		.limits = store->limits,
		.ops = store->ops,
		.engine = store->engine,
		.dir_fd = store->dir_fd,
		.aside = hash_create(),
		.opening = true};
	embedded_begin(&home->state, shadow);
	home->state.sessions_fd = emb->sessions_fd;
	home->state.found_segment = emb->found_segment;
	home->state.left_out = hash_create();
	home->state.journal.dir_fd = emb->journal.dir_fd;
	log_table_init(&shadow->by_id);
	list_init(&shadow->logs);
	home->rec = recovery_begin(shadow, emb->journal.dir_fd, &home->why);
	home->rec.only = home->id;
	emb->looking_back++;
	store->jobs++;
	int r = uv_queue_work(store->loop, &home->work, home_work, home_done);
	assert(r == 0);
}
