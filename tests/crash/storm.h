/*
 * A server's life at random, the same for the same seed: several sessions with blocks, tools and
 * thoughts half way, prompts, questions, flushes of the clock, deletions and creations under the
 * same name, bursts, large inputs, restarts. Errors are the witness's to note.
 */
#ifndef HOLDFAST_TESTS_STORM_H
#define HOLDFAST_TESTS_STORM_H

#include "witness.h"

struct storm {
	uint64_t seed;
	size_t steps;
	bool is_calm; /* no bursts, no large inputs, no changes of prompts */
	bool prunes; /* now and then, as limits.keep_events has it */
	bool restarts; /* in good order, after each third of the steps */
	bool kills; /* the same, killed */
	bool relaxed; /* until the first of them, nothing is synced: --durability write */
};

/** Opens the server unless it runs, goes through all steps and leaves it running. */
void storm_run(const struct storm *storm, struct witness *w);

#endif
