/* A migration: copies each session from one side to the other, reads it back, and compares. */
#include "holdfast/store_migrate.h"

#include "disk_io.h"
#include "core/store/embedded/migrate_files.h"

#include "holdfast/store_kind.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define SUM_SIZE 32

struct store_migrate {
	struct store_migrate_config config;
	struct moving_side from;
	struct moving_side to;
	struct store_migrate_counts counts;
};

/* --- checksums of sessions --- */

struct summing {
	struct store_migrate *migrate;
	EVP_MD_CTX *digest;
	const struct moving_sink *next; /* gets the same data; or NULL */
	bool is_counted; /* report progress */
	uint64_t events;
	uint64_t blobs;
	uint64_t names; /* bytes */
};

/** Adds an item with its kind and length in front, so that different items are different bytes. */
static void add(struct summing *sum, char kind, const void *bytes, size_t len)
{
	const uint64_t size = len;
	EVP_DigestUpdate(sum->digest, &kind, 1);
	EVP_DigestUpdate(sum->digest, &size, sizeof(size));
	EVP_DigestUpdate(sum->digest, bytes, len);
}

static int sum_metadata(void *arg, const char *id, const struct metadata *meta)
{
	struct summing *sum = arg;
	struct buffer text = {0};
	metadata_append(id, meta, &text);
	add(sum, 'm', text.data, text.len);
	buffer_finish(&text);
	return sum->next ? sum->next->metadata(sum->next->arg, id, meta) : 0;
}

/** The sum does not depend on how the names are split. */
static int sum_names(void *arg, uint64_t at, const char *lines, size_t len)
{
	struct summing *sum = arg;
	if (at != sum->names) {
		return -EBADMSG;
	}
	sum->names += len;
	EVP_DigestUpdate(sum->digest, lines, len);
	return sum->next ? sum->next->names(sum->next->arg, at, lines, len) : 0;
}

static int sum_event(void *arg, const struct event_view *view, const char *line, size_t len)
{
	struct summing *sum = arg;
	const struct store_migrate_config *config = &sum->migrate->config;
	add(sum, 'e', &view->seq, sizeof(view->seq));
	add(sum, 'l', line, len);
	sum->events++;
	if (sum->is_counted) {
		config->progress(config->owner, len + 1);
	}
	return sum->next ? sum->next->event(sum->next->arg, view, line, len) : 0;
}

static int sum_blob(void *arg, const char *name, const void *bytes, size_t len)
{
	struct summing *sum = arg;
	add(sum, 'b', name, strlen(name));
	add(sum, 'c', bytes, len);
	sum->blobs++;
	return sum->next ? sum->next->blob(sum->next->arg, name, bytes, len) : 0;
}

static int sum_record(void *arg, const struct record *record)
{
	struct summing *sum = arg;
	const uint64_t numbers[] = {(uint64_t)record->kind, (uint64_t)record->ts, record->epoch};
	add(sum, 'r', numbers, sizeof(numbers));
	add(sum, 'd', record->data, record->data_len);
	return sum->next ? sum->next->record(sum->next->arg, record) : 0;
}

static struct moving_sink begin_sum(struct summing *sum, struct store_migrate *migrate)
{
	*sum = (struct summing){.migrate = migrate, .digest = EVP_MD_CTX_new()};
	EVP_DigestInit_ex(sum->digest, EVP_sha256(), NULL);
	return (struct moving_sink){.metadata = sum_metadata,
		.names = sum_names,
		.event = sum_event,
		.blob = sum_blob,
		.record = sum_record,
		.arg = sum};
}

static void end_sum(struct summing *sum, unsigned char ret[SUM_SIZE])
{
	unsigned len = 0;
	EVP_DigestFinal_ex(sum->digest, ret, &len);
	EVP_MD_CTX_free(sum->digest);
}

/**
 * Reads a session and returns its checksum; `next` (or NULL) gets the same data. Includes the
 * records, unless the new side writes those of all sessions in the end.
 */
