/*
 * Cuts a stream of bytes into lines of JSON. Holds at most line_max bytes of an unfinished line and
 * what one push brought. A line that is longer, or nests deeper than JSON_DEPTH_MAX, is skipped;
 * only its two ends are kept, which tell what it was.
 */
#ifndef HOLDFAST_JSON_LINES_H
#define HOLDFAST_JSON_LINES_H

#include "holdfast/buffer.h"

#include <stdbool.h>

struct json_lines {
	struct buffer bytes;
	size_t start; /* of the first line not yet given out */
	size_t scanned; /* there is no newline between start and here */
	size_t line_max;
	bool skipping; /* inside a line that was too long */
	bool skipped; /* it has ended, and that was not told yet */
	bool too_deep; /* it was not too long, but JSON that nests too deep */
	struct buffer head; /* of that line */
	struct buffer tail;
};

enum json_line {
	JSON_LINE_NONE, /* push more */
	JSON_LINE_READY,
	/* Told once for each such line, before it has ended; also of JSON that nests too deep. */
	JSON_LINE_TOO_LONG,
	JSON_LINE_SKIPPED, /* it has ended; see json_rpc_peek() */
};

void json_lines_init(struct json_lines *l, size_t line_max);
void json_lines_finish(struct json_lines *l);
void json_lines_push(struct json_lines *l, const char *bytes, size_t len);
/** The next line without its end (LF or CRLF); lent, and may be written to, until the next push. */
enum json_line json_lines_next(struct json_lines *l, char **ret_line, size_t *ret_len);

#endif
