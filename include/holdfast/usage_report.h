/*
 * Parses a usage report, the data of a `usage` event (proto/protocol.md#producers). usage_total.h
 * adds the figures up. Pure.
 */
#ifndef HOLDFAST_USAGE_REPORT_H
#define HOLDFAST_USAGE_REPORT_H

#include "holdfast/json_text.h"
#include "holdfast/requests.h"

#include <jansson.h>
#include <stdint.h>

#define USAGE_COUNTERS_MAX 24
#define USAGE_NAME_MAX     64
#define USAGE_MODEL_MAX    128
#define USAGE_FIGURE_MAX   JSON_SAFE_MAX

/**
 * A non-negative number with nine decimal places: sums are exact, and a price per token of 2.5e-7
 * still fits.
 */
struct usage_amount {
	int64_t whole;
	int32_t nano; /* below 1,000,000,000 */
};

enum usage_mode { USAGE_DELTA, USAGE_CUMULATIVE, USAGE_CUMULATIVE_IN_MESSAGE };

struct usage_figure {
	char name[USAGE_NAME_MAX + 1]; /* a cost is named "cost:" and its currency */
	struct usage_amount amount;
};

/** A checked usage report; strings are borrowed from its data. */
struct usage_report {
	enum usage_mode mode;
	const char *message_id; /* NULL: none */
	const char *model; /* NULL: none */
	struct usage_amount used; /* 0: not reported */
	struct usage_amount size;
	size_t count;
	struct usage_figure figures[USAGE_COUNTERS_MAX];
};

/**
 * Parses the data of a usage event. `message_id` is that of the event itself (or NULL), used if the
 * data has none. Returns 0, or -EINVAL with `refusal` set for a figure out of range, an unknown
 * mode, a mode missing although there are figures, or more than USAGE_COUNTERS_MAX figures.
 */
int usage_report_parse(const json_t *data, const char *message_id, struct usage_report *ret,
	struct refusal *refusal);

#endif
