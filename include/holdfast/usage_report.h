/*
 * A usage report: the data of a `usage` event, read and checked (proto/protocol.md#producers). Its
 * figures are added up in usage_total.h. Pure.
 */
#ifndef HOLDFAST_USAGE_REPORT_H
#define HOLDFAST_USAGE_REPORT_H

#include "holdfast/requests.h"

#include <jansson.h>
#include <stdint.h>

#define USAGE_COUNTERS_MAX 24
#define USAGE_NAME_MAX     64
#define USAGE_MODEL_MAX    128
/* What a JSON reader that knows doubles only still holds exactly. */
#define USAGE_FIGURE_MAX INT64_C(9007199254740991)

/**
 * A number from 0 with nine decimal places: sums are exact, and a token's price of 2.5e-7 still
 * fits.
 */
struct usage_amount {
	int64_t whole;
	int32_t nano; /* below 1,000,000,000 */
};

enum usage_mode { USAGE_DELTA, USAGE_CUMULATIVE, USAGE_CUMULATIVE_IN_MESSAGE };

struct usage_figure {
	char name[USAGE_NAME_MAX + 1]; /* a cost is "cost:" and its currency */
	struct usage_amount amount;
};

/** The data of a usage event, checked; strings are borrowed from it. */
struct usage_report {
	enum usage_mode mode;
	const char *message_id; /* NULL: none */
	const char *model; /* NULL: none */
	struct usage_amount used; /* 0: not told */
	struct usage_amount size;
	size_t count;
	struct usage_figure figures[USAGE_COUNTERS_MAX];
};

/**
 * Reads the data of a usage event; `message_id` is the event's own, for data that names none, or
 * NULL. Refused: a figure that is negative or too high, a mode that is missing (where there is
 * something to count) or unknown, more figures than USAGE_COUNTERS_MAX.
 */
int usage_report_parse(const json_t *data, const char *message_id, struct usage_report *ret,
	struct refusal *refusal);

#endif
