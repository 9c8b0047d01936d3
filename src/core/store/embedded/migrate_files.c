/* A data directory as the old side of a migration: reads its files, and records of its journal. */
#include "migrate_files.h"

#include "embedded.h"
#include "journal_view.h"

#include "holdfast/hash.h"
#include "holdfast/store_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names come in pieces of about this size. */
#define NAMES_SIZE ((size_t)256 * 1024)

struct kept_record {
	struct list link;
	enum record_kind kind;
	int64_t ts;
	size_t len;
	char data[];
};

/** The records of a session, from its newest snapshot on. */
struct kept_records {
	const struct journal_life *life;
	bool lacks_snapshot; /* its state begins with its creation: no new side can begin so */
	struct list records; /* struct kept_record */
};

struct moving_files {
	struct store_files files;
	const struct store_facts *facts;
	struct journal_view journal;
	struct hash *records; /* struct kept_records, by address of the life */
	bool is_unsettled; /* a server has to recover it first */
};

/* --- the journal --- */

static void forget(struct kept_records *kept)
{
	list_for_each_safe(link, tmp, &kept->records) {
		struct kept_record *record = list_entry(link, struct kept_record, link);
		list_remove(&record->link);
		free(record);
	}
}

static struct kept_records *find_kept(
	const struct moving_files *files, const struct journal_life *life)
{
	return hash_get(files->records, (const char *)&life, sizeof(life));
}

static struct kept_records *get_kept(struct moving_files *files, const struct journal_life *life)
{
	struct kept_records *kept = find_kept(files, life);
	if (!kept) {
		kept = xcalloc(1, sizeof(*kept));
		kept->life = life;
		list_init(&kept->records);
		hash_put(files->records, (const char *)&life, sizeof(life), kept);
	}
	return kept;
}

static int keep(void *arg, const struct record *record, const struct journal_place *place)
{
	struct moving_files *files = arg;
	const struct journal_life *life = journal_view_note(&files->journal, record, place);
	if (!life) {
		return 0;
	}
	struct kept_records *kept = get_kept(files, life);
	if (record->kind == RECORD_SNAPSHOT) {
		forget(kept);
		kept->lacks_snapshot = false;
	}
	if (!journal_record_counts(record)) {
		return 0;
	}
	if (record->kind != RECORD_SNAPSHOT && list_empty(&kept->records)) {
		kept->lacks_snapshot = true;
		return 0;
	}
	struct kept_record *own = xmalloc(sizeof(*own) + record->data_len + 1);
	*own = (struct kept_record){
		.kind = record->kind, .ts = record->ts, .len = record->data_len};
	memcpy(own->data, record->data_len ? record->data : "", record->data_len);
	list_append(&kept->records, &own->link);
	return 0;
}

/** A server that has stopped leaves nothing torn or half begun: the next start goes on from that. */
static int handle_damage(void *arg, enum journal_damage damage, const struct journal_place *place)
{
	if (damage == JOURNAL_BATCH_DAMAGED) {
		return 0; /* its records are good */
	}
	bool is_of_crash = damage == JOURNAL_TORN || damage == JOURNAL_UNBEGUN;
	return is_of_crash ? -EAGAIN : place->error ? place->error : -EBADMSG;
}

static int read_journal(struct moving_files *files)
{
	const struct journal_visitor visitor = {
		.record = keep, .damage = handle_damage, .arg = files};
	journal_view_begin(&files->journal, files->files.journal_fd);
	int r = journal_view_list(&files->journal);
	r = r < 0 ? r : journal_view_find(&files->journal, &visitor);
	return r < 0 ? r : journal_view_walk(&files->journal, &visitor);
}

/** A server has to recover a session that only the journal has, or whose folder it deletes. */
static void look_at_folder(void *value, void *arg)
{
	const struct kept_records *kept = value;
	const struct journal_life *life = kept->life;
	struct moving_files *files = arg;
	struct metadata meta;
	const char *why;
	int r = metadata_read(files->files.sessions_fd, life->id, NULL, &meta, &why);
	bool is_there = r == 0 && meta.epoch == life->epoch;
	if (r == 0) {
		metadata_finish(&meta);
	}
	files->is_unsettled = files->is_unsettled || is_there == life->is_deleted ||
			      (is_there && kept->lacks_snapshot);
}

/** Whether the last server was stopped and did not crash: then the file `lock` is empty. */
static bool is_settled(struct moving_files *files)
{
	files->is_unsettled = store_files_size(files->files.dir_fd, "lock") > 0;
	hash_each(files->records, look_at_folder, files);
	return !files->is_unsettled;
}

/* --- reading a session --- */

static int list(void *side, char ***ret_ids, size_t *ret_count)
{
	const struct moving_files *files = side;
	return store_files_list_sessions(&files->files, ret_ids, ret_count);
}

static int give_names(const struct moving_files *files, const char *id, const struct metadata *meta,
	const struct moving_sink *sink)
{
	struct log_lines lines;
	struct buffer piece = {0};
	const char *line;
	size_t len;
	uint64_t at = 0;
	int r = meta->keys_size ? log_lines_open_file(&files->files, id, "keys.jsonl", &lines) : 0;
	if (!meta->keys_size || r < 0) {
		return r;
	}
	lines.end = meta->keys_size;
	while (r == 0 && (r = log_lines_next(&lines, &line, &len)) > 0) {
		buffer_append(&piece, line, len);
		buffer_append_char(&piece, '\n');
		r = 0;
		if (piece.len >= NAMES_SIZE || at + piece.len == meta->keys_size) {
			r = sink->names(sink->arg, at, piece.data, piece.len);
			at += piece.len;
			buffer_clear(&piece);
		}
	}
	log_lines_close(&lines);
	buffer_finish(&piece);
	return r < 0 ? r : at == meta->keys_size ? 0 : -EAGAIN;
}

