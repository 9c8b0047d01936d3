/*
 * Damage to the journal of raw streams. A batch that is not whole, in front of one that is, was
 * acknowledged once. Its checksum covers all of it, so it is not known which stream a wrong bit
 * belongs to: a stream counts as hurt if the batch, as it is, has something of it, or if its file
 * does not have just the bytes that the rest of the journal says. Nobody reads a hurt stream, or
 * appends to it; all others go on.
 */
#include "raw_internal.h"

#include "core/store/embedded/journal_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void hurt_all(struct raw_found *found)
{
	found->state->is_incomplete = true;
	list_for_each(link, &found->state->streams) {
		list_entry(link, struct raw_stream, link)->is_hurt = true;
	}
}

/* --- batches --- */

/** Whether the records are whole, and only the header, or one bit of the checksum, is not. */
static bool has_records(const char *bytes, size_t len, uint64_t number)
{
	struct buffer header = {0};
	struct unpack in = {.bytes = bytes + 20, .len = 8};
	uint64_t sum = unpack_le(&in, 8);
	size_t records = len - RAW_BATCH_HEADER_SIZE;
	pack_le(&header, RAW_BATCH_MAGIC, 4);
	pack_le(&header, records, 8);
	pack_le(&header, number, 8);
	uint64_t wrong = sum ^ journal_checksum(header.data, header.len) ^
			 journal_checksum(bytes + RAW_BATCH_HEADER_SIZE, records);
	buffer_finish(&header);
	return !(wrong & (wrong - 1));
}

bool raw_batch_is_good(const char *bytes, size_t len, uint64_t expected, uint64_t *ret_number)
{
	if (len < RAW_BATCH_HEADER_SIZE) {
		return false;
	}
	struct unpack in = {.bytes = bytes + 12, .len = 8};
	uint64_t written = unpack_le(&in, 8);
	bool is_next = has_records(bytes, len, expected);
	*ret_number = is_next ? expected : written;
	return is_next || has_records(bytes, len, written);
}

size_t raw_batch_len(const struct buffer *bytes, size_t at, uint64_t *ret_number)
{
	struct unpack in = {.bytes = bytes->data + at, .len = bytes->len - at};
	uint64_t magic = unpack_le(&in, 4);
	uint64_t len = unpack_le(&in, 8);
	*ret_number = unpack_le(&in, 8);
	uint64_t sum = unpack_le(&in, 8);
	if (in.failed || magic != RAW_BATCH_MAGIC || len > in.len ||
		sum != (journal_checksum(bytes->data + at, 20) ^
			       journal_checksum(in.bytes, (size_t)len))) {
		return 0;
	}
	return RAW_BATCH_HEADER_SIZE + (size_t)len;
}

/**
 * Where the batch at `at`, which is not whole, ends: a wrong bit of its length is put right if it
 * fits then. `at` if this is no header of batch `expected`; 0 if it goes on behind the file's end.
 */
static size_t told_end(const struct buffer *bytes, size_t at, uint64_t expected)
{
	struct unpack in = {.bytes = bytes->data + at, .len = bytes->len - at};
	uint64_t magic = unpack_le(&in, 4);
	uint64_t len = unpack_le(&in, 8);
	uint64_t number = unpack_le(&in, 8);
	(void)unpack_le(&in, 8);
	if (in.failed || magic != RAW_BATCH_MAGIC || number != expected) {
		return at;
	}
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t other = len ^ (uint64_t)1 << bit;
		size_t whole = RAW_BATCH_HEADER_SIZE + (size_t)other;
		if (other < in.len && raw_batch_len(bytes, at + whole, &number) &&
			has_records(bytes->data + at, whole, expected)) {
			return at + whole;
		}
	}
	return len > in.len ? 0 : at + RAW_BATCH_HEADER_SIZE + (size_t)len;
}

bool raw_later_batch(const struct buffer *bytes, size_t at, uint64_t expected, size_t *ret_next)
{
	static const char magic[4] = {'H', 'F', 'R', 'B'};
	uint64_t number;
	size_t end = told_end(bytes, at, expected);
	for (at = end ? end : bytes->len; at + RAW_BATCH_HEADER_SIZE <= bytes->len; at++) {
		const char *next = memmem(bytes->data + at, bytes->len - at, magic, sizeof(magic));
		if (!next) {
			return false;
		}
		at = (size_t)(next - bytes->data);
		if (raw_batch_len(bytes, at, &number)) {
			*ret_next = at;
			return true;
		}
	}
	return false;
}

/** Marks what a record can have changed. Returns false if that may be more than one stream. */
static bool judge_record(struct raw_found *found, const struct raw_record *record)
{
	struct raw_stream *stream = raw_state_by_id(found->state, record->id);
	if (record->kind == RAW_STREAM) {
		found->state->is_incomplete = true; /* its name may be another one */
		stream = raw_record_stream(found->state, record);
		if (stream) {
			raw_state_add(found->state, stream);
		}
	} else if (record->kind == RAW_TOUCH) {
		return true;
	} else if (record->kind != RAW_APPEND || !record->len) {
		return false; /* it leaves no bytes in a file, by which another stream would show */
	}
	if (stream) {
		stream->is_hurt = true;
	}
	return stream;
}

