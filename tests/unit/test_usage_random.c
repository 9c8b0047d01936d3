/*
 * The running total against the world: spoilt saved states, reports in any order and however often,
 * and what real agents sent.
 */
#include "corpus.h"
#include "random.h"
#include "usage_fixture.h"

/* --- saved state --- */

/** A total with everything in it. */
static void fill(struct usage_total *total)
{
	add(total, "{\"mode\":\"delta\",\"model\":\"a\",\"t\":1,\"cost\":{\"amount\":0.5,"
		   "\"currency\":\"USD\"}}");
	add(total, IN("m1", 3, 4));
	add(total, CUM(9, 9));
	usage_total_new_source(total, true);
	char text[200];
	for (int i = 0; i < USAGE_MESSAGES_MAX; i++) {
		add(total, format(text, sizeof(text),
				   "{\"mode\":\"delta\",\"message_id\":\"x%d\",\"t\":1}", i));
	}
}

/** Puts something else at every place of a saved state, and takes every one away. */
static size_t spoil(json_t *whole, json_t *at, size_t depth)
{
	static const char *const others[] = {
		"null", "-1", "9007199254740992", "1000000000", "\"\"", "\"x\"", "[]", "{}"};
	size_t tried = 0;
	size_t count = json_is_array(at) ? json_array_size(at) : json_object_size(at);
	for (size_t i = 0; i < count && i < 12; i++) {
		void *iter = NULL;
		if (json_is_object(at)) {
			iter = json_object_iter(at);
			for (size_t k = 0; k < i; k++) {
				iter = json_object_iter_next(at, iter);
			}
		}
		json_t *old =
			json_incref(iter ? json_object_iter_value(iter) : json_array_get(at, i));
		for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++) {
			json_t *other = json_of(others[k]);
			struct usage_total *total;
			if (iter) {
				json_object_iter_set(at, iter, other);
			} else {
				json_array_set(at, i, other);
			}
			/* Loaded or not, it never crashes, and what is loaded can be used. */
			if (usage_total_load(whole, &total) == 0) {
				add(total, CUM(1, 1));
				usage_total_new_source(total, true);
				json_decref(usage_total_json(total));
				json_decref(usage_total_save(total));
				usage_total_destroy(total);
			} else {
				tried++;
			}
			json_decref(other);
		}
		if (iter) {
			json_object_iter_set(at, iter, old);
		} else {
			json_array_set(at, i, old);
		}
		tried += depth ? spoil(whole, old, depth - 1) : 0;
		json_decref(old);
	}
	return tried;
}

static void spoilt_states_are_not_loaded(void **state)
{
	fill(*state);
	json_t *saved = usage_total_save(*state);
	size_t refused = spoil(saved, saved, 4);
	assert_true(refused > 500);
	struct usage_total *total;
	assert_int_equal(usage_total_load(saved, &total), 0);
	usage_total_destroy(total);
	json_decref(saved);
	assert_int_equal(usage_total_load(NULL, &total), -EBADMSG);
}

static void states_with_doubles_are_not_loaded(void **state)
{
	fill(*state);
	struct usage_total *total;
	static const char *const lists[] = {"counters", "models", "messages"};
	for (size_t i = 0; i < 3; i++) {
		json_t *saved = usage_total_save(*state);
		json_t *list = json_object_get(saved, lists[i]);
		if (i == 2) {
			json_array_remove(list, 5); /* else it is too long */
		}
		json_array_append(list, json_array_get(list, 0));
		if (i == 0) {
			json_array_append(json_object_get(saved, "whole"),
				json_array_get(json_object_get(saved, "whole"), 0));
			json_object_set_new(saved, "models", json_array());
			json_object_set_new(saved, "messages", json_array());
		}
		assert_int_equal(usage_total_load(saved, &total), -EBADMSG);
		json_decref(saved);
	}
}

/* --- any order, any repetition --- */

#define STEPS_MAX 400

/** What a source says, with the truth it tells of. */
struct story {
	struct usage_report reports[STEPS_MAX];
	char ids[STEPS_MAX][24];
	bool once[STEPS_MAX]; /* a delta: repeating it is what its key is for */
	size_t count;
	int64_t truth;
};

