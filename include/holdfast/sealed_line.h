/*
 * A line of JSON that carries its own checksum: the object's last member is "xxh", the XXH3_64 of
 * the bytes before `,"xxh":"` in 16 hex digits. So each line of the store's text files can be
 * verified by itself.
 */
#ifndef HOLDFAST_SEALED_LINE_H
#define HOLDFAST_SEALED_LINE_H

#include "holdfast/buffer.h"

#include <stdbool.h>

/* `,"xxh":"0123456789abcdef"}` */
#define SEAL_LEN 26

/**
 * Completes the line that starts at `start`, an object without its closing brace: appends the
 * checksum, the brace and a newline.
 */
void sealed_line_end(struct buffer *out, size_t start);
/**
 * Verifies a line (without its newline). If it is intact, returns true and sets *ret_body to the
 * length of the object without its checksum and closing brace.
 */
bool sealed_line_check(const char *line, size_t len, size_t *ret_body);

#endif
