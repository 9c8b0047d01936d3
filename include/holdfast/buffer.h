/*
 * A growable byte buffer. The one owner calls buffer_finish(); `data` may move at every call that
 * adds bytes. Every size that reaches a buffer from outside is bounded by relay/limits first, so
 * running out of memory here is a fault of ours or of the machine: the functions abort.
 */
#ifndef HOLDFAST_BUFFER_H
#define HOLDFAST_BUFFER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
	char *data; /* not NUL-terminated; NULL while cap is 0 */
	size_t len; /* bytes in use */
	size_t cap; /* bytes allocated */
};

/** An empty buffer that owns no memory; the same as zeroing it. */
void buffer_init(struct buffer *b);
/** Frees the bytes and leaves the buffer empty and usable. */
void buffer_finish(struct buffer *b);
/** Makes room for `extra` more bytes behind `len`. */
void buffer_reserve(struct buffer *b, size_t extra);
void buffer_append(struct buffer *b, const void *bytes, size_t len);
void buffer_append_str(struct buffer *b, const char *str);
void buffer_append_char(struct buffer *b, char c);
void buffer_append_u64(struct buffer *b, uint64_t value);
/** 16 hexadecimal digits. */
void buffer_append_hex(struct buffer *b, uint64_t value);
__attribute__((format(printf, 2, 3))) void buffer_printf(struct buffer *b, const char *fmt, ...);
/**
 * Appends `text` as a JSON string with its quotes (RFC 8259): control characters, `"` and `\` are
 * escaped, everything else is copied. `text` must be valid UTF-8.
 */
void buffer_append_json(struct buffer *b, const char *text, size_t len);
/**
 * Appends a member to a JSON object that is being written, `"name":"text"`, with a comma in front
 * unless it is the first.
 */
void buffer_append_member(struct buffer *b, const char *name, const char *text);
/** Removes the first `len` bytes; the rest moves to the front. */
void buffer_consume(struct buffer *b, size_t len);
/** Empties the buffer and keeps its memory. */
void buffer_clear(struct buffer *b);
/** NUL-terminates (the NUL is not counted in `len`) and lends the bytes until the next change. */
const char *buffer_cstr(struct buffer *b);

/** malloc, calloc and so on that abort when there is no memory; the caller frees. */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *ptr, size_t size);
char *xstrndup(const char *text, size_t len);
char *xstrdup(const char *text);
__attribute__((format(printf, 1, 2))) char *xprintf(const char *fmt, ...);

#endif
