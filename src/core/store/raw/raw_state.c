/* Raw streams in memory, and how journal records change them. */
#include "raw_internal.h"

#include <stdlib.h>
#include <string.h>

/* --- one stream --- */

struct raw_stream *raw_stream_new(uint64_t id, const char *name, size_t len)
{
	struct raw_stream *stream = xcalloc(1, sizeof(*stream));
	stream->id = id;
	stream->name = xstrndup(name, len);
	list_init(&stream->link);
	list_init(&stream->changed_link);
	list_init(&stream->watches);
	return stream;
}

static bool drop_producer(void *value, void *arg)
{
	struct raw_producer *producer = value;
	free(producer->id);
	free(producer);
	return false;
}

void raw_stream_free(struct raw_stream *stream)
{
	if (stream->producers) {
		hash_filter(stream->producers, drop_producer, NULL);
	}
	hash_destroy(stream->producers);
	free(stream->name);
	free(stream->type);
	free(stream->expires);
	free(stream->seq);
	free(stream->closed_by);
	free(stream);
}

static void note_producer(struct raw_stream *stream, const struct raw_record *record)
{
	if (!stream->producers) {
		stream->producers = hash_create();
	}
	struct raw_producer *producer =
		hash_get(stream->producers, record->producer, record->producer_len);
	if (!producer) {
		producer = xcalloc(1, sizeof(*producer));
		producer->id = xstrndup(record->producer, record->producer_len);
		hash_put(stream->producers, record->producer, record->producer_len, producer);
	}
	producer->epoch = record->epoch;
	producer->seq = record->producer_seq;
	producer->used_ms = record->now_ms;
}

void raw_state_append(struct raw_stream *stream, const struct raw_record *record)
{
	if (record->flags & RAW_FLAG_PRODUCER) {
		note_producer(stream, record);
	}
	if (record->flags & RAW_FLAG_SEQ) {
		free(stream->seq);
		stream->seq = xstrndup(record->seq, record->seq_len);
	}
	if (record->flags & RAW_FLAG_CLOSES && !stream->is_closed) {
		stream->is_closed = true;
		if (record->flags & RAW_FLAG_PRODUCER) {
			free(stream->closed_by);
			stream->closed_by = xstrndup(record->producer, record->producer_len);
			stream->closed_epoch = record->epoch;
			stream->closed_seq = record->producer_seq;
		}
	}
	stream->used_ms = stream->noted_ms = record->now_ms;
	stream->may_be_newer = false;
	stream->length += record->len;
}

/* --- all streams --- */

struct raw_state *raw_state_create(void)
{
	struct raw_state *state = xcalloc(1, sizeof(*state));
	list_init(&state->streams);
	state->names = hash_create();
	state->ids = hash_create();
	state->next_id = 1;
	return state;
}

void raw_state_destroy(struct raw_state *state)
{
	if (!state) {
		return;
	}
	list_for_each_safe(link, tmp, &state->streams) {
		raw_stream_free(list_entry(link, struct raw_stream, link));
	}
	hash_destroy(state->names);
	hash_destroy(state->ids);
	free(state);
}

struct raw_stream *raw_state_get(const struct raw_state *state, const char *name)
{
	return hash_get(state->names, name, strlen(name));
}

struct raw_stream *raw_state_by_id(const struct raw_state *state, uint64_t id)
{
	return hash_get(state->ids, (const char *)&id, sizeof(id));
}

void raw_state_add(struct raw_state *state, struct raw_stream *stream)
{
	list_append(&state->streams, &stream->link);
	hash_put(state->names, stream->name, strlen(stream->name), stream);
	hash_put(state->ids, (const char *)&stream->id, sizeof(stream->id), stream);
	state->count++;
	if (stream->source) {
		stream->source->forks++;
		stream->depth = stream->source->depth + 1;
	}
	if (stream->id >= state->next_id) {
		state->next_id = stream->id + 1;
	}
}

void raw_state_delete(struct raw_state *state, struct raw_stream *stream,
	void (*gone)(void *arg, struct raw_stream *stream), void *arg)
{
	stream->is_deleted = true;
	while (stream && stream->is_deleted && !stream->forks) {
		struct raw_stream *source = stream->source;
		list_remove(&stream->link);
		hash_remove(state->names, stream->name, strlen(stream->name));
		hash_remove(state->ids, (const char *)&stream->id, sizeof(stream->id));
		state->count--;
		stream->is_removed = true;
		stream->source = NULL;
		gone(arg, stream);
		if (source) {
			source->forks--;
		}
		stream = source;
	}
}
