/* What the tools do with a database (store_kind.h), shared by the files behind it. */
#ifndef HOLDFAST_STORE_PG_DATABASE_H
#define HOLDFAST_STORE_PG_DATABASE_H

#include "pg.h"

#include "holdfast/store_database.h"
#include "holdfast/store_kind.h"

struct pg_database {
	struct store_database base; /* the first member */
	struct pg_conn conn;
	char *address;
	struct pg *rehearsal; /* NULL: no pg_rehearsal is open */
};

extern const struct store_database_ops pg_database_ops;
/* Members of these tables. */
int pg_check(struct store_database *database, const char *session,
	const struct store_check_ops *ops, void *owner, struct store_check_counts *counts);
extern const struct store_engine pg_rehearsal;
int pg_ask(const char *address, struct store_facts_of_database *ret_facts, char **ret_why);
int pg_open_side(const char *address, const char *from, const struct store_facts *facts,
	struct moving_side *ret_side, char **ret_why);

/**
 * Takes a session over as a server does, without taking it from anybody, if a pg_rehearsal is
 * open. Returns 0; a negative errno and *ret_why (static text) if a server would find damage;
 * or another negative errno, *ret_why NULL.
 */
int pg_rehearse(struct pg_database *database, int64_t sid, const char **ret_why);

/** A session's row of holdfast_session. */
struct pg_row {
	int64_t sid;
	uint64_t epoch;
	int64_t created_at;
	uint64_t last_record;
	bool has_metadata;
	struct buffer metadata;
};

/** Reads a session's row. Returns 0, -ENOENT or -EIO; call pg_row_finish() in any case. */
int pg_row_read(struct pg_conn *conn, const char *id, struct pg_row *ret);
void pg_row_finish(struct pg_row *row);
/**
 * Parses the row's metadata. A row without metadata stands for a session without saved events and
 * names. If `facts` is NULL, the session's facts are skipped. Returns 0 or a negative errno and a
 * reason (static text).
 */
int pg_row_parse(const struct pg_row *row, const char *id, const struct store_facts *facts,
	struct metadata *ret, const char **ret_why);

/** The ids of all sessions, sorted by their bytes. NULL on failure; the caller clears it. */
PGresult *pg_list_ids(struct pg_conn *conn);

/** Approximate size in bytes of the event lines of one session, or of all if it is NULL. */
uint64_t pg_logs_size(struct pg_conn *conn, const char *session);

/*
 * Each of these calls `see` for the rows of a session in their order, and reads a few MiB at a
 * time. A value other than 0 from `see` ends it and is returned; -EIO if the database fails.
 */
/** Event lines behind the seq `after`; `seq` is that of the row. */
typedef int pg_see_line(void *arg, uint64_t seq, const char *line, size_t len);
int pg_each_line(struct pg_conn *conn, int64_t sid, uint64_t after, pg_see_line *see, void *arg);
/** Records; `n` is the record's number. */
typedef int pg_see_record(void *arg, uint64_t n, const struct record *record);
int pg_each_record(struct pg_conn *conn, const char *id, const struct pg_row *row,
	pg_see_record *see, void *arg);
/** Pieces of the names; `at` is the offset of a piece. */
typedef int pg_see_names(void *arg, uint64_t at, const char *lines, size_t len);
int pg_each_names(struct pg_conn *conn, int64_t sid, pg_see_names *see, void *arg);
/** Blobs, by name, one at a time. */
typedef int pg_see_blob(void *arg, const char *name, const void *bytes, size_t len);
int pg_each_blob(struct pg_conn *conn, int64_t sid, pg_see_blob *see, void *arg);

#endif
