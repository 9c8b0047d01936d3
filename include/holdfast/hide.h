/* The kinds of events that a token hides (proto/access.md#what-a-token-hides), as a set of bits. */
#ifndef HOLDFAST_HIDE_H
#define HOLDFAST_HIDE_H

#include "holdfast/buffer.h"

enum {
	HIDE_NOTHING = 0,
	HIDE_THOUGHTS = 1,
	HIDE_TOOLS = 2,
	HIDE_ALL = HIDE_THOUGHTS | HIDE_TOOLS,
};

/** Returns the bit of "thoughts" or "tools", HIDE_NOTHING for any other word. */
unsigned hide_of(const char *word);
/** Appends the set as a JSON array of words. */
void hide_append(struct buffer *out, unsigned hide);

#endif
