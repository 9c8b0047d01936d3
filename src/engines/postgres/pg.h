/*
 * Declarations shared by the files of the PostgreSQL engine. A session is a row of
 * holdfast_session; its records, events, names and blobs are rows of other tables, found by its
 * `sid`. That is a random number, so a later session with the same id shares no rows with it.
 *
 * Data flows one way: the inputs of a tick form a group -> the writer's thread commits it as one
 * transaction, in one round trip -> the loop updates the logs -> synced(). The transaction leaves
 * out, and reports, each session whose fence is out of date. If the connection breaks while a group
 * is in flight, its outcome is unknown. Then the fences of its sessions are raised on a new
 * connection: this waits for the old backend's transaction to end, or makes it fail later, and the
 * number of each session's last record then tells whether the group was committed.
 *
 * proto/store-format.md describes the tables.
 */
#ifndef HOLDFAST_STORE_PG_H
#define HOLDFAST_STORE_PG_H

#include "core/store/store_internal.h"

#include "holdfast/shelf.h"

#include <libpq-fe.h>
#include <pthread.h>

/* OIDs of PostgreSQL's types and array types (pg_type.dat in its sources). */
enum pg_type {
	PG_BYTEA = 17,
	PG_BIGINT = 20,
	PG_TEXT = 25,
	PG_BYTEA_ARRAY = 1001,
	PG_TEXT_ARRAY = 1009,
	PG_BIGINT_ARRAY = 1016,
};

/* --- pg_wire.c: parameters and results in binary format --- */

#define PG_PARAMS_MAX 24
struct pg_params {
	int count;
	Oid types[PG_PARAMS_MAX];
	struct buffer values[PG_PARAMS_MAX];
	uint32_t elements[PG_PARAMS_MAX]; /* how many, if it is an array */
};

void pg_params_finish(struct pg_params *params);
/** Appends a parameter; returns its index. */
int pg_add_bigint(struct pg_params *params, int64_t value);
int pg_add_text(struct pg_params *params, const char *text, size_t len);
int pg_add_null_text(struct pg_params *params);
int pg_add_bytea(struct pg_params *params, const void *bytes, size_t len);
/** Appends an empty array; returns its index. */
int pg_add_array(struct pg_params *params, enum pg_type type);
/** Appends an element to the array at index `place`. */
void pg_put_bigint(struct pg_params *params, int place, int64_t value);
void pg_put_bytes(struct pg_params *params, int place, const void *bytes, size_t len);
void pg_put_null(struct pg_params *params, int place);

/** The value of a bigint column; 0 if it is NULL. */
int64_t pg_get_bigint(const PGresult *result, int row, int column);

/* --- pg_conn.c: connections; all functions block --- */

/** Members of store_postgres. */
bool pg_is_address(const char *place);
bool pg_address_check(const char *address, char **ret_why);

struct pg_conn {
	PGconn *conn; /* NULL while not connected */
	unsigned prepared; /* bit N: statement number N has been prepared */
	bool has_warned; /* the database has warned: a commit may not have reached the standby */
};

/** Which of the hosts in an address, unless it has a target_session_attrs of its own. */
enum pg_host {
	PG_ANY, /* the first that lets us in */
	PG_PRIMARY, /* no standby, which may lack the newest commits */
	PG_WRITABLE,
};

/** Connects. Returns 0 or a negative errno, and the reason in *ret_why (caller frees). */
int pg_connect(struct pg_conn *conn, const char *address, enum pg_host host, char **ret_why);
/**
 * After pg_connect() has failed: whether the reason may pass by itself. The database does not
 * answer, is starting or stopping, or takes no writes.
 */
bool pg_may_come(const char *address);
void pg_disconnect(struct pg_conn *conn);
/**
 * Makes the connection's warnings set `conn->has_warned`. pg_connect() does this; a caller that
 * copies a struct pg_conn has to do it for the copy.
 */
void pg_note_warnings(struct pg_conn *conn);
/**
 * Runs one statement and returns its result (caller clears it). Returns NULL if the connection is
 * lost or the database refuses the statement; `ret_why` may be NULL, else *ret_why (caller frees)
 * is the reason.
 */
