/*
 * The list of sessions, page by page. A reader's only state is its cursor: each page is made from
 * the sessions that exist when it is requested.
 *
 * In order of change, the most recently changed session comes first. After the last one, the list
 * repeats the sessions that have changed since the first page, oldest change first: a session that
 * changes moves to the front, where the reader has been already. So a session that exists all the
 * time is on at least one page, and if it changes meanwhile, on a later page as it is then.
 */
#ifndef HOLDFAST_SESSION_LIST_H
#define HOLDFAST_SESSION_LIST_H

#include "holdfast/session.h"

enum session_order { SESSIONS_BY_ID, SESSIONS_BY_CHANGE };

/** A reader's position in the list. All zero: at the beginning. */
struct session_cursor {
	char id[129]; /* of the last session that the reader got */
	int64_t updated_at; /* that session's, at that moment */
	char first_id[129]; /* of the first session it got; this and all below: by change only */
	int64_t first_updated_at;
	bool is_again; /* the reader is in the repetition of sessions that have changed */
};

/** Which sessions a reader can see; the others are neither in the list nor in cursors. */
struct session_filter {
	bool (*sees)(const void *arg, const char *id);
	const void *arg;
};

/** A page. The objects point into the sessions, and are valid until the end of the tick. */
struct session_page {
	struct session_object *objects;
	size_t count;
	bool has_more;
};

/**
 * Gets the next sessions after `cursor` that `filter` (NULL: no filter) sees, at most `limit` of
 * them. Release the page with session_page_finish().
 */
void session_list_page(struct session_table *table, enum session_order order,
	const struct session_cursor *cursor, const struct session_filter *filter, size_t limit,
	struct session_page *ret);
void session_page_finish(struct session_page *page);
/** Moves the cursor to a session of the page after it. */
void session_cursor_move(struct session_cursor *cursor, enum session_order order,
	const struct session_object *object);

/** Appends a cursor of SESSIONS_BY_CHANGE as text, of [A-Za-z0-9._~-]. */
void session_cursor_write(const struct session_cursor *cursor, struct buffer *out);
/** Parses such a text; false if it is malformed. */
bool session_cursor_read(const char *text, struct session_cursor *ret);

#endif
