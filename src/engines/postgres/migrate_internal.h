/* Declarations shared by the files of a migration: an old side to read, and a new side to write. */
#ifndef HOLDFAST_STORE_MIGRATE_INTERNAL_H
#define HOLDFAST_STORE_MIGRATE_INTERNAL_H

#include "pg_database.h"

#include "holdfast/store_migrate.h"

/** Receives the data of a session, in this order. The functions return 0 or a negative errno. */
struct moving_sink {
	/** After moving_settle_metadata(). */
	int (*metadata)(void *arg, const char *id, const struct metadata *meta);
	/** Whole lines of names, which begin at offset `at`. */
	int (*names)(void *arg, uint64_t at, const char *lines, size_t len);
	int (*event)(void *arg, const struct event_view *view, const char *line, size_t len);
	int (*blob)(void *arg, const char *name, const void *bytes, size_t len);
	/** Records from the newest snapshot on; none if the session is at rest. */
	int (*record)(void *arg, const struct record *record);
	void *arg;
};

/** One side of a migration. The functions return 0 or a negative errno. */
struct moving_side {
	/** Lists the ids of its sessions, sorted. disk_list_free() frees them. */
	int (*list)(void *side, char ***ret_ids, size_t *ret_count);
	/** Reads a session but for its records. -ENOENT; -EAGAIN: it has to be recovered first. */
	int (*read)(void *side, const char *id, const struct moving_sink *sink);
	int (*read_records)(void *side, const char *id, const struct moving_sink *sink);
	/* The rest is for the new side only. */
	/** Begins a session, which replaces one with the same id. The sink gets its data. */
	int (*begin)(void *side, const char *id);
	struct moving_sink sink; /* its arg: `side` */
	int (*end)(void *side, const char *id);
	int (*remove)(void *side, const char *id);
	/*
	 * If not NULL, the records of all sessions are written between these two, after all
	 * sessions; else the records of a session are written between its begin() and end().
	 */
	int (*begin_records)(void *side);
	int (*end_records)(void *side);
	void *side;
};

/* migrate_files.c */
struct moving_files;
int moving_files_open(const char *dir, const struct store_facts *facts, struct moving_files **ret,
	struct moving_side *ret_side, char **ret_why);
struct moving_side moving_files_side(struct moving_files *files);
uint64_t moving_files_size(const struct moving_files *files);
void moving_files_close(struct moving_files *files);

/* migrate_files_write.c */
struct moving_made;
/** Creates the directory under a temporary name, or goes on with one of an earlier try. */
int moving_made_open(const char *dir, const struct store_facts *facts, struct moving_made **ret,
	struct moving_side *ret_side, char **ret_why);
/** The directory is complete: renames it to `dir`, and lets servers use it. */
int moving_made_end(struct moving_made *made, const char *dir);
const char *moving_made_path(const struct moving_made *made);
void moving_made_close(struct moving_made *made);

/* migrate_pg.c */
struct moving_pg {
	struct pg_conn conn;
	const struct store_facts *facts;
	/* The session that is being written. */
	int64_t sid;
	struct pg_params events; /* collected for the next INSERT */
	size_t event_bytes;
	int64_t last_record;
};
/** `is_new`: it is the new side. `from`: the old side, noted in holdfast_moving; else unused. */
int moving_pg_open(struct moving_pg *pg, const char *address, bool is_new, const char *from,
	const struct store_facts *facts, struct moving_side *ret_side, char **ret_why);
int moving_pg_end(struct moving_pg *pg);
void moving_pg_close(struct moving_pg *pg);

/** Makes the text of the facts, and numbers as if pruned lines had been cut off the files. */
void moving_settle_metadata(struct metadata *meta);

#endif
