/*
 * Recovery: what is in a data directory becomes the running state again.
 *
 *   found                                   decision
 *   journal: torn batch at the end            cut, noted; nothing of it was acknowledged
 *   journal: newest segment without a header  taken away; kept in set-aside/ if there is more in it
 *   journal: segment that no later one names  taken away: its batches were refused, or are in the
 * logs journal: a damaged record before the end  that session is set aside, the server goes on
 *   journal: damage that hides whose it is    the server does not start: two things broke at once
 *   session deleted in the journal            a folder of that epoch is taken away
 *   session created in the journal, no folder made again from the journal
 *   folder without metadata, in the journal   metadata is written again from the CREATE record
 *   folder without metadata, empty log        half-made and never acknowledged: taken away
 *   log: goes on behind its metadata          those lines are read; a torn tail is cut, noted; the
 *                                             journal's replay appends it again
 *   log: ends before its metadata's log_size  damaged: set aside as it is
 *   log: another event ends there             damaged: set aside as it is
 *   log: damaged before that                  found when it is read: those events are refused
 *   index missing, short or wrong             made again from the log when it is needed
 *   index, keys: longer than metadata knows   cut; made again from the log's tail
 *   keys missing, short or damaged            made again from the log when a name is looked up
 *   log: goes on behind the journal's end     the log is right (the session sees to that)
 *   anything else that does not fit           that session is set aside, the server goes on
 */
#include "store_internal.h"

#include "holdfast/diag.h"
#include "holdfast/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** What the journal says last of a session's life. */
struct fate {
	uint64_t epoch;
	bool deleted;
	int64_t ts;
	char *title;
	char *id;
};

struct recovery {
	struct store *store;
	struct hash *fates; /* by id */
	struct hash
		*deleted; /* the store itself, by epoch and id of each session that was deleted */
	struct hash *damaged; /* the store itself, by journal_session_hash() of each session */
	uint64_t *segments; /* numbers on disk, ascending */
	size_t segment_count;
	uint64_t next_segment; /* number behind all that were found */
	uint64_t last_segment; /* the newest that counts, and its good bytes; 0: none */
	size_t last_len;
	char **ret_why;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct recovery *rec, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	if (vasprintf(rec->ret_why, fmt, args) < 0) {
		*rec->ret_why = NULL;
	}
	va_end(args);
	return -EBADMSG;
}

/* --- the journal's segments --- */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static int list_segments(struct recovery *rec)
{
	DIR *dir = fdopendir(dup(rec->store->journal.dir_fd));
	if (!dir) {
		return -errno;
	}
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		char *end;
		uint64_t number = strtoull(entry->d_name, &end, 16);
		if (end != entry->d_name + 16 || strcmp(end, ".journal") != 0) {
			continue;
		}
		rec->segments =
			xrealloc(rec->segments, (rec->segment_count + 1) * sizeof(*rec->segments));
		rec->segments[rec->segment_count++] = number;
	}
	closedir(dir);
	if (rec->segment_count) {
		qsort(rec->segments, rec->segment_count, sizeof(*rec->segments), compare_u64);
		rec->next_segment = rec->segments[rec->segment_count - 1] + 1;
	}
	return 0;
}

