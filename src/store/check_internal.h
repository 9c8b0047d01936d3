/* What the files of the check share: one function for each kind of file. */
#ifndef HOLDFAST_CHECK_INTERNAL_H
#define HOLDFAST_CHECK_INTERNAL_H

#include "holdfast/hash.h"
#include "holdfast/store_check.h"

/** What has been found in files that belong together; told when it is certain. */
struct findings {
	struct buffer texts; /* kind, place, what; each with its NUL */
	uint64_t problems;
	uint64_t unsaid; /* problems of the same place that are only counted */
};

struct check {
	const struct store_files *files;
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
	char place[64]; /* where it was met first there */
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

/* check_session.c */
void check_session(struct check *check, const char *id);

#endif
