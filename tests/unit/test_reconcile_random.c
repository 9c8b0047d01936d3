/*
 * Random histories in few words, said again and again, of which the log lacks some: what a replay
 * adds is as much as is missing, neither more nor less, and the next replay adds nothing.
 */
#include "reconcile_fixture.h"
#include "part.h"
#include "random.h"

#include <inttypes.h>

static const char *const prompts[] = {
	"go on", "fix it", "now fix the build of the server", "go on"};
static const char *const texts[] = {"Done.", "Ok.", "Yes, done.", "I look at the files first.",
	"I have changed it as you asked.", "All of the tests are green now."};
static const char *const titles[] = {"List", "Read", "Delete"};

#define SEEDS       48 /* a part of them with each commit */
#define RUNS        500
#define COUNT(list) (uint32_t)(sizeof(list) / sizeof((list)[0]))

/* One history, as the agent and as the log has it. */
struct making {
	struct random *random;
	struct story *story;
	bool has_names;
	int names;
	int calls; /* of this turn: the agent counts them from 1 in each */
	bool is_lost; /* nothing of this turn was heard */
	/* What the log lacks. */
	size_t prompts;
	size_t events;
	size_t bytes;
};

static void add_message(struct making *m)
{
	char text[100];
	char id[16];
	snprintf(text, sizeof(text), "%s\n\n", texts[random_below(m->random, COUNT(texts))]);
	snprintf(id, sizeof(id), "m%d", m->names++);
	tell(m->story->told, "agent_message_chunk", text, m->has_names ? id : NULL);
	if (m->is_lost || random_below(m->random, 6) == 0) {
		struct bare_text bare = {0};
		bare_text_append(&bare, SAID_MESSAGE, text, strlen(text));
		m->bytes += bare.bytes.len;
		bare_text_finish(&bare);
	} else {
		log_append(m->story->log, "agent_message", json_pack("{s:s}", "markdown", text),
			m->has_names ? id : NULL);
	}
}

static void add_call(struct making *m)
{
	char id[16];
	const char *title = titles[random_below(m->random, COUNT(titles))];
	snprintf(id, sizeof(id), "call_%d", ++m->calls);
	json_array_append_new(
		m->story->told, json_pack("{s:s, s:s, s:s, s:s}", "sessionUpdate", "tool_call",
					"toolCallId", id, "title", title, "status", "completed"));
	if (m->is_lost || random_below(m->random, 6) == 0) {
		m->events++;
	} else {
		log_append(m->story->log, "tool_call",
			json_pack("{s:s, s:s, s:s}", "tool_call_id", id, "title", title, "status",
				"completed"),
			NULL);
	}
}

static void add_turn(struct making *m)
{
	const char *prompt = prompts[random_below(m->random, COUNT(prompts))];
	m->calls = 0;
	m->is_lost = random_below(m->random, 8) == 0;
	tell_user(m->story->told, prompt);
	if (m->is_lost) {
		m->prompts++;
	} else {
		log_prompt(m->story->log, prompt);
	}
	for (uint32_t left = 1 + random_below(m->random, 6); left > 0; left--) {
		if (random_below(m->random, 3) == 0) {
			add_call(m);
		} else {
			add_message(m);
		}
	}
}

static void print_list(const char *name, const json_t *list)
{
	char *text = json_dumps(list, JSON_COMPACT);
	fprintf(stderr, "%s %s\n", name, text);
	free(text);
}

static void expect_missing(const struct making *m, const json_t *fresh, uint64_t seed, int run)
{
	size_t new_prompts = 0;
	size_t new_events = 0;
	struct bare_text bare = {0};
	for (size_t i = 0; i < json_array_size(fresh); i++) {
		const json_t *item = json_array_get(fresh, i);
		const char *text = member(json_object_get(item, "data"), "text");
		new_prompts += strcmp(member(item, "type"), "user_prompt") == 0;
		new_events += strcmp(member(item, "type"), "tool_call") == 0;
		bare_text_append(&bare, SAID_MESSAGE, text ? text : "", text ? strlen(text) : 0);
	}
	if (new_prompts != m->prompts || new_events != m->events || bare.bytes.len != m->bytes) {
		print_error("seed %" PRIu64
			    ", run %d: %zu of %zu prompts, %zu of %zu calls, %zu of %zu bytes\n",
			seed, run, new_prompts, m->prompts, new_events, m->events, bare.bytes.len,
			m->bytes);
		print_list("log", m->story->log);
		print_list("told", m->story->told);
		print_list("added", fresh);
		fail();
	}
	bare_text_finish(&bare);
}

static void try_seed(bool has_names, uint64_t seed)
{
	struct random random = {.state = seed};
	for (int run = 0; run < RUNS; run++) {
		struct making m = {.random = &random, .story = story_new(), .has_names = has_names};
		for (uint32_t left = 1 + random_below(&random, 8); left > 0; left--) {
			add_turn(&m);
		}
		json_t *fresh = replay(m.story->log, m.story->told, 0, NULL);
		expect_missing(&m, fresh, seed, run);
		json_decref(fresh);
		expect_nothing_more(m.story);
		story_end(m.story, 5, "[]");
	}
}

static void try_histories(bool has_names)
{
	const char *chosen = getenv("HOLDFAST_SEED");
	if (chosen) {
		try_seed(has_names, strtoull(chosen, NULL, 10));
		return;
	}
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		if (part_has_next()) {
			try_seed(has_names, seed);
		}
	}
}

static void test_with_names(void **state)
{
	try_histories(true);
}

static void test_without_names(void **state)
{
	try_histories(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_names),
		cmocka_unit_test(test_without_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
