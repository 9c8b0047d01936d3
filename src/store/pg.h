/*
 * The engine whose sessions are in PostgreSQL: what its files share. A session is a row of
 * holdfast_session; its records, events, names and blobs are rows of other tables by its `sid`, a
 * random number of its own, so that another session of the same name has nothing of it.
 *
 * Data goes one way: what gathers in a tick is a group -> one transaction on the writer's thread,
 * in one round trip -> the logs on the loop -> synced(). A session whose fence is old is left out
 * of the transaction, and reported. A connection that is lost while a group is on its way leaves
 * its fate unknown: the fences of its sessions are raised on a new connection, which waits for what
 * the old one still does, or makes it void; then the numbers of their last records tell.
 *
 * proto/store-format.md has the tables.
 */
#ifndef HOLDFAST_STORE_PG_H
#define HOLDFAST_STORE_PG_H

#include "store_internal.h"

#include "holdfast/shelf.h"

#include <libpq-fe.h>
#include <pthread.h>

/* Types of PostgreSQL, and arrays of them, by their OIDs (pg_type.dat in its sources). */
enum pg_type {
	PG_BYTEA = 17,
	PG_BIGINT = 20,
	PG_TEXT = 25,
	PG_BYTEA_ARRAY = 1001,
	PG_TEXT_ARRAY = 1009,
	PG_BIGINT_ARRAY = 1016,
};

/* --- pg_wire.c: parameters and results, in binary --- */

#define PG_PARAMS_MAX 24
struct pg_params {
	int count;
	Oid types[PG_PARAMS_MAX];
	struct buffer values[PG_PARAMS_MAX];
	uint32_t elements[PG_PARAMS_MAX]; /* of an array */
};

void pg_params_finish(struct pg_params *params);
/** Adds a parameter; returns its place. */
int pg_add_bigint(struct pg_params *params, int64_t value);
int pg_add_text(struct pg_params *params, const char *text, size_t len);
int pg_add_null_text(struct pg_params *params);
int pg_add_bytea(struct pg_params *params, const void *bytes, size_t len);
/** The same of an array, without elements. */
int pg_add_array(struct pg_params *params, enum pg_type type);
/** Adds an element to it. */
void pg_put_bigint(struct pg_params *params, int place, int64_t value);
void pg_put_bytes(struct pg_params *params, int place, const void *bytes, size_t len);
void pg_put_null(struct pg_params *params, int place);

int64_t pg_get_bigint(const PGresult *result, int row, int column);

/* --- pg_conn.c: connections; all of it blocks --- */

struct pg_conn {
	PGconn *conn; /* NULL: not connected */
	unsigned prepared; /* a bit for each statement that it knows by its number */
	bool has_warned; /* a commit may not have come to where it should */
};

/** Connects; *ret_why (caller frees) says why not. */
int pg_connect(struct pg_conn *conn, const char *address, char **ret_why);
void pg_disconnect(struct pg_conn *conn);
/**
 * Has warnings of the connection noted in `conn`. pg_connect() has done so; whoever copies a
 * struct pg_conn does it for the copy.
 */
void pg_note_warnings(struct pg_conn *conn);
/**
 * Runs one statement and waits for its rows. NULL: there is no connection any more, or the database
 * refused it; *ret_why (caller frees; may be NULL) says more.
 */
PGresult *pg_run(struct pg_conn *conn, const char *sql, struct pg_params *params, char **ret_why);
/** The same of statements without parameters and rows. */
int pg_run_all(struct pg_conn *conn, const char *sql, char **ret_why);
bool pg_is_alive(const struct pg_conn *conn);

/** A statement of a group. */
struct pg_statement {
	unsigned number; /* below 32: that of its text, for the life of a connection */
	const char *sql;
	const struct pg_params *params;
	PGresult *result; /* its rows: the caller's */
};
/**
 * Runs them as one transaction, in one round trip. 0; -ENOTCONN: nobody knows what became of them;
 * -EAGAIN: nothing has, and it is worth another try; -ENOSPC, -EIO: they are refused.
 */
