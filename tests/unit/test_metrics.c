/* The counters, and their text. */
#include "holdfast/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void assert_has(const struct metrics *metrics, const char *line)
{
	struct buffer text = {0};
	metrics_write(metrics, &text);
	if (!strstr(buffer_cstr(&text), line)) {
		fail_msg("there is no \"%s\" in\n%s", line, buffer_cstr(&text));
	}
	buffer_finish(&text);
}

static void counters_and_gauges(void **state)
{
	struct metrics *metrics = metrics_create();
	metrics_add(metrics, METRIC_EVENTS_APPENDED, 3);
	metrics_add(metrics, METRIC_EVENTS_APPENDED, 4);
	metrics_add(metrics, METRIC_OBSERVERS, 2);
	metrics_add(metrics, METRIC_OBSERVERS, (uint64_t)-1);
	metrics_set(metrics, METRIC_SESSIONS, 9);
	assert_has(metrics,
		"# TYPE holdfast_events_appended_total counter\nholdfast_events_appended_total 7\n");
	assert_has(metrics, "holdfast_observers{transport=\"websocket\"} 1\n");
	assert_has(metrics, "# TYPE holdfast_sessions gauge\nholdfast_sessions 9\n");
	metrics_destroy(metrics);
}

static void words_and_limits(void **state)
{
	struct metrics *metrics = metrics_create();
	metrics_refused(metrics, ERROR_too_large, LIMIT_frame_size);
	metrics_refused(metrics, ERROR_too_large, LIMIT_NONE);
	metrics_refused(metrics, ERROR_timeout, LIMIT_head_ms);
	assert_has(metrics, "holdfast_refusals_total{code=\"too_large\"} 2\n");
	assert_has(metrics, "holdfast_refusals_total{code=\"timeout\"} 1\n");
	assert_has(metrics, "holdfast_limit_reached_total{limit=\"frame_size\"} 1\n");
	assert_has(metrics, "holdfast_limit_reached_total{limit=\"body_size\"} 0\n");
	metrics_destroy(metrics);
}

static void histograms(void **state)
{
	struct metrics *metrics = metrics_create();
	const double seen[] = {0, 0.0001, 0.00011, 0.3, 10, 11};
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
		metrics_observe(metrics, HISTOGRAM_APPEND_SECONDS, seen[i]);
	}
	assert_has(metrics, "holdfast_append_duration_seconds_bucket{le=\"0.0001\"} 2\n"
			    "holdfast_append_duration_seconds_bucket{le=\"0.00025\"} 3\n");
	assert_has(metrics,
		"{le=\"0.25\"} 3\nholdfast_append_duration_seconds_bucket{le=\"0.5\"} 4\n");
	assert_has(metrics,
		"{le=\"10\"} 5\nholdfast_append_duration_seconds_bucket{le=\"+Inf\"} 6\n"
		"holdfast_append_duration_seconds_sum 21.30021\n"
		"holdfast_append_duration_seconds_count 6\n");
	metrics_destroy(metrics);
}

/** A sum of billions still goes up by one; else the rate of a busy server is a staircase. */
static void large_sums(void **state)
{
	struct metrics *metrics = metrics_create();
	metrics_observe(metrics, HISTOGRAM_SYNC_RECORDS, 1e13);
	metrics_observe(metrics, HISTOGRAM_SYNC_RECORDS, 1);
	assert_has(metrics, "holdfast_sync_records_sum 10000000000001\n");
	metrics_destroy(metrics);
}

static void nobody_counts(void **state)
{
	metrics_add(NULL, METRIC_EVENTS_APPENDED, 1);
	metrics_set(NULL, METRIC_SESSIONS, 1);
	metrics_observe(NULL, HISTOGRAM_SYNC_SECONDS, 1);
	metrics_refused(NULL, ERROR_too_large, LIMIT_frame_size);
	metrics_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_and_gauges),
		cmocka_unit_test(words_and_limits),
		cmocka_unit_test(histograms),
		cmocka_unit_test(large_sums),
		cmocka_unit_test(nobody_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
