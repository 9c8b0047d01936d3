/*
 * Looks at the inline markers of an unfinished piece of markdown (a paragraph that is still coming
 * in): is something open that the rest of the text will probably close? By CommonMark's rules as
 * far as a prefix can tell: a marker inside a code span is none, an escaped one is none, `*` and
 * `_` open only where they are left-flanking. Pure, linear in the length of the text.
 *
 * The text begins where its block begins; of a block that was cut, the context goes in front of it,
 * so that the rest of a fence is known to be code. Code is never open and never changed.
 */
#ifndef HOLDFAST_INLINE_GUARD_H
#define HOLDFAST_INLINE_GUARD_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/**
 * Whether `**`, `*`, `_`, `~~`, a backtick run, `[text](` or a `[` that may become it is unmatched
 * at the end of the text.
 */
bool inline_guard_is_open(const char *text, size_t len);
/**
 * Appends to `out` the text as a preview may show it: a dangling marker at its very end removed,
 * the open ones closed, an unfinished `[text](http…` shown as its text. Only the last paragraph,
 * list item, heading or table cell is looked at. An unended last line of which one cannot tell
 * whether it underlines the paragraph above it, or begins a list below it, is left out. `text` and
 * `out` must not overlap.
 */
void inline_guard_heal(const char *text, size_t len, struct buffer *out);

#endif
