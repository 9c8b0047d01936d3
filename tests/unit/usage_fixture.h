/* What the tests of the running total share: reports given as text, and a restart. */
#ifndef HOLDFAST_TESTS_USAGE_FIXTURE_H
#define HOLDFAST_TESTS_USAGE_FIXTURE_H

#include "holdfast/usage_total.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static inline int setup(void **state)
{
	*state = usage_total_create();
	return 0;
}

static inline int teardown(void **state)
{
	usage_total_destroy(*state);
	return 0;
}

static inline json_t *json_of(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, JSON_DECODE_ANY, &error);
	if (!json) {
		fail_msg("%s: %s", text, error.text);
	}
	return json;
}

/** Reports the data given as text; returns what usage_total_add() does. */
static inline int add(struct usage_total *total, const char *text)
{
	json_t *data = json_of(text);
	struct usage_report report;
	struct refusal refusal = {0};
	if (usage_report_parse(data, NULL, &report, &refusal) < 0) {
		fail_msg("%s: %s", text, refusal.message);
	}
	int r = usage_total_add(total, &report);
	json_decref(data);
	return r;
}

static inline void assert_total(const struct usage_total *total, const char *text)
{
	json_t *want = json_of(text);
	json_t *got = usage_total_json(total);
	if (!json_equal(want, got)) {
		fail_msg("want %s\n     got  %s", json_dumps(want, JSON_ENCODE_ANY),
			json_dumps(got, JSON_ENCODE_ANY));
	}
	json_decref(want);
	json_decref(got);
}

/** As over a restart: saved to text, and read back. */
static inline void restart(struct usage_total **total)
{
	json_t *saved = usage_total_save(*total);
	assert_non_null(saved);
	char *text = json_dumps(saved, JSON_COMPACT);
	json_t *read = json_of(text);
	struct usage_total *loaded;
	assert_int_equal(usage_total_load(read, &loaded), 0);
	json_t *again = usage_total_save(loaded);
	assert_true(json_equal(saved, again));
	usage_total_destroy(*total);
	*total = loaded;
	json_decref(saved);
	json_decref(read);
	json_decref(again);
	free(text);
}

#define IN(id, in, out)                                                                       \
	"{\"mode\":\"cumulative_in_message\",\"message_id\":\"" id "\",\"input_tokens\":" #in \
	",\"output_tokens\":" #out "}"

#define CUM(in, out) "{\"mode\":\"cumulative\",\"input_tokens\":" #in ",\"output_tokens\":" #out "}"

static inline const char *format(char *out, size_t size, const char *form, int n)
{
	snprintf(out, size, form, n, n);
	return out;
}

#endif
