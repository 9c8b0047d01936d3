/*
 * What an agent writes to its stderr, in our diagnostics: line by line, clean, and not too much.
 */
#ifndef HOLDFAST_CHILD_STDERR_H
#define HOLDFAST_CHILD_STDERR_H

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

struct child_stderr {
	struct buffer line;
	struct diag_rate rate;
};

/** Prints its lines; an unfinished one is kept for the next bytes. */
void child_stderr_push(struct child_stderr *e, const char *session_id, const char *bytes,
	size_t len, uint64_t now_ms);
/** Prints an unfinished last line and how many lines were dropped, and forgets all. */
void child_stderr_finish(struct child_stderr *e, const char *session_id);

#endif
