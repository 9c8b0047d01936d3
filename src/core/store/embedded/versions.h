/* Which formats this program can read. */
#ifndef HOLDFAST_STORE_VERSIONS_H
#define HOLDFAST_STORE_VERSIONS_H

#include "holdfast/buffer.h"
#include "holdfast/record.h"
#include "holdfast/store.h"

#include <stdbool.h>

/*
 * The format of a journal segment (a digit in its magic) and that of a session's folder. Each is
 * raised when a reader has to know about a change; the version before always remains readable. See
 * "Versions" in proto/store-format.md.
 */
#define JOURNAL_FORMAT        3
#define JOURNAL_FORMAT_OLDEST 2
#define FOLDER_FORMAT         2
#define FOLDER_FORMAT_OLDEST  1

struct journal_reader;

/** Whether this program knows the record's kind; if not, whether a reader may skip the record. */
bool record_is_known(const struct record *record);
bool record_may_be_left_out(const struct record *record);
/** Appends why this program cannot read a segment for which journal_reader returned -ENOTSUP. */
void versions_tell_segment(const struct journal_reader *reader, struct buffer *out);
/**
 * Appends why this program cannot read a record, and returns true; or returns false if it can.
 * `is_foreign` NULL: every snapshot can be read.
 */
bool versions_tell_record(
	snapshot_is_foreign *is_foreign, const struct record *record, struct buffer *out);
/** The same for a session's folder. */
bool versions_tell_folder(int sessions_fd, const char *id, struct buffer *out);

#endif
