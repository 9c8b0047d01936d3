/* Which formats of files in a data directory this program can read; records: store_versions.h. */
#ifndef HOLDFAST_VERSIONS_H
#define HOLDFAST_VERSIONS_H

#include "holdfast/buffer.h"
#include "holdfast/store_versions.h"

#include <stdbool.h>

/* The format of a journal segment, a digit in its magic. It is raised as FOLDER_FORMAT is. */
#define JOURNAL_FORMAT        3
#define JOURNAL_FORMAT_OLDEST 2

struct journal_reader;

/** Appends why this program cannot read a segment for which journal_reader returned -ENOTSUP. */
void versions_tell_segment(const struct journal_reader *reader, struct buffer *out);
/** The same for a session's folder. */
bool versions_tell_folder(int sessions_fd, const char *id, struct buffer *out);

#endif
