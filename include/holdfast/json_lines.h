/*
 * Splits a byte stream into lines of JSON. Buffers at most line_max bytes of an unfinished line
 * plus one push. A line that is longer, or nests deeper than JSON_DEPTH_MAX, is skipped; only its
 * head and tail are kept, to identify it.
 *
 * ACP wants nothing but messages on stdout, one a line. Programs that think they write to a terminal
 * put window titles, colours and the like around them, so a line is `noise* JSON noise*`, where noise
 * is what terminal_sequence.h finds, blanks, and a byte order mark (RFC 8259, section 8.1: a reader may
 * ignore one). Nothing is guessed: words on the line, or noise within the JSON, make it no message.
 */
#ifndef HOLDFAST_JSON_LINES_H
#define HOLDFAST_JSON_LINES_H

#include "holdfast/buffer.h"

#include <stdbool.h>

struct json_lines {
	struct buffer bytes;
	size_t start; /* of the first line not yet returned */
	size_t scanned; /* no newline between start and here */
	size_t line_max;
	bool skipping; /* inside an overlong line */
	bool skipped; /* it has ended, but JSON_LINE_SKIPPED was not returned yet */
	bool too_deep; /* the line was skipped for its depth, not its length */
	struct buffer head; /* first bytes of that line */
	struct buffer tail;
};

enum json_line {
	JSON_LINE_NONE, /* push more bytes */
	JSON_LINE_READY,
	/*
	 * Returned once for each line that is too long or nests too deep, perhaps before it has
	 * ended.
	 */
	JSON_LINE_TOO_LONG,
	JSON_LINE_SKIPPED, /* that line has ended; see json_rpc_peek() */
};

void json_lines_init(struct json_lines *l, size_t line_max);
void json_lines_finish(struct json_lines *l);
/** Adds bytes of the stream. Then call json_lines_next() until it returns JSON_LINE_NONE. */
void json_lines_push(struct json_lines *l, const char *bytes, size_t len);
/**
 * Returns the next line without its end and the noise around its JSON. It is lent until the next
 * push, and can be modified.
 */
enum json_line json_lines_next(struct json_lines *l, char **ret_line, size_t *ret_len);
/**
 * Cuts the noise off around the JSON object or array in *text. If there is only noise, *len becomes 0; a
 * text that is neither stays as it is.
 */
void json_unwrap(const char **text, size_t *len);
/** Returns how many bytes of noise the text begins with. */
size_t json_noise_length(const char *text, size_t len);

#endif
