/* Encodes and decodes the journal records of raw streams (proto/store-format.md#raw-streams). */
#include "raw_internal.h"

#include "core/store/embedded/journal_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STREAM_JSON = 1,
	STREAM_TTL = 2,
	STREAM_CLOSED = 4,
	STREAM_DELETED = 8,
	STREAM_SEQ = 16,
	STREAM_CLOSED_BY = 32,
	STREAM_EXPIRES = 64,
	STREAM_HURT = 128,
};

/* --- names of files --- */

void raw_data_name(char ret[RAW_FILE_NAME_SIZE], uint64_t id)
{
	snprintf(ret, RAW_FILE_NAME_SIZE, "%016" PRIx64, id);
}

void raw_segment_name(char ret[RAW_FILE_NAME_SIZE], uint64_t number)
{
	snprintf(ret, RAW_FILE_NAME_SIZE, "%016" PRIx64 ".raw", number);
}

bool raw_read_name(const char *name, const char *end, uint64_t *ret)
{
	*ret = 0;
	if (strspn(name, "0123456789abcdef") != 16 || strcmp(name + 16, end) != 0) {
		return false;
	}
	*ret = strtoull(name, NULL, 16);
	return *ret != 0;
}

bool raw_is_segment(const char *name)
{
	uint64_t number;
	return raw_read_name(name, ".raw", &number);
}

bool raw_is_data(const char *name)
{
	uint64_t id;
	return raw_read_name(name, "", &id);
}

/* --- encoding --- */

static size_t begin(struct buffer *out, enum raw_kind kind)
{
	pack_le(out, kind, 1);
	pack_le(out, 0, 4);
	return out->len;
}

static void write_le(char *at, uint64_t value, size_t width)
{
	for (size_t i = 0; i < width; i++) {
		at[i] = (char)(value >> (8 * i));
	}
}

static void end(struct buffer *out, size_t at)
{
	write_le(out->data + at - 4, out->len - at, 4);
}

static void put_text(struct buffer *out, const char *text)
{
	pack_bytes(out, text ? text : "", text ? strlen(text) : 0);
}

static void put_producer(void *value, void *arg)
{
	const struct raw_producer *producer = value;
	struct buffer *out = arg;
	put_text(out, producer->id);
	pack_le(out, producer->epoch, 8);
	pack_le(out, producer->seq, 8);
	pack_le(out, (uint64_t)producer->used_ms, 8);
}

static unsigned flags_of(const struct raw_stream *stream)
{
	return (stream->is_json ? STREAM_JSON : 0) | (stream->has_ttl ? STREAM_TTL : 0) |
	       (stream->is_closed ? STREAM_CLOSED : 0) | (stream->is_deleted ? STREAM_DELETED : 0) |
	       (stream->seq ? STREAM_SEQ : 0) | (stream->closed_by ? STREAM_CLOSED_BY : 0) |
	       (stream->expires ? STREAM_EXPIRES : 0) | (stream->is_hurt ? STREAM_HURT : 0);
}

void raw_put_stream(struct buffer *out, struct raw_stream *stream)
{
	size_t at = begin(out, RAW_STREAM);
	pack_le(out, stream->id, 8);
	pack_le(out, flags_of(stream), 1);
	pack_le(out, (uint64_t)stream->ttl_s, 8);
	pack_le(out, (uint64_t)stream->expires_ms, 8);
	pack_le(out, (uint64_t)stream->used_ms, 8);
	pack_le(out, stream->source_id, 8);
	pack_le(out, stream->fork_offset, 8);
	pack_le(out, stream->fork_sub, 8);
	pack_le(out, stream->start, 8);
	pack_le(out, stream->length, 8);
	pack_le(out, stream->closed_epoch, 8);
	pack_le(out, stream->closed_seq, 8);
	put_text(out, stream->name);
	put_text(out, stream->type);
	put_text(out, stream->expires);
	put_text(out, stream->seq);
	put_text(out, stream->closed_by);
	pack_le(out, stream->producers ? hash_count(stream->producers) : 0, 4);
	if (stream->producers) {
		hash_each(stream->producers, put_producer, out);
	}
	end(out, at);
	stream->noted_ms = stream->used_ms;
}

void raw_put_state(struct buffer *out, const struct raw_state *state, unsigned flags)
{
	size_t at = begin(out, RAW_RESET);
	pack_le(out, state->next_id, 8);
	pack_le(out, flags | (state->is_incomplete ? RAW_SEGMENT_INCOMPLETE : 0), 1);
	end(out, at);
	list_for_each(link, &state->streams) {
		raw_put_stream(out, list_entry(link, struct raw_stream, link));
	}
	end(out, begin(out, RAW_BEGIN));
}

void raw_put_append(struct buffer *out, const struct raw_record *record)
{
	size_t at = begin(out, RAW_APPEND);
	pack_le(out, record->id, 8);
	pack_le(out, (uint64_t)record->now_ms, 8);
	pack_le(out, record->flags, 1);
	if (record->flags & RAW_FLAG_PRODUCER) {
		pack_bytes(out, record->producer, record->producer_len);
		pack_le(out, record->epoch, 8);
		pack_le(out, record->producer_seq, 8);
	}
	if (record->flags & RAW_FLAG_SEQ) {
		pack_bytes(out, record->seq, record->seq_len);
	}
	buffer_append(out, record->bytes, record->len);
	end(out, at);
}

void raw_put_delete(struct buffer *out, uint64_t id)
{
	size_t at = begin(out, RAW_DELETE);
	pack_le(out, id, 8);
	end(out, at);
}

