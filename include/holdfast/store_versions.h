/* Which metadata and records this program can read, in every engine, and how it says that it cannot. */
#ifndef HOLDFAST_STORE_VERSIONS_H
#define HOLDFAST_STORE_VERSIONS_H

#include "holdfast/buffer.h"
#include "holdfast/record.h"
#include "holdfast/store.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The format of a session's metadata, and so of its folder. It is raised when a reader has to know
 * about a change; the version before always remains readable. See "Versions" in
 * proto/store-format.md.
 */
#define FOLDER_FORMAT        2
#define FOLDER_FORMAT_OLDEST 1

/** Whether this program knows the record's kind; if not, whether a reader may skip the record. */
bool record_is_known(const struct record *record);
bool record_may_be_left_out(const struct record *record);
/**
 * Appends why this program cannot read a record, and returns true; or returns false if it can.
 * `is_foreign` NULL: every snapshot can be read.
 */
bool versions_tell_record(
	snapshot_is_foreign *is_foreign, const struct record *record, struct buffer *out);
/**
 * Appends that `what`, such as "its format is", is version `has`, of which this program reads
 * `from` to `to`, and which program reads it.
 */
void versions_tell_formats(
	struct buffer *out, const char *what, uint64_t has, unsigned from, unsigned to);

#endif
