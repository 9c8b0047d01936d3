/*
 * The texts of the proof: the examples of the CommonMark specification, our own of GFM's extensions
 * (gfm_examples.txt), everything in the corpus that an agent said or might say, and documents of
 * several examples in a row. Each text is there once, under the first of its names.
 */
#ifndef HOLDFAST_TESTS_PROOF_TEXTS_H
#define HOLDFAST_TESTS_PROOF_TEXTS_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>

enum text_source {
	TEXT_SPEC,
	TEXT_GFM,
	TEXT_CORPUS, /* markdown/, streams/ and acp/ */
	TEXT_JOINED, /* has no link reference definitions: they would reach into other examples */
	TEXT_SOURCES,
};

struct text {
	enum text_source source;
	struct buffer name; /* `spec 12`, `acp/goose-load.jsonl 2`; ends with a NUL */
	struct buffer markdown; /* valid UTF-8, not empty; a NUL follows */
};

struct texts {
	struct text *items;
	size_t count;
	size_t cap;
	size_t of[TEXT_SOURCES];
};

/** Fixtures of cmocka for a group: *state is a struct texts. */
int texts_setup(void **state);
/** Only those in the part of this run: see part.h. */
int texts_setup_part(void **state);
int texts_teardown(void **state);

/** Adds a text unless it is empty or there already. */
void texts_add(struct texts *texts, enum text_source source, const char *name, const char *markdown,
	size_t len);
/** Adds what the corpus holds. */
void texts_add_corpus(struct texts *texts);

/** The path of gfm_examples.txt and of reference_exceptions.txt. */
#define PROOF_FILE(name) HOLDFAST_SOURCE_ROOT "/tests/proof/" name

#endif
