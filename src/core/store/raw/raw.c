/* The requests of raw streams: creates, forks, appends to, closes, deletes and expires them. */
#include "raw_internal.h"

#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Size of a journal segment in bytes, but at most 1/DISK_PART of the disk quota. */
#define SEGMENT_SIZE ((uint64_t)16 * 1024 * 1024)
#define DISK_PART    8
/* How often expired streams are looked for (ms). */
#define SWEEP_MS 5000
/* A producer that has been silent this long can be dropped to make room for another one (ms). */
#define PRODUCER_MS ((int64_t)7 * 24 * 3600 * 1000)

/* --- lookup --- */

int64_t raw_now(const struct raw_store *store)
{
	return clock_now_ms(store->config.clock);
}

static bool is_over(const struct raw_store *store, const struct raw_stream *stream)
{
	int64_t now = raw_now(store);
	int64_t ttl_ms = stream->ttl_s * 1000;
	int64_t more_ms = stream->may_be_newer ? ttl_ms / RAW_TOUCH_PART : 0;
	return (stream->expires_ms && now >= stream->expires_ms) ||
	       (stream->has_ttl && list_empty(&stream->watches) &&
		       now - stream->used_ms >= ttl_ms + more_ms);
}

static void handle_gone(void *arg, struct raw_stream *stream)
{
	struct raw_store *store = arg;
	list_remove(&stream->changed_link);
	list_append(&store->removed, &stream->link);
	stream->lsn = store->lsn;
	raw_journal_remove(&store->journal, stream->id);
}

void raw_changed(struct raw_store *store, struct raw_stream *stream)
{
	stream->lsn = store->lsn;
	if (list_empty(&stream->changed_link)) {
		list_append(&store->changed, &stream->changed_link);
	}
}

void raw_remove(struct raw_store *store, struct raw_stream *stream)
{
	raw_put_delete(&store->journal.gather, stream->id);
	raw_changed(store, stream);
	raw_state_delete(store->state, stream, handle_gone, store);
}

/** A fork has bytes of its sources. */
static bool is_damaged(const struct raw_stream *stream)
{
	bool is_hurt = stream->is_damaged;
	for (const struct raw_stream *at = stream; at && !is_hurt; at = at->source) {
		is_hurt = at->is_hurt;
	}
	return is_hurt;
}

enum raw_result raw_find_stream(
	struct raw_store *store, const char *name, bool is_shown, struct raw_stream **ret)
{
	if (store->is_failing) {
		return store->is_damaged ? RAW_DAMAGED : RAW_FAILED;
	}
	struct raw_stream *stream = raw_state_get(store->state, name);
	if (stream && !stream->is_deleted && is_over(store, stream)) {
		raw_remove(store, stream);
		stream = raw_state_get(store->state, name);
	}
	*ret = stream;
	if (!stream || (is_shown && !stream->is_shown)) {
		bool may_be_lost = !stream && store->state->is_incomplete;
		return may_be_lost ? RAW_DAMAGED : RAW_NOT_FOUND;
	}
	return stream->is_deleted ? RAW_GONE : is_damaged(stream) ? RAW_DAMAGED : RAW_DONE;
}

void raw_touch(struct raw_store *store, struct raw_stream *stream)
{
	stream->used_ms = raw_now(store);
	stream->may_be_newer = false;
	if (stream->has_ttl &&
		stream->used_ms - stream->noted_ms >= stream->ttl_s * 1000 / RAW_TOUCH_PART) {
		raw_put_touch(&store->journal.gather, stream->id, stream->used_ms);
		stream->noted_ms = stream->used_ms;
	}
}

enum raw_result raw_look(
	struct raw_store *store, const char *name, bool touches, struct raw_view *ret)
{
	struct raw_stream *stream;
	enum raw_result result = raw_find_stream(store, name, true, &stream);
	if (result != RAW_DONE) {
		return result;
	}
	if (touches) {
		raw_touch(store, stream);
	}
	*ret = (struct raw_view){.type = stream->type,
		.is_json = stream->is_json,
		.is_closed = stream->shown_closed,
		.id = stream->id,
		.tail = stream->shown_length,
		.has_ttl = stream->has_ttl,
		.ttl_s = stream->ttl_s,
		.expires = stream->expires};
	return RAW_DONE;
}

