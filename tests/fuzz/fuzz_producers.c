/*
 * What producers hand over. A line of the text is JSON: usage data, reported to a running total; a
 * snapshot, matched with what snapshots before it left; a saved total, loaded; `true` or `false`, a
 * new source. The total never falls, a cumulative report counts once, saving keeps everything; what
 * a snapshot adds is good to come in, and adds nothing a second time.
 */
#include "fuzz.h"

#include "holdfast/hash.h"
#include "holdfast/snapshot.h"
#include "holdfast/usage_total.h"

struct producers {
	struct usage_total *total;
	struct hash *ids[3]; /* by enum snapshot_id */
	json_t *order; /* of message ids */
	bool is_made_up; /* a total that no reports add up to was loaded: it must not crash */
};

/* --- usage --- */

static void check_no_less(const json_t *before, const json_t *after)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)before, name, value) {
		const json_t *now = json_object_get(after, name);
		fuzz_check(now != NULL, "what was counted stays");
		if (json_is_object(value)) {
			check_no_less(value, now);
		} else if (json_is_number(value) && strcmp(name, "used") != 0 &&
			   strcmp(name, "size") != 0) {
			fuzz_check(json_number_value(now) >= json_number_value(value),
				"the total does not fall");
		}
	}
}

static void check_saved(const struct usage_total *total)
{
	struct usage_total *loaded;
	json_t *saved = usage_total_save(total);
	fuzz_check(usage_total_load(saved, &loaded) == 0, "what was saved can be loaded");
	json_t *again = usage_total_save(loaded);
	json_t *shown = usage_total_json(total);
	json_t *shown_again = usage_total_json(loaded);
	fuzz_check(json_equal(saved, again) && json_equal(shown, shown_again),
		"saving keeps everything");
	usage_total_destroy(loaded);
	json_decref(saved);
	json_decref(again);
	json_decref(shown);
	json_decref(shown_again);
}

static void put_usage(struct producers *p, const json_t *data)
{
	struct usage_report report;
	struct refusal refusal = {0};
	if (usage_report_parse(data, NULL, &report, &refusal) < 0) {
		fuzz_check(refusal.code && refusal.message[0], "a refusal has words");
		return;
	}
	json_t *before = usage_total_json(p->total);
	int r = usage_total_add(p->total, &report);
	json_t *after = usage_total_json(p->total);
	check_no_less(before, after);
	fuzz_check(r == 1 || json_equal(before, after), "no change is told of that was one");
	if (r == 1 && report.mode != USAGE_DELTA) {
		fuzz_check(usage_total_add(p->total, &report) <= 0, "the same again is no news");
	}
	json_decref(before);
	json_decref(after);
	if (!p->is_made_up) {
		check_saved(p->total);
	}
}

static void put_saved(struct producers *p, const json_t *saved)
{
	struct usage_total *total;
	if (usage_total_load(saved, &total) < 0) {
		return;
	}
	check_saved(total);
	usage_total_destroy(p->total);
	p->total = total;
	p->is_made_up = true;
}

/* --- snapshots --- */

static bool known(void *ctx, enum snapshot_id kind, const char *id)
{
	const struct producers *p = ctx;
	return hash_get(p->ids[kind], id, strlen(id)) != NULL;
}

static const char *nth(void *ctx, size_t n)
{
	const struct producers *p = ctx;
	return json_string_value(json_array_get(p->order, n));
}

static void hold(struct producers *p, enum snapshot_id kind, const json_t *id)
{
	const char *text = json_string_value(id);
	if (text && !hash_put(p->ids[kind], text, strlen(text), p) && kind == SNAPSHOT_MESSAGE) {
		json_array_append(p->order, (json_t *)id);
	}
}

static void take_event(struct producers *p, const json_t *event)
{
	struct input_event in;
	struct refusal refusal;
	struct json_spans spans;
	char *text = json_text(event, NULL);
	fuzz_check(json_spans_read(text, strlen(text), &spans) == 0, "it is JSON");
	fuzz_check(input_event_parse(spans.all, limits_default(), &in, &refusal) == 0,
		"what comes out is good to come in");
	const json_t *id = json_object_get(json_object_get(event, "data"), "tool_call_id");
	hold(p, SNAPSHOT_MESSAGE, json_object_get(event, "message_id"));
	hold(p, in.type == EVENT_TOOL_CALL ? SNAPSHOT_TOOL_CALL : SNAPSHOT_TOOL_RESULT, id);
	input_event_finish(&in);
	json_spans_finish(&spans);
	free(text);
}

static void put_snapshot(struct producers *p, const json_t *data)
{
	const struct snapshot_log log = {.ctx = p, .known = known, .nth = nth};
	struct snapshot_match match;
	struct refusal refusal = {0};
	size_t bad;
	if (snapshot_match(data, limits_default(), &log, &match, &bad, &refusal) < 0) {
		fuzz_check(refusal.code && refusal.message[0], "a refusal has words");
		fuzz_check(bad == SNAPSHOT_NO_INDEX ||
				   bad < json_array_size(json_object_get(data, "messages")),
			"it names a message that there is");
		return;
	}
	size_t i;
	json_t *event;
	json_array_foreach(match.events, i, event) {
		take_event(p, event);
	}
	json_decref(match.events);
	fuzz_check(snapshot_match(data, limits_default(), &log, &match, &bad, &refusal) == 0,
		"what was taken is taken again");
	fuzz_check(json_array_size(match.events) == 0, "and adds nothing");
	json_decref(match.events);
}

/* --- lines --- */

static void put_line(struct producers *p, const char *text, size_t len)
{
	struct refusal refusal;
	json_t *json = json_parse(text, len, NULL, &refusal);
	if (json_is_boolean(json)) {
		usage_total_new_source(p->total, json_is_true(json));
	} else if (json_object_get(json, "messages") && json_object_get(json, "counters")) {
		put_saved(p, json);
	} else if (json_object_get(json, "messages")) {
		put_snapshot(p, json);
	} else if (json) {
		put_usage(p, json);
	}
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct producers p = {.total = usage_total_create(), .order = json_array()};
	const char *text = (const char *)data;
	for (size_t i = 0; i < 3; i++) {
		p.ids[i] = hash_create();
	}
	while (size) {
		const char *end = memchr(text, '\n', size);
		size_t len = end ? (size_t)(end - text) : size;
		put_line(&p, text, len);
		size -= end ? len + 1 : len;
		text += end ? len + 1 : len;
	}
	for (size_t i = 0; i < 3; i++) {
		hash_destroy(p.ids[i]);
	}
	json_decref(p.order);
	usage_total_destroy(p.total);
	return 0;
}
