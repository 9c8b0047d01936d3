#include "journal_view.h"

#include "embedded.h"

#include "holdfast/pack.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** What the journal says of an id: several sessions can have had it, one after the other. */
struct journal_id {
	struct journal_life *newest; /* that of the last creation or deletion; or NULL */
	bool had_deletion;
};

void journal_view_begin(struct journal_view *view, int dir_fd)
{
	*view = (struct journal_view){.dir_fd = dir_fd,
		.lives = hash_create(),
		.ids = hash_create(),
		.damaged = hash_create()};
}

static void free_life(void *value, void *arg)
{
	struct journal_life *life = value;
	buffer_finish(&life->data);
	free(life);
}

void journal_view_finish(struct journal_view *view)
{
	if (view->lives) {
		hash_each(view->lives, free_life, NULL);
	}
	hash_destroy(view->lives);
	hash_destroy_all(view->ids);
	hash_destroy(view->damaged);
	buffer_finish(&view->key);
	free(view->numbers);
	free(view->chain);
	*view = (struct journal_view){0};
}

/* --- segments --- */

int journal_view_list(struct journal_view *view)
{
	free(view->numbers);
	return journal_list(view->dir_fd, &view->numbers, &view->number_count);
}

/** Opens a segment for its header. Only a damaged one needs the rest of the file. */
static int open_header(int dir_fd, uint64_t number, struct journal_reader *reader)
{
	char name[32];
	journal_segment_name(number, name);
	int r = journal_reader_open_header(reader, dir_fd, name);
	if (r == -EBADMSG) {
		journal_reader_close(reader);
		r = journal_reader_open(reader, dir_fd, name);
	}
	return r;
}

static enum journal_damage damage_of_header(
	const struct journal_segment *segment, const struct journal_reader *reader)
{
	return !segment->is_newest                ? JOURNAL_LACKS_HEADER
	       : journal_reader_has_batch(reader) ? JOURNAL_NEWEST_HEADLESS
						  : JOURNAL_UNBEGUN;
}

/**
 * Reads the header of a segment, which names the one before it; if it does not, *ret_before stays.
 * Returns 1 if the segment belongs to the chain, 0 if another one is the newest.
 */
static int read_header(int dir_fd, struct journal_segment *segment,
	const struct journal_visitor *visitor, struct journal_segment *ret_before)
{
	struct journal_reader reader;
	struct journal_place place = {.segment = segment, .reader = &reader};
	int r = open_header(dir_fd, segment->number, &reader);
	bool belongs = r != -EBADMSG || !segment->is_newest;
	if (r == 0 && reader.before_segment != JOURNAL_BEFORE_UNKNOWN) {
		*ret_before =
			(struct journal_segment){reader.before_segment, reader.before_len, false};
	} else if (r == 0) {
		r = visitor->damage(visitor->arg, JOURNAL_HEADER_DAMAGED, &place);
	} else {
		place.error = r;
		segment->end = 0;
		r = visitor->damage(visitor->arg,
			r == -EBADMSG ? damage_of_header(segment, &reader) : JOURNAL_UNREADABLE,
			&place);
	}
	journal_reader_close(&reader);
	return r < 0 ? r : belongs;
}

static void reverse(struct journal_segment *chain, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct journal_segment other = chain[i];
		chain[i] = chain[count - 1 - i];
		chain[count - 1 - i] = other;
	}
}

int journal_view_find(struct journal_view *view, const struct journal_visitor *visitor)
{
	struct journal_segment wanted = {.end = SIZE_MAX, .is_newest = true};
	int r = 0;
	view->chain = xrealloc(view->chain, (view->number_count + 1) * sizeof(*view->chain));
	view->chain_count = 0;
	for (size_t i = view->number_count; r >= 0 && i-- > 0;) {
		uint64_t number = view->numbers[i];
		struct journal_segment before = {i ? view->numbers[i - 1] : 0, SIZE_MAX, false};
		if (!wanted.is_newest && number != wanted.number) {
			continue;
		}
		wanted.number = number;
		r = read_header(view->dir_fd, &wanted, visitor, &before);
		if (r > 0) {
			view->chain[view->chain_count++] = wanted;
			wanted = before;
		} else {
			wanted.end = SIZE_MAX;
		}
	}
	view->missing = wanted.is_newest ? 0 : wanted.number;
	reverse(view->chain, view->chain_count);
	return r < 0 ? r : 0;
}