PGresult *pg_run(struct pg_conn *conn, const char *sql, struct pg_params *params, char **ret_why);
/** Runs statements that have neither parameters nor rows. Returns 0 or -EIO. */
int pg_run_all(struct pg_conn *conn, const char *sql, char **ret_why);
bool pg_is_alive(const struct pg_conn *conn);

/** A statement of a group. */
struct pg_statement {
	unsigned number; /* below 32; the same number always stands for the same `sql` */
	const char *sql;
	const struct pg_params *params;
	PGresult *result; /* returned; the caller clears it */
};
/**
 * Runs the statements as one transaction, in one round trip. Returns 0 if it was committed,
 * -ENOTCONN if the outcome is unknown, -EAGAIN if it was rolled back and is worth a retry, and
 * -ENOSPC or -EIO if the database refused it.
 */
int pg_run_group(
	struct pg_conn *conn, struct pg_statement *statements, size_t count, char **ret_why);

/* --- pg_schema.c --- */

/** Begins a transaction that excludes all others begun with this function, on any server. */
int pg_begin_alone(struct pg_conn *conn, char **ret_why);
/** Commits it; if `status` is negative, rolls it back and returns `status`. */
int pg_end_alone(struct pg_conn *conn, int status, char **ret_why);
/*
 * Advisory lock of a migration into or out of the database; a server tests it when it starts. The
 * number is "hfmove" in ASCII.
 */
#define PG_MOVING_LOCK "114789131974245"
/** Creates the tables, or upgrades those of an older version. */
int pg_schema_make(struct pg_conn *conn, char **ret_why);
/** Checks that the tables exist in a version that this program can read; changes nothing. */
int pg_schema_check(struct pg_conn *conn, char **ret_why);

/* --- pg_group.c: groups of inputs on the loop's thread --- */

struct pg_record {
	struct list link;
	enum record_kind kind;
	uint64_t number;
	int64_t ts;
	size_t len;
	char data[];
};

/** The part of a group that belongs to one log. */
struct pg_part {
	struct log_part part; /* the first member */
	int64_t sid;
	char *id; /* set if the session is new */
	uint64_t epoch;
	uint64_t fence;
	uint64_t after; /* number of the log's last record before this part */
	uint64_t last; /* number of the last record in this part; `after` if it has none */
	struct list records; /* struct pg_record */
	bool is_new;
	bool is_deletion;
	/* Saved state: the log as it was before this group. */
	bool has_save;
	bool forgets_records; /* the session is at rest: its saved state replaces all records */
	struct buffer metadata;
	struct buffer names; /* lines */
	uint64_t names_at; /* offset of `names` among all lines of names */
	uint64_t trim_before; /* delete the records before this number */
	uint64_t prune_from; /* pruned events: delete those from this seq … */
	uint64_t prune_before; /* … to before this one; 0: delete nothing */
	/* Result, from the writer's thread. */
	bool is_there; /* the part is committed */
	bool is_fenced; /* the session belongs to another server; nothing was committed */
	uint64_t fence_now; /* the session's fence by now */
	uint64_t raises; /* attempts to raise the fence whose outcome is unknown */
	bool was_tried_again; /* after the answer to an earlier try was lost */
	bool is_behind; /* the database has fewer records than this server has committed */
};

/* Owners of sessions: 16 random hex digits, new at each start and after the loss of a lease. */
#define PG_OWNER_SIZE 20

struct pg_group {
	struct list parts; /* struct pg_part */
	uint64_t lsn;
	size_t bytes;
	char owner[PG_OWNER_SIZE]; /* owner of new sessions */
	int status; /* result: 0, or a negative errno if it was not committed */
};