void raw_watch_begin(struct raw_store *store, const char *name, struct raw_watch *watch)
{
	struct raw_stream *stream = raw_state_get(store->state, name);
	list_append(&stream->watches, &watch->link);
}

void raw_watch_end(struct raw_watch *watch)
{
	if (watch->link.next) {
		list_remove(&watch->link);
	}
}

/* --- answers and limits --- */

static void say(const struct raw_store *store, struct raw_answer *ret, enum raw_result result,
	const struct raw_stream *stream)
{
	ret->result = result;
	ret->lsn = raw_journal_is_empty(&store->journal) ? store->lsn - 1 : store->lsn;
	if (stream) {
		ret->lsn = stream->lsn;
		ret->tail = stream->length;
		ret->is_closed = stream->is_closed;
	}
}

static enum limit full(const struct raw_store *store, uint64_t size, size_t more)
{
	const struct limits *limits = store->config.limits;
	if (store->config.has_room && !store->config.has_room(store->config.arg)) {
		return LIMIT_max_disk;
	}
	if (raw_backlog(store) > limits->journal_backlog) {
		return LIMIT_journal_backlog;
	}
	return size + more > limits->stream_size ? LIMIT_stream_size : LIMIT_NONE;
}

static void refuse_limit_of(struct raw_answer *ret, const struct raw_store *store, enum limit limit)
{
	say(store, ret, RAW_LIMIT, NULL);
	ret->limit = limit;
}

/* --- creation --- */

