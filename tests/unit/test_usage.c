/* The running total: what producers report, in their modes and with their habits. */
#include "usage_fixture.h"

/* --- the three habits --- */

static void per_call(void **state)
{
	assert_total(*state, "null");
	assert_int_equal(
		add(*state, "{\"mode\":\"delta\",\"input_tokens\":100,\"output_tokens\":7}"), 1);
	assert_int_equal(
		add(*state, "{\"mode\":\"delta\",\"input_tokens\":0,\"output_tokens\":0}"), 0);
	restart((struct usage_total **)state);
	assert_int_equal(
		add(*state, "{\"mode\":\"delta\",\"input_tokens\":150,\"output_tokens\":3}"), 1);
	assert_total(*state, "{\"input_tokens\":250,\"output_tokens\":10}");
}

static void cumulative_in_a_message_and_repeated(void **state)
{
	assert_int_equal(add(*state, IN("m1", 100, 1)), 1);
	assert_int_equal(add(*state, IN("m1", 100, 5)), 1);
	assert_int_equal(add(*state, IN("m1", 100, 5)), 0);
	assert_int_equal(add(*state, IN("m2", 130, 2)), 1);
	assert_int_equal(add(*state, IN("m1", 100, 9)), 1); /* it comes back */
	restart((struct usage_total **)state);
	assert_int_equal(add(*state, IN("m1", 100, 5)), 0); /* late */
	assert_int_equal(add(*state, IN("m2", 0, 0)), 0);
	assert_int_equal(add(*state, IN("m2", 130, 4)), 1);
	assert_total(*state, "{\"input_tokens\":230,\"output_tokens\":13}");
}

static void cumulative_late_and_out_of_order_with_a_zero(void **state)
{
	assert_int_equal(add(*state, CUM(100, 7)), 1);
	assert_int_equal(add(*state, CUM(300, 20)), 1);
	assert_int_equal(add(*state, CUM(200, 12)), 0);
	assert_int_equal(add(*state, CUM(0, 0)), 0);
	assert_total(*state, "{\"input_tokens\":300,\"output_tokens\":20}");
	restart((struct usage_total **)state);
	assert_int_equal(add(*state, CUM(300, 20)), 0);
	assert_int_equal(add(*state, CUM(340, 21)), 1);
	assert_total(*state, "{\"input_tokens\":340,\"output_tokens\":21}");
}

/* --- modes together --- */

static void a_sum_at_the_end_does_not_count_its_parts_again(void **state)
{
	add(*state, "{\"mode\":\"delta\",\"model\":\"a\",\"tokens\":10}");
	add(*state, "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m\",\"model\":\"b\","
		    "\"tokens\":30}");
	add(*state, "{\"mode\":\"cumulative\",\"tokens\":40}");
	assert_total(
		*state, "{\"tokens\":40,\"models\":{\"a\":{\"tokens\":10},\"b\":{\"tokens\":30}}}");
	/* It knows of more than its parts did. */
	add(*state, "{\"mode\":\"cumulative\",\"tokens\":45}");
	assert_total(
		*state, "{\"tokens\":45,\"models\":{\"a\":{\"tokens\":10},\"b\":{\"tokens\":30}}}");
	/* And of one model; the rest of the others is still counted. */
	add(*state, "{\"mode\":\"cumulative\",\"model\":\"a\",\"tokens\":25}");
	assert_total(
		*state, "{\"tokens\":55,\"models\":{\"a\":{\"tokens\":25},\"b\":{\"tokens\":30}}}");
}

static void a_message_in_two_modes_counts_once(void **state)
{
	add(*state, "{\"mode\":\"delta\",\"message_id\":\"m\",\"tokens\":10}");
	add(*state, "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m\",\"tokens\":15}");
	assert_total(*state, "{\"tokens\":15}");
	add(*state, "{\"mode\":\"delta\",\"message_id\":\"m\",\"tokens\":10}");
	assert_total(*state, "{\"tokens\":20}");
}

