/*
 * The state machine of a session by itself, without a store, a log or a loop: records in, events
 * and other effects out. The same records give the same bytes, whether the input was read before or
 * is read from its record, and from whatever snapshot between them the story goes on.
 */
#include "holdfast/session_state.h"

#include "holdfast/hash.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct machine {
	struct session_state state;
	struct limits limits;
	struct buffer told; /* all effects, a line for each */
	struct hash *answers; /* of all times: what find() knows */
};

/* --- effects --- */

static void handle_emit(void *owner, const struct event_view *view, bool is_due)
{
	struct machine *m = owner;
	buffer_printf(&m->told, "emit %llu ts=%lld turn=%llu%s %.*s %.*s\n",
		(unsigned long long)view->seq, (long long)view->ts, (unsigned long long)view->turn,
		is_due ? " due" : "",
		(int)(view->type == EVENT_CUSTOM ? view->type_len
						 : strlen(event_type_name(view->type))),
		view->type == EVENT_CUSTOM ? view->type_name : event_type_name(view->type),
		(int)view->data_len, view->data);
}

static void handle_held(void *owner, uint64_t seq, const struct stream_input *input)
{
	struct machine *m = owner;
	bool is_text = input->type == EVENT_THOUGHT_CHUNK;
	const json_t *title = json_object_get(session_state_data(&m->state), "title");
	buffer_printf(&m->told, "held %llu %s\n", (unsigned long long)seq,
		is_text                    ? "(thought)"
		: json_string_value(title) ? json_string_value(title)
					   : "-");
}

static void handle_name(void *owner, const struct session_name *name)
{
	struct machine *m = owner;
	buffer_printf(&m->told, "name %d %.*s seq=%llu nth=%llu sum=%llu\n", name->kind,
		(int)name->len, name->key, (unsigned long long)name->seq,
		(unsigned long long)name->nth,
		(unsigned long long)(name->sum ? name->sum->value : 0));
}

static void handle_answer(void *owner, const struct session_answer *answer)
{
	struct machine *m = owner;
	const char *id = answer->request_id;
	buffer_printf(&m->told, "answer %s %s by '%s' seq=%llu\n", id,
		answer->option_id ? answer->option_id : "(cancelled)", answer->by,
		(unsigned long long)answer->seq);
	hash_put(m->answers, id, strlen(id), (void *)(uintptr_t)answer->seq);
}

static bool handle_find(void *owner, enum log_key_kind kind, const char *key, uint64_t *ret_seq)
{
	struct machine *m = owner;
	assert_int_equal(kind, LOG_KEY_ANSWER);
	*ret_seq = (uint64_t)(uintptr_t)hash_get(m->answers, key, strlen(key));
	return *ret_seq != 0;
}

static const struct session_state_ops ops = {
	.emit = handle_emit,
	.held = handle_held,
	.name = handle_name,
	.answer = handle_answer,
	.find = handle_find,
};

static void machine_init(struct machine *m)
{
	*m = (struct machine){.limits = *limits_default(), .answers = hash_create()};
	session_state_init(&m->state, &m->limits, &ops, m);
}

static void machine_finish(struct machine *m)
{
	session_state_finish(&m->state);
	buffer_finish(&m->told);
	hash_destroy(m->answers);
}

/* --- records --- */

/** A record, and what it was made of. */
struct step {
	enum record_kind kind;
	struct input_event in;
	char *text; /* of the input */
	char name[16]; /* message_id or key */
	json_t *object;
	struct buffer data;
};

struct story {
	struct step steps[400];
	size_t count;
};

static struct step *add(struct story *story, enum record_kind kind)
{
	struct step *step = &story->steps[story->count++];
	*step = (struct step){.kind = kind};
	return step;
}

/** An input; `text` is its text, or the JSON of its data. */
static void input(
	struct story *story, enum event_type type, const char *message_id, const char *text)
{
	struct step *step = add(story, RECORD_INPUT);
	step->text = xstrdup(text);
	step->object = *text == '{' ? json_loads(text, 0, NULL) : NULL;
	step->in = (struct input_event){.type = type,
		.type_name = type == EVENT_CUSTOM ? "x-note" : NULL,
		.type_len = type == EVENT_CUSTOM ? 6 : 0,
		.data = step->text,
		.data_len = strlen(text),
		.object = step->object};
	if (message_id) {
		snprintf(step->name, sizeof(step->name), "%s", message_id);
		step->in.message_id = step->name;
		step->in.message_id_len = strlen(step->name);
	}
}

