/* A data directory as the old side of a migration: reads its files, and records of its journal. */
#include "migrate_files.h"

#include "embedded.h"

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

/** The records of a session, from a snapshot on. */
struct kept_records {
	uint64_t epoch;
	bool is_deleted;
	struct list records; /* struct kept_record */
	char id[];
};

struct moving_files {
	struct store_files files;
	const struct store_facts *facts;
	struct hash *records; /* struct kept_records, by id */
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

static struct kept_records *get_kept(struct moving_files *files, const struct record *record)
{
	struct kept_records *kept = hash_get(files->records, record->id, record->id_len);
	if (!kept) {
		kept = xcalloc(1, sizeof(*kept) + record->id_len + 1);
		memcpy(kept->id, record->id, record->id_len);
		list_init(&kept->records);
		hash_put(files->records, record->id, record->id_len, kept);
	}
	return kept;
}

/** Keeps the records that recovery would use: from the newest snapshot of the current epoch on. */
static void keep(struct moving_files *files, const struct record *record)
{
	struct kept_records *kept = get_kept(files, record);
	bool is_snapshot = record->kind == RECORD_SNAPSHOT;
	if (is_snapshot || record->kind == RECORD_CREATE || record->kind == RECORD_DELETE) {
		forget(kept);
		kept->epoch = record->epoch;
	}
	bool counts = is_snapshot || (!list_empty(&kept->records) && kept->epoch == record->epoch);
	if (!counts || !record_is_known(record)) {
		return;
	}
	struct kept_record *own = xmalloc(sizeof(*own) + record->data_len + 1);
	*own = (struct kept_record){
		.kind = record->kind, .ts = record->ts, .len = record->data_len};
	memcpy(own->data, record->data_len ? record->data : "", record->data_len);
	list_append(&kept->records, &own->link);
}

struct segment {
	uint64_t number;
	size_t end; /* its length as the next segment says; SIZE_MAX: unknown */
};

static int read_segment(struct moving_files *files, struct segment segment, bool is_newest)
{
	char name[32];
	struct journal_reader reader;
	struct record record;
	uint64_t session;
	journal_segment_name(segment.number, name);
	int r = journal_reader_open(&reader, files->files.journal_fd, name);
	enum journal_found found = r < 0 ? JOURNAL_END : JOURNAL_RECORD;
	reader.may_be_torn = is_newest;
	reader.is_end_told = segment.end != SIZE_MAX;
	reader.end = segment.end < reader.end ? segment.end : reader.end;
	while (found == JOURNAL_RECORD) {
		found = journal_reader_next(&reader, &record, &session);
		if (found == JOURNAL_RECORD) {
			keep(files, &record);
		}
	}
	/* A server that has stopped leaves nothing torn. */
	r = r == 0 && (found != JOURNAL_END || reader.valid < reader.end) ? -EAGAIN : r;
	journal_reader_close(&reader);
	return r;
}

/** What a segment's header says of the one before it. */
static int read_link(struct moving_files *files, uint64_t number, struct segment *ret_before)
{
	char name[32];
	struct journal_reader reader;
	journal_segment_name(number, name);
	int r = journal_reader_open(&reader, files->files.journal_fd, name);
	*ret_before = (struct segment){reader.before_segment, reader.before_len};
	journal_reader_close(&reader);
	return r;
}

/** Follows the segments from the newest one back. Each names the one before it. */
static int find_chain(struct moving_files *files, struct segment **ret, size_t *ret_count)
{
	uint64_t *numbers = NULL;
	size_t count = 0;
	struct segment next = {.end = SIZE_MAX};
	int r = store_files_list_segments(&files->files, &numbers, &count);
	*ret = xcalloc(count + 1, sizeof(**ret));
	*ret_count = 0;
	for (size_t i = count; r == 0 && i-- > 0;) {
		if (*ret_count && numbers[i] != next.number) {
			continue;
		}
		next.number = numbers[i];
		(*ret)[(*ret_count)++] = next;
		r = read_link(files, numbers[i], &next);
	}
	free(numbers);
	return r;
}

static int read_journal(struct moving_files *files)
{
	struct segment *chain = NULL;
	size_t count = 0;
	int r = find_chain(files, &chain, &count);
	for (size_t i = count; r == 0 && i-- > 0;) {
		r = read_segment(files, chain[i], i == 0);
	}
	free(chain);
	return r;
}

/** A server has to recover a session that only the journal has, or whose folder it deletes. */
static void look_at_folder(void *value, void *arg)
{
	const struct kept_records *kept = value;
	struct moving_files *files = arg;
	struct metadata meta;
	const char *why;
	int r = metadata_read(files->files.sessions_fd, kept->id, NULL, &meta, &why);
	bool is_there = r == 0 && meta.epoch == kept->epoch;
	if (r == 0) {
		metadata_finish(&meta);
	}
	files->is_unsettled = files->is_unsettled || is_there == kept->is_deleted;
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
	const struct moving_files *files = side;
	struct metadata meta;
	const char *why;
	const struct kept_records *kept = hash_get(files->records, id, strlen(id));
	int r = metadata_read(files->files.sessions_fd, id, NULL, &meta, &why);
	uint64_t epoch = r == 0 ? meta.epoch : 0;
	if (r == 0) {
		metadata_finish(&meta);
	}
	if (r < 0 || !kept || kept->epoch != epoch) {
		return r;
	}
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