static void a_message_is_of_the_model_it_named_first(void **state)
{
	add(*state, "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m\",\"model\":\"a\","
		    "\"tokens\":10}");
	add(*state, "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m\",\"tokens\":12}");
	add(*state, "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m\",\"model\":\"b\","
		    "\"tokens\":14}");
	assert_total(*state, "{\"tokens\":14,\"models\":{\"a\":{\"tokens\":14}}}");
}

/* --- sources --- */

static void a_new_source_counts_from_zero(void **state)
{
	add(*state, CUM(100, 7));
	add(*state, IN("m1", 50, 1));
	usage_total_new_source(*state, false);
	assert_int_equal(add(*state, IN("m1", 50, 1)), 0); /* a replay of it */
	assert_int_equal(add(*state, CUM(120, 2)), 1);
	assert_total(*state, "{\"input_tokens\":220,\"output_tokens\":9}");
	usage_total_new_source(*state, false);
	restart((struct usage_total **)state);
	usage_total_new_source(*state, false); /* one that never said anything */
	add(*state, CUM(5, 5));
	assert_total(*state, "{\"input_tokens\":225,\"output_tokens\":14}");
}

static void a_resumed_source_may_count_on(void **state)
{
	add(*state, CUM(100, 7));
	usage_total_new_source(*state, true);
	assert_int_equal(add(*state, CUM(0, 0)), 0); /* tells nothing */
	restart((struct usage_total **)state);
	assert_int_equal(add(*state, CUM(100, 7)), 0);
	assert_int_equal(add(*state, CUM(130, 9)), 1);
	assert_total(*state, "{\"input_tokens\":130,\"output_tokens\":9}");
	usage_total_new_source(*state, true);
	usage_total_new_source(*state, true); /* one that said nothing changes nothing */
	add(*state, CUM(150, 9));
	assert_total(*state, "{\"input_tokens\":150,\"output_tokens\":9}");
}

static void a_resumed_source_may_count_from_zero(void **state)
{
	add(*state, CUM(100, 7));
	usage_total_new_source(*state, true);
	add(*state, CUM(30, 2));
	add(*state, CUM(110, 3));
	assert_total(*state, "{\"input_tokens\":210,\"output_tokens\":10}");
}

/** Its sum lags behind the parts that were counted; what it goes on from is what was counted. */
static void a_resumed_source_counts_on_from_its_parts(void **state)
{
	add(*state, "{\"mode\":\"delta\",\"tokens\":100}");
	add(*state, "{\"mode\":\"cumulative\",\"tokens\":90}");
	usage_total_new_source(*state, true);
	add(*state, "{\"mode\":\"cumulative\",\"tokens\":95}");
	assert_total(*state, "{\"tokens\":100}");
	add(*state, "{\"mode\":\"cumulative\",\"tokens\":104}");
	assert_total(*state, "{\"tokens\":104}");
}

static void a_cost_may_count_on(void **state)
{
	add(*state, "{\"mode\":\"cumulative\",\"cost\":{\"amount\":0.9,\"currency\":\"USD\"}}");
	usage_total_new_source(*state, true);
	add(*state, "{\"mode\":\"cumulative\",\"cost\":{\"amount\":1.1,\"currency\":\"USD\"}}");
	assert_total(*state, "{\"cost\":{\"amount\":1.1,\"currency\":\"USD\"}}");
}