/** The last input has this key. */
static void with_key(struct story *story, const char *key)
{
	struct step *step = &story->steps[story->count - 1];
	snprintf(step->name, sizeof(step->name), "%s", key);
	step->in.key = step->name;
	step->in.key_len = strlen(key);
	step->in.sum = (struct key_sum){.value = 77, .rule = KEY_SUM_NEWEST};
}

static void raw(struct story *story, enum record_kind kind, const char *data, size_t len)
{
	buffer_append(&add(story, kind)->data, data, len);
}

static void close_story(struct story *story)
{
	for (size_t i = 0; i < story->count; i++) {
		struct step *step = &story->steps[i];
		if (step->text) {
			session_input_pack(&step->in, &step->data);
		}
	}
}

static void story_finish(struct story *story)
{
	for (size_t i = 0; i < story->count; i++) {
		free(story->steps[i].text);
		json_decref(story->steps[i].object);
		buffer_finish(&story->steps[i].data);
	}
}

static void apply(struct machine *m, const struct story *story, size_t i, bool with_input)
{
	const struct step *step = &story->steps[i];
	const struct record record = {.kind = step->kind,
		.ts = 1000 + (int64_t)i,
		.data = step->data.data,
		.data_len = step->data.len};
	uint64_t seq;
	const struct input_event *in = with_input && step->text ? &step->in : NULL;
	assert_int_equal(session_state_apply(&m->state, &record, 1000 + (int64_t)i, in, &seq), 0);
	buffer_printf(&m->told, "-> %llu\n", (unsigned long long)seq);
}

/* --- the story of one session --- */

#define CALL                                                                  \
	"{\"tool_call_id\":\"t1\",\"title\":\"Run it\",\"kind\":\"execute\"," \
	"\"raw_input\":{\"command\":\"make\"}"
#define OPTIONS "[{\"option_id\":\"yes\",\"name\":\"Yes\"},{\"option_id\":\"no\",\"name\":\"No\"}]"
#define ASK(id) "{\"request_id\":\"" id "\",\"tool_call\":" CALL "},\"options\":" OPTIONS "}"
#define ANSWER(id)                                                                          \
	"{\"request_id\":\"" id "\",\"outcome\":\"selected\",\"option_id\":\"yes\",\"by\":" \
	"\"anna\"}"
#define PROMPT(id) "{\"message\":\"do " id "\",\"prompt_id\":\"" id "\",\"client_id\":\"c\"}"

static void tell_one_session(struct story *s)
{
	static const char flush = STREAM_FLUSH_BLOCK;
	raw(s, RECORD_PROMPT, PROMPT("p1"), strlen(PROMPT("p1")));
	input(s, EVENT_AGENT_STARTED, NULL, "{\"name\":\"agent\"}");
	input(s, EVENT_MESSAGE_CHUNK, "m1", "- one\n- tw");
	input(s, EVENT_TOOL_CALL, NULL, CALL ",\"status\":\"pending\"}");
	input(s, EVENT_THOUGHT_CHUNK, NULL, "Hm.");
	raw(s, RECORD_PROMPT, PROMPT("p2"), strlen(PROMPT("p2")));
	raw(s, RECORD_PROMPT, PROMPT("p3"), strlen(PROMPT("p3")));
	raw(s, RECORD_PROMPT_REMOVE, "{\"prompt_id\":\"p2\"}", 18);
	input(s, EVENT_MESSAGE_CHUNK, "m1", "o\n\nText");
	raw(s, RECORD_FLUSH, &flush, 1);
	input(s, EVENT_PERMISSION_REQUEST, NULL, ASK("q1"));
	input(s, EVENT_PERMISSION_RESOLVED, NULL, ANSWER("q1"));
	input(s, EVENT_PERMISSION_RESOLVED, NULL, ANSWER("q1"));
	input(s, EVENT_USAGE, "m1", "{\"mode\":\"delta\",\"input_tokens\":10,\"used\":5}");
	input(s, EVENT_AGENT_STOPPED, NULL, "{\"reason\":\"signal\"}");
	input(s, EVENT_AGENT_STARTED, NULL, "{\"name\":\"agent\",\"resumed\":true}");
	input(s, EVENT_PERMISSION_REQUEST, NULL, ASK("q2"));
	input(s, EVENT_PERMISSION_REQUEST, NULL, ASK("q3"));
	input(s, EVENT_TURN_END, NULL, "{\"stop_reason\":\"end_turn\"}");
	input(s, EVENT_RUN_START, NULL, "run-1");
	input(s, EVENT_CUSTOM, NULL, "{\"a\":1}");
	with_key(s, "k1");
	input(s, EVENT_RUN_END, NULL, "run-1");
	close_story(s);
}

