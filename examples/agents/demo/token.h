/*
 * Splits markdown the way a model's tokenizer would: words with the space before them, punctuation,
 * long words in two, and now and then inside `**` or a run of backticks. Pure.
 */
#ifndef HOLDFAST_DEMO_AGENT_TOKEN_H
#define HOLDFAST_DEMO_AGENT_TOKEN_H

#include <stddef.h>

/**
 * Returns the length in bytes of the token at `text + offset`; at least 1 while offset < len. It
 * depends on nothing but the text and the offset, and never ends inside a UTF-8 character (`text`
 * must be valid).
 */
size_t demo_token_length(const char *text, size_t len, size_t offset);

#endif