int pg_run_group(
	struct pg_conn *conn, struct pg_statement *statements, size_t count, char **ret_why);

/* --- pg_schema.c --- */

/** Begins a transaction that one server at a time is in. */
int pg_begin_alone(struct pg_conn *conn, char **ret_why);
/** Ends it: nothing has happened in it if `status` < 0, which is returned then. */
int pg_end_alone(struct pg_conn *conn, int status, char **ret_why);
/* Who migrates sessions into a database or out of it has this lock; servers that start look. "hfmove" in ASCII. */
#define PG_MOVING_LOCK "114789131974245"
/** Makes the tables, or brings those of an older version up to date. */
int pg_schema_make(struct pg_conn *conn, char **ret_why);
/** Whether there are tables, and this program knows them; changes nothing. */
int pg_schema_check(struct pg_conn *conn, char **ret_why);

/* --- pg_group.c: what gathers, and the transaction that it becomes --- */

struct pg_record {
	struct list link;
	enum record_kind kind;
	uint64_t number;
	int64_t ts;
	size_t len;
	char data[];
};

/** What a group has of one log. */
struct pg_part {
	struct log_part part; /* the first member */
	int64_t sid;
	char *id; /* of a new one */
	uint64_t epoch;
	uint64_t fence;
	uint64_t after; /* the number of the log's last record before these */
	uint64_t last; /* and of the last of these */
	struct list records; /* struct pg_record */
	bool is_new;
	bool is_deletion;
	/* What is saved of the log as it was before this group. */
	bool has_save;
	bool forgets_records; /* it is all there is: the session is at rest */
	struct buffer metadata;
	struct buffer names; /* lines */
	uint64_t names_at;
	uint64_t trim_before; /* records before it are needed no more */
	uint64_t prune_from; /* pruned events: those from here on … */
	uint64_t prune_before; /* … and before this go; 0: none */
	/* The thread's answer. */
	bool is_there;
	bool is_fenced;
	uint64_t fence_now;
	uint64_t raises; /* of it that nobody knows of whether they happened */
	bool was_tried_again; /* after its answer was lost */
	bool is_behind; /* the database has less of it than it had */
};

/* Who has a session: a random number in hex digits, a new one with each lease that was not renewed. */
#define PG_OWNER_SIZE 20

struct pg_group {
	struct list parts; /* struct pg_part */
	uint64_t lsn;
	size_t bytes;
	char owner[PG_OWNER_SIZE]; /* who new sessions belong to */
	int status; /* 0, or a negative errno: the database refuses it */
};

/** What the engine keeps of a log: session_log.engine_data. */
struct pg_log {
	struct session_log *log;
	int64_t sid;
	struct pg_part *gathering;
	bool in_flight;
	bool is_new; /* its RECORD_CREATE has not been gathered yet */
	uint64_t snapshot; /* number of the newest snapshot that is durable; 0: none */
	size_t records; /* since then */
	size_t bytes;
	bool has_records; /* the database has some of it */
	/* Retention: pg_prune.c. */
	struct list prune_link; /* pg.prunes */
	uint64_t rows_from; /* the first event that the database has; the log may begin later */
	uint64_t pruned_bytes; /* since its blobs were looked through */
};

/** Which database this is: pg_place.c. */
struct pg_place {
	atomic_llong
		n; /* grows when it is found to be another one; of what a thread has seen last */
	int64_t known; /* the loop's: that of its logs */
	atomic_llong
		noted; /* the newest that has been seen: a copy that has an older one is older */
};