static void expect(const struct machine *m, const char *line)
{
	assert_non_null(memmem(m->told.data, m->told.len, line, strlen(line)));
}

static void a_story_comes_out_as_events_and_effects(void **state)
{
	struct story story = {0};
	struct machine m;
	(void)state;
	tell_one_session(&story);
	machine_init(&m);
	for (size_t i = 0; i < story.count; i++) {
		apply(&m, &story, i, true);
	}
	expect(&m, "name 1 p1 seq=1 nth=0 sum=0\n");
	expect(&m, "emit 1 ts=1000 turn=1 due user_prompt {\"message\":\"do p1\"");
	expect(&m, "held 4 Run it\n");
	expect(&m, "held 5 (thought)\n");
	/* The block is over, and what it held goes out behind it. */
	expect(&m, "emit 3 ts=1002 turn=1 agent_message {\"markdown\":\"- one\\n- two\\n\\n\"}\n"
		   "emit 4 ts=1003 turn=1 tool_call ");
	expect(&m, "name 8 p2 seq=0 ");
	expect(&m, "answer q1 yes by 'anna' seq=8\n");
	/* The second answer adds nothing, and is told of the first one's seq. */
	expect(&m, "answer q1 yes by 'anna' seq=8\n-> 8\n-> 8\n");
	expect(&m, "\"total\":{\"used\":5,\"input_tokens\":10}}");
	/* The agent died: its turn ends, the next prompt begins, and the answer is carried over. */
	expect(&m, "turn_end {\"stop_reason\":\"agent_stopped\"}\n");
	expect(&m, " due user_prompt {\"message\":\"do p3\"");
	expect(&m, "\"bound_to\":8}\nanswer q2 yes by 'anna' ");
	/* It was said once: the same question again is open, and ends with the turn. */
	expect(&m, "answer q3 (cancelled) by '' ");
	expect(&m, "name 7 run-1 seq=0 ");
	expect(&m, "name 3 k1 ");
	assert_null(m.state.facts.run_id);
	assert_int_equal(m.state.facts.turn, 2);
	assert_false(m.state.facts.in_turn);
	assert_true(session_state_is_idle(&m.state));
	machine_finish(&m);
	story_finish(&story);
}

/* --- any story --- */

static void add_random(struct story *s, struct random *r)
{
	static const struct {
		enum event_type type;
		const char *text;
	} inputs[] = {
		{EVENT_MESSAGE_CHUNK, "- item\n"},
		{EVENT_MESSAGE_CHUNK, "Some text. "},
		{EVENT_MESSAGE_CHUNK, "\n\n"},
		{EVENT_MESSAGE_CHUNK, "```\ncode\n"},
		{EVENT_MESSAGE_CHUNK, "```\n"},
		{EVENT_MESSAGE_CHUNK, "| a | b |\n|---|---|\n"},
		{EVENT_THOUGHT_CHUNK, "Thinking."},
		{EVENT_TOOL_CALL, CALL "}"},
		{EVENT_TOOL_CALL_UPDATE, "{\"tool_call_id\":\"t1\",\"status\":\"completed\"}"},
		{EVENT_TOOL_CALL_UPDATE, "{\"tool_call_id\":\"t1\",\"status\":\"failed\"}"},
		{EVENT_PLAN, "{\"entries\":[]}"},
		{EVENT_CUSTOM, "{\"title\":\"\\u00e9\",\"n\":1.50}"},
		{EVENT_FILE_WRITE, "{\"path\":\"/a\",\"size\":3}"},
		{EVENT_USAGE, "{\"mode\":\"delta\",\"input_tokens\":3,\"cost\":{\"amount\":0.125,"
			      "\"currency\":\"EUR\"}}"},
		{EVENT_USAGE, "{\"mode\":\"cumulative\",\"output_tokens\":40,\"model\":\"m\"}"},
		{EVENT_USER_PROMPT, "{\"message\":\"go\",\"prompt_id\":\"u1\"}"},
		{EVENT_TURN_END, "{\"stop_reason\":\"end_turn\"}"},
		{EVENT_AGENT_STARTED, "{\"resumed\":true}"},
		{EVENT_AGENT_STARTED, "{}"},
		{EVENT_AGENT_STOPPED, "{\"reason\":\"exit\"}"},
		{EVENT_AGENT_STOPPED, "{\"reason\":\"exit\",\"cancelled\":true}"},
		{EVENT_RUN_START, "r"},
		{EVENT_RUN_END, "r"},
		{EVENT_SESSION_END, "{}"},
	};
	static const char *const ids[] = {NULL, NULL, "m1", "m2"};
	char text[400];
	char flush = (char)(1 + random_below(r, 2));
	uint32_t which = random_below(r, 40);
	size_t n = s->count;
	if (which < sizeof(inputs) / sizeof(inputs[0])) {
		input(s, inputs[which].type, ids[random_below(r, 4)], inputs[which].text);
	} else if (which < 27) {
		raw(s, RECORD_FLUSH, &flush, 1);
	} else if (which < 31) {
		snprintf(text, sizeof(text),
			"{\"request_id\":\"q%zu\",\"tool_call\":" CALL "},"
			"\"options\":" OPTIONS "}",
			n);
		input(s, EVENT_PERMISSION_REQUEST, NULL, text);
	} else if (which < 35) {
		snprintf(text, sizeof(text),
			"{\"request_id\":\"q%zu\",\"outcome\":\"selected\","
			"\"option_id\":\"yes\",\"by\":\"anna\"}",
			n - (n ? random_below(r, n < 6 ? (uint32_t)n : 6) : 0));
		input(s, EVENT_PERMISSION_RESOLVED, NULL, text);
	} else if (which < 37) {
		snprintf(text, sizeof(text), "{\"message\":\"hi\",\"prompt_id\":\"p%zu\"}", n);
		raw(s, RECORD_PROMPT, text, strlen(text));
	} else {
		snprintf(text, sizeof(text), "{\"prompt_id\":\"p%zu\",\"message\":\"ho\"}",
			n - random_below(r, n < 9 ? (uint32_t)n + 1 : 9));
		raw(s, which < 38 ? RECORD_PROMPT_EDIT : RECORD_PROMPT_REMOVE, text, strlen(text));
	}
	if (s->steps[n].kind == RECORD_INPUT && random_below(r, 20) == 0) {
		s->steps[n].kind = RECORD_RECOVERED;
	}
}