bool journal_view_counts(const struct journal_view *view, uint64_t number)
{
	for (size_t i = 0; i < view->chain_count; i++) {
		if (view->chain[i].number == number) {
			return true;
		}
	}
	return false;
}

bool journal_view_is_useless(const struct journal_view *view, uint64_t number)
{
	/* Those below the missing one were about to be deleted, oldest first. */
	return !journal_view_counts(view, number) && number > view->missing;
}

static int walk_records(struct journal_place *place, const struct journal_visitor *visitor)
{
	struct journal_reader *reader = place->reader;
	size_t damaged_batch = 0;
	int r = 0;
	while (r == 0) {
		struct record record;
		size_t at = reader->left ? reader->at : reader->valid + BATCH_HEADER_SIZE;
		enum journal_found found = journal_reader_next(reader, &record, &place->session);
		if (reader->damaged_batch != damaged_batch) {
			damaged_batch = place->at = reader->damaged_batch;
			r = visitor->damage(visitor->arg, JOURNAL_BATCH_DAMAGED, place);
		}
		place->at = at;
		if (r == 0 && found == JOURNAL_RECORD) {
			r = visitor->record(visitor->arg, &record, place);
		} else if (r == 0 && found == JOURNAL_DAMAGED) {
			r = visitor->damage(visitor->arg, JOURNAL_RECORD_DAMAGED, place);
		} else if (r == 0) {
			return found == JOURNAL_LOST;
		}
	}
	return r;
}

int journal_segment_walk(int dir_fd, const struct journal_segment *segment,
	const struct journal_visitor *visitor, struct journal_extent *ret)
{
	char name[32];
	struct journal_reader reader;
	struct journal_place place = {.segment = segment, .reader = &reader};
	*ret = (struct journal_extent){0};
	if (!segment->end) {
		return 0; /* it was damage when its header was read */
	}
	journal_segment_name(segment->number, name);
	int r = place.error = journal_reader_open(&reader, dir_fd, name);
	if (r < 0) {
		r = visitor->damage(visitor->arg, JOURNAL_UNREADABLE, &place);
		journal_reader_close(&reader);
		return r;
	}
	bool is_cut = segment->end != SIZE_MAX && segment->end > reader.end;
	reader.may_be_torn = segment->is_newest;
	reader.is_end_told = segment->end != SIZE_MAX;
	reader.end = segment->end < reader.end ? segment->end : reader.end;
	if (visitor->opened) {
		visitor->opened(visitor->arg, &place);
	}
	r = walk_records(&place, visitor);
	*ret = (struct journal_extent){reader.valid, reader.last_batch};
	place.at = reader.valid;
	if (r > 0) {
		r = visitor->damage(visitor->arg, JOURNAL_REST_DAMAGED, &place);
	} else if (r == 0 && reader.valid < reader.end) {
		r = visitor->damage(visitor->arg, JOURNAL_TORN, &place);
	} else if (r == 0 && is_cut) {
		r = visitor->damage(visitor->arg, JOURNAL_CUT, &place);
	}
	journal_reader_close(&reader);
	return r;
}

int journal_view_walk(struct journal_view *view, const struct journal_visitor *visitor)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < view->chain_count; i++) {
		r = journal_segment_walk(view->dir_fd, &view->chain[i], visitor, &view->newest);
	}
	return r;
}

/* --- sessions --- */

/**
 * Makes the key of one session among those that had the same id. Valid until the next call: each
 * record of the journal needs one.
 */
static const struct buffer *life_key(
	struct journal_view *view, uint64_t epoch, const char *id, size_t id_len)
{
	buffer_clear(&view->key);
	pack_le(&view->key, epoch, 8);
	buffer_append(&view->key, id, id_len);
	return &view->key;
}

struct journal_life *journal_view_life(
	struct journal_view *view, const char *id, size_t id_len, uint64_t epoch)
{
	const struct buffer *key = life_key(view, epoch, id, id_len);
	return hash_get(view->lives, key->data, key->len);
}

static struct journal_life *add_life(struct journal_view *view, const struct record *record)
{
	const struct buffer *key = life_key(view, record->epoch, record->id, record->id_len);
	struct journal_life *life = xcalloc(1, sizeof(*life) + record->id_len + 1);
	life->epoch = record->epoch;
	memcpy(life->id, record->id, record->id_len);
	hash_put(view->lives, key->data, key->len, life);
	if (!hash_get(view->ids, record->id, record->id_len)) {
		struct journal_id *id = xcalloc(1, sizeof(*id));
		hash_put(view->ids, record->id, record->id_len, id);
	}
	return life;
}

