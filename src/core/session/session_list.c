#include "holdfast/session_list.h"

#include "session_internal.h"

#include "holdfast/requests.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of the list in which a session comes: see session_list.h. */
enum part { PART_NONE = -1, PART_FIRST, PART_AGAIN };

struct listed {
	struct session_object object;
	enum part part;
};

struct listing {
	enum session_order order;
	const struct session_cursor *cursor;
	const struct session_filter *filter; /* NULL: none */
	size_t limit;
	struct listed *items; /* room for twice the limit */
	size_t count;
	bool is_cut; /* the first `limit` items are sorted, and more sessions follow them */
};

/** Oldest first; for equal times, the smaller id first. */
static int compare_places(int64_t a_at, const char *a_id, int64_t b_at, const char *b_id)
{
	return a_at < b_at ? -1 : a_at > b_at ? 1 : strcmp(a_id, b_id);
}

/** Newest first; for equal times, the smaller id first. */
static int compare_newest(int64_t a_at, const char *a_id, int64_t b_at, const char *b_id)
{
	return a_at > b_at ? -1 : a_at < b_at ? 1 : strcmp(a_id, b_id);
}

static enum part part_of(enum session_order order, const struct session_cursor *cursor,
	const struct session_object *object)
{
	if (order == SESSIONS_BY_ID) {
		return strcmp(object->id, cursor->id) > 0 ? PART_FIRST : PART_NONE;
	}
	if (!*cursor->id) {
		return PART_FIRST;
	}
	if (!cursor->is_again && compare_newest(object->updated_at, object->id, cursor->updated_at,
					 cursor->id) > 0) {
		return PART_FIRST;
	}
	bool changed = object->updated_at > cursor->first_updated_at ||
		       (object->updated_at == cursor->first_updated_at &&
			       strcmp(object->id, cursor->first_id) != 0);
	bool is_ahead = !cursor->is_again || compare_places(object->updated_at, object->id,
						     cursor->updated_at, cursor->id) > 0;
	return changed && is_ahead ? PART_AGAIN : PART_NONE;
}

static int compare_listed(const void *a, const void *b, void *arg)
{
	const struct listed *x = a;
	const struct listed *y = b;
	const enum session_order *order = arg;
	if (x->part != y->part) {
		return x->part < y->part ? -1 : 1;
	}
	if (*order == SESSIONS_BY_ID) {
		return strcmp(x->object.id, y->object.id);
	}
	return (x->part == PART_FIRST ? compare_newest : compare_places)(
		x->object.updated_at, x->object.id, y->object.updated_at, y->object.id);
}

/** Sorts the items and keeps the first `limit` of them. */
static void cut(struct listing *listing)
{
	if (listing->count) {
		qsort_r(listing->items, listing->count, sizeof(*listing->items), compare_listed,
			&listing->order);
	}
	if (listing->count > listing->limit) {
		listing->count = listing->limit;
		listing->is_cut = true;
	}
}

static void collect(const struct session_object *object, void *arg)
{
	struct listing *listing = arg;
	const struct session_filter *filter = listing->filter;
	if (filter && !filter->sees(filter->arg, object->id)) {
		return;
	}
	struct listed item = {*object, part_of(listing->order, listing->cursor, object)};
	if (item.part == PART_NONE ||
		(listing->is_cut && compare_listed(&item, &listing->items[listing->limit - 1],
					    &listing->order) > 0)) {
		return;
	}
	if (listing->count == 2 * listing->limit) {
		cut(listing);
	}
	listing->items[listing->count++] = item;
}

void session_list_page(struct session_table *table, enum session_order order,
	const struct session_cursor *cursor, const struct session_filter *filter, size_t limit,
	struct session_page *ret)
{
	size_t count = session_table_count_objects(table);
	limit = limit < count ? limit : count + 1;
	struct listing listing = {.order = order,
		.cursor = cursor,
		.filter = filter,
		.limit = limit,
		.items = xcalloc(2 * limit, sizeof(*listing.items))};
	session_table_each_object(table, collect, &listing);
	cut(&listing);
	*ret = (struct session_page){.count = listing.count, .has_more = listing.is_cut};
	ret->objects = xcalloc(listing.count + 1, sizeof(*ret->objects));
	for (size_t i = 0; i < listing.count; i++) {
		ret->objects[i] = listing.items[i].object;
	}
	free(listing.items);
}

