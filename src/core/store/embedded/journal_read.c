/*
 * The journal's read side. Nothing in a segment is trusted before its checksum has been verified.
 *
 * A batch is written and synced as a whole, so a batch that another one follows was complete once.
 * An error in it is damage, and its trailer (or, if that is hit, its records) says which sessions
 * are affected. Only the last batch of the newest segment can be incomplete; then none of it
 * counts. Zeros after the last batch are preallocated space.
 */
#include "embedded.h"

#include "holdfast/pack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void journal_segment_name(uint64_t segment, char name[32])
{
	snprintf(name, 32, "%016llx.journal", (unsigned long long)segment);
}

static bool is_segment(const char *name)
{
	return strspn(name, "0123456789abcdef") == 16 && strcmp(name + 16, ".journal") == 0;
}

int journal_list(int dir_fd, uint64_t **ret_segments, size_t *ret_count)
{
	char **names;
	int r = disk_list(dir_fd, ".", is_segment, &names, ret_count);
	*ret_segments = xcalloc(*ret_count, sizeof(**ret_segments));
	for (size_t i = 0; i < *ret_count; i++) {
		(*ret_segments)[i] = strtoull(names[i], NULL, 16);
	}
	disk_list_free(names, *ret_count);
	return r;
}

void journal_reader_close(struct journal_reader *reader)
{
	buffer_finish(&reader->bytes);
}

bool journal_reader_is_blank(const struct journal_reader *reader, size_t from)
{
	const char *bytes = reader->bytes.data;
	size_t at = from;
	while (at < reader->end && !bytes[at]) {
		at++;
	}
	return at >= reader->end;
}

/** Returns whether a batch that ends at `end` is the last. */
static bool is_last(const struct journal_reader *reader, size_t end)
{
	return end >= reader->end || (!reader->is_end_told && journal_reader_is_blank(reader, end));
}

/* --- batches --- */

/** The extent of a batch. */
struct batch {
	size_t records; /* offset of the first record */
	size_t end;
	uint32_t count;
	bool has_header;
	const char *entries; /* NULL: the trailer is damaged */
};

/** Reads the header of batch `number` at offset `at`. Returns false if no good one is there. */
static bool read_header(const struct journal_reader *reader, size_t at, uint64_t number,
	size_t *ret_length, uint32_t *ret_count)
{
	if (at > reader->end || reader->end - at < BATCH_HEADER_SIZE) {
		return false;
	}
	struct unpack in = {.bytes = reader->bytes.data + at, .len = BATCH_HEADER_SIZE};
	uint64_t sum = journal_checksum(in.bytes, BATCH_HEADER_SIZE - 8);
	uint32_t magic = (uint32_t)unpack_le(&in, 4);
	*ret_count = (uint32_t)unpack_le(&in, 4);
	*ret_length = (size_t)unpack_le(&in, 8);
	bool is_next = unpack_le(&in, 8) == number;
	return magic == BATCH_MAGIC && is_next && unpack_le(&in, 8) == sum;
}

/**
 * Returns whether the segment has a good first batch. The header was synced with that batch: if the
 * batch is good and the header is not, the header has been damaged since.
 */
static bool has_first_batch(struct journal_reader *reader)
{
	size_t length;
	uint32_t count;
	return read_header(reader, JOURNAL_HEADER_SIZE, 0, &length, &count);
}

bool journal_reader_has_batch(const struct journal_reader *reader)
{
	const char *bytes = reader->bytes.data;
	size_t len = reader->bytes.len;
	size_t length;
	uint32_t count;
	for (size_t at = 0; at + BATCH_HEADER_SIZE <= len; at++) {
		const char *found = memmem(bytes + at, len - at, "HFBT", 4);
		at = found ? (size_t)(found - bytes) : len;
		struct unpack in = {.bytes = bytes + at, .len = len - at};
		unpack_le(&in, 8); /* magic and count */
		unpack_le(&in, 8); /* length */
		if (found && read_header(reader, at, unpack_le(&in, 8), &length, &count)) {
			return true;
		}
	}
	return false;
}

/**
 * Returns the format of a header, 0 if unknown. In every format magic and checksum are in the same
 * place.
 */
static unsigned format_of(const char *magic)
{
	size_t len = strlen(JOURNAL_MAGIC_FAMILY);
	bool is_ours = memcmp(magic, JOURNAL_MAGIC_FAMILY, len) == 0 && magic[len + 1] == '\n';
	return is_ours && magic[len] > '0' ? (unsigned)(magic[len] - '0') : 0;
}