/** Cuts a torn tail off, for good: this segment will not be the newest the next time it is read. */
static int cut_segment(struct store *store, const char *name, size_t len)
{
	diag(DIAG_WARN, "journal segment %s: a torn batch is cut off at byte %zu", name, len);
	int fd = disk->openat(store->journal.dir_fd, name, O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = disk->ftruncate(fd, (off_t)len) < 0 || disk->fdatasync(fd) < 0 ? -errno : 0;
	close(fd);
	return r;
}

static void segment_path(uint64_t number, char name[32])
{
	snprintf(name, 32, "%016llx.journal", (unsigned long long)number);
}

/**
 * The newest segment has no good header: the power went before it was on disk, and nothing in it
 * was acknowledged. If there is more in it than such a beginning, it is kept for a human to look
 * at.
 */
static void drop_headless(struct recovery *rec, const char *name, size_t len)
{
	struct store *store = rec->store;
	if (len <= JOURNAL_HEADER_SIZE) {
		disk->unlinkat(store->journal.dir_fd, name, 0);
		return;
	}
	char to[64];
	diag(DIAG_ERROR, "journal segment %s has no good header; it is set aside in set-aside/",
		name);
	snprintf(to, sizeof(to), "set-aside/%s", name);
	disk->renameat(store->journal.dir_fd, name, store->dir_fd, to);
}

/** Its file is no more. */
static void forget_segment(struct recovery *rec, size_t i)
{
	rec->segment_count--;
	memmove(rec->segments + i, rec->segments + i + 1,
		(rec->segment_count - i) * sizeof(*rec->segments));
}

/** A segment of the chain that leads back from the newest one. */
struct link_of_chain {
	uint64_t number;
	size_t end; /* bytes that count; SIZE_MAX: all */
};

/** Reads the header of a segment, and what it tells of the one before it. */
static int read_before(struct recovery *rec, uint64_t number, struct link_of_chain *ret_before)
{
	char name[32];
	struct journal_reader reader;
	segment_path(number, name);
	int r = journal_reader_open(&reader, rec->store->journal.dir_fd, name);
	if (r == -EBADMSG && !rec->last_segment) {
		drop_headless(rec, name, reader.bytes.len);
	}
	*ret_before = (struct link_of_chain){reader.before_segment, reader.before_len};
	journal_reader_close(&reader);
	return r;
}

/**
 * Leaves in `segments` those that count, each with its end. A segment that the chain does not lead
 * to holds what was refused (its batch failed, and the next one began behind the one before it), or
 * was to be deleted.
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
			if (number > wanted.number) {
				char name[32];
				segment_path(number, name);
				disk->unlinkat(rec->store->journal.dir_fd, name, 0);
				forget_segment(rec, i);
				continue;
			}
			break; /* the one before it was deleted, and so were these to be */
		}
		int r = read_before(rec, number, &before);
		if (r == -EBADMSG && !count) {
			forget_segment(rec, i);
			continue;
		}
		if (r == -EBADMSG) {
			free(chain);
			return refuse(rec,
				"journal segment %016llx has no good header, which no crash does "
				"to "
				"one that others follow; restore the data directory from a copy, "
				"or "
				"move that file away to go on without what it holds",
				(unsigned long long)number);
		}
		if (r < 0) {
			free(chain);
			return r;
		}
		chain = xrealloc(chain, (count + 1) * sizeof(*chain));
		chain[count++] = (struct link_of_chain){number, wanted.end};
		wanted = before;
		rec->last_segment = chain[0].number;
	}
	*ret_chain = chain;
	*ret_count = count;
	return 0;
}

typedef int (*visit_record)(struct recovery *rec, const struct record *record);

static void note_damage(struct recovery *rec, uint64_t session)
{
	if (!hash_get(rec->damaged, (const char *)&session, sizeof(session))) {
		hash_put(rec->damaged, (const char *)&session, sizeof(session), rec->store);
	}
}

static bool is_damaged(const struct recovery *rec, const char *id, uint64_t epoch)
{
	uint64_t session = journal_session_hash(id, strlen(id), epoch);
	return hash_get(rec->damaged, (const char *)&session, sizeof(session)) != NULL;
}

/** Visits the records of one segment; *ret_valid is how many bytes of it are good. */
static int walk_segment(struct recovery *rec, struct link_of_chain link, bool may_be_torn,
	visit_record visit, size_t *ret_valid)
{
	char name[32];
	struct journal_reader reader;
	segment_path(link.number, name);
	int r = journal_reader_open(&reader, rec->store->journal.dir_fd, name);
	bool too_short = link.end != SIZE_MAX && link.end > reader.end;
	reader.may_be_torn = may_be_torn;
	reader.end = link.end < reader.end ? link.end : reader.end;
	enum journal_found found = JOURNAL_RECORD;
	while (r == 0 && found != JOURNAL_END && found != JOURNAL_LOST) {
		struct record record;
		uint64_t session;
		found = journal_reader_next(&reader, &record, &session);
		if (found == JOURNAL_RECORD) {
			r = visit(rec, &record);
		} else if (found == JOURNAL_DAMAGED) {
			note_damage(rec, session);
		}
	}
	*ret_valid = reader.valid;
	bool torn = reader.valid < reader.end;
	journal_reader_close(&reader);
	if (r == 0 && may_be_torn && torn && found == JOURNAL_END) {
		return cut_segment(rec->store, name, *ret_valid);
	}
	if (r == -EBADMSG || (r == 0 && (torn || too_short || found == JOURNAL_LOST))) {
		return refuse(rec,
			"journal segment %s is damaged at byte %zu, in a place where no crash can "
			"do "
			"that, and does not tell which sessions that concerns; restore the data "
			"directory from a copy, or move that file away to go on without what it "
			"holds",
			name, *ret_valid);
	}
	return r;
}

