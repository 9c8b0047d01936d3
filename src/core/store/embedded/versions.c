/*
 * The versions of the formats on disk. A program reads its own formats and earlier ones. Data in
 * any other format is found, and named in an error, before anything is changed.
 */
#include "versions.h"

#include "embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/** `has`: the version that was found; `from`, `to`: the oldest and the newest that we read. */
static void tell_formats(
	struct buffer *out, const char *what, uint64_t has, unsigned from, unsigned to)
{
	buffer_printf(out, "%s %llu, and this program (holdfast %s) reads ", what,
		(unsigned long long)has, HOLDFAST_VERSION);
	if (from == to) {
		buffer_printf(out, "%u only", from);
	} else {
		buffer_printf(out, "%u to %u", from, to);
	}
	buffer_printf(out, ": install %s holdfast", has > to ? "a newer" : "an older");
}

/* --- the journal --- */

bool record_is_known(const struct record *record)
{
	return record->kind >= RECORD_CREATE && record->kind <= RECORD_NEWEST;
}

bool record_may_be_left_out(const struct record *record)
{
	return !record_is_known(record) && (record->kind & RECORD_MAY_BE_LEFT_OUT);
}

void versions_tell_segment(const struct journal_reader *reader, struct buffer *out)
{
	bool is_ours = reader->format >= JOURNAL_FORMAT_OLDEST && reader->format <= JOURNAL_FORMAT;
	if (!reader->format) {
		buffer_printf(out,
			"this program (holdfast %s) does not know its format: install a newer holdfast",
			HOLDFAST_VERSION);
	} else if (!is_ours) {
		tell_formats(out, "its format is", reader->format, JOURNAL_FORMAT_OLDEST,
			JOURNAL_FORMAT);
	} else {
		buffer_printf(out,
			"it has the flags 0x%llx, which this program (holdfast %s) does not know: install a newer holdfast",
			(unsigned long long)(reader->flags & ~JOURNAL_FLAGS_MAY_SKIP),
			HOLDFAST_VERSION);
	}
}

bool versions_tell_record(
	snapshot_is_foreign *is_foreign, const struct record *record, struct buffer *out)
{
	unsigned has;
	unsigned from;
	unsigned to;
	if (!record_is_known(record) && !record_may_be_left_out(record)) {
		buffer_printf(out,
			"it has a record of kind %u, which this program (holdfast %s) does not know: install a newer holdfast",
			(unsigned)record->kind, HOLDFAST_VERSION);
		return true;
	}
	if (record->kind == RECORD_SNAPSHOT && is_foreign && is_foreign(record, &has, &from, &to)) {
		buffer_printf(
			out, "its snapshot of session %.*s has", (int)record->id_len, record->id);
		tell_formats(out, " version", has, from, to);
		return true;
	}
	return false;
}

/* --- folders --- */

/** Reads only the front of metadata.json, where the format is; false for formats that we read. */
static bool may_be_foreign(int sessions_fd, const char *id)
{
	char path[192];
	char front[24] = "";
	unsigned format = 0;
	snprintf(path, sizeof(path), "%s/metadata.json", id);
	int fd = disk->openat(sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? 0 : disk->pread(fd, front, sizeof(front) - 1, 0);
	if (fd >= 0) {
		close(fd);
	}
	return n > 0 && sscanf(front, METADATA_FRONT "%u", &format) == 1 &&
	       (format < FOLDER_FORMAT_OLDEST || format > FOLDER_FORMAT);
}

bool versions_tell_folder(int sessions_fd, const char *id, struct buffer *out)
{
	struct metadata meta;
	const char *why;
	if (!may_be_foreign(sessions_fd, id)) {
		return false;
	}
	int r = metadata_read(sessions_fd, id, NULL, &meta, &why);
	if (r == -ENOTSUP) {
		tell_formats(
			out, "its format is", meta.format, FOLDER_FORMAT_OLDEST, FOLDER_FORMAT);
	}
	if (r != -ENOTSUP) {
		metadata_finish(&meta);
	}
	return r == -ENOTSUP;
}
