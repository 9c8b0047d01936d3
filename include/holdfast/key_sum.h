/*
 * What an idempotency key is compared by: a sum of the input's content, made by a rule. Sums are
 * kept for as long as a session lives, and rules change: a stored sum is compared with one that is
 * made by the same rule.
 */
#ifndef HOLDFAST_KEY_SUM_H
#define HOLDFAST_KEY_SUM_H

#include <stdint.h>

struct input_event;

/** Numbers on disk: a rule never changes; another one gets the next number, at most 255. */
enum key_sum_rule {
	/*
	 * Data with its members in order; real numbers as the nearest double, in 17 digits, others
	 * as 64-bit integers.
	 */
	KEY_SUM_DOUBLES = 0,
	/* The same, but a number is its exact value, however it is written. */
	KEY_SUM_EXACT = 1,
	KEY_SUM_RULES, /* how many there are */
};

/** The rule that new sums are made by. */
#define KEY_SUM_NEWEST KEY_SUM_EXACT

struct key_sum {
	uint64_t value;
	unsigned rule; /* enum key_sum_rule; of a later program, if it is none of these */
};

/**
 * The sum of an input's type, message id and data (in->span). The same content gives the same
 * sum, in whatever order its members stand. -ENOTSUP if we do not know the rule.
 */
int key_sum_make(const struct input_event *in, unsigned rule, struct key_sum *ret);

#endif
