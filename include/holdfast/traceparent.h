/*
 * The `traceparent` of the W3C's Trace Context: which trace a request belongs to. It is taken from
 * requests and passed on; Holdfast makes none of its own. Pure.
 */
#ifndef HOLDFAST_TRACEPARENT_H
#define HOLDFAST_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

/* With its NUL. */
#define TRACEPARENT_SIZE 56

/**
 * The part of a field's value that every version has, or false if it is none: of a later version than
 * 00, what follows a dash behind it is left out.
 */
bool traceparent_read(const char *text, size_t len, char ret[TRACEPARENT_SIZE]);

#endif
