/* Where a text has lists, tables, fences and quotes, as cmark-gfm reads it. */
#ifndef HOLDFAST_TESTS_PROOF_EXTENTS_H
#define HOLDFAST_TESTS_PROOF_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>

enum extent_kind {
	EXTENT_LIST,
	EXTENT_TABLE,
	EXTENT_FENCE,
	EXTENT_QUOTE,
	EXTENT_OTHER, /* no extent is kept of it: nothing has to wait for it */
};

struct extent {
	enum extent_kind kind;
	bool nested; /* a fence in a list or quote, which has an extent too */
	size_t start; /* its first mark */
	size_t end; /* of its last line, without line end and blanks */
	size_t next_line; /* behind its first line: of a table, where the delimiter row begins */
};

#define EXTENTS_MAX 1024

struct extents {
	size_t count;
	struct extent items[EXTENTS_MAX]; /* each before those nested in it */
};

void extents_find(const char *text, size_t len, struct extents *ret_extents);
const char *extent_kind_name(enum extent_kind kind);

#endif
