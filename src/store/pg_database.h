/* What the files that read a database for tools share: store_database.h. */
#ifndef HOLDFAST_STORE_PG_DATABASE_H
#define HOLDFAST_STORE_PG_DATABASE_H

#include "pg.h"

#include "holdfast/store_database.h"

struct store_database {
	struct pg_conn conn;
};

/** What holdfast_session has of one. */
struct pg_row {
	int64_t sid;
	uint64_t epoch;
	int64_t created_at;
	uint64_t last_record;
	bool has_metadata;
	struct buffer metadata;
};

/** -ENOENT if there is none. pg_row_finish() in any case. */
int pg_row_read(struct pg_conn *conn, const char *id, struct pg_row *ret);
void pg_row_finish(struct pg_row *row);
/**
 * Its metadata. One without has no events that count yet, and names and numbers of none. `facts`
 * NULL: they are not looked at.
 */
int pg_row_parse(const struct pg_row *row, const char *id, const struct store_facts *facts,
	struct metadata *ret, const char **ret_why);

/** The ids of all sessions, sorted by their bytes. */
PGresult *pg_list_ids(struct pg_conn *conn);

/** About how many bytes of lines there are, of one session or (NULL) all. */
uint64_t pg_logs_size(struct pg_conn *conn, const char *session);

/** Shows lines in pieces of a few MiB: of the seq that the row has. */
typedef int pg_see_line(void *arg, uint64_t seq, const char *line, size_t len);
int pg_each_line(struct pg_conn *conn, int64_t sid, uint64_t after, pg_see_line *see, void *arg);
/** The same of its records, in their order. */
typedef int pg_see_record(void *arg, uint64_t n, const struct record *record);
int pg_each_record(struct pg_conn *conn, const char *id, const struct pg_row *row,
	pg_see_record *see, void *arg);
/** The pieces of its names. */
typedef int pg_see_names(void *arg, uint64_t at, const char *lines, size_t len);
int pg_each_names(struct pg_conn *conn, int64_t sid, pg_see_names *see, void *arg);
/** Its blobs, in the order of their names. */
typedef int pg_see_blob(void *arg, const char *name, const void *bytes, size_t len);
int pg_each_blob(struct pg_conn *conn, int64_t sid, pg_see_blob *see, void *arg);

#endif