void raw_batch_lost(struct raw_found *found, const char *bytes, size_t len)
{
	struct raw_record record;
	bool is_sure = len > RAW_BATCH_HEADER_SIZE;
	size_t head = is_sure ? RAW_BATCH_HEADER_SIZE : len;
	struct unpack in = {.bytes = bytes + head, .len = len - head};
	while (is_sure && raw_record_next(&in, &record)) {
		is_sure = judge_record(found, &record);
	}
	if (!is_sure || in.failed) {
		hurt_all(found);
	}
	found->is_hurt = true;
}

/* --- files --- */

static int compare_sizes(const void *a, const void *b)
{
	const struct raw_size *left = a;
	const struct raw_size *right = b;
	return (left->id > right->id) - (left->id < right->id);
}

uint64_t raw_size_of(const struct raw_sizes *sizes, uint64_t id)
{
	struct raw_size key = {.id = id};
	const struct raw_size *found =
		sizes->count ? bsearch(&key, sizes->sizes, sizes->count, sizeof(key), compare_sizes)
			     : NULL;
	return found ? found->bytes : 0;
}

uint64_t raw_sizes_read(int dir_fd, bool (*is_wanted)(const char *name), struct raw_sizes *ret)
{
	char **names = NULL;
	size_t count = 0;
	uint64_t sum = 0;
	struct stat st;
	disk_list(dir_fd, ".", is_wanted, &names, &count);
	ret->sizes = xcalloc(count + 1, sizeof(*ret->sizes));
	ret->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (fstatat(dir_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0) {
			ret->sizes[ret->count++] = (struct raw_size){
				.id = strtoull(names[i], NULL, 16), .bytes = (uint64_t)st.st_size};
			sum += (uint64_t)st.st_size;
		}
	}
	disk_list_free(names, count);
	return sum;
}

void raw_compare_sizes(struct raw_found *found, const struct raw_sizes *sizes)
{
	list_for_each(link, &found->state->streams) {
		struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		if (raw_size_of(sizes, stream->id) != stream->length - stream->start) {
			stream->is_hurt = true;
		}
	}
}

int raw_open_aside(const struct raw_dirs *dirs)
{
	if (disk->mkdirat(dirs->dir_fd, "set-aside", 0700) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = disk_open_dir(dirs->dir_fd, "set-aside");
	return fd < 0 ? -errno : fd;
}

void raw_aside_name(int aside, const char *name, char ret[RAW_ASIDE_NAME_SIZE])
{
	unsigned number = 0;
	struct stat st;
	snprintf(ret, RAW_ASIDE_NAME_SIZE, "%.40s", name);
	while (fstatat(aside, ret, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		snprintf(ret, RAW_ASIDE_NAME_SIZE, "%.40s.%u", name, ++number);
	}
}

/** Whether an earlier try, which did not come to its end, has kept this segment. */
static bool is_kept(const struct raw_dirs *dirs, int aside, const char *name)
{
	struct stat kept;
	struct stat st;
	return fstatat(aside, name, &kept, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(dirs->journal_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       kept.st_ino == st.st_ino && kept.st_dev == st.st_dev;
}

/** The segments are about to be deleted, as those of a checkpoint. */
static int keep_segments(const struct raw_dirs *dirs, int aside)
{
	char **names;
	size_t count;
	int r = disk_list(dirs->dir_fd, "journal", raw_is_segment, &names, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		char to[RAW_ASIDE_NAME_SIZE];
		raw_aside_name(aside, names[i], to);
		if (!is_kept(dirs, aside, names[i]) &&
			linkat(dirs->journal_fd, names[i], aside, to, 0) < 0) {
			r = -errno;
		}
	}
	disk_list_free(names, count);
	return r;
}

/** Files of streams of which only a lost batch knew. */
static int keep_files(const struct raw_dirs *dirs, struct raw_found *found, int aside)
{
	char **names;
	size_t count;
	uint64_t id;
	int r = disk_list(dirs->dir_fd, "data", raw_is_data, &names, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		char to[RAW_ASIDE_NAME_SIZE];
		raw_aside_name(aside, names[i], to);
		raw_read_name(names[i], "", &id);
		if (id >= found->state->next_id) {
			found->state->next_id = id + 1;
		}
		if (!raw_state_by_id(found->state, id) &&
			disk->renameat(dirs->data_fd, names[i], aside, to) < 0) {
			r = -errno;
		}
	}
	disk_list_free(names, count);
	return r;
}

int raw_keep_damaged(const struct raw_dirs *dirs, struct raw_found *found)
{
	int aside = raw_open_aside(dirs);
	int r = aside < 0 ? aside : keep_segments(dirs, aside);
	r = r < 0 ? r : keep_files(dirs, found, aside);
	if (r == 0 && (disk->fsync(aside) < 0 || disk->fsync(dirs->data_fd) < 0)) {
		r = -errno;
	}
	if (aside >= 0) {
		close(aside);
	}
	return r;
}
