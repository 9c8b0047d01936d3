/*
 * A check of a store (store_check.h) in progress: its findings, and what the checks of all engines
 * share. All functions block.
 */
#ifndef HOLDFAST_STORE_CHECKING_H
#define HOLDFAST_STORE_CHECKING_H

#include "holdfast/buffer.h"
#include "holdfast/log_names.h"
#include "holdfast/store_check.h"

struct journal_view;

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
	struct journal_view *journal; /* of a data directory */
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

/** The check of a log's names, done while its events are read. */
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

/** Checks a blob that is in memory. */
void check_blob_bytes(
	struct check *check, const char *place, const char *file, const void *bytes, size_t len);

#endif