/** Walks all records in order. */
static int walk_journal(struct recovery *rec, visit_record visit)
{
	struct link_of_chain *chain = NULL;
	size_t count = 0;
	rec->last_segment = 0;
	int r = find_chain(rec, &chain, &count);
	for (size_t i = count; r == 0 && i-- > 0;) {
		r = walk_segment(rec, chain[i], i == 0, visit, &rec->last_len);
	}
	free(chain);
	return r;
}

/** The key of one life of a session: its epoch and its name. */
static void life_key(uint64_t epoch, const char *id, size_t id_len, struct buffer *out)
{
	pack_le(out, epoch, 8);
	buffer_append(out, id, id_len);
}

static void note_deletion(struct recovery *rec, const struct record *record)
{
	struct buffer key = {0};
	life_key(record->epoch, record->id, record->id_len, &key);
	hash_put(rec->deleted, key.data, key.len, rec->store);
	buffer_finish(&key);
}

static bool was_deleted(const struct recovery *rec, const char *id, uint64_t epoch)
{
	struct buffer key = {0};
	life_key(epoch, id, strlen(id), &key);
	bool was = hash_get(rec->deleted, key.data, key.len) != NULL;
	buffer_finish(&key);
	return was;
}

static int note_fate(struct recovery *rec, const struct record *record)
{
	if (record->kind != RECORD_CREATE && record->kind != RECORD_DELETE) {
		return 0;
	}
	struct fate *fate = hash_get(rec->fates, record->id, record->id_len);
	if (!fate) {
		fate = xcalloc(1, sizeof(*fate));
		fate->id = xstrndup(record->id, record->id_len);
		hash_put(rec->fates, record->id, record->id_len, fate);
	}
	fate->epoch = record->epoch;
	fate->deleted = record->kind == RECORD_DELETE;
	fate->ts = record->ts;
	if (fate->deleted) {
		note_deletion(rec, record);
	} else {
		json_t *data = json_loadb(record->data, record->data_len, 0, NULL);
		const char *title = json_string_value(json_object_get(data, "title"));
		free(fate->title);
		fate->title = xstrdup(title ? title : "");
		json_decref(data);
	}
	return 0;
}

static int replay(struct recovery *rec, const struct record *record)
{
	struct session_log *log = log_table_get(&rec->store->by_id, record->id, record->id_len);
	if (!log || log->epoch != record->epoch || record->kind == RECORD_CREATE ||
		record->kind == RECORD_DELETE) {
		return 0;
	}
	if (!log->owner) {
		log->owner = rec->store->ops->found(rec->store->owner, log);
	}
	int r = rec->store->ops->replay(log->owner, record);
	if (r == -EBADMSG) {
		diag(DIAG_ERROR,
			"session %s: the journal does not fit its log; it is set aside in "
			"set-aside/",
			log->id);
		rec->store->ops->lost(log->owner);
		char to[320];
		snprintf(to, sizeof(to), "set-aside/%s.%016llx", log->id,
			(unsigned long long)log->epoch);
		disk->renameat(rec->store->sessions_fd, log->id, rec->store->dir_fd, to);
		session_log_free(log);
		r = 0;
	}
	return r;
}

/* --- sessions --- */

static void set_aside(struct store *store, const char *id, const char *why)
{
	char to[320];
	diag(DIAG_ERROR, "session %s: %s; it is set aside in set-aside/", id, why);
	snprintf(to, sizeof(to), "set-aside/%s.%d", id, (int)getpid());
	if (disk->renameat(store->sessions_fd, id, store->dir_fd, to) < 0) {
		diag(DIAG_ERROR, "session %s: cannot move it to set-aside/: %s", id,
			strerror(errno));
	}
}

static bool log_is_empty(struct store *store, const char *id)
{
	char path[192];
	struct stat st;
	snprintf(path, sizeof(path), "%s/events.jsonl", id);
	return fstatat(store->sessions_fd, path, &st, 0) < 0 || st.st_size == 0;
}

static void load_session(struct recovery *rec, const char *id)
{
	struct store *store = rec->store;
	struct fate *fate = hash_get(rec->fates, id, strlen(id));
	struct metadata meta;
	bool has_meta = metadata_read(store, id, &meta) == 0;
	if (has_meta ? was_deleted(rec, id, meta.epoch) : fate && fate->deleted) {
		remove_folder(store->sessions_fd, id);
		metadata_finish(&meta);
		return;
	}
	if (!has_meta && fate && !fate->deleted) {
		meta = (struct metadata){.epoch = fate->epoch,
			.first_seq = 1,
			.created_at = fate->ts,
			.updated_at = fate->ts,
			.title = xstrdup(fate->title)};
	} else if (!has_meta && log_is_empty(store, id)) {
		diag(DIAG_WARN, "session %s was half-made and never acknowledged: taken away", id);
		remove_folder(store->sessions_fd, id);
		return;
	} else if (!has_meta) {
		set_aside(store, id, "metadata.json cannot be read");
		return;
	}
	if (is_damaged(rec, id, meta.epoch)) {
		set_aside(store, id, "a record of it in the journal is damaged");
		metadata_finish(&meta);
		return;
	}
	const char *why;
	struct session_log *log = recover_session(store, id, &meta, &why);
	if (log) {
		log->dirty = log->dirty || !has_meta;
	} else {
		set_aside(store, id, why);
	}
	metadata_finish(&meta);
}

