/* The first touch: questions and their answers, and batches that are taken whole or not at all. */
#include "stage.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static int setup(void **state)
{
	stage_setup(state);
	stage_watch(*state);
	return 0;
}

static const json_t *status(struct stage *st)
{
	return fake_socket_newest(&st->socket, "state");
}

static void assert_status(struct stage *st, const char *word, bool prompting)
{
	const json_t *state = status(st);
	assert_string_equal(json_string_value(json_object_get(state, "status")), word);
	assert_int_equal(json_is_true(json_object_get(state, "is_prompting")), prompting);
}

/* --- questions --- */

#define ASK(id)                                                                           \
	"{\"request_id\":\"" id "\",\"tool_call\":{\"tool_call_id\":\"t\"},\"options\":[" \
	"{\"option_id\":\"yes\",\"name\":\"Yes\",\"kind\":\"allow_once\"}]}"

static int answer(struct stage *st, const char *id, const char *option, const char *client,
	struct refusal *refusal)
{
	struct request request = {.type = REQUEST_PERMISSION_ANSWER};
	request.answer.request_id = id;
	request.answer.option_id = option;
	*refusal = (struct refusal){0};
	return intake_answer(st->session, &request, AUTHOR(client), refusal);
}

static void the_first_answer_wins(void **state)
{
	struct stage *st = *state;
	struct refusal refusal;
	rig_put(st->session, "permission_request", ASK("q1"));
	rig_settle(&st->rig);
	assert_status(st, "waiting", true);
	assert_int_equal(answer(st, "q2", "yes", "c1", &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_unknown_request);
	assert_int_equal(answer(st, "q1", "maybe", "c1", &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_bad_request);
	struct author ann = {.client_id = "c1", .sub = "ann"};
	struct request request = {.type = REQUEST_PERMISSION_ANSWER};
	request.answer.request_id = "q1";
	request.answer.option_id = "yes";
	assert_int_equal(intake_answer(st->session, &request, &ann, &refusal), 0);
	/* Before the first is even durable. */
	assert_int_equal(answer(st, "q1", "yes", "c2", &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_already_resolved);
	assert_string_equal(refusal.detail.by, "c1");
	assert_string_equal(refusal.detail.sub, "ann");
	assert_int_equal(refusal.detail.seq, 2);
	stage_restart(st);
	assert_int_equal(answer(st, "q1", "yes", "c2", &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_already_resolved);
	assert_string_equal(refusal.detail.by, "c1");
	assert_string_equal(refusal.detail.sub, "ann");
	assert_int_equal(refusal.detail.seq, 2);
	assert_status(st, "running", true);
}

static void open_questions_end_with_the_turn(void **state)
{
	struct stage *st = *state;
	struct refusal refusal;
	rig_put(st->session, "permission_request", ASK("q1"));
	rig_put(st->session, "permission_request", ASK("q2"));
	assert_int_equal(answer(st, "q1", "yes", "c1", &refusal), 0);
	stage_restart(st);
	assert_status(st, "waiting", true);
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
	assert_status(st, "idle", false);
	const json_t *events = json_object_get(fake_socket_newest(&st->socket, "events"), "events");
	const json_t *resolved = json_object_get(json_array_get(events, 0), "data");
	assert_string_equal(json_string_value(json_object_get(resolved, "request_id")), "q2");
	assert_string_equal(json_string_value(json_object_get(resolved, "outcome")), "cancelled");
	assert_int_equal(answer(st, "q2", "yes", "c1", &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_already_resolved);
	assert_string_equal(refusal.detail.by, "");
	assert_int_equal(refusal.detail.seq, 4);
}

static int append_json(struct stage *st, const char *events, struct append_ack *acks,
	size_t *ret_bad, struct refusal *refusal)
{
	struct json_spans spans;
	assert_int_equal(json_spans_read(events, strlen(events), &spans), 0);
	*refusal = (struct refusal){0};
	int r = intake_append(st->session, spans.all + 1, json_span_array_size(spans.all),
		&st->rig.limits, acks, ret_bad, refusal);
	json_spans_finish(&spans);
	return r;
}

#define ASK_EVENT(id) "{\"type\":\"permission_request\",\"data\":" ASK(id) "}"
#define ANSWER_EVENT(id)                                                   \
	"{\"type\":\"permission_resolved\",\"data\":{\"request_id\":\"" id \
	"\",\"outcome\":\"selected\",\"option_id\":\"yes\"}}"

/** A batch is all or none, and what stands in it counts for what follows in it. */
static void questions_and_answers_in_one_batch(void **state)
{
	struct stage *st = *state;
	struct append_ack acks[3];
	struct refusal refusal;
	size_t bad;
	assert_int_equal(append_json(st, "[" ASK_EVENT("q1") "," ANSWER_EVENT("q1") "]", acks, &bad,
				 &refusal),
		0);
	assert_int_equal(acks[0].seq, 1);
	assert_int_equal(acks[1].seq, 2);
	static const struct {
		const char *events;
		size_t bad;
		enum error_code code;
	} cases[] = {
		{"[" ASK_EVENT("q2") "," ASK_EVENT("q2") "]", 1, ERROR_bad_request},
		{"[" ASK_EVENT("q1") "]", 0, ERROR_bad_request},
		{"[" ANSWER_EVENT("q1") "]", 0, ERROR_already_resolved},
		{"[" ASK_EVENT("q2") "," ANSWER_EVENT("q2") "," ANSWER_EVENT("q2") "]", 2,
			ERROR_already_resolved},
		{"[" ANSWER_EVENT("q2") "," ASK_EVENT("q2") "]", 0, ERROR_unknown_request},
		{"[" ASK_EVENT("q2") ",{\"type\":\"nonsense\",\"data\":{}}]", 1,
			ERROR_unknown_type},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(append_json(st, cases[i].events, acks, &bad, &refusal), -EINVAL);
		assert_int_equal(bad, cases[i].bad);
		assert_int_equal(refusal.code, cases[i].code);
	}
	rig_settle(&st->rig);
	assert_int_equal(session_channel(st->session)->max_seq, 2);
}

/** A producer's answer would end the form of an agent with an action that there is not. */
static void a_form_is_no_permission_request(void **state)
{
	struct stage *st = *state;
	struct append_ack acks[1];
	struct refusal refusal;
	size_t bad;
	rig_put(st->session, "elicitation_request",
		"{\"request_id\":\"q1\",\"mode\":\"form\",\"message\":\"Name?\"}");
	rig_settle(&st->rig);
	assert_int_equal(
		append_json(st, "[" ANSWER_EVENT("q1") "]", acks, &bad, &refusal), -EINVAL);
	assert_int_equal(refusal.code, ERROR_unknown_request);
	assert_non_null(session_elicitation(st->session, "q1"));
	assert_status(st, "waiting", true);
}

#define NOTE(members) "{\"type\":\"x-n\",\"data\":{}," members "}"
#define RUN(type, id) "{\"type\":\"run_" type "\",\"data\":{\"run_id\":\"" id "\"}}"

/** Few events are looked through, many are looked up: both refuse the same. */
static void a_large_batch_is_checked_like_a_small_one(void **state)
{
	static const struct {
		const char *events;
		size_t bad;
		enum error_code code; /* ERROR_NONE: the last one is known */
	} cases[] = {
		{NOTE("\"key\":\"a\"") "," NOTE("\"key\":\"a\""), 1, ERROR_NONE},
		{NOTE("\"key\":\"b\"") "," NOTE("\"key\":\"b\",\"message_id\":\"m\""), 1,
			ERROR_key_conflict},
		{RUN("start", "b") "," RUN("end", "b") "," RUN("start", "b"), 2, ERROR_stale_run},
		{RUN("start", "b") "," NOTE("\"run_id\":\"c\""), 1, ERROR_unknown_run},
		{RUN("start", "b") "," RUN("start", "c") "," NOTE("\"run_id\":\"b\""), 2,
			ERROR_stale_run},
		{ASK_EVENT("a") "," ASK_EVENT("a"), 1, ERROR_bad_request},
		{ASK_EVENT("a") "," ANSWER_EVENT("a") "," ANSWER_EVENT("a"), 2,
			ERROR_already_resolved},
		/* A name of one kind is none of another. */
		{NOTE("\"key\":\"b\"") "," RUN("end", "b"), 1, ERROR_unknown_run},
	};
	struct stage *st = *state;
	for (size_t padding = 0; padding < 100; padding += 33) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct append_ack acks[128];
			struct refusal refusal;
			size_t bad;
			struct buffer events = {0};
			buffer_append_char(&events, '[');
			for (size_t n = 0; n < padding; n++) {
				buffer_printf(&events, NOTE("\"key\":\"%zu-%zu-%zu\"") ",", padding,
					i, n);
			}
			buffer_append_str(&events, cases[i].events);
			buffer_append_char(&events, ']');
			int r = append_json(st, buffer_cstr(&events), acks, &bad, &refusal);
			buffer_finish(&events);
			if (!cases[i].code) {
				assert_int_equal(r, 0);
				assert_true(acks[padding + cases[i].bad].duplicate);
				continue;
			}
			assert_int_equal(r, -EINVAL);
			assert_int_equal(bad, padding + cases[i].bad);
			assert_int_equal(refusal.code, cases[i].code);
		}
	}
}

static void bad_events_refuse_the_batch(void **state)
{
	static const char *const bad[] = {"[{\"type\":\"turn_end\"}]",
		"[{\"type\":\"turn_end\",\"data\":[]}]", "[{}]", "[1]", "[null]",
		"[{\"type\":\"permission_request\",\"data\":{}}]",
		"[{\"type\":\"permission_resolved\",\"data\":{\"request_id\":1}}]"};
	struct stage *st = *state;
	struct append_ack acks[1];
	struct refusal refusal;
	size_t index;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(append_json(st, bad[i], acks, &index, &refusal), -EINVAL);
		assert_int_not_equal(refusal.code, ERROR_NONE);
	}
	rig_settle(&st->rig);
	assert_int_equal(session_channel(st->session)->max_seq, 0);
}

/** An agent may call its messages anything; what is too long for the journal is left out. */
static void an_endless_message_id_does_no_harm(void **state)
{
	struct stage *st = *state;
	char *id = xmalloc(70001);
	memset(id, 'm', 70000);
	id[70000] = '\0';
	assert_int_equal(intake_text(st->session, false, "Text", 4, id), 0);
	rig_put(st->session, "turn_end", "{}");
	rig_settle(&st->rig);
	const json_t *events = json_object_get(fake_socket_newest(&st->socket, "events"), "events");
	const json_t *event = json_array_get(events, 0);
	assert_null(json_object_get(event, "message_id"));
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(event, "data"), "markdown")),
		"Text");
	free(id);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, stage_teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_first_answer_wins),
		TEST(open_questions_end_with_the_turn),
		TEST(questions_and_answers_in_one_batch),
		TEST(a_form_is_no_permission_request),
		TEST(a_large_batch_is_checked_like_a_small_one),
		TEST(bad_events_refuse_the_batch),
		TEST(an_endless_message_id_does_no_harm),
	};
	return cmocka_run_group_tests_name("intake", tests, NULL, NULL);
}
