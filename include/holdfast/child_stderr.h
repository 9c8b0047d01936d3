/*
 * What an agent writes to its stderr, in our diagnostics: line by line, clean, and not too much. The
 * last lines are kept, to say why it stopped.
 */
#ifndef HOLDFAST_CHILD_STDERR_H
#define HOLDFAST_CHILD_STDERR_H

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

struct child_stderr {
	struct buffer line;
	struct diag_rate rate;
	struct buffer last; /* the newest lines, each with its end */
	unsigned last_count;
};

/** Prints its lines; an unfinished one is kept for the next bytes. */
void child_stderr_push(struct child_stderr *e, const char *session_id, const char *bytes,
	size_t len, uint64_t now_ms);
/**
 * Appends the last lines (at most 12, of at most 4096 bytes) and an unfinished one, clean and without
 * the values of `env` that may be secrets, with a newline between them.
 */
void child_stderr_last(const struct child_stderr *e, char *const *env, struct buffer *out);
/** Prints an unfinished last line and how many lines were dropped, and forgets all. */
void child_stderr_finish(struct child_stderr *e, const char *session_id);

#endif