static int read_sum(struct store_migrate *migrate, const struct moving_side *side, const char *id,
	const struct moving_sink *next, struct summing *sum, unsigned char ret[SUM_SIZE])
{
	const struct moving_sink sink = begin_sum(sum, migrate);
	sum->next = next;
	sum->is_counted = side == &migrate->from;
	int r = side->read(side->side, id, &sink);
	if (r == 0 && !migrate->to.begin_records) {
		r = side->read_records(side->side, id, &sink);
	}
	end_sum(sum, ret);
	return r;
}

static int read_records_sum(struct store_migrate *migrate, const struct moving_side *side,
	const char *id, const struct moving_sink *next, unsigned char ret[SUM_SIZE])
{
	struct summing sum;
	const struct moving_sink sink = begin_sum(&sum, migrate);
	sum.next = next;
	int r = side->read_records(side->side, id, &sink);
	end_sum(&sum, ret);
	return r;
}

/* --- sessions --- */

static int fail(char **ret_why, int error, const char *id, const char *what)
{
	*ret_why = xprintf("session %s: %s", id, what);
	return error;
}

static int copy(struct store_migrate *migrate, const char *id, struct summing *sum,
	unsigned char ret[SUM_SIZE], char **ret_why)
{
	struct moving_side *to = &migrate->to;
	int r = to->begin(to->side, id);
	if (r < 0) {
		return fail(ret_why, r, id, "it cannot be written");
	}
	r = read_sum(migrate, &migrate->from, id, &to->sink, sum, ret);
	if (r == -EAGAIN) {
		return fail(ret_why, r, id,
			"a server has left work undone that its next start has to do");
	}
	if (r < 0) {
		return fail(ret_why, r, id,
			"it cannot be read or written; holdfast verify may tell more");
	}
	r = to->end(to->side, id);
	return r < 0 ? fail(ret_why, r, id, "it cannot be written") : 0;
}

static int compare_ids(const void *key, const void *at)
{
	return strcmp(key, *(char *const *)at);
}

/** Whether `id` is one of `ids`, which are sorted. */
static bool is_there(char **ids, size_t count, const char *id)
{
	return count && bsearch(id, ids, count, sizeof(*ids), compare_ids);
}

/** Copies a session, unless the new side already has the same. */
static int move(struct store_migrate *migrate, const char *id, bool was_there, char **ret_why)
{
	const struct store_migrate_config *config = &migrate->config;
	unsigned char old[SUM_SIZE];
	unsigned char new[SUM_SIZE];
	struct summing sum;
	bool is_same = false;
	if (was_there) {
		is_same = read_sum(migrate, &migrate->to, id, NULL, &sum, new) == 0 &&
			  read_sum(migrate, &migrate->from, id, NULL, &sum, old) == 0 &&
			  memcmp(old, new, SUM_SIZE) == 0;
	}
	if (!is_same) {
		struct summing back;
		int r = copy(migrate, id, &sum, old, ret_why);
		if (r < 0) {
			return r;
		}
		r = read_sum(migrate, &migrate->to, id, NULL, &back, new);
		if (r < 0 || memcmp(old, new, SUM_SIZE) != 0) {
			return fail(ret_why, -EBADMSG, id,
				r < 0 ? "it cannot be read back"
				      : "the data read back differs from what was written");
		}
	}
	migrate->counts.sessions++;
	migrate->counts.kept += is_same;
	migrate->counts.events += sum.events;
	migrate->counts.blobs += sum.blobs;
	config->moved(config->owner, id, sum.events, !is_same);
	return 0;
}

static int move_records(struct store_migrate *migrate, char **ids, size_t count, char **ret_why)
{
	struct moving_side *to = &migrate->to;
	unsigned char(*sums)[SUM_SIZE] = xcalloc(count + 1, sizeof(*sums));
	int r = to->begin_records(to->side);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = read_records_sum(migrate, &migrate->from, ids[i], &to->sink, sums[i]);
	}
	int ended = to->end_records(to->side);
	r = r < 0 ? r : ended;
	for (size_t i = 0; r == 0 && i < count; i++) {
		unsigned char back[SUM_SIZE];
		r = read_records_sum(migrate, to, ids[i], NULL, back);
		r = r == 0 && memcmp(back, sums[i], SUM_SIZE) != 0 ? -EBADMSG : r;
	}
	free(sums);
	if (r < 0) {
		*ret_why = xprintf("the open state of sessions cannot be moved: %s", strerror(-r));
	}
	return r;
}