/** What is counted ahead in a copy stays there. */
static void a_copy_goes_its_own_way(void **state)
{
	static const char message[] = "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m\","
				      "\"model\":\"x\",\"t\":%d}";
	char data[120];
	struct usage_total *total = *state;
	assert_true(usage_total_is_empty(total));
	for (int i = 0; i < USAGE_MESSAGES_MAX + 2; i++) {
		snprintf(data, sizeof(data),
			"{\"mode\":\"cumulative_in_message\",\"message_id\":\"%d\",\"t\":1}", i);
		add(total, data);
	}
	snprintf(data, sizeof(data), message, 5);
	add(total, data);
	struct usage_total *copy = usage_total_copy(total);
	json_t *before = usage_total_save(total);
	json_t *same = usage_total_save(copy);
	assert_true(json_equal(before, same));
	assert_false(usage_total_is_behind(total, copy));
	snprintf(data, sizeof(data), message, 9);
	assert_int_equal(add(copy, data), 1);
	assert_true(usage_total_is_behind(total, copy));
	assert_false(usage_total_is_behind(copy, total));
	/* Settled in both. */
	assert_int_equal(add(copy, "{\"mode\":\"cumulative_in_message\",\"message_id\":\"0\","
				   "\"t\":1}"),
		0);
	assert_total(copy, "{\"t\":523,\"models\":{\"x\":{\"t\":9}}}");
	usage_total_destroy(copy);
	json_t *after = usage_total_save(total);
	assert_true(json_equal(before, after));
	json_decref(before);
	json_decref(same);
	json_decref(after);
	/* A counter of which the other knows nothing. */
	copy = usage_total_create();
	assert_true(usage_total_is_behind(copy, total));
	assert_false(usage_total_is_behind(total, copy));
	usage_total_destroy(copy);
}

/* --- figures --- */

static void sums_of_costs_are_exact(void **state)
{
	for (int i = 0; i < 1000; i++) {
		add(*state, "{\"mode\":\"delta\",\"cost\":{\"amount\":0.00000025,\"currency\":"
			    "\"USD\"}}");
		add(*state, "{\"mode\":\"delta\",\"cost\":{\"amount\":0.1,\"currency\":\"USD\"},"
			    "\"seconds\":1.5}");
	}
	assert_total(
		*state, "{\"cost\":{\"amount\":100.00025,\"currency\":\"USD\"},\"seconds\":1500}");
	add(*state, "{\"mode\":\"delta\",\"cost\":{\"amount\":2,\"currency\":\"EUR\"}}");
	add(*state, "{\"mode\":\"delta\",\"cost\":{\"amount\":0.9999999999,\"currency\":\"CHF\"}}");
	assert_total(*state,
		"{\"cost\":{\"amount\":100.00025,\"currency\":\"USD\"},\"seconds\":1500,"
		"\"more_costs\":[{\"amount\":2,\"currency\":\"EUR\"},{\"amount\":1,"
		"\"currency\":\"CHF\"}]}");
}

static void a_cost_does_not_change_its_currency(void **state)
{
	add(*state, "{\"mode\":\"delta\",\"cost\":{\"amount\":3,\"currency\":\"USD\"}}");
	add(*state, "{\"mode\":\"delta\",\"model\":\"a\",\"cost\":{\"amount\":2,\"currency\":"
		    "\"EUR\"}}");
	assert_total(*state,
		"{\"cost\":{\"amount\":3,\"currency\":\"USD\"},"
		"\"more_costs\":[{\"amount\":2,\"currency\":\"EUR\"}],"
		"\"models\":{\"a\":{\"more_costs\":[{\"amount\":2,\"currency\":\"EUR\"}]}}}");
}

static void the_context_window_is_as_last_told(void **state)
{
	assert_int_equal(add(*state, "{\"used\":7696,\"size\":200000}"), 1);
	assert_int_equal(add(*state, "{\"mode\":\"cumulative\",\"used\":0,\"size\":200000}"), 0);
	assert_total(*state, "{\"used\":7696,\"size\":200000}");
	restart((struct usage_total **)state);
	assert_int_equal(add(*state, "{\"used\":900,\"size\":200000}"), 1);
	assert_total(*state, "{\"used\":900,\"size\":200000}");
}

static void what_is_no_figure_stays_out(void **state)
{
	add(*state, "{\"mode\":\"delta\",\"server_tool_use\":{\"n\":3},\"service_tier\":\"x\","
		    "\"ok\":true,\"model\":null,\"cost\":null,"
		    "\"cache_read_input_tokens\":5}");
	assert_total(*state, "{\"cache_read_input_tokens\":5}");
}

