/*
 * The checksum that is stored with an idempotency key, to tell a repeated input from a different
 * one. Sums live as long as the session, while rules for computing them change: a stored sum is
 * compared with one made by the same rule.
 */
#ifndef HOLDFAST_KEY_SUM_H
#define HOLDFAST_KEY_SUM_H

#include <stdint.h>

struct input_event;

/** Stored on disk: a rule never changes; a new one gets the next number, at most 255. */
enum key_sum_rule {
	/*
	 * Data with sorted members; real numbers as the nearest double in 17 digits, others as
	 * 64-bit integers.
	 */
	KEY_SUM_DOUBLES = 0,
	/* The same, but numbers by their exact value, however they are written. */
	KEY_SUM_EXACT = 1,
	KEY_SUM_RULES, /* number of rules */
};

/** The rule for new sums. */
#define KEY_SUM_NEWEST KEY_SUM_EXACT

struct key_sum {
	uint64_t value;
	unsigned rule; /* enum key_sum_rule, or an unknown rule of a newer program */
};

/**
 * Computes the sum of an input's type, message id and data (in->span). The order of members does
 * not matter. Returns 0, or -ENOTSUP for an unknown rule.
 */
int key_sum_make(const struct input_event *in, unsigned rule, struct key_sum *ret);

#endif