static bool id_is_valid(const char *id)
{
	size_t len =
		strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
	return len && len <= 128 && !id[len] && id[0] != '.';
}

static int load_sessions(struct recovery *rec)
{
	DIR *dir = fdopendir(dup(rec->store->sessions_fd));
	if (!dir) {
		return -errno;
	}
	/* Names first: loading renames folders. */
	char **ids = NULL;
	size_t count = 0;
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (id_is_valid(entry->d_name)) {
			ids = xrealloc(ids, (count + 1) * sizeof(*ids));
			ids[count++] = xstrdup(entry->d_name);
		}
	}
	closedir(dir);
	for (size_t i = 0; i < count; i++) {
		load_session(rec, ids[i]);
		free(ids[i]);
	}
	free(ids);
	return 0;
}

/** A session that the journal made and whose folder never reached the disk. */
static void make_missing(void *value, void *arg)
{
	struct fate *fate = value;
	struct recovery *rec = arg;
	struct store *store = rec->store;
	if (fate->deleted || log_table_get(&store->by_id, fate->id, strlen(fate->id)) ||
		is_damaged(rec, fate->id, fate->epoch) ||
		disk->mkdirat(store->sessions_fd, fate->id, 0700) < 0) {
		return;
	}
	struct session_log *log =
		session_log_new(store, fate->id, fate->epoch, fate->title, fate->ts);
	log->dirty = true;
}

/** What a deletion left when the server was stopped in the middle of it. */
static void empty_trash(struct store *store)
{
	int fd = disk->openat(store->dir_fd, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.') {
			remove_folder(fd, entry->d_name);
		}
	}
	if (dir) {
		closedir(dir);
	}
}

static void free_fate(void *value, void *arg)
{
	struct fate *fate = value;
	free(fate->title);
	free(fate->id);
	free(fate);
}

int recover(struct store *store, char **ret_why)
{
	struct recovery rec = {.store = store,
		.fates = hash_create(),
		.deleted = hash_create(),
		.damaged = hash_create(),
		.ret_why = ret_why};
	empty_trash(store);
	int r = list_segments(&rec);
	if (r == 0) {
		r = walk_journal(&rec, note_fate);
	}
	if (r == 0) {
		r = load_sessions(&rec);
	}
	if (r == 0) {
		hash_each(rec.fates, make_missing, &rec);
		r = walk_journal(&rec, replay);
	}
	struct journal *journal = &store->journal;
	journal->segment = rec.next_segment ? rec.next_segment : journal->segment;
	journal->oldest_segment = rec.segment_count ? rec.segments[0] : journal->segment;
	journal->before_segment = rec.last_segment;
	journal->before_len = rec.last_segment ? rec.last_len : 0;
	hash_each(rec.fates, free_fate, NULL);
	hash_destroy(rec.fates);
	hash_destroy(rec.deleted);
	hash_destroy(rec.damaged);
	free(rec.segments);
	return r;
}

/* --- after a failure --- */

static int replay_marked(struct recovery *rec, const struct record *record)
{
	struct session_log *log = log_table_get(&rec->store->by_id, record->id, record->id_len);
	bool wanted = log && log->rewind && log->epoch == record->epoch &&
		      record->kind != RECORD_CREATE && record->kind != RECORD_DELETE;
	return wanted ? rec->store->ops->replay(log->owner, record) : 0;
}

int recover_rewind(struct store *store)
{
	const struct journal *journal = &store->journal;
	char *why = NULL;
	struct recovery rec = {.store = store, .damaged = hash_create(), .ret_why = &why};
	size_t valid;
	int r = journal->before_segment ? walk_segment(&rec,
						  (struct link_of_chain){journal->before_segment,
							  journal->before_len},
						  false, replay_marked, &valid)
					: 0;
	if (why) {
		diag(DIAG_ERROR, "%s", why);
		free(why);
	}
	hash_destroy(rec.damaged);
	return r;
}