static void bad_reports_are_refused(void **state)
{
	static const struct {
		const char *data;
		const char *words;
	} table[] = {
		{"[]", "an object"},
		{"{\"mode\":\"sum\",\"a\":1}", "the mode of usage must be"},
		{"{\"mode\":7,\"a\":1}", "the mode of usage must be"},
		{"{\"a\":1}", "needs a \"mode\""},
		{"{\"cost\":{\"amount\":1,\"currency\":\"USD\"}}", "needs a \"mode\""},
		{"{\"mode\":\"cumulative_in_message\",\"a\":1}", "\"message_id\""},
		{"{\"mode\":\"delta\",\"message_id\":\"\",\"a\":1}", "1 to 256 bytes"},
		{"{\"mode\":\"delta\",\"model\":7,\"a\":1}", "1 to 128 bytes"},
		{"{\"mode\":\"delta\",\"a\":-1}", "from 0 to 2^53 - 1"},
		{"{\"mode\":\"delta\",\"a\":-0.5}", "from 0 to 2^53 - 1"},
		{"{\"mode\":\"delta\",\"a\":9007199254740992}", "from 0 to 2^53 - 1"},
		{"{\"mode\":\"delta\",\"a\":1e300}", "from 0 to 2^53 - 1"},
		{"{\"used\":-1}", "from 0 to 2^53 - 1"},
		{"{\"mode\":\"delta\",\"a b\":1}", "may not be named"},
		{"{\"mode\":\"delta\",\"cost:USD\":1}", "may not be named"},
		{"{\"mode\":\"delta\",\"models\":1}", "may not be named"},
		{"{\"mode\":\"delta\",\"more_costs\":1}", "may not be named"},
		{"{\"mode\":\"delta\",\"partial\":1}", "may not be named"},
		{"{\"mode\":\"delta\",\"\":1}", "may not be named"},
		{"{\"mode\":\"delta\",\"cost\":0.5}", "{\"amount\": number"},
		{"{\"mode\":\"delta\",\"cost\":{\"amount\":\"1\",\"currency\":\"USD\"}}",
			"{\"amount\": number"},
		{"{\"mode\":\"delta\",\"cost\":{\"amount\":1,\"currency\":\"U:D\"}}",
			"{\"amount\": number"},
		{"{\"mode\":\"delta\",\"cost\":{\"amount\":-1,\"currency\":\"USD\"}}", "from 0 to"},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		json_t *data = json_of(table[i].data);
		struct usage_report report;
		struct refusal refusal = {0};
		assert_int_equal(usage_report_parse(data, NULL, &report, &refusal), -EINVAL);
		assert_int_equal(refusal.code, ERROR_bad_request);
		if (!strstr(refusal.message, table[i].words)) {
			fail_msg("%s: %s", table[i].data, refusal.message);
		}
		json_decref(data);
	}
}

static void the_message_of_the_event_stands_in(void **state)
{
	json_t *data = json_of("{\"mode\":\"cumulative_in_message\",\"a\":1}");
	struct usage_report report;
	struct refusal refusal;
	assert_int_equal(usage_report_parse(data, "m-1", &report, &refusal), 0);
	assert_string_equal(report.message_id, "m-1");
	json_object_set_new(data, "message_id", json_string("m-2"));
	assert_int_equal(usage_report_parse(data, "m-1", &report, &refusal), 0);
	assert_string_equal(report.message_id, "m-2");
	json_decref(data);
}

/* --- bounds --- */

static void too_many_of_anything_are_refused(void **state)
{
	char text[200];
	for (int i = 0; i < USAGE_MODELS_MAX; i++) {
		assert_int_equal(
			add(*state, format(text, sizeof(text),
					    "{\"mode\":\"delta\",\"model\":\"m%d\",\"t\":1}", i)),
			1);
	}
	for (int i = 1; i < USAGE_COUNTERS_MAX; i++) {
		assert_int_equal(add(*state, format(text, sizeof(text),
						     "{\"mode\":\"delta\",\"t%d\":1}", i)),
			1);
	}
	json_t *before = usage_total_save(*state);
	assert_int_equal(add(*state, "{\"mode\":\"delta\",\"model\":\"more\",\"t\":1}"), -ENOSPC);
	assert_int_equal(add(*state, "{\"mode\":\"delta\",\"t\":1,\"more\":1}"), -ENOSPC);
	assert_int_equal(
		add(*state, "{\"mode\":\"delta\",\"t\":1,\"t5\":9007199254740990}"), -ENOSPC);
	json_t *after = usage_total_save(*state);
	assert_true(json_equal(before, after));
	assert_int_equal(add(*state, "{\"mode\":\"delta\",\"model\":\"m0\",\"t\":1}"), 1);
	assert_int_equal(add(*state, "{\"mode\":\"delta\",\"t5\":9007199254740989}"), 1);
	json_decref(before);
	json_decref(after);
	restart((struct usage_total **)state);
}

