#include "storm.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static const char *const ids[] = {"a", "b", "c", "d"};

static const char *const texts[] = {
	"Hello **world**, and ",
	"a second line.\n\n",
	"- one\n- two",
	"\n- zwölf\n",
	"  - inner\n",
	"\nAfter the list.\n\n",
	"```c\nint a;\n",
	"int b; /* - no list */\n",
	"```\n",
	"| a | b |\n|---|---|\n| 1 | 2 |\n",
	"| 3 | **4",
	"** |\n\n",
	"> a quote\n",
	"# A heading\n",
	"\n",
	"An open **paragraph",
	" goes on `here",
	"` and ends** now.\n",
	"1. first\n\n2. second\n",
};

struct put {
	const char *type;
	const char *data;
};

#define TOOL "{\"tool_call_id\":\"t1\",\"title\":\"Look\"}"
#define ASK(q)                                                                                     \
	"{\"request_id\":\"" q "\",\"tool_call\":{\"tool_call_id\":\"t1\",\"raw_input\":{\"a\":1}" \
	"},\"options\":[{\"option_id\":\"y\",\"name\":\"Yes\"}]}"
#define ANSWER(q)              \
	"{\"request_id\":\"" q \
	"\",\"outcome\":\"selected\",\"option_id\":\"y\",\"by\":\"somebody\"}"

static const struct put puts_[] = {
	{"tool_call", TOOL},
	{"tool_call", TOOL},
	{"tool_call_update", TOOL},
	{"plan", "{\"entries\":[]}"},
	{"file_write", "{\"path\":\"f\",\"size\":3}"},
	{"file_read", "{\"path\":\"f\"}"},
	{"usage", "{\"mode\":\"cumulative\",\"used\":7}"},
	{"x-note", "{\"text\":\"a note\"}"},
	{"permission_request", ASK("q1")},
	{"permission_request", ASK("q2")},
	{"permission_resolved", ANSWER("q1")},
	{"permission_resolved", ANSWER("q2")},
	{"agent_started", "{\"name\":\"agent\"}"},
	{"agent_stopped", "{\"reason\":\"crashed\"}"},
	{"agent_stopped", "{\"reason\":\"crashed\"}"},
	{"user_prompt", "{\"message\":\"more\",\"prompt_id\":\"own\"}"},
	{"turn_end", "{\"stop_reason\":\"end_turn\"}"},
	{"turn_end", "{\"stop_reason\":\"end_turn\"}"},
	{"turn_end", "{\"stop_reason\":\"end_turn\"}"},
	{"session_end", "{}"},
};

struct gale {
	struct witness *w;
	struct random random;
	unsigned prompts;
	bool is_calm;
};

#define PICK(gale, array) (array)[random_below(&(gale)->random, sizeof(array) / sizeof((array)[0]))]

static void put_any(struct gale *gale, const char *id)
{
	const struct put *put = &PICK(gale, puts_);
	witness_put(gale->w, id, put->type, put->data);
}

static void prompt(struct gale *gale, const char *id)
{
	char name[16];
	snprintf(name, sizeof(name), "p%u", gale->prompts++);
	witness_prompt(gale->w, id, name);
	if (gale->is_calm) {
		return;
	}
	/* Of the newest ones some wait: in this session, or in another one. */
	unsigned back = random_below(&gale->random, 6);
	if (back < gale->prompts) {
		snprintf(name, sizeof(name), "p%u", gale->prompts - 1 - back);
		witness_change_prompt(gale->w, id, name, back % 2 ? NULL : "changed");
	}
}

/** Over several sectors, so that a torn write has middle parts. */
static void say_much(struct gale *gale, const char *id)
{
	struct buffer text = {0};
	size_t lines = 20 + random_below(&gale->random, 60);
	buffer_append_str(&text, "\n\n```text\n");
	for (size_t i = 0; i < lines; i++) {
		buffer_printf(&text, "line %zu of many, some of which are torn\n", i);
	}
	buffer_append_str(&text, "```\n\n");
	witness_say(gale->w, id, buffer_cstr(&text));
	buffer_finish(&text);
}

/** Many inputs in one turn: one batch takes them all. */
static void burst(struct gale *gale)
{
	size_t count = 5 + random_below(&gale->random, 20);
	for (size_t i = 0; i < count; i++) {
		const char *id = PICK(gale, ids);
		if (random_below(&gale->random, 3)) {
			witness_say(gale->w, id, PICK(gale, texts));
		} else {
			put_any(gale, id);
		}
	}
}

static void step(struct gale *gale)
{
	const char *id = PICK(gale, ids);
	uint32_t dice = random_below(&gale->random, 100);
	if (dice < 38) {
		witness_say(gale->w, id, PICK(gale, texts));
	} else if (dice < 46) {
		witness_think(gale->w, id, "hm ");
	} else if (dice < 72) {
		put_any(gale, id);
	} else if (dice < 79) {
		prompt(gale, id);
	} else if (dice < 83) {
		witness_flush(gale->w);
	} else if (dice < 91) {
		witness_delete(gale->w, id);
	} else if (gale->is_calm) {
		put_any(gale, id);
	} else if (dice < 94) {
		say_much(gale, id);
	} else {
		burst(gale);
	}
}

static void begin_again(const struct storm *storm, struct witness *w)
{
	if (storm->kills) {
		witness_kill(w);
	} else {
		witness_close(w);
	}
	w->rig->durability = DURABILITY_FSYNC;
	/* A disk that fails once may make one start fail. */
	assert_true(witness_open(w) == 0 || witness_open(w) == 0);
	/* What that server shows is on disk for good. */
	if (w->certain_from == NEVER) {
		w->certain_from = power_disk_count(w->power);
	}
}

void storm_run(const struct storm *storm, struct witness *w)
{
	struct gale gale = {.w = w, .random = {.state = storm->seed}, .is_calm = storm->is_calm};
	if (storm->relaxed) {
		w->rig->durability = DURABILITY_WRITE;
		w->certain_from = NEVER;
	}
	if (!w->rig->table) {
		assert_int_equal(witness_open(w), 0);
	}
	for (size_t i = 1; i <= storm->steps; i++) {
		step(&gale);
		if (storm->prunes && i % 4 == 0) {
			witness_prune(w);
		}
		switch (random_below(&gale.random, 4)) {
		case 0:
			break;
		case 1:
			witness_turn(w);
			break;
		default:
			witness_settle(w);
			break;
		}
		bool is_over = i % (storm->steps / 3) == 0 && i < storm->steps;
		if ((storm->restarts || storm->kills) && is_over) {
			begin_again(storm, w);
		}
	}
	witness_settle(w);
}
