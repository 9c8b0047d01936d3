/* What the files of the check share: one function for each kind of file. */
#ifndef HOLDFAST_CHECK_INTERNAL_H
#define HOLDFAST_CHECK_INTERNAL_H

#include "store_internal.h"

#include "holdfast/hash.h"
#include "holdfast/store_check.h"

struct store_database;

/** What has been found in files that belong together; told when it is certain. */
struct findings {
	struct buffer texts; /* kind, place, what; each with its NUL */
	uint64_t problems;
	uint64_t unsaid; /* problems of the same place that are only counted */
};

struct check {
	const struct store_files *files; /* NULL: `database` is checked */
	struct store_database *database;
	const struct store_check_ops *ops;
	void *owner;
	struct store_check_counts *counts;
	char **ids; /* of all sessions, sorted */
	size_t id_count;
	struct hash *lives; /* struct life, by epoch and id: who the journal speaks of */
	struct findings found;
};

/** One life of a session, as the journal tells it. */
struct life {
	uint64_t epoch;
	bool created;
	bool deleted;
	uint64_t segment; /* in which it was met last */
	char place[96]; /* where it was met first there */
	char id[];
};

__attribute__((format(printf, 3, 4))) void check_problem(
	struct check *check, const char *place, const char *fmt, ...);
__attribute__((format(printf, 3, 4))) void check_note(
	struct check *check, const char *place, const char *fmt, ...);
/** Tells what was found since the last call, or forgets it. */
void check_tell(struct check *check);
void check_forget(struct check *check);

/** A life that the journal knows; NULL if it does not. */
struct life *check_life(const struct check *check, const char *id, size_t id_len, uint64_t epoch);

/* check_journal.c */
int check_journal(struct check *check);
/** After all sessions: those that the journal speaks of are there. */
void check_lives(struct check *check);

/* check_streams.c */
void check_streams(struct check *check);
/** Bytes of raw streams and their journal. */
uint64_t check_streams_size(const struct store_files *files);

/* check_index.c */
/** events.index of one session, held against its log while that is read. */
struct index_check {
	struct check *check;
	const char *id;
	const struct store_metadata *meta;
	int fd; /* -1: there is nothing to hold against the log */
	/* Some entries, from that of seq `from` on. */
	uint64_t from;
	size_t count;
	uint64_t offsets[512];
	/* Those that are wrong, and the first of them. */
	uint64_t wrong;
	uint64_t wrong_seq;
	uint64_t wrong_offset;
	uint64_t right_offset;
};
/** `meta` NULL: nothing is known, and nothing judged. Ended in any case. */
void check_index_begin(struct index_check *index, struct check *check, const char *id,
	const struct store_metadata *meta);
/** The next event of the log, and where its line starts. */
void check_index_event(struct index_check *index, uint64_t seq, uint64_t offset);
/** What is wrong with entries is told only if the log has what metadata.json says. */
void check_index_end(struct index_check *index, bool log_is_good);

/* check_keys.c */
/** keys.jsonl, in the same way. */
struct keys_check {
	struct check *check;
	const char *id;
	const struct store_metadata *meta;
	struct log_lines lines;
	bool is_over; /* no more lines, or none that can be read */
	bool is_damaged; /* a line is: what is missing is not told then */
	struct log_name next; /* the next name in the file, unless it is over */
	struct json_t *json; /* that it is borrowed from */
	uint64_t wrong; /* names; and the first of them in words */
	char first[160];
};
void check_keys_begin(struct keys_check *keys, struct check *check, const char *id,
	const struct store_metadata *meta);
/** The same of lines in a file without a name, which is closed in the end. */
void check_keys_begin_fd(struct keys_check *keys, struct check *check, const char *id,
	const struct store_metadata *meta, int fd);
void check_keys_event(struct keys_check *keys, const struct event_view *view);
void check_keys_end(struct keys_check *keys, bool log_is_good);

/* check_blobs.c */
void check_blobs(struct check *check, const char *id);
/** A blob that is in memory. */
void check_blob_bytes(
	struct check *check, const char *place, const char *file, const void *bytes, size_t len);

/* check_session.c */
void check_session(struct check *check, const char *id);

#endif