#define PG_READERS 4
struct pg {
	struct shelf shelf;
	char writer_name[PG_OWNER_SIZE]; /* of what this process puts there */
	struct store *store;
	char *address;
	struct pg_nodes *nodes; /* the lease: pg_nodes.c */
	struct pg_place place;
	/* The writer, whose thread has `conn` and the group in flight while it works. */
	struct worker *writer;
	struct pg_conn conn;
	bool is_in_doubt; /* the thread's: what became of the group is not known */
	struct pg_group gather;
	struct pg_group flight;
	bool is_busy;
	uv_timer_t *retry;
	atomic_ullong
		give_up_at; /* the thread waits for the database until then, uv_hrtime(); 0: for ever */
	atomic_bool is_stopping; /* for the thread pool: what can wait need not be done */
	bool has_garbage;
	bool is_sweeping;
	struct list prunes; /* struct pg_log: those of which something is to be pruned */
	bool is_pruning; /* a thread finds out what */
	size_t cuts_open; /* logs that begin later than the database's rows of them */
	/* Connections for whoever reads on the thread pool. */
	pthread_mutex_t lock;
	struct list uploads; /* of pg_blobs.c */
	struct pg_conn readers[PG_READERS];
	size_t reader_count; /* of them are idle */
};

struct pg *pg_of(const struct store *store);
struct pg_log *pg_log_of(const struct session_log *log);
/** A log that this engine has: of a session that is there, or new. */
void pg_log_begin(struct session_log *log, int64_t sid, bool is_new);
void pg_groups_init(struct pg *pg);
void pg_groups_finish(struct pg *pg);
/* Of struct store_engine. */
int64_t pg_append(struct session_log *log, const struct record *record);
struct log_part *pg_get_part(struct session_log *log);
void pg_launch(struct store *store);
int pg_sync(struct store *store);
size_t pg_backlog(const struct store *store);
void pg_save(struct session_log *log);
int pg_rest(struct session_log *log);
void pg_remove(struct session_log *log);
void pg_drop(struct session_log *log);
/** The flight has been told of by the thread. */
void pg_group_land(struct pg *pg);

/* --- pg_write.c: the transaction; the writer's thread --- */

/** Makes the group in flight durable, whatever happens to the connection meanwhile. */
void pg_write(struct pg *pg);

/* --- pg_read.c --- */

/** A connection for the thread pool; false if there is none to be had. */
bool pg_reader_take(struct pg *pg, struct pg_conn *ret);
void pg_reader_give(struct pg *pg, struct pg_conn *conn);
/** One statement on such a connection, twice if the first one turns out to be gone. */
PGresult *pg_query(struct pg *pg, const char *sql, struct pg_params *params);
void pg_read(struct session_log *log, struct log_read *read);
int pg_load_names(struct session_log *log, bool now);
void pg_rewind(struct store *store);
/** Takes away the rows of deleted sessions, little by little. */
void pg_sweep(struct pg *pg);

/* --- pg_prune.c --- */

/** Of struct store_engine. */
void pg_prune(struct store *store);
/** Rows that were to go are gone. */
void pg_prune_landed(struct session_log *log, const struct pg_part *part);
/** The log is about to go from memory. */
void pg_prune_drop(struct session_log *log);

/* --- pg_take.c --- */

/** Which sessions are wanted, of those that no living node has. */
struct pg_wish {
	const char *owner; /* who is to have them */
	const char *id; /* one, or NULL: any */
	int64_t most;
	/* By their sids, those that `owner` has without knowing what is in them. */
	const int64_t *again;
	size_t again_count;
};
/** What the database has of those that were taken. */
struct pg_taken {
	PGresult *sessions;
	PGresult *events; /* NULL with those behind it: there are no sessions */
	PGresult *records;
	PGresult *blobs;
	int64_t place; /* pg_place.n of the database that they are of */
};

/**
 * Takes them, and reads what there is of them. Blocks. -EINPROGRESS: it is not certain that they
 * are taken; those in `taken` are to be taken again. Any other error: none is.
 */
