/*
 * A growable byte buffer. Its one owner calls buffer_finish(). `data` can move in every call that
 * adds bytes. Sizes that come from outside are checked against limits.h first, so running out of
 * memory here is a bug or a machine failure, and the functions abort.
 *
 * With AddressSanitizer, a buffer of up to 1 KiB moves to a block of just its size in each call that
 * may move it, and any buffer in buffer_cstr() and buffer_clear(), or in buffer_consume() if no more
 * than 64 KiB are left. The old block is poisoned: a pointer that was kept over a change is reported,
 * wherever the change falls.
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
/** Makes room for `extra` bytes after the first `len`. */
void buffer_reserve(struct buffer *b, size_t extra);
void buffer_append(struct buffer *b, const void *bytes, size_t len);
void buffer_append_str(struct buffer *b, const char *str);
void buffer_append_char(struct buffer *b, char c);
void buffer_append_u64(struct buffer *b, uint64_t value);
/** Appends 16 lower-case hexadecimal digits. */
void buffer_append_hex(struct buffer *b, uint64_t value);
__attribute__((format(printf, 2, 3))) void buffer_printf(struct buffer *b, const char *fmt, ...);
/**
 * Appends `text` as a JSON string with its quotes (RFC 8259): control characters, `"` and `\` are
 * escaped, everything else is copied. `text` must be valid UTF-8.
 */
void buffer_append_json(struct buffer *b, const char *text, size_t len);
/**
 * Appends `"name":"text"` to a JSON object that is being written, with a comma before it unless the
 * buffer is empty or ends with `{`.
 */
void buffer_append_member(struct buffer *b, const char *name, const char *text);
/** Removes the first `len` bytes; the rest moves to the front. */
void buffer_consume(struct buffer *b, size_t len);
/** Empties the buffer and keeps its memory. */
void buffer_clear(struct buffer *b);
/**
 * NUL-terminates the bytes (the NUL is not counted in `len`) and returns them; valid until the next
 * change.
 */
const char *buffer_cstr(struct buffer *b);

/** Like malloc() and its relatives, but abort when out of memory. The caller frees the result. */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *ptr, size_t size);
char *xstrndup(const char *text, size_t len);
char *xstrdup(const char *text);
__attribute__((format(printf, 1, 2))) char *xprintf(const char *fmt, ...);

#endif