static void tell(struct story *story, enum usage_mode mode, int message, int64_t tokens)
{
	struct usage_report *report = &story->reports[story->count];
	*report = (struct usage_report){.mode = mode, .count = 1};
	snprintf(report->figures[0].name, sizeof(report->figures[0].name), "t");
	report->figures[0].amount.whole = tokens;
	story->once[story->count] = mode == USAGE_DELTA;
	if (message >= 0) {
		snprintf(story->ids[story->count], 24, "m%d", message);
		report->message_id = story->ids[story->count];
	}
	story->count++;
}

/** Model calls, told of in one habit or in two at the same time. */
static void make_story(struct random *r, struct story *story, int first_message)
{
	*story = (struct story){.truth = 0};
	bool deltas = random_below(r, 2);
	bool sums = random_below(r, 2);
	for (int call = 0; call < 20; call++) {
		int64_t tokens = 1 + random_below(r, 1000);
		story->truth += tokens;
		if (deltas) {
			tell(story, USAGE_DELTA, random_below(r, 2) ? first_message + call : -1,
				tokens);
		} else {
			for (int64_t part = 1; part <= 3; part++) {
				tell(story, USAGE_CUMULATIVE_IN_MESSAGE, first_message + call,
					tokens * part / 3);
			}
		}
		if (sums) {
			tell(story, USAGE_CUMULATIVE, -1, story->truth);
			tell(story, USAGE_CUMULATIVE, -1, 0);
		}
	}
}

static int64_t tokens_of(const struct usage_total *total)
{
	json_t *json = usage_total_json(total);
	int64_t tokens = json_integer_value(json_object_get(json, "t"));
	json_decref(json);
	return tokens;
}

static void in_any_order_and_however_often(void **state)
{
	struct random r = {.state = 20251120};
	static struct story story;
	for (int round = 0; round < 60; round++) {
		struct usage_total *total = usage_total_create();
		int64_t truth = 0;
		for (int source = 0; source < 3; source++) {
			make_story(&r, &story, source * 20);
			size_t order[2 * STEPS_MAX];
			size_t count = 0;
			for (size_t i = 0; i < story.count; i++) {
				order[count++] = i;
				if (!story.once[i] && random_below(&r, 2)) {
					order[count++] = i;
				}
			}
			for (size_t i = count; i > 1; i--) {
				size_t k = random_below(&r, (uint32_t)i);
				size_t swap = order[i - 1];
				order[i - 1] = order[k];
				order[k] = swap;
			}
			int64_t last = truth;
			for (size_t i = 0; i < count; i++) {
				assert_true(usage_total_add(total, &story.reports[order[i]]) >= 0);
				int64_t now = tokens_of(total);
				assert_true(now >= last); /* it never falls */
				last = now;
				if (random_below(&r, 50) == 0) {
					restart(&total);
				}
			}
			truth += story.truth;
			assert_int_equal(tokens_of(total), truth);
			/* All that can be repeated is, to a new source, as a replay would. */
			usage_total_new_source(total, false);
			for (size_t i = 0; i < story.count; i++) {
				if (story.reports[i].mode == USAGE_CUMULATIVE_IN_MESSAGE) {
					assert_int_equal(
						usage_total_add(total, &story.reports[i]), 0);
				}
			}
		}
		usage_total_destroy(total);
	}
}

/* --- real agents --- */

/**
 * The adapter's part: what an ACP agent says, as reports. `usage_update` is cumulative; a prompt's
 * result tells of that turn, and one that repeats the turn before is stale.
 */
struct recording {
	struct usage_total *total;
	json_int_t proc;
	json_t *last_result;
	char session[128];
	double cost; /* the highest one seen */
	json_int_t input; /* the sum over the turns */
	size_t count;
};

static void report_data(struct usage_total *total, json_t *data)
{
	struct usage_report report;
	struct refusal refusal = {0};
	if (usage_report_parse(data, NULL, &report, &refusal) < 0) {
		fail_msg("%s", refusal.message);
	}
	assert_true(usage_total_add(total, &report) >= 0);
}