int pg_take(
	struct pg_conn *conn, const struct pg_wish *wish, struct pg_taken *taken, char **ret_why);
void pg_taken_finish(struct pg_taken *taken);
/** Makes logs of them. While the store is open, one that is damaged is left out. */
int pg_adopt(struct pg *pg, const struct pg_taken *taken, char **ret_why);
/** Gives the owner of a log its records. */
int pg_replay(struct session_log *log, const PGresult *records, int first, int end);

/* --- pg_nodes.c: the lease of this server, and what it does about others --- */

void pg_nodes_init(struct pg *pg, const struct store_place *place);
/** Finds this server's name in the database, in its data directory. */
int pg_nodes_name(struct pg *pg, const char *dir, char **ret_why);
void pg_nodes_finish(struct pg *pg);
/** Takes the lease, and all sessions that are free. Blocks. */
int pg_nodes_enter(struct pg *pg, char **ret_why);
/** Who this server is, as owner of sessions. */
const char *pg_owner(const struct pg *pg);
/** Whether it has a lease, and so may take or make sessions. */
bool pg_nodes_may_take(const struct pg *pg);
/** False: its sessions are others' by now, perhaps, and it has not noticed yet. */
bool pg_nodes_has_lease(const struct pg *pg);
/** From now on it does not. Its lease goes on. */
void pg_nodes_take_no_more(struct pg *pg);
/** From now on it is renewed. */
void pg_nodes_begin(struct pg *pg);
/** Others may have its sessions. Blocks. */
void pg_nodes_leave(struct pg *pg);
/* Of struct store_engine. */
void pg_seek(struct store *store, const char *id, struct place_wait *wait);
const unsigned char *pg_node_key(const struct store *store);

void pg_make_name(char ret[PG_OWNER_SIZE]);

/* --- pg_place.c: whether the database is an older copy, to which nobody writes --- */

/* The timeline on which it writes; an error on a standby. */
#define PG_TIMELINE \
	"('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint"

/**
 * Looks at it on any thread, and notes what it is. Blocks. -ESTALE: it is an older copy, and `ret_why` says so; with store.takes_older
 * all sessions get new epochs then. Another negative errno: it is not known.
 */
int pg_place_check(struct pg *pg, struct pg_conn *conn, char **ret_why);
/** The same when it lacks something that this server has written there. */
int pg_place_is_behind(struct pg *pg, struct pg_conn *conn, char **ret_why);
/** The logs that there are from now on are of the database that was looked at last. */
void pg_place_begin(struct pg *pg);
/** Whether sessions that were taken are of that one, which it lets begin if it has come meanwhile. */
bool pg_place_fits(struct pg *pg, const struct pg_taken *taken);
/** If that has become another one, lets go of the logs, unless a group is in flight. */
void pg_place_start_over(struct pg *pg);

/* --- pg_shelf.c --- */
/* With it, rows of holdfast_shown are there in the order of their numbers. "hfshown" in ASCII. */
#define PG_SHOWN_LOCK "SELECT pg_advisory_xact_lock(29386043437315950)"
void pg_shelf_init(struct pg *pg);
/* Of struct store_engine. */
const struct shelf *pg_shelf(struct store *store);

/* --- pg_blobs.c: of struct store_engine --- */
int pg_blob_write(
	struct store *store, uint64_t number, const char *bytes, size_t len, bool is_first);
int pg_blob_keep(
	struct store *store, uint64_t number, const struct blob_place *place, bool *ret_is_new);
void pg_blob_drop(struct store *store, uint64_t number);
int pg_blob_open(struct store *store, const struct blob_place *place);
/** How much sessions have, for the limits: names, and sizes of blobs. */
void pg_blobs_count(struct store *store, const PGresult *rows);
void pg_blobs_finish(struct pg *pg);
/** Events of this session have been pruned: blobs that only they spoke of go, too, after a day. */
void pg_blobs_sweep(struct session_log *log);

#endif