/** The engine's state of a log: session_log.engine_data. */
struct pg_log {
	struct session_log *log;
	int64_t sid;
	struct pg_part *gathering;
	bool in_flight;
	bool is_doubtful; /* its group was given up, and nobody knows whether it was committed */
	bool is_new; /* its RECORD_CREATE has not been gathered yet */
	uint64_t snapshot; /* number of the newest durable snapshot; 0: none */
	size_t records; /* appended since a snapshot was last forced, */
	size_t bytes; /* and the size of their data */
	bool has_records; /* the database has records of it */
	/* Retention: pg_prune.c. */
	struct list prune_link; /* pg.prunes */
	uint64_t rows_from; /* first event in the database; pruning moves log->first_seq first */
	uint64_t pruned_bytes; /* since unused blobs were last swept */
};

/** Identity of the database: pg_place.c. */
struct pg_place {
	/* holdfast_place.n as last seen by any thread; grows when an older copy is put to use. */
	atomic_llong n;
	int64_t known; /* `n` of the database that the logs in memory are from; loop only */
	/* Newest holdfast_place.noted seen: a database with an older one is an older copy. */
	atomic_llong noted;
};

#define PG_READERS 4
struct pg {
	struct shelf shelf;
	char writer_name[PG_OWNER_SIZE]; /* holdfast_access.writer of this process */
	struct store *store;
	char *address;
	struct pg_nodes *nodes; /* the lease: pg_nodes.c */
	struct pg_place place;
	/* The writer: while is_busy, its thread owns `conn`, `is_in_doubt` and `flight`. */
	struct worker *writer;
	struct pg_conn conn;
	bool is_in_doubt; /* the outcome of the group in flight is unknown */
	struct pg_group gather; /* the next group */
	struct pg_group flight; /* the group that is being committed */
	bool is_busy;
	uv_timer_t *retry;
	/* When the writer stops waiting for the database (uv_hrtime()); 0: never. */
	atomic_ullong give_up_at;
	bool has_garbage; /* a session has been deleted since the last sweep began */
	bool is_sweeping;
	struct list prunes; /* struct pg_log that have something to prune */
	bool is_pruning; /* a thread is finding out how much */
	size_t cuts_open; /* logs whose pruned rows are still in the database */
	/* Shared with the thread pool and the writer's thread. */
	pthread_mutex_t lock; /* for the members below */
	int writer_fd; /* a duplicate of the socket of `conn`; -1 */
	struct list uploads; /* pg_blobs.c */
	struct pg_conn readers[PG_READERS];
	size_t reader_count; /* idle connections in `readers` */
};

struct pg *pg_of(const struct store *store);
struct pg_log *pg_log_of(const struct session_log *log);
/** Attaches the engine's state to a log. `is_new`: the session has no row in the database yet. */
void pg_log_begin(struct session_log *log, int64_t sid, bool is_new);
void pg_groups_init(struct pg *pg);
void pg_groups_finish(struct pg *pg);
/* Operations of struct store_engine. */
int64_t pg_append(struct session_log *log, const struct record *record);
struct log_part *pg_get_part(struct session_log *log);
void pg_launch(struct store *store);
int pg_sync(struct store *store);
size_t pg_backlog(const struct store *store);
void pg_save(struct session_log *log);
int pg_rest(struct session_log *log);
void pg_remove(struct session_log *log);
void pg_drop(struct session_log *log);
/** The writer's thread is done with the group in flight. On the loop. */
void pg_group_land(struct pg *pg);

/* --- pg_write.c: the transaction; the writer's thread --- */

/**
 * Takes the next step to commit the group in flight. Returns 1 if another one has to follow, 0 if
 * the group is settled, and -ENOTCONN or -ESTALE (an older copy) to try again later; another errno
 * if the group is refused.
 */
int pg_write_step(struct pg *pg, char **ret_why);

/* --- pg_writer.c --- */

/** Commits the group in flight, reconnecting if needed; flight.status is the result. */
void pg_write(struct pg *pg);
/** On the loop: waits until the writer's thread is done. At pg.give_up_at, breaks its connection. */
void pg_writer_wait(struct pg *pg);
/** pg_connect() and pg_disconnect() of pg.conn. */
int pg_writer_connect(struct pg *pg, char **ret_why);
/** Makes a connection pg.conn, which must not be connected. */
void pg_writer_use(struct pg *pg, const struct pg_conn *conn);
void pg_writer_disconnect(struct pg *pg);