static int open_reader(struct journal_reader *reader, int dir_fd, const char *name, bool all)
{
	*reader = (struct journal_reader){0};
	int r = all ? disk_read_whole(dir_fd, name, SEGMENT_FILE_MAX, &reader->bytes)
		    : disk_read_file(dir_fd, name, JOURNAL_HEADER_SIZE, &reader->bytes);
	if (r < 0) {
		return r;
	}
	struct unpack in = {.bytes = reader->bytes.data, .len = reader->bytes.len};
	reader->end = reader->bytes.len;
	if (in.len < JOURNAL_HEADER_SIZE) {
		return -EBADMSG;
	}
	reader->valid = JOURNAL_HEADER_SIZE;
	uint64_t sum = journal_checksum(in.bytes, JOURNAL_HEADER_SIZE - 8);
	unsigned format = format_of(in.bytes);
	unpack_le(&in, 8); /* magic */
	unpack_le(&in, 8); /* number, as in the name */
	reader->before_segment = unpack_le(&in, 8);
	reader->before_len = (size_t)unpack_le(&in, 8);
	uint64_t flags = unpack_le(&in, 8);
	if (unpack_le(&in, 8) == sum) {
		reader->format = format;
		reader->flags = flags;
		bool is_ours = format >= JOURNAL_FORMAT_OLDEST && format <= JOURNAL_FORMAT;
		return is_ours && !(flags & ~JOURNAL_FLAGS_MAY_SKIP) ? 0 : -ENOTSUP;
	}
	reader->before_segment = JOURNAL_BEFORE_UNKNOWN;
	return has_first_batch(reader) ? 0 : -EBADMSG;
}

int journal_reader_open(struct journal_reader *reader, int dir_fd, const char *name)
{
	return open_reader(reader, dir_fd, name, true);
}

int journal_reader_open_header(struct journal_reader *reader, int dir_fd, const char *name)
{
	return open_reader(reader, dir_fd, name, false);
}

static bool read_trailer(const struct journal_reader *reader, struct batch *batch)
{
	size_t room = batch->end - batch->records;
	if (room < BATCH_TRAILER_SIZE) {
		return false;
	}
	const char *end = reader->bytes.data + batch->end;
	struct unpack in = {.bytes = end - BATCH_TRAILER_SIZE, .len = BATCH_TRAILER_SIZE};
	size_t count = (size_t)unpack_le(&in, 4);
	if (count > (room - BATCH_TRAILER_SIZE) / (BATCH_ENTRY_SIZE + RECORD_HEADER_SIZE)) {
		return false;
	}
	const char *entries = end - BATCH_TRAILER_SIZE - count * BATCH_ENTRY_SIZE;
	if (unpack_le(&in, 8) != journal_checksum(entries, count * BATCH_ENTRY_SIZE + 4)) {
		return false;
	}
	batch->entries = entries;
	batch->count = (uint32_t)count;
	return true;
}

/**
 * Returns the end of a batch with a damaged header: where batch `number`, the next, begins, or
 * reader->end.
 */
static size_t find_next_header(const struct journal_reader *reader, size_t from, uint64_t number)
{
	static const char magic[4] = {'H', 'F', 'B', 'T'};
	size_t length;
	uint32_t count;
	for (size_t at = from; at < reader->end; at++) {
		const char *found =
			memmem(reader->bytes.data + at, reader->end - at, magic, sizeof(magic));
		if (!found) {
			break;
		}
		at = (size_t)(found - reader->bytes.data);
		if (read_header(reader, at, number, &length, &count)) {
			return at;
		}
	}
	return reader->end;
}

/**
 * Finds the end of a last batch whose header is damaged: the end of its trailer, whose checksum may
 * itself end with zeros. Without a good trailer it is the reader's end.
 */
static void find_last_end(const struct journal_reader *reader, struct batch *batch)
{
	size_t end = reader->end;
	while (!reader->is_end_told && end > batch->records && !reader->bytes.data[end - 1]) {
		end--;
	}
	for (size_t most = end + 8; end < reader->end && end <= most; end++) {
		batch->end = end;
		if (read_trailer(reader, batch)) {
			return;
		}
	}
	batch->end = reader->end;
	read_trailer(reader, batch);
}

