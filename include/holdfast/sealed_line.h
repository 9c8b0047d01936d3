/*
 * A line of JSON that carries its own checksum: the object's last member is "xxh", 16 hex digits,
 * XXH3_64 over the bytes in front of `,"xxh":"`. So every line of the store's text files can be
 * checked by itself.
 */
#ifndef HOLDFAST_SEALED_LINE_H
#define HOLDFAST_SEALED_LINE_H

#include "holdfast/buffer.h"

#include <stdbool.h>

/* `,"xxh":"0123456789abcdef"}` */
#define SEAL_LEN 26

/**
 * Ends the line that began at `start`: what is there is an object without its closing brace.
 * Appends the checksum, the brace and a newline.
 */
void sealed_line_end(struct buffer *out, size_t start);
/**
 * Checks a line without its newline. *ret_body is the length of what precedes the
 * checksum: the object without its closing brace.
 */
bool sealed_line_check(const char *line, size_t len, size_t *ret_body);

#endif