/** Notes a creation or a deletion. */
static void note_end(
	struct journal_view *view, struct journal_life *life, const struct record *record)
{
	struct journal_id *id = hash_get(view->ids, record->id, record->id_len);
	id->newest = life;
	if (record->kind == RECORD_DELETE) {
		id->had_deletion = life->is_deleted = true;
		return;
	}
	life->is_created = true;
	life->created_at = record->ts;
	buffer_clear(&life->data);
	buffer_append(&life->data, record->data, record->data_len);
}

struct journal_life *journal_view_note(
	struct journal_view *view, const struct record *record, const struct journal_place *place)
{
	struct journal_life *life =
		journal_view_life(view, record->id, record->id_len, record->epoch);
	if (!life && session_id_is_valid(record->id, record->id_len)) {
		life = add_life(view, record);
	}
	if (!life) {
		return NULL;
	}
	if (life->segment != place->segment->number) {
		life->segment = place->segment->number;
		life->first = place->at;
	}
	if (record->kind == RECORD_CREATE || record->kind == RECORD_DELETE) {
		note_end(view, life, record);
	}
	return life;
}

static const struct journal_id *get_id(const struct journal_view *view, const char *id)
{
	return hash_get(view->ids, id, strlen(id));
}

bool journal_view_has_id(const struct journal_view *view, const char *id)
{
	return get_id(view, id) != NULL;
}

struct journal_life *journal_view_newest(const struct journal_view *view, const char *id)
{
	const struct journal_id *found = get_id(view, id);
	return found ? found->newest : NULL;
}

enum journal_folder journal_view_folder(
	struct journal_view *view, const char *id, const uint64_t *epoch)
{
	const struct journal_id *found = get_id(view, id);
	if (!found || !found->newest) {
		return FOLDER_IS_UNKNOWN;
	}
	if (!epoch) { /* its log may be that of a deleted session */
		return found->had_deletion ? FOLDER_IS_DELETED : FOLDER_IS_CREATED;
	}
	const struct journal_life *life = journal_view_life(view, id, strlen(id), *epoch);
	if (life && life->is_deleted) {
		return FOLDER_IS_DELETED;
	}
	return life && life == found->newest ? FOLDER_IS_CREATED : FOLDER_IS_UNKNOWN;
}

struct each_newest {
	void (*visit)(struct journal_life *life, void *arg);
	void *arg;
};

static void visit_newest(void *value, void *arg)
{
	const struct journal_id *id = value;
	const struct each_newest *each = arg;
	if (id->newest) {
		each->visit(id->newest, each->arg);
	}
}

void journal_view_each_newest(const struct journal_view *view,
	void (*visit)(struct journal_life *life, void *arg), void *arg)
{
	struct each_newest each = {visit, arg};
	hash_each(view->ids, visit_newest, &each);
}

bool journal_record_counts(const struct record *record)
{
	return record_is_known(record) && record->kind != RECORD_CREATE &&
	       record->kind != RECORD_DELETE;
}

bool journal_record_is_of(const struct record *record, const char *id)
{
	return strlen(id) == record->id_len && memcmp(id, record->id, record->id_len) == 0;
}

/* --- damaged sessions --- */

void journal_view_note_damaged(struct journal_view *view, uint64_t session)
{
	if (!hash_get(view->damaged, (const char *)&session, sizeof(session))) {
		hash_put(view->damaged, (const char *)&session, sizeof(session), view->damaged);
	}
}

bool journal_view_is_damaged(struct journal_view *view, const char *id, uint64_t epoch)
{
	uint64_t session = journal_session_hash(id, strlen(id), epoch);
	bool is_damaged = hash_get(view->damaged, (const char *)&session, sizeof(session)) != NULL;
	if (is_damaged) { /* another value: it is known whose it is */
		hash_put(view->damaged, (const char *)&session, sizeof(session), view);
	}
	return is_damaged;
}

struct unknown {
	const struct hash *damaged;
	size_t count;
};

static void count_unknown(void *value, void *arg)
{
	struct unknown *unknown = arg;
	unknown->count += value == unknown->damaged;
}

size_t journal_view_count_unknown(const struct journal_view *view)
{
	struct unknown unknown = {.damaged = view->damaged};
	hash_each(view->damaged, count_unknown, &unknown);
	return unknown.count;
}

void journal_view_forget_damaged(struct journal_view *view)
{
	hash_destroy(view->damaged);
	view->damaged = hash_create();
}