static int give_events(const struct moving_files *files, const char *id, uint64_t first_at,
	const struct metadata *meta, const struct moving_sink *sink)
{
	struct log_lines lines;
	struct event_view view;
	const char *line;
	size_t len;
	uint64_t next = meta->first_seq;
	int r = log_lines_open(&files->files, id, &lines);
	if (r < 0) {
		return r == -ENOENT && meta->first_seq > meta->max_seq ? 0 : r;
	}
	lines.offset = first_at;
	while (r == 0 && (r = log_lines_next(&lines, &line, &len)) > 0) {
		r = event_parse_line(line, len, &view) < 0 || view.seq != next ? -EBADMSG : 0;
		r = r < 0 ? r : sink->event(sink->arg, &view, line, len);
		next++;
	}
	bool is_settled = next == meta->max_seq + 1 && !log_lines_rest(&lines);
	log_lines_close(&lines);
	return r < 0 ? r : is_settled ? 0 : -EAGAIN;
}

static int give_blobs(
	const struct moving_files *files, const char *id, const struct moving_sink *sink)
{
	char path[320];
	char **names;
	size_t count;
	snprintf(path, sizeof(path), "%s/blobs", id);
	int r = disk_list(files->files.sessions_fd, path, NULL, &names, &count);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct buffer bytes = {0};
		snprintf(path, sizeof(path), "%s/blobs/%.100s", id, names[i]);
		r = disk_read_whole(files->files.sessions_fd, path, BLOB_FILE_MAX, &bytes);
		r = r < 0 ? r : sink->blob(sink->arg, names[i], bytes.data, bytes.len);
		buffer_finish(&bytes);
	}
	disk_list_free(names, count);
	return r;
}

static int read_session(void *side, const char *id, const struct moving_sink *sink)
{
	const struct moving_files *files = side;
	struct metadata meta;
	const char *why;
	int r = metadata_read(files->files.sessions_fd, id, files->facts, &meta, &why);
	if (r < 0) {
		return r == -ENOENT ? -EAGAIN : r;
	}
	uint64_t first_at = meta.first_at;
	moving_settle_metadata(&meta);
	r = sink->metadata(sink->arg, id, &meta);
	r = r < 0 ? r : give_names(files, id, &meta, sink);
	r = r < 0 ? r : give_events(files, id, first_at, &meta, sink);
	r = r < 0 ? r : give_blobs(files, id, sink);
	metadata_finish(&meta);
	return r;
}

static int read_records(void *side, const char *id, const struct moving_sink *sink)
{
	struct moving_files *files = side;
	struct metadata meta;
	const char *why;
	int r = metadata_read(files->files.sessions_fd, id, NULL, &meta, &why);
	uint64_t epoch = r == 0 ? meta.epoch : 0;
	if (r == 0) {
		metadata_finish(&meta);
	}
	const struct journal_life *life =
		r < 0 ? NULL : journal_view_life(&files->journal, id, strlen(id), epoch);
	if (!life) {
		return r;
	}
	const struct kept_records *kept = find_kept(files, life);
	list_for_each(link, &kept->records) {
		const struct kept_record *own = list_entry(link, struct kept_record, link);
		const struct record record = {.kind = own->kind,
			.id = id,
			.id_len = strlen(id),
			.epoch = epoch,
			.ts = own->ts,
			.data = own->data,
			.data_len = own->len};
		r = sink->record(sink->arg, &record);
		if (r < 0) {
			break;
		}
	}
	return r;
}

/* --- opening --- */

static uint64_t size(void *side)
{
	const struct moving_files *files = side;
	return store_check_size(&files->files, NULL);
}

static void free_kept(void *value, void *arg)
{
	forget(value);
	free(value);
}

static void close_files(void *side)
{
	struct moving_files *files = side;
	hash_each(files->records, free_kept, NULL);
	hash_destroy(files->records);
	journal_view_finish(&files->journal);
	store_files_close(&files->files);
	free(files);
}

int moving_files_open(const char *dir, const struct store_facts *facts,
	struct moving_side *ret_side, char **ret_why)
{
	struct moving_files *files = xcalloc(1, sizeof(*files));
	files->facts = facts;
	files->records = hash_create();
	*ret_side = (struct moving_side){.side = files,
		.dir = dir,
		.close = close_files,
		.list = list,
		.read = read_session,
		.read_records = read_records,
		.size = size};
	int r = store_files_open(dir, &files->files, ret_why);
	if (r < 0) {
		return r;
	}
	store_files_hold(&files->files);
	if (files->files.in_use || files->files.lock_fd < 0) {
		*ret_why = xprintf("a server is at work in %s; stop it first", dir);
		return -EBUSY;
	}
	r = read_journal(files);
	r = r == 0 && !is_settled(files) ? -EAGAIN : r;
	if (r < 0) {
		*ret_why = xprintf("the journal of %s cannot be read: %s", dir, strerror(-r));
	}
	return r;
}
