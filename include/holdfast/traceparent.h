/*
 * The `traceparent` of W3C Trace Context: the trace that a request belongs to. It is taken from
 * requests and passed on; Holdfast creates none of its own. Pure.
 */
#ifndef HOLDFAST_TRACEPARENT_H
#define HOLDFAST_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

/* Size with its NUL. */
#define TRACEPARENT_SIZE 56

/**
 * Copies the part of a field's value that all versions share. Returns false if the value is
 * malformed. Versions later than 00 can have more after a dash, which is dropped.
 */
bool traceparent_read(const char *text, size_t len, char ret[TRACEPARENT_SIZE]);

#endif