/** Removes sessions that an earlier try has moved and that were deleted since. */
static int remove_others(struct store_migrate *migrate, char **ids, size_t count, char **there,
	size_t there_count, char **ret_why)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < there_count; i++) {
		if (!is_there(ids, count, there[i])) {
			r = migrate->to.remove(migrate->to.side, there[i]);
		}
		if (r < 0) {
			return fail(ret_why, r, there[i],
				"it was deleted since an earlier try, and cannot be removed");
		}
	}
	return r;
}

int store_migrate_run(
	struct store_migrate *migrate, struct store_migrate_counts *ret, char **ret_why)
{
	char **ids = NULL;
	char **there = NULL;
	size_t count = 0;
	size_t there_count = 0;
	*ret_why = NULL;
	int r = migrate->from.list(migrate->from.side, &ids, &count);
	r = r < 0 ? r : migrate->to.list(migrate->to.side, &there, &there_count);
	r = r < 0 ? r : remove_others(migrate, ids, count, there, there_count, ret_why);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = move(migrate, ids[i], is_there(there, there_count, ids[i]), ret_why);
	}
	if (r == 0 && migrate->to.begin_records) {
		r = move_records(migrate, ids, count, ret_why);
	}
	if (r < 0 && !*ret_why) {
		*ret_why = xprintf("the sessions cannot be listed: %s", strerror(-r));
	}
	disk_list_free(ids, count);
	disk_list_free(there, there_count);
	*ret = migrate->counts;
	return r;
}

/* --- opening and ending --- */

void moving_settle_metadata(struct metadata *meta)
{
	buffer_clear(&meta->facts_text);
	meta->facts_ops->write(meta->facts, &meta->facts_text);
	meta->base_seq = meta->first_seq;
	meta->log_size -= meta->first_at;
	meta->first_at = 0;
}

int store_migrate_open(
	const struct store_migrate_config *config, struct store_migrate **ret, char **ret_why)
{
	const struct store_kind *kind;
	struct store_migrate *migrate = xcalloc(1, sizeof(*migrate));
	migrate->config = *config;
	*ret = migrate;
	*ret_why = NULL;
	int r = store_kind_find(config->address, &kind, ret_why);
	if (r < 0) {
		return r;
	}
	r = config->to_database
		    ? moving_files_open(config->dir, config->facts, &migrate->from, ret_why)
		    : kind->open_side(
			      config->address, NULL, config->facts, &migrate->from, ret_why);
	if (r < 0) {
		return r;
	}
	return config->to_database
		       ? kind->open_side(
				 config->address, config->dir, config->facts, &migrate->to, ret_why)
		       : moving_made_open(config->dir, config->facts, &migrate->to, ret_why);
}

uint64_t store_migrate_size(struct store_migrate *migrate)
{
	return migrate->from.size(migrate->from.side);
}

int store_migrate_end(struct store_migrate *migrate, char **ret_why)
{
	int r = migrate->to.complete(migrate->to.side);
	*ret_why = r < 0 ? xprintf("it cannot be completed: %s", strerror(-r)) : NULL;
	return r;
}

static void close_side(const struct moving_side *side)
{
	if (side->side) {
		side->close(side->side);
	}
}

void store_migrate_close(struct store_migrate *migrate)
{
	if (migrate) {
		close_side(&migrate->from);
		close_side(&migrate->to);
		free(migrate);
	}
}

const char *store_migrate_dir(const struct store_migrate *migrate)
{
	return migrate->config.to_database ? migrate->config.dir : migrate->to.dir;
}

const struct moving_side *store_migrate_database(const struct store_migrate *migrate)
{
	return migrate->config.to_database ? &migrate->to : &migrate->from;
}
