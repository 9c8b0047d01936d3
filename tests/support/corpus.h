/*
 * The texts that unit tests read: the shared corpus, which a clone elsewhere does not have, and
 * proto/golden.
 */
#ifndef HOLDFAST_TESTS_CORPUS_H
#define HOLDFAST_TESTS_CORPUS_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/** Appends what a file holds; false if it cannot be opened. */
bool file_read(const char *path, struct buffer *out);

/**
 * Calls `visit` for every file of a folder of the corpus, in the order of their names. Returns how
 * many there were; 0, with a line that says so, if there is no corpus.
 */
size_t corpus_each(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg);

/** The same for the files of a folder of the project itself, which must be there. */
size_t golden_each(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg);

#endif
