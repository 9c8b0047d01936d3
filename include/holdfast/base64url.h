/* Bytes as text of letters, digits, - and _, without padding (RFC 4648, section 5). Pure. */
#ifndef HOLDFAST_BASE64URL_H
#define HOLDFAST_BASE64URL_H

#include "holdfast/buffer.h"

#include <stdbool.h>

void base64url_append(struct buffer *out, const void *bytes, size_t len);
/** Whether the text is exactly `len` bytes, which it puts into `ret`. */
bool base64url_read(const char *text, void *ret, size_t len);

#endif
