/*
 * Times as RFC 3339 has them (section 5.6), such as 2026-11-27T14:00:00.5+01:00: `t` and `z` too, any
 * offset up to 23:59, the years 0000 to 9999, and no day that its month does not have. A blank in place of
 * T is refused, which that section leaves to applications. A second 60 is taken at 23:59 UTC only, of any
 * day, and is the same as the one after it. Pure.
 */
#ifndef HOLDFAST_RFC3339_H
#define HOLDFAST_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

/** Reads a time into ms since 1970; digits behind ms are dropped. Returns false if it is none. */
bool rfc3339_read(const char *text, int64_t *ret);

#endif
