/*
 * The list of sessions, page by page. A reader has a cursor and nothing else: pages are made from
 * the sessions there are when they are asked for.
 *
 * By change the newest comes first, and then, from the oldest, each session that has changed since
 * the first page, because it may have moved from what is still to come to where the reader has
 * been. So a session that is there all the time is on one page at least, and on a later one as it
 * is then.
 */
#ifndef HOLDFAST_SESSION_LIST_H
#define HOLDFAST_SESSION_LIST_H

#include "holdfast/session.h"

enum session_order { SESSIONS_BY_ID, SESSIONS_BY_CHANGE };

/** How far a reader has got. All zero: it has nothing yet. */
struct session_cursor {
	char id[129]; /* of the last session it got */
	int64_t updated_at; /* when that had changed */
	char first_id[129]; /* of the first one; by change only, as all below */
	int64_t first_updated_at;
	bool is_again; /* only what has changed since the first page is still to come */
};

/** Which sessions the reader sees: the others are not in the list, nor in a cursor. NULL: all. */
struct session_filter {
	bool (*sees)(const void *arg, const char *id);
	const void *arg;
};

/** The objects point into the sessions: they are good until the loop goes on. */
struct session_page {
	struct session_object *objects;
	size_t count;
	bool has_more;
};

/** The next sessions behind `cursor` that `filter` (may be NULL) sees, `limit` at most. To be finished. */
void session_list_page(struct session_table *table, enum session_order order,
	const struct session_cursor *cursor, const struct session_filter *filter, size_t limit,
	struct session_page *ret);
void session_page_finish(struct session_page *page);
/** The reader has got this one, which is on the page behind its cursor. */
void session_cursor_move(struct session_cursor *cursor, enum session_order order,
	const struct session_object *object);

/** A cursor by change as text, of [A-Za-z0-9._~-]. */
void session_cursor_write(const struct session_cursor *cursor, struct buffer *out);
/** Reads it again; false if the text is none. */
bool session_cursor_read(const char *text, struct session_cursor *ret);

#endif
