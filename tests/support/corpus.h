/*
 * The texts that tests in C read: tests/corpus and proto/golden. A file that cannot be read, or a
 * folder without files, ends the program with a message.
 */
#ifndef HOLDFAST_TESTS_CORPUS_H
#define HOLDFAST_TESTS_CORPUS_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/** Appends what a file holds, unpacked if it is compressed (gzip); false if it cannot be read. */
bool file_read(const char *path, struct buffer *out);

/**
 * Calls `visit` for every file of a folder of the corpus, in the order of their names. The name of
 * a compressed file is given without its ".gz". Returns how many there are.
 */
size_t corpus_each(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg);

/** The same for a folder of proto/golden. */
size_t golden_each(const char *folder,
	void (*visit)(void *arg, const char *name, const char *text, size_t len), void *arg);

#endif
