/*
 * Looks at the inline markers of an unfinished piece of markdown (a paragraph that is still coming
 * in): is something open that the rest of the text will probably close? Follows CommonMark's rules
 * as far as a prefix allows: markers inside code spans and escaped markers do not count, `*` and
 * `_` open only where they are left-flanking. Pure; linear in the length of the text.
 *
 * The text must begin where its block begins. For a block that was cut, the context
 * (block_scanner_context()) goes in front of it, so that the rest of a fence is known to be code.
 * Code is never open and never changed.
 */
#ifndef HOLDFAST_INLINE_GUARD_H
#define HOLDFAST_INLINE_GUARD_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/**
 * Whether `**`, `*`, `_`, `~~`, a backtick run, `[text](`, or a `[` that may become it, is
 * unmatched at the end of the text.
 */
bool inline_guard_is_open(const char *text, size_t len);
/**
 * Appends the text to `out` in the form in which a preview can show it: a dangling marker at its
 * very end is removed, open markers are closed, and an unfinished `[text](http…` is shown as its
 * text. Only the last paragraph, list item, heading or table cell is changed. An unfinished last
 * line that may turn out to underline the paragraph above it, or to begin a list below it, is left
 * out. `text` and `out` must not overlap.
 */
void inline_guard_heal(const char *text, size_t len, struct buffer *out);

#endif
