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

/* --- the journal --- */

void versions_tell_segment(const struct journal_reader *reader, struct buffer *out)
{
	bool is_ours = reader->format >= JOURNAL_FORMAT_OLDEST && reader->format <= JOURNAL_FORMAT;
	if (!reader->format) {
		buffer_printf(out,
			"this program (holdfast %s) does not know its format: install a newer holdfast",
			HOLDFAST_VERSION);
	} else if (!is_ours) {
		versions_tell_formats(out, "its format is", reader->format, JOURNAL_FORMAT_OLDEST,
			JOURNAL_FORMAT);
	} else {
		buffer_printf(out,
			"it has the flags 0x%llx, which this program (holdfast %s) does not know: install a newer holdfast",
			(unsigned long long)(reader->flags & ~JOURNAL_FLAGS_MAY_SKIP),
			HOLDFAST_VERSION);
	}
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
		versions_tell_formats(
			out, "its format is", meta.format, FOLDER_FORMAT_OLDEST, FOLDER_FORMAT);
	}
	if (r != -ENOTSUP) {
		metadata_finish(&meta);
	}
	return r == -ENOTSUP;
}