/** Finds the extent of the batch at `valid`. Returns false if header and trailer are no help. */
static bool find_batch(const struct journal_reader *reader, struct batch *batch)
{
	size_t length;
	size_t at = reader->valid;
	*batch = (struct batch){.records = at + BATCH_HEADER_SIZE};
	if (read_header(reader, at, reader->batch_number, &length, &batch->count)) {
		size_t trailer = (size_t)batch->count * BATCH_ENTRY_SIZE + BATCH_TRAILER_SIZE;
		if (length > reader->end || length + trailer > reader->end - batch->records) {
			batch->end = reader->end;
			return false;
		}
		batch->end = batch->records + length + trailer;
		batch->has_header = true;
		read_trailer(reader, batch);
		return true;
	}
	batch->end = find_next_header(reader, batch->records, reader->batch_number + 1);
	if (batch->records > batch->end) {
		return false;
	}
	if (batch->end == reader->end) {
		find_last_end(reader, batch);
	} else {
		read_trailer(reader, batch);
	}
	return batch->entries != NULL;
}

/* --- records --- */

static bool read_record(const char *bytes, size_t len, struct record *ret_record)
{
	struct unpack in = {.bytes = bytes, .len = len};
	uint64_t sum = unpack_le(&in, 8);
	const char *guarded = in.bytes;
	size_t body = (size_t)unpack_le(&in, 4);
	struct record record = {.kind = (enum record_kind)unpack_le(&in, 2)};
	record.id_len = (size_t)unpack_le(&in, 2);
	if (in.failed || in.len < body || body < 16 + record.id_len ||
		journal_checksum(guarded, RECORD_HEADER_SIZE - 8 + body) != sum) {
		return false;
	}
	record.epoch = unpack_le(&in, 8);
	record.ts = (int64_t)unpack_le(&in, 8);
	record.id = in.bytes;
	record.data = in.bytes + record.id_len;
	record.data_len = body - 16 - record.id_len;
	*ret_record = record;
	return true;
}

static size_t record_size(const struct record *record)
{
	return RECORD_HEADER_SIZE + 16 + record->id_len + record->data_len;
}

/** Returns whether every record of a batch is good. */
static bool batch_is_whole(const struct journal_reader *reader, const struct batch *batch)
{
	size_t at = batch->records;
	for (uint32_t i = 0; i < batch->count; i++) {
		struct record record;
		if (!read_record(reader->bytes.data + at, batch->end - at, &record)) {
			return false;
		}
		at += record_size(&record);
	}
	return true;
}

/**
 * Returns whether batches were not synced: then a power cut can lose any of them and leave later
 * ones.
 */
static bool was_relaxed(const struct journal_reader *reader)
{
	return reader->flags & JOURNAL_FLAG_RELAXED;
}

static enum journal_found next_batch(struct journal_reader *reader)
{
	struct batch batch;
	bool found = find_batch(reader, &batch);
	bool is_whole = found && batch_is_whole(reader, &batch);
	if (reader->may_be_torn && !(is_whole && batch.entries) && is_last(reader, batch.end)) {
		return JOURNAL_END;
	}
	if (!found || (!batch.entries && !is_whole)) {
		return reader->may_be_torn && was_relaxed(reader) ? JOURNAL_END : JOURNAL_LOST;
	}
	if (!batch.has_header || !batch.entries) {
		reader->damaged_batch = reader->valid;
	}
	reader->at = batch.records;
	reader->entry = batch.entries;
	reader->left = batch.count;
	reader->last_batch = reader->valid;
	reader->valid = batch.end;
	reader->batch_number++;
	return JOURNAL_RECORD;
}

enum journal_found journal_reader_next(
	struct journal_reader *reader, struct record *ret_record, uint64_t *ret_session)
{
	while (!reader->left) {
		if (is_last(reader, reader->valid)) {
			reader->end = reader->valid;
			return JOURNAL_END;
		}
		enum journal_found found = next_batch(reader);
		if (found != JOURNAL_RECORD) {
			return found;
		}
	}
	reader->left--;
	size_t len = reader->valid - reader->at;
	if (reader->entry) {
		struct unpack in = {.bytes = reader->entry, .len = BATCH_ENTRY_SIZE};
		*ret_session = unpack_le(&in, 8);
		size_t told = (size_t)unpack_le(&in, 4);
		len = told < len ? told : len;
		reader->entry += BATCH_ENTRY_SIZE;
	}
	bool good = read_record(reader->bytes.data + reader->at, len, ret_record);
	reader->at += good && !reader->entry ? record_size(ret_record) : len;
	return good ? JOURNAL_RECORD : JOURNAL_DAMAGED;
}