static void assert_same(const struct buffer *a, const struct buffer *b)
{
	if (a->len != b->len || (a->len && memcmp(a->data, b->data, a->len) != 0)) {
		fail_msg("%.*s\nis not\n%.*s", (int)a->len, a->data, (int)b->len, b->data);
	}
}

static void assert_same_state(const struct machine *a, const struct machine *b)
{
	struct buffer bytes_a = {0};
	struct buffer bytes_b = {0};
	session_state_save(&a->state, &bytes_a);
	session_state_save(&b->state, &bytes_b);
	assert_same(&bytes_a, &bytes_b);
	buffer_finish(&bytes_a);
	buffer_finish(&bytes_b);
}

/** Goes on from its own snapshot; what that tells again (prompts that wait) is not compared. */
static void reload(struct machine *m)
{
	struct buffer bytes = {0};
	size_t len = m->told.len;
	session_state_save(&m->state, &bytes);
	assert_int_equal(session_state_load(&m->state, bytes.data, bytes.len), 0);
	m->told.len = len;
	buffer_finish(&bytes);
}

static void the_same_records_give_the_same_bytes(void **state)
{
	struct random r = {29};
	struct story *story = xcalloc(1, sizeof(*story));
	(void)state;
	for (int round = 0; round < 300; round++) {
		struct machine live;
		struct machine replayed;
		struct machine reloaded;
		story->count = 0;
		for (uint32_t n = 1 + random_below(&r, 60); n; n--) {
			add_random(story, &r);
		}
		close_story(story);
		machine_init(&live);
		machine_init(&replayed);
		machine_init(&reloaded);
		for (size_t i = 0; i < story->count; i++) {
			apply(&live, story, i, true);
			apply(&replayed, story, i, false);
			apply(&reloaded, story, i, random_below(&r, 2));
			if (random_below(&r, 4) == 0) {
				reload(&reloaded);
			}
		}
		assert_same(&live.told, &replayed.told);
		assert_same(&live.told, &reloaded.told);
		assert_same_state(&live, &replayed);
		assert_same_state(&live, &reloaded);
		machine_finish(&live);
		machine_finish(&replayed);
		machine_finish(&reloaded);
		story_finish(story);
	}
	free(story);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_story_comes_out_as_events_and_effects),
		cmocka_unit_test(the_same_records_give_the_same_bytes),
	};
	return cmocka_run_group_tests_name("session-state", tests, NULL, NULL);
}