/* --- pg_wait.c --- */

/**
 * Calls `use` with the writer connected, for the start of a server, which waits: if the database
 * cannot be reached, or is lost meanwhile, it tries again, up to limits->database_wait_ms in all.
 * Without place->wait it does not. Returns what `use` does, -ECANCELED without *ret_why if the
 * server is to stop, or another negative errno, and *ret_why (caller frees).
 */
int pg_wait(struct pg *pg, const struct store_place *place,
	int (*use)(struct pg *pg, char **ret_why), char **ret_why);

/* --- pg_read.c --- */

/**
 * Lends a connection to a job on the thread pool; pg_reader_give() takes it back. Returns false if
 * it cannot connect.
 */
bool pg_reader_take(struct pg *pg, struct pg_conn *ret);
void pg_reader_give(struct pg *pg, struct pg_conn *conn);
/**
 * Runs one statement on such a connection, and again on another one if that turns out to be broken.
 * Returns NULL on failure.
 */
PGresult *pg_query(struct pg *pg, const char *sql, struct pg_params *params);

/* pg_gaps.c */
struct gap;
/** A page whose rows do not fit. */
struct pg_apart {
	struct pg *pg;
	int64_t sid;
	uint64_t first_seq; /* of the log */
	const PGresult *rows; /* seq, line, and how many rows the range has */
};
/**
 * Takes the page's events one by one from the rows, beginning at its fixed end, with gaps in place of
 * those that are damaged or missing; -EBADMSG if the page wants no gaps. *ret_gap, which is zeroed
 * before, is the last damage that was found.
 */
int pg_read_apart(const struct pg_apart *apart, struct log_read *read, struct gap *ret_gap);
void pg_read(struct session_log *log, struct log_read *read);
int pg_load_names(struct session_log *log, bool now);
void pg_rewind(struct store *store);
/** Deletes the rows of deleted sessions in small steps, on the thread pool. */
void pg_sweep(struct pg *pg);

/* --- pg_prune.c --- */

/** Operation of struct store_engine. */
void pg_prune(struct store *store);
/** The pruned rows of `part` have been deleted. */
void pg_prune_landed(struct session_log *log, const struct pg_part *part);
/** The log is about to be freed. */
void pg_prune_drop(struct session_log *log);

/* --- pg_take.c --- */

/** Which sessions to take, of those that no living node owns. */
struct pg_wish {
	const char *owner; /* the new owner */
	const char *id; /* the session, or NULL for any */
	int64_t most; /* how many, at most */
	/* sids of sessions that `owner` may already own but has not read. */
	const int64_t *again;
	size_t again_count;
};
/** The rows of the sessions that were taken. */
struct pg_taken {
	PGresult *sessions;
	PGresult *events; /* NULL, like the next two, if there are no sessions */
	PGresult *records;
	PGresult *blobs;
	int64_t place; /* holdfast_place.n of the database they were read from */
};

/**
 * Takes the sessions and reads their rows. Blocks. Returns -EINPROGRESS if it is uncertain whether
 * they were taken: those in `taken` have to be taken again. After any other error none was taken.
 */
int pg_take(
	struct pg_conn *conn, const struct pg_wish *wish, struct pg_taken *taken, char **ret_why);
/** Reads the rows of one session as pg_take() does, and takes nothing: it stays with its owner. */
int pg_take_look(struct pg_conn *conn, int64_t sid, struct pg_taken *taken, char **ret_why);
void pg_taken_finish(struct pg_taken *taken);
/**
 * Makes a log of one session that was looked at, and frees it. Returns 0, or a negative errno and
 * *ret_why (static text) if pg_adopt() would call the session damaged, or names of it are lost.
 */
int pg_try(struct pg *pg, const struct pg_taken *taken, const char **ret_why);
/** Makes logs of the sessions. A damaged one is logged and noted: see aside.c. */
void pg_adopt(struct pg *pg, const struct pg_taken *taken);
/** Replays the rows from `first` to before `end`, which are records of this log. */
int pg_replay(struct session_log *log, const PGresult *records, int first, int end);

