/*
 * Logs what an agent writes to its stderr: line by line, sanitized and rate-limited. The last lines
 * are kept, to explain why the agent stopped.
 */
#ifndef HOLDFAST_CHILD_STDERR_H
#define HOLDFAST_CHILD_STDERR_H

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

struct child_stderr {
	struct buffer line;
	struct diag_rate rate;
	struct buffer last; /* the newest lines, each with its newline */
	unsigned last_count;
};

/** Logs the complete lines; an unfinished one is kept until its end arrives. */
void child_stderr_push(struct child_stderr *e, const char *session_id, const char *bytes,
	size_t len, uint64_t now_ms);
/** Keeps a line as one of the last, without logging it. */
void child_stderr_note(struct child_stderr *e, const char *line, size_t len);
/**
 * Appends the last lines (at most 12 lines and 4096 bytes) and an unfinished one, separated by
 * newlines, sanitized and without the values of `env` that may be secrets.
 */
void child_stderr_last(const struct child_stderr *e, char *const *env, struct buffer *out);
/** Logs an unfinished last line and the number of dropped lines, and forgets everything. */
void child_stderr_finish(struct child_stderr *e, const char *session_id);

#endif