static void see_update(struct recording *rec, const json_t *update)
{
	json_t *data = json_pack("{s:s, s:O, s:O}", "mode", "cumulative", "used",
		json_object_get(update, "used"), "size", json_object_get(update, "size"));
	const json_t *cost = json_object_get(update, "cost");
	if (cost) {
		json_object_set(data, "cost", (json_t *)cost);
		double amount = json_number_value(json_object_get(cost, "amount"));
		rec->cost = amount > rec->cost ? amount : rec->cost;
	}
	report_data(rec->total, data);
	json_decref(data);
	rec->count++;
}

static void see_result(struct recording *rec, json_t *usage)
{
	if (rec->last_result && json_equal(usage, rec->last_result)) {
		return;
	}
	json_decref(rec->last_result);
	rec->last_result = json_incref(usage);
	json_t *data = json_pack("{s:s, s:O, s:O}", "mode", "delta", "input_tokens",
		json_object_get(usage, "inputTokens"), "output_tokens",
		json_object_get(usage, "outputTokens"));
	report_data(rec->total, data);
	json_decref(data);
	rec->input += json_integer_value(json_object_get(usage, "inputTokens"));
	rec->count++;
}

static void see_line(struct recording *rec, const char *text, size_t len)
{
	json_t *record = json_loadb(text, len, 0, NULL);
	const char *dir = json_string_value(json_object_get(record, "dir"));
	json_t *line =
		dir && strcmp(dir, "a2c") == 0
			? json_loads(json_string_value(json_object_get(record, "line")), 0, NULL)
			: NULL;
	json_int_t proc = json_integer_value(json_object_get(record, "proc"));
	if (line && proc != rec->proc) {
		usage_total_new_source(rec->total, true);
		restart(&rec->total);
		rec->proc = proc;
	}
	json_t *params = json_object_get(line, "params");
	const json_t *update = json_object_get(params, "update");
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	if (kind && strcmp(kind, "usage_update") == 0) {
		see_update(rec, update);
	}
	json_t *usage = json_object_get(json_object_get(line, "result"), "usage");
	if (usage) {
		see_result(rec, usage);
	}
	json_decref(line);
	json_decref(record);
}

static void see_recording(void *arg, const char *name, const char *text, size_t len)
{
	if (strstr(name, "two-sessions") || !strstr(name, ".jsonl")) {
		return; /* each session has a total of its own */
	}
	struct recording rec = {.total = usage_total_create(), .proc = 1};
	for (const char *end; len && (end = memchr(text, '\n', len));
		len -= (size_t)(end + 1 - text), text = end + 1) {
		see_line(&rec, text, (size_t)(end - text));
	}
	json_t *json = usage_total_json(rec.total);
	double cost = json_number_value(json_object_get(json_object_get(json, "cost"), "amount"));
	/* opencode counts its costs on after session/load in another process. */
	assert_true(cost - rec.cost < 1e-9 && rec.cost - cost < 1e-9);
	assert_int_equal(json_integer_value(json_object_get(json, "input_tokens")), rec.input);
	if (strcmp(name, "opencode-load.jsonl") == 0) {
		json_t *want = json_of("{\"used\":8224,\"size\":200000,\"input_tokens\":40616,"
				       "\"output_tokens\":114,"
				       "\"cost\":{\"amount\":0.064503,\"currency\":\"USD\"}}");
		assert_true(json_equal(json, want));
		json_decref(want);
	}
	*(size_t *)arg += rec.count;
	json_decref(json);
	json_decref(rec.last_result);
	usage_total_destroy(rec.total);
}

static void recordings_of_real_agents(void **state)
{
	size_t reports = 0;
	corpus_each("acp", see_recording, &reports);
	assert_true(reports > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(spoilt_states_are_not_loaded, setup, teardown),
		cmocka_unit_test_setup_teardown(
			states_with_doubles_are_not_loaded, setup, teardown),
		cmocka_unit_test(in_any_order_and_however_often),
		cmocka_unit_test(recordings_of_real_agents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
