/* What the files of a migration share: two sides, each of which can be read and written. */
#ifndef HOLDFAST_STORE_MIGRATE_INTERNAL_H
#define HOLDFAST_STORE_MIGRATE_INTERNAL_H

#include "pg_database.h"

#include "holdfast/store_migrate.h"

/** Who is given what there is of a session, in this order. 0, or a negative errno. */
struct moving_sink {
	/** As if pruned lines were gone from its file; `facts_text` is there. */
	int (*metadata)(void *arg, const char *id, const struct metadata *meta);
	/** Whole lines of names. */
	int (*names)(void *arg, uint64_t at, const char *lines, size_t len);
	int (*event)(void *arg, const struct event_view *view, const char *line, size_t len);
	int (*blob)(void *arg, const char *name, const void *bytes, size_t len);
	/** From a snapshot on; none, if the session is what its log tells. */
	int (*record)(void *arg, const struct record *record);
	void *arg;
};

/** A side. All functions return 0 or a negative errno. */
struct moving_side {
	/** The ids of its sessions, sorted; disk_list_free() frees them. */
	int (*list)(void *side, char ***ret_ids, size_t *ret_count);
	/** What there is of one, but for its records. -ENOENT, -EAGAIN: it is not recovered. */
	int (*read)(void *side, const char *id, const struct moving_sink *sink);
	int (*read_records)(void *side, const char *id, const struct moving_sink *sink);
	/* Of the new side. */
	/** Whatever is there of this name goes; what the sink is given then comes. */
	int (*begin)(void *side, const char *id);
	struct moving_sink sink; /* its arg: `side` */
	int (*end)(void *side, const char *id);
	int (*remove)(void *side, const char *id);
	/*
	 * All records together, when all sessions are there; NULL: they are given to the sink
	 * between begin() and end().
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
/** The directory that `dir` is to be. */
int moving_made_open(const char *dir, const struct store_facts *facts, struct moving_made **ret,
	struct moving_side *ret_side, char **ret_why);
/** Renames it. */
int moving_made_end(struct moving_made *made, const char *dir);
const char *moving_made_path(const struct moving_made *made);
void moving_made_close(struct moving_made *made);

/* migrate_pg.c */
struct moving_pg {
	struct pg_conn conn;
	const struct store_facts *facts;
	/* The session that is being written. */
	int64_t sid;
	struct pg_params events; /* that gather */
	size_t event_bytes;
	int64_t last_record;
};
/** `is_new`: the database that is to have the sessions; `from`: words for where they come from. */
int moving_pg_open(struct moving_pg *pg, const char *address, bool is_new, const char *from,
	const struct store_facts *facts, struct moving_side *ret_side, char **ret_why);
int moving_pg_end(struct moving_pg *pg);
void moving_pg_close(struct moving_pg *pg);

/** Takes the facts' text, and pruned lines off. */
void moving_settle_metadata(struct metadata *meta);

#endif