/* --- pg_nodes.c: the lease of this server, and taking over sessions --- */

void pg_nodes_init(struct pg *pg, const struct store_place *place);
/** Reads this server's name in the database from DIR/node, or makes one; locks that file. */
int pg_nodes_name(struct pg *pg, const char *dir, char **ret_why);
void pg_nodes_finish(struct pg *pg);
/** Takes the lease and all free sessions. Blocks. */
int pg_nodes_enter(struct pg *pg, char **ret_why);
/** This server's name as owner of sessions; changes when it loses its lease. */
const char *pg_owner(const struct pg *pg);
/** Whether it may take or create sessions: a node needs a lease for that. */
bool pg_nodes_may_take(const struct pg *pg);
/**
 * Returns false if a node's lease has run out: other nodes may own its sessions by now, although it
 * has not let go of them yet. A server alone keeps its sessions, so this is always true for it.
 */
bool pg_nodes_has_lease(const struct pg *pg);
/** Starts to renew the lease, and to take over sessions that become free. */
void pg_nodes_begin(struct pg *pg);
/** Gives the lease up, so that other servers can take its sessions. Blocks. */
void pg_nodes_leave(struct pg *pg);
/* Operations of struct store_engine. */
void pg_seek(struct store *store, const char *id, struct place_wait *wait);
const unsigned char *pg_node_key(const struct store *store);

/** Makes a random name of 16 hex digits. */
void pg_make_name(char ret[PG_OWNER_SIZE]);

/* --- pg_place.c: detection of an older copy of the database, which nobody writes to --- */

/* SQL: the timeline that the database writes on; an error on a standby. */
#define PG_TIMELINE \
	"('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint"

/**
 * Checks the database, and notes its identity in holdfast_place. On any thread; blocks. Returns
 * -ESTALE and a reason in *ret_why if it is an older copy; with store.takes_older it gives all
 * sessions new epochs instead. Returns another negative errno if the check could not be made.
 */
int pg_place_check(struct pg *pg, struct pg_conn *conn, char **ret_why);
/** The same, when the database lacks records that this server has committed. */
int pg_place_is_behind(struct pg *pg, struct pg_conn *conn, char **ret_why);
/** From now on, logs are taken to be from the database that was checked last. */
void pg_place_begin(struct pg *pg);
/**
 * Whether the taken sessions come from the same database as the logs in memory. If the database has
 * changed meanwhile, starts over with the new one first.
 */
bool pg_place_fits(struct pg *pg, const struct pg_taken *taken);
/** Drops all logs if the database has become another one; not while a group is in flight. */
void pg_place_start_over(struct pg *pg);

/* --- pg_shelf.c --- */
/*
 * Held until the commit while rows of holdfast_shown get new numbers (`n`), so that they become
 * visible in the order of their numbers. The lock's number is "hfshown" in ASCII.
 */
#define PG_SHOWN_LOCK "SELECT pg_advisory_xact_lock(29386043437315950)"
void pg_shelf_init(struct pg *pg);
/* Operation of struct store_engine. */
const struct shelf *pg_shelf(struct store *store);

/* --- pg_blobs.c: blobs; the first four are operations of struct store_engine --- */
int pg_blob_write(
	struct store *store, uint64_t number, const char *bytes, size_t len, bool is_first);
int pg_blob_keep(
	struct store *store, uint64_t number, const struct blob_place *place, bool *ret_is_new);
void pg_blob_drop(struct store *store, uint64_t number);
int pg_blob_open(struct store *store, const struct blob_place *place);
/** Counts blobs towards the limits of their sessions. Each row has a session's id and a size. */
void pg_blobs_count(struct store *store, const PGresult *rows);
void pg_blobs_finish(struct pg *pg);
/**
 * Deletes the blobs that no event, record or waiting input of this session names any more, on the
 * thread pool. Blobs that were sent within the last day stay.
 */
void pg_blobs_sweep(struct session_log *log);

#endif