/** Compares two content types without their parameters, ignoring case. */
static bool is_same_type(const char *a, const char *b)
{
	size_t len = strcspn(a, "; \t");
	return len == strcspn(b, "; \t") && strncasecmp(a, b, len) == 0;
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/** Returns whether `create` describes the existing stream: then it is a repeated PUT. */
static bool is_same(const struct raw_store *store, const struct raw_stream *stream,
	const struct raw_create *create)
{
	const struct raw_stream *source =
		create->source ? raw_state_get(store->state, create->source) : NULL;
	if ((create->source != NULL) != (stream->source_id != 0) ||
		(create->source && source != stream->source)) {
		return false;
	}
	bool inherits = create->source && !create->has_ttl && !create->expires;
	return (!create->type || is_same_type(create->type, stream->type)) &&
	       create->closes == stream->is_closed &&
	       (inherits || (create->has_ttl == stream->has_ttl &&
				    (!create->has_ttl || create->ttl_s == stream->ttl_s) &&
				    is_same_text(create->expires, stream->expires))) &&
	       (!create->source ||
		       ((!create->has_offset || create->offset == stream->fork_offset) &&
			       create->sub_offset == stream->fork_sub));
}

/** Finds the stream to fork (NULL if `create` is not a fork) and the position of the fork. */
static enum raw_result find_source(struct raw_store *store, const struct raw_create *create,
	struct raw_stream **ret, uint64_t *ret_at)
{
	*ret = NULL;
	*ret_at = 0;
	if (!create->source) {
		return RAW_DONE;
	}
	enum raw_result result = raw_find_stream(store, create->source, true, ret);
	if (result != RAW_DONE) {
		return result == RAW_NOT_FOUND ? RAW_NO_SOURCE
		       : result == RAW_GONE    ? RAW_TAKEN
					       : result;
	}
	if (create->type && !is_same_type(create->type, (*ret)->type)) {
		return RAW_OTHER_TYPE;
	}
	*ret_at = create->has_offset || create->sub_offset ? create->fork_at : (*ret)->length;
	if (*ret_at > (*ret)->length) {
		return RAW_BAD_OFFSET;
	}
	return RAW_DONE;
}

static struct raw_stream *make(struct raw_store *store, const struct raw_create *create,
	struct raw_stream *source, uint64_t at)
{
	struct raw_stream *stream =
		raw_stream_new(store->state->next_id, create->name, strlen(create->name));
	bool inherits = source && !create->has_ttl && !create->expires;
	const char *expires = inherits ? source->expires : create->expires;
	stream->type = xstrdup(create->type ? create->type : source->type);
	stream->is_json = source ? source->is_json : create->is_json;
	stream->has_ttl = inherits ? source->has_ttl : create->has_ttl;
	stream->ttl_s = inherits ? source->ttl_s : create->ttl_s;
	stream->expires = expires ? xstrdup(expires) : NULL;
	stream->expires_ms = inherits ? source->expires_ms : create->expires_ms;
	stream->used_ms = raw_now(store);
	stream->source = source;
	stream->source_id = source ? source->id : 0;
	stream->fork_offset = create->has_offset ? create->offset : at - create->sub_offset;
	stream->fork_sub = create->sub_offset;
	stream->start = stream->length = at;
	return stream;
}

static void put_append(
	struct raw_store *store, struct raw_stream *stream, const struct raw_append *append)
{
	struct raw_record record = {.kind = RAW_APPEND,
		.id = stream->id,
		.now_ms = raw_now(store),
		.flags = (append->closes ? RAW_FLAG_CLOSES : 0) |
			 (append->producer ? RAW_FLAG_PRODUCER : 0) |
			 (append->seq ? RAW_FLAG_SEQ : 0),
		.producer = append->producer,
		.producer_len = append->producer ? strlen(append->producer) : 0,
		.epoch = append->producer_epoch,
		.producer_seq = append->producer_seq,
		.seq = append->seq,
		.seq_len = append->seq ? strlen(append->seq) : 0,
		.bytes = append->bytes,
		.len = append->len};
	raw_put_append(&store->journal.gather, &record);
	if (record.len) {
		raw_journal_piece(&store->journal, stream->id, record.len);
	}
	raw_state_append(stream, &record);
	raw_changed(store, stream);
}

void raw_create(struct raw_store *store, const struct raw_create *create, struct raw_answer *ret)
{
	struct raw_stream *stream;
	struct raw_stream *source;
	uint64_t at;
	*ret = (struct raw_answer){0};
	enum raw_result result = raw_find_stream(store, create->name, false, &stream);
	if (result != RAW_NOT_FOUND) {
		bool is_so = result == RAW_DONE && is_same(store, stream, create);
		bool is_refused = result == RAW_FAILED || result == RAW_DAMAGED;
		say(store, ret,
			is_so        ? RAW_SAME
			: is_refused ? result
				     : RAW_TAKEN,
			is_refused ? NULL : stream);
		return;
	}
	result = find_source(store, create, &source, &at);
	if (result != RAW_DONE) {
		say(store, ret, result, NULL);
		return;
	}
	enum limit limit = full(store, at, create->len);
	if (limit == LIMIT_NONE && (store->state->count >= store->config.limits->streams ||
					   (source && source->depth >= RAW_DEPTH_MAX))) {
		limit = LIMIT_streams;
	}
	if (limit != LIMIT_NONE) {
		refuse_limit_of(ret, store, limit);
		return;
	}
	stream = make(store, create, source, at);
	raw_state_add(store->state, stream);
	raw_put_stream(&store->journal.gather, stream);
	raw_changed(store, stream);
	if (create->len || create->closes) {
		put_append(store, stream,
			&(struct raw_append){.closes = create->closes,
				.bytes = create->bytes,
				.len = create->len});
	}
	say(store, ret, RAW_DONE, stream);
}

/* --- appends --- */

static struct raw_producer *find_producer(
	const struct raw_stream *stream, const struct raw_append *append)
{
	return stream->producers
		       ? hash_get(stream->producers, append->producer, strlen(append->producer))
		       : NULL;
}

struct silent {
	int64_t before_ms;
};

static bool is_heard(void *value, void *arg)
{
	struct raw_producer *producer = value;
	const struct silent *silent = arg;
	if (producer->used_ms >= silent->before_ms) {
		return true;
	}
	free(producer->id);
	free(producer);
	return false;
}

/** Returns whether the stream has room for another producer; drops silent ones if it is full. */
static bool has_place(struct raw_store *store, struct raw_stream *stream)
{
	size_t most = store->config.limits->stream_producers;
	struct silent silent = {.before_ms = raw_now(store) - PRODUCER_MS};
	if (stream->producers && hash_count(stream->producers) >= most) {
		hash_filter(stream->producers, is_heard, &silent);
	}
	return !stream->producers || hash_count(stream->producers) < most;
}

static enum raw_result check_producer(
	const struct raw_stream *stream, const struct raw_append *append, struct raw_answer *ret)
{
	const struct raw_producer *producer = find_producer(stream, append);
	ret->epoch = append->producer_epoch;
	if (!producer || append->producer_epoch > producer->epoch) {
		ret->seq = 0;
		return !append->producer_seq ? RAW_DONE : producer ? RAW_EPOCH_START : RAW_GAP;
	}
	if (append->producer_epoch < producer->epoch) {
		ret->epoch = producer->epoch;
		return RAW_STALE;
	}
	if (append->producer_seq <= producer->seq) {
		ret->seq = producer->seq;
		return RAW_SAME;
	}
	ret->seq = producer->seq + 1;
	return append->producer_seq == ret->seq ? RAW_DONE : RAW_GAP;
}

static bool closed_it(const struct raw_stream *stream, const struct raw_append *append)
{
	return append->producer && stream->closed_by &&
	       strcmp(stream->closed_by, append->producer) == 0 &&
	       stream->closed_epoch == append->producer_epoch &&
	       stream->closed_seq == append->producer_seq;
}

static enum raw_result check_append(
	const struct raw_stream *stream, const struct raw_append *append, struct raw_answer *ret)
{
	if (stream->is_closed) {
		ret->epoch = append->producer_epoch;
		ret->seq = append->producer_seq;
		bool is_again = closed_it(stream, append) ||
				(!append->type && append->closes && !append->producer);
		return is_again ? RAW_SAME : RAW_CLOSED;
	}
	if (append->type && !is_same_type(append->type, stream->type)) {
		return RAW_OTHER_TYPE;
	}
	enum raw_result result = append->producer ? check_producer(stream, append, ret) : RAW_DONE;
	if (result == RAW_DONE && append->seq && stream->seq &&
		strcmp(append->seq, stream->seq) <= 0) {
		return RAW_OLD_SEQ;
	}
	return result;
}

void raw_check_append(
	struct raw_store *store, const struct raw_append *append, struct raw_answer *ret)
{
	struct raw_stream *stream;
	*ret = (struct raw_answer){0};
	enum raw_result result = raw_find_stream(store, append->name, false, &stream);
	if (result != RAW_DONE) {
		say(store, ret, result, NULL);
		return;
	}
	say(store, ret, check_append(stream, append, ret), stream);
}

void raw_append(struct raw_store *store, const struct raw_append *append, struct raw_answer *ret)
{
	raw_check_append(store, append, ret);
	if (ret->result != RAW_DONE) {
		return;
	}
	struct raw_stream *stream = raw_state_get(store->state, append->name);
	enum limit limit = full(store, stream->length, append->len);
	if (limit == LIMIT_NONE && append->producer && !find_producer(stream, append) &&
		!has_place(store, stream)) {
		limit = LIMIT_stream_producers;
	}
	if (limit != LIMIT_NONE) {
		refuse_limit_of(ret, store, limit);
		return;
	}
	put_append(store, stream, append);
	ret->seq = append->producer_seq;
	say(store, ret, RAW_DONE, stream);
}

void raw_delete(struct raw_store *store, const char *name, struct raw_answer *ret)
{
	struct raw_stream *stream;
	*ret = (struct raw_answer){0};
	enum raw_result result = raw_find_stream(store, name, false, &stream);
	if (result == RAW_DAMAGED && !store->is_failing && stream) {
		result = RAW_DONE; /* a damaged stream can be deleted */
	}
	if (result == RAW_DONE) {
		raw_remove(store, stream);
	}
	say(store, ret, result, NULL);
}

/* --- waits --- */

bool raw_wait(struct raw_store *store, struct raw_wait *wait)
{
	if (wait->lsn <= store->durable_lsn) {
		wait->lsn = 0;
		return false;
	}
	list_append(&store->waits, &wait->link);
	return true;
}

void raw_wait_cancel(struct raw_wait *wait)
{
	if (wait->lsn && wait->link.next) {
		list_remove(&wait->link);
		wait->lsn = 0;
	}
}

/* --- lifecycle --- */

size_t raw_count_damaged(const struct raw_store *store)
{
	size_t count = 0;
	if (store->is_failing) {
		return store->damaged;
	}
	list_for_each(link, &store->state->streams) {
		const struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		count += !stream->is_deleted && is_damaged(stream);
	}
	return count || !store->state->is_incomplete ? count : 1;
}

size_t raw_count(const struct raw_store *store)
{
	return store->state->count;
}

size_t raw_backlog(const struct raw_store *store)
{
	const struct raw_journal *journal = &store->journal;
	return journal->gather.len - RAW_BATCH_HEADER_SIZE +
	       (journal->is_at_work && !journal->reopens ? journal->flight.len : 0);
}

static void handle_sweep(uv_timer_t *timer)
{
	struct raw_store *store = timer->data;
	if (store->is_failing) {
		return;
	}
	/* A removal can also remove sources; being older, they precede the stream in the list. */
	list_for_each_safe(link, tmp, &store->state->streams) {
		struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		if (!stream->is_deleted && is_over(store, stream)) {
			raw_remove(store, stream);
		}
	}
}

struct raw_store *raw_open(const struct raw_config *config)
{
	struct raw_store *store = xcalloc(1, sizeof(*store));
	store->config = *config;
	store->state = raw_state_create();
	store->lsn = 1;
	list_init(&store->waits);
	list_init(&store->changed);
	list_init(&store->in_flight);
	list_init(&store->removed);
	list_init(&store->removed_flight);
	store->journal.fd = -1;
	store->journal.dirs = (struct raw_dirs){-1, -1, -1};
	store->journal.is_relaxed = config->is_relaxed;
	store->journal.most = config->limits->segment_size;
	if (store->journal.most > SEGMENT_SIZE) {
		store->journal.most = SEGMENT_SIZE;
	}
	if (config->limits->max_disk &&
		config->limits->max_disk / DISK_PART < store->journal.most) {
		store->journal.most = config->limits->max_disk / DISK_PART;
	}
	raw_journal_clear(&store->journal);
	store->journal.worker =
		worker_create(config->loop, raw_journal_run, raw_handle_done, store);
	store->retry = loop_timer(config->loop, store);
	store->sweep = loop_timer(config->loop, store);
	uv_timer_start(store->sweep, handle_sweep, SWEEP_MS, SWEEP_MS);
	store->is_failing = true;
	store->journal.reopens = true;
	raw_journal_run(store);
	store->journal.reopens = false;
	if (raw_take_found(store) < 0) {
		raw_handle_retry(store->retry);
	}
	return store;
}

static bool has_work(void *arg)
{
	const struct raw_store *store = arg;
	return store->journal.is_at_work || store->journal.checkpoint || store->reads;
}

static bool is_idle(void *arg)
{
	return !has_work(arg);
}

void raw_close(struct raw_store *store)
{
	if (!store) {
		return;
	}
	raw_launch(store);
	loop_run_until(store->config.loop, is_idle, store, store->config.limits->stop_wait_ms);
	raw_launch(store);
	loop_run_until(store->config.loop, is_idle, store, store->config.limits->stop_wait_ms);
	if (has_work(store)) {
		return; /* the disk hangs: running work still uses this memory */
	}
	loop_close(store->retry);
	loop_close(store->sweep);
	worker_destroy(store->journal.worker);
	raw_journal_finish(&store->journal);
	raw_state_destroy(store->state);
	free(store);
}

void raw_end_tick(struct raw_store *store)
{
	raw_launch(store);
}
