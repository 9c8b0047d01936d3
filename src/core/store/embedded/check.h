/*
 * Shared by the files of the check of a store (store_check.h); each of them checks one kind of
 * file.
 */
#ifndef HOLDFAST_CHECK_H
#define HOLDFAST_CHECK_H

#include "embedded.h"
#include "journal_view.h"

#include "holdfast/hash.h"
#include "holdfast/store_check.h"

/** Findings in files that belong together, held back until they are certain. */
struct findings {
	struct buffer texts; /* per finding: kind (1 byte), place, text; both with a NUL */
	uint64_t problems;
	uint64_t unsaid; /* problems beyond the most that are reported */
};

struct check {
	const struct store_files *files; /* NULL: a database is checked */
	const struct store_check_ops *ops;
	void *owner;
	struct store_check_counts *counts;
	char **ids; /* of all sessions, sorted */
	size_t id_count;
	struct journal_view journal;
	struct findings found;
};

/** Adds a problem or a note. */
__attribute__((format(printf, 3, 4))) void check_problem(
	struct check *check, const char *place, const char *fmt, ...);
__attribute__((format(printf, 3, 4))) void check_note(
	struct check *check, const char *place, const char *fmt, ...);
/** Report or discard the findings since the last call. */
void check_tell(struct check *check);
void check_forget(struct check *check);

/* check_journal.c */
/**
 * Checks all segments and fills check->journal. Returns 0, or a negative errno if it cannot list
 * them.
 */
int check_journal(struct check *check);
/** Checks that the sessions in the journal exist. Called after all sessions were checked. */
void check_lives(struct check *check);

/* check_streams.c */
void check_streams(struct check *check);
/** Returns the total size of raw streams and their journal. */
uint64_t check_streams_size(const struct store_files *files);

/* check_index.c */
/** The check of a session's events.index, done while its log is read. */
struct index_check {
	struct check *check;
	const char *id;
	const struct store_metadata *meta;
	int fd; /* -1: nothing to compare */
	/* A window of entries; the first is that of seq `from`. */
	uint64_t from;
	size_t count;
	uint64_t offsets[512];
	/* Number of wrong entries, and details of the first one. */
	uint64_t wrong;
	uint64_t wrong_seq;
	uint64_t wrong_offset;
	uint64_t right_offset;
};
/** Begins the check. `meta` NULL: unknown, so nothing is compared. Must be ended in any case. */
void check_index_begin(struct index_check *index, struct check *check, const char *id,
	const struct store_metadata *meta);
/** Compares the entry of the log's next event, whose line starts at `offset`. */
void check_index_event(struct index_check *index, uint64_t seq, uint64_t offset);
/** Ends the check. Reports wrong entries only if the log agrees with metadata.json. */
void check_index_end(struct index_check *index, bool log_is_good);

/* check_keys.c */
/** The check of keys.jsonl, done in the same way. */
struct keys_check {
	struct check *check;
	const char *id;
	const struct store_metadata *meta;
	struct log_lines lines;
	bool is_over; /* no more readable lines */
	bool is_damaged; /* a line is damaged, so missing names are not reported */
	struct log_name next; /* the next name in the file, unless is_over */
	struct json_t *json; /* owns the strings of `next` */
	uint64_t wrong; /* number of wrong names */
	char first[160]; /* description of the first one */
	struct name_table names; /* all that were read, to count those given by inputs */
};
void check_keys_begin(struct keys_check *keys, struct check *check, const char *id,
	const struct store_metadata *meta);
/** The same for an open file of such lines, which check_keys_end() closes. */
void check_keys_begin_fd(struct keys_check *keys, struct check *check, const char *id,
	const struct store_metadata *meta, int fd);
void check_keys_event(struct keys_check *keys, const struct event_view *view);
void check_keys_end(struct keys_check *keys, bool log_is_good);

/* check_blobs.c */
void check_blobs(struct check *check, const char *id);
/** Checks a blob that is in memory. */
void check_blob_bytes(
	struct check *check, const char *place, const char *file, const void *bytes, size_t len);

/* check_aside.c */
/** Checks the folders of one session in set-aside/, or all. Returns whether there are some. */
bool check_aside(struct check *check, const char *session);

/* check_session.c */
void check_session(struct check *check, const char *id);

#endif