void raw_put_touch(struct buffer *out, uint64_t id, int64_t now_ms)
{
	size_t at = begin(out, RAW_TOUCH);
	pack_le(out, id, 8);
	pack_le(out, (uint64_t)now_ms, 8);
	end(out, at);
}

void raw_batch_close(struct buffer *batch, size_t at, uint64_t number)
{
	char *header = batch->data + at;
	size_t len = batch->len - at - RAW_BATCH_HEADER_SIZE;
	write_le(header, RAW_BATCH_MAGIC, 4);
	write_le(header + 4, len, 8);
	write_le(header + 12, number, 8);
	/* One checksum covers header and records, so that a wrong length is detected, too. */
	uint64_t sum = journal_checksum(header, 20) ^
		       journal_checksum(header + RAW_BATCH_HEADER_SIZE, len);
	write_le(header + 20, sum, 8);
}

/* --- decoding --- */

static void read_append(struct unpack *in, struct raw_record *ret)
{
	ret->now_ms = (int64_t)unpack_le(in, 8);
	ret->flags = (unsigned)unpack_le(in, 1);
	if (ret->flags & RAW_FLAG_PRODUCER) {
		ret->producer = unpack_bytes(in, &ret->producer_len);
		ret->epoch = unpack_le(in, 8);
		ret->producer_seq = unpack_le(in, 8);
	}
	if (ret->flags & RAW_FLAG_SEQ) {
		ret->seq = unpack_bytes(in, &ret->seq_len);
	}
	ret->bytes = in->bytes;
	ret->len = in->failed ? 0 : in->len;
}

bool raw_record_next(struct unpack *in, struct raw_record *ret)
{
	size_t len;
	*ret = (struct raw_record){0};
	if (!in->len || in->failed) {
		return false;
	}
	ret->kind = (enum raw_kind)unpack_le(in, 1);
	const char *bytes = unpack_bytes(in, &len);
	struct unpack body = {.bytes = bytes, .len = len};
	if (in->failed) {
		return false;
	}
	if (ret->kind == RAW_RESET || ret->kind == RAW_STREAM) {
		ret->rest = body;
	} else if (ret->kind != RAW_BEGIN) {
		ret->id = unpack_le(&body, 8);
	}
	if (ret->kind == RAW_APPEND) {
		read_append(&body, ret);
	} else if (ret->kind == RAW_TOUCH) {
		ret->now_ms = (int64_t)unpack_le(&body, 8);
	}
	in->failed = body.failed || ret->kind < RAW_RESET || ret->kind > RAW_BEGIN;
	return !in->failed;
}

static char *take_text(struct unpack *in, bool is_there)
{
	size_t len;
	const char *text = unpack_bytes(in, &len);
	return is_there ? xstrndup(text, len) : NULL;
}

static void take_producers(struct unpack *in, struct raw_stream *stream)
{
	size_t count = (size_t)unpack_le(in, 4);
	for (size_t i = 0; i < count && !in->failed; i++) {
		struct raw_record record = {.flags = RAW_FLAG_PRODUCER};
		record.producer = unpack_bytes(in, &record.producer_len);
		record.epoch = unpack_le(in, 8);
		record.producer_seq = unpack_le(in, 8);
		record.now_ms = (int64_t)unpack_le(in, 8);
		if (!in->failed) {
			raw_state_append(stream, &record);
		}
	}
}

struct raw_stream *raw_record_stream(const struct raw_state *state, const struct raw_record *record)
{
	struct unpack in = record->rest;
	struct raw_stream *stream = raw_stream_new(unpack_le(&in, 8), "", 0);
	unsigned flags = (unsigned)unpack_le(&in, 1);
	stream->is_json = flags & STREAM_JSON;
	stream->has_ttl = flags & STREAM_TTL;
	stream->is_closed = flags & STREAM_CLOSED;
	stream->is_deleted = flags & STREAM_DELETED;
	stream->is_hurt = flags & STREAM_HURT;
	stream->ttl_s = (int64_t)unpack_le(&in, 8);
	stream->expires_ms = (int64_t)unpack_le(&in, 8);
	int64_t used_ms = (int64_t)unpack_le(&in, 8);
	stream->source_id = unpack_le(&in, 8);
	stream->fork_offset = unpack_le(&in, 8);
	stream->fork_sub = unpack_le(&in, 8);
	stream->start = unpack_le(&in, 8);
	stream->length = unpack_le(&in, 8);
	stream->closed_epoch = unpack_le(&in, 8);
	stream->closed_seq = unpack_le(&in, 8);
	free(stream->name);
	stream->name = take_text(&in, true);
	stream->type = take_text(&in, true);
	stream->expires = take_text(&in, flags & STREAM_EXPIRES);
	stream->seq = take_text(&in, flags & STREAM_SEQ);
	stream->closed_by = take_text(&in, flags & STREAM_CLOSED_BY);
	take_producers(&in, stream);
	stream->used_ms = stream->noted_ms = used_ms;
	stream->source = stream->source_id ? raw_state_by_id(state, stream->source_id) : NULL;
	if (in.failed || !stream->id || !stream->name[0] || stream->length < stream->start ||
		(stream->source_id && !stream->source) ||
		(stream->source && stream->source->length < stream->start) ||
		raw_state_by_id(state, stream->id) || raw_state_get(state, stream->name)) {
		raw_stream_free(stream);
		return NULL;
	}
	return stream;
}
