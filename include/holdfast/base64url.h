/*
 * Base64url without padding (RFC 4648, section 5). What is read has one spelling: digits outside of the
 * alphabet, `=`, and bits behind the last byte are refused (sections 3.3 and 3.5). Pure.
 */
#ifndef HOLDFAST_BASE64URL_H
#define HOLDFAST_BASE64URL_H

#include "holdfast/buffer.h"

#include <stdbool.h>

/** Appends the encoded bytes. */
void base64url_append(struct buffer *out, const void *bytes, size_t len);
/** Decodes `text` into `ret`. Returns false unless it is valid and encodes exactly `len` bytes. */
bool base64url_read(const char *text, void *ret, size_t len);

#endif