static void old_messages_are_settled(void **state)
{
	char text[200];
	const char *form = "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m%d\",\"t\":1}";
	for (int i = 0; i <= USAGE_MESSAGES_MAX; i++) {
		add(*state, format(text, sizeof(text), form, i));
		assert_int_equal(add(*state, IN("open", 1, 1)), i == 0);
	}
	restart((struct usage_total **)state);
	/* m0 and m1 are; what was heard of in between is not. */
	const char *grown = "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m%d\",\"t\":3}";
	assert_int_equal(add(*state, format(text, sizeof(text), grown, 1)), 0);
	assert_int_equal(add(*state, IN("open", 2, 1)), 1);
	assert_int_equal(add(*state, format(text, sizeof(text), grown, 2)), 1);
	/* A delta is new, whatever it is of. */
	assert_int_equal(add(*state, "{\"mode\":\"delta\",\"message_id\":\"m1\",\"t\":1}"), 1);
	assert_total(*state, "{\"t\":516,\"input_tokens\":2,\"output_tokens\":1}");
}

static void beyond_the_settled_ones_the_total_is_a_lower_bound(void **state)
{
	char text[200];
	const char *form = "{\"mode\":\"cumulative_in_message\",\"message_id\":\"m%d\",\"t\":1}";
	const int most = USAGE_MESSAGES_MAX + USAGE_SETTLED_MAX;
	for (int i = 0; i < most; i++) {
		assert_int_equal(add(*state, format(text, sizeof(text), form, i)), 1);
	}
	assert_total(*state, "{\"t\":33280}");
	assert_int_equal(
		add(*state, "{\"mode\":\"cumulative_in_message\",\"message_id\":\"new\",\"t\":1}"),
		1);
	assert_int_equal(
		add(*state, "{\"mode\":\"cumulative_in_message\",\"message_id\":\"new\",\"t\":1}"),
		0);
	assert_int_equal(add(*state, format(text, sizeof(text), form, 0)), 0);
	assert_int_equal(add(*state, "{\"mode\":\"delta\",\"message_id\":\"new\",\"t\":1}"), 1);
	restart((struct usage_total **)state);
	assert_total(*state, "{\"t\":33281,\"partial\":true}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(per_call, setup, teardown),
		cmocka_unit_test_setup_teardown(
			cumulative_in_a_message_and_repeated, setup, teardown),
		cmocka_unit_test_setup_teardown(
			cumulative_late_and_out_of_order_with_a_zero, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_sum_at_the_end_does_not_count_its_parts_again, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_message_in_two_modes_counts_once, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_message_is_of_the_model_it_named_first, setup, teardown),
		cmocka_unit_test_setup_teardown(a_new_source_counts_from_zero, setup, teardown),
		cmocka_unit_test_setup_teardown(a_resumed_source_may_count_on, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_resumed_source_may_count_from_zero, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_resumed_source_counts_on_from_its_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(a_cost_may_count_on, setup, teardown),
		cmocka_unit_test_setup_teardown(a_copy_goes_its_own_way, setup, teardown),
		cmocka_unit_test_setup_teardown(sums_of_costs_are_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_cost_does_not_change_its_currency, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_context_window_is_as_last_told, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_no_figure_stays_out, setup, teardown),
		cmocka_unit_test(bad_reports_are_refused),
		cmocka_unit_test(the_message_of_the_event_stands_in),
		cmocka_unit_test_setup_teardown(too_many_of_anything_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(old_messages_are_settled, setup, teardown),
		cmocka_unit_test_setup_teardown(
			beyond_the_settled_ones_the_total_is_a_lower_bound, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
