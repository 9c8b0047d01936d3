/* The structs of a usage total, shared by usage_total.c and usage_save.c. */
#ifndef HOLDFAST_USAGE_INTERNAL_H
#define HOLDFAST_USAGE_INTERNAL_H

#include "holdfast/usage_total.h"

#define USAGE_NANO 1000000000

/** One counter, of one model or of all. */
struct usage_cell {
	struct usage_amount settled; /* the sum of earlier sources */
	struct usage_amount parts; /* of this source: the sum of deltas and messages */
	struct usage_amount highest; /* the highest cumulative figure of this source, as it came */
	/* The part of this source's cumulative figures that belongs to earlier sources. */
	struct usage_amount offset;
	struct usage_amount last; /* the highest cumulative figure of the source before */
	bool undecided; /* a resumed source: whether `offset` applies is not known yet */
};

struct usage_model {
	char *name;
	struct usage_cell cells[USAGE_COUNTERS_MAX];
};

/** The amount that a message counts is the greater of the two. */
struct usage_part {
	struct usage_amount highest; /* cumulative */
	struct usage_amount added; /* deltas */
};

struct usage_message {
	char *id;
	uint64_t fingerprint; /* of the id */
	struct usage_model *model; /* the first model that it named; NULL: none yet */
	size_t count; /* of `parts`; counters beyond that are 0 */
	struct usage_part *parts;
};

struct usage_total {
	struct usage_amount used;
	struct usage_amount size;
	bool partial;
	size_t counter_count;
	char counters[USAGE_COUNTERS_MAX][USAGE_NAME_MAX + 1];
	struct usage_cell whole[USAGE_COUNTERS_MAX]; /* reports without a model, and all together */
	size_t model_count;
	struct usage_model *models[USAGE_MODELS_MAX];
	size_t message_count; /* of `messages`, the least recently reported one first */
	struct usage_message *messages[USAGE_MESSAGES_MAX];
	size_t settled_count;
	size_t settled_room;
	uint64_t *settled; /* fingerprints of settled messages, see usage_total.h */
};

uint64_t usage_fingerprint(const char *id);
/** The total of a counter over all sources. */
struct usage_amount usage_counter_total(const struct usage_total *total, size_t counter);

#endif
