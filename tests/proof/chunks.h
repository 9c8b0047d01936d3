/*
 * The same text in other chunks must give the same events: the ways to cut it that the issue names,
 * for the stream buffer at every character and for the scanner alone at every byte.
 */
#ifndef HOLDFAST_TESTS_PROOF_CHUNKS_H
#define HOLDFAST_TESTS_PROOF_CHUNKS_H

#include "holdfast/limits.h"
#include "texts.h"

/** Up to this length, a text is also cut at every pair of places. */
#define CHUNKS_PAIRS_MAX 200

struct chunks_count {
	size_t texts;
	size_t cuts; /* ways in which a text was cut */
	size_t events; /* of all texts in one piece */
	size_t continued; /* those of them that go on a block which a size cap cut */
};

/** Fails the test at the first cut that makes a difference. */
void chunks_check_buffer(
	const struct text *text, const struct limits *limits, struct chunks_count *count);
void chunks_check_scanner(const struct text *text, struct chunks_count *count);

#endif