void session_page_finish(struct session_page *page)
{
	free(page->objects);
	page->objects = NULL;
}

void session_cursor_move(struct session_cursor *cursor, enum session_order order,
	const struct session_object *object)
{
	cursor->is_again = part_of(order, cursor, object) == PART_AGAIN;
	if (!*cursor->id) {
		snprintf(cursor->first_id, sizeof(cursor->first_id), "%s", object->id);
		cursor->first_updated_at = object->updated_at;
	}
	snprintf(cursor->id, sizeof(cursor->id), "%s", object->id);
	cursor->updated_at = object->updated_at;
}

/* --- cursors as text: five parts, separated by a character that ids cannot contain --- */

void session_cursor_write(const struct session_cursor *cursor, struct buffer *out)
{
	buffer_printf(out, "%" PRId64 "~%s~%" PRId64 "~%s~%d", cursor->updated_at, cursor->id,
		cursor->first_updated_at, cursor->first_id, cursor->is_again);
}

static bool read_time(const char **at, int64_t *ret)
{
	char *end;
	size_t digits = strspn(*at, "0123456789");
	errno = 0;
	*ret = strtoll(*at, &end, 10);
	*at = end + 1;
	return digits > 0 && errno == 0 && *end == '~';
}

static bool read_id(const char **at, char *ret)
{
	size_t len = strcspn(*at, "~");
	bool good = (*at)[len] == '~' && session_id_is_valid(*at, len);
	if (good) {
		memcpy(ret, *at, len);
		ret[len] = '\0';
		*at += len + 1;
	}
	return good;
}

bool session_cursor_read(const char *text, struct session_cursor *ret)
{
	*ret = (struct session_cursor){0};
	bool good = read_time(&text, &ret->updated_at) && read_id(&text, ret->id) &&
		    read_time(&text, &ret->first_updated_at) && read_id(&text, ret->first_id) &&
		    (*text == '0' || *text == '1') && !text[1];
	ret->is_again = good && *text == '1';
	return good;
}

/* --- all sessions --- */

struct visit {
	struct session_table *table;
	void (*visit)(const struct session_object *object, void *arg);
	void *arg;
};

static void visit_log(struct session_log *log, void *arg)
{
	const struct visit *visit = arg;
	struct session_object object;
	if (session_table_get_object(
		    visit->table, session_log_id(log), strlen(session_log_id(log)), &object)) {
		visit->visit(&object, visit->arg);
	}
}

void session_table_each_object(struct session_table *table,
	void (*visit)(const struct session_object *object, void *arg), void *arg)
{
	struct visit all = {.table = table, .visit = visit, .arg = arg};
	store_each_session(table->store, visit_log, &all);
	if (table->elsewhere) {
		table->elsewhere_ops->each(table->elsewhere, visit, arg);
	}
}

size_t session_table_count_objects(const struct session_table *table)
{
	return session_table_count(table) +
	       (table->elsewhere ? table->elsewhere_ops->count(table->elsewhere) : 0);
}

struct session_log *session_table_shown_log(struct session_table *table, const char *id)
{
	return table->elsewhere ? table->elsewhere_ops->log(table->elsewhere, id) : NULL;
}

/* --- those of other nodes --- */

void session_elsewhere_begin(struct session_table *table, const struct session_table_config *config)
{
	table->elsewhere_ops = config->elsewhere;
	if (table->elsewhere_ops && store_is_shared(table->store)) {
		table->elsewhere = table->elsewhere_ops->begin(
			&(struct session_elsewhere_place){.table = table,
				.store = table->store,
				.loop = table->loop,
				.life = table->life,
				.tell = table->ops->elsewhere,
				.owner = table->owner});
	}
}

void session_elsewhere_end(struct session_table *table)
{
	if (table->elsewhere) {
		table->elsewhere_ops->end(table->elsewhere);
	}
}

void session_elsewhere_note(struct session_table *table, const char *id)
{
	if (table->elsewhere) {
		table->elsewhere_ops->changed(table->elsewhere, id);
	}
}

void session_elsewhere_forget(struct session_table *table, const char *id)
{
	if (table->elsewhere) {
		table->elsewhere_ops->deleted(table->elsewhere, id);
	}
}
