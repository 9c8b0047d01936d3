/* Segments of the journal made by hand, as proto/store-format.md has them: for what no server leaves. */
#ifndef HOLDFAST_TESTS_JOURNAL_FIXTURE_H
#define HOLDFAST_TESTS_JOURNAL_FIXTURE_H

#include "core/store/embedded/embedded.h"

#include "holdfast/pack.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct journal_maker {
	int dir_fd;
	struct buffer segment; /* the one being made */
	uint64_t number;
	uint64_t batches;
};

static inline void put_sum(struct buffer *out, size_t from)
{
	pack_le(out, journal_checksum(out->data + from, out->len - from), 8);
}

static inline void begin_segment(
	struct journal_maker *maker, uint64_t number, uint64_t before, size_t before_len)
{
	struct buffer *out = &maker->segment;
	buffer_clear(out);
	maker->number = number;
	maker->batches = 0;
	buffer_append(out, "HFJRNL3\n", 8);
	pack_le(out, number, 8);
	pack_le(out, before, 8);
	pack_le(out, before_len, 8);
	pack_le(out, 0, 8);
	put_sum(out, 0);
}

/** Appends a batch with one record. */
static inline void put_record(struct journal_maker *maker, enum record_kind kind, const char *id,
	uint64_t epoch, const char *data)
{
	struct buffer record = {0};
	struct buffer trailer = {0};
	struct buffer body = {0};
	struct buffer *out = &maker->segment;
	pack_le(&body, 16 + strlen(id) + strlen(data), 4);
	pack_le(&body, kind, 2);
	pack_le(&body, strlen(id), 2);
	pack_le(&body, epoch, 8);
	pack_le(&body, 1000 + epoch, 8);
	buffer_append_str(&body, id);
	buffer_append_str(&body, data);
	pack_le(&record, journal_checksum(body.data, body.len), 8);
	buffer_append(&record, body.data, body.len);
	size_t at = out->len;
	buffer_append(out, "HFBT", 4);
	pack_le(out, 1, 4);
	pack_le(out, record.len, 8);
	pack_le(out, maker->batches++, 8);
	put_sum(out, at);
	buffer_append(out, record.data, record.len);
	pack_le(&trailer, journal_session_hash(id, strlen(id), epoch), 8);
	pack_le(&trailer, record.len, 4);
	pack_le(&trailer, 1, 4);
	put_sum(&trailer, 0);
	buffer_append(out, trailer.data, trailer.len);
	buffer_finish(&body);
	buffer_finish(&record);
	buffer_finish(&trailer);
}

/** Writes the segment. Returns its length. */
static inline size_t end_segment(struct journal_maker *maker)
{
	char name[32];
	journal_segment_name(maker->number, name);
	int fd = openat(maker->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, maker->segment.data, maker->segment.len), maker->segment.len);
	close(fd);
	return maker->segment.len;
}

/** A segment with one record of session `id`. Returns its length. */
static inline size_t make_segment(struct journal_maker *maker, uint64_t number, uint64_t before,
	size_t before_len, const char *id)
{
	begin_segment(maker, number, before, before_len);
	put_record(maker, RECORD_CREATE, id, 1, "");
	return end_segment(maker);
}

static inline void flip(struct journal_maker *maker, uint64_t number, size_t at)
{
	char name[32];
	char byte;
	journal_segment_name(number, name);
	int fd = openat(maker->dir_fd, name, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

/** Removes the segments. Frees the maker's memory. */
static inline void journal_maker_finish(struct journal_maker *maker)
{
	uint64_t *numbers;
	size_t count;
	assert_int_equal(journal_list(maker->dir_fd, &numbers, &count), 0);
	for (size_t i = 0; i < count; i++) {
		char name[32];
		journal_segment_name(numbers[i], name);
		unlinkat(maker->dir_fd, name, 0);
	}
	free(numbers);
	buffer_finish(&maker->segment);
}

#endif
