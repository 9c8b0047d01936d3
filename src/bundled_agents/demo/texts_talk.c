/* Plain talk: the answer to a prompt that names nothing known, a thought, a plan, a long reply. */
#include "script.h"

const struct demo_step demo_script_hello[] = {
	SAY("Hello! I am the **demo agent** of Holdfast: a real agent for the *Agent Client Protocol*, but without a model, so I understand single words only. You said "),
	STEP(DEMO_QUOTE),
	SAY(", and none of that is among them. These are:\n\n"
	    "- `tour` shows everything, in a little over a minute\n"
	    "- `list`, `nested`, `table`, `code`, `thought` and `plan` show one thing each\n"
	    "- `tool`, `read`, `write`, `permission` and `usage` show what agents do besides talking\n"
	    "- `long` and `long=500` make a long reply, `slow` and `rate=200` change the pace\n"
	    "- `hang`, `refuse`, `error`, `noise`, `crash` and `exit` are for trouble\n\n"
	    "Several at once work as well: try `slow list table`."),
	{0},
};

const struct demo_step demo_script_thought[] = {
	THINK("They would like to see a thought. Thoughts are text as well, in pieces like any other, but they belong in a place of their own: close to the answer, and not in it."),
	PAUSE(30),
	SAY("That was a thought: sent as an event of its own, shown as soon as something else follows, and kept in the log in its place before these words."),
	{0},
};

static const char *const tea_entries[] = {
	"Boil the water",
	"Warm the pot",
	"Wait for four minutes, well, for a moment",
	"Pour a cup",
};

static const struct demo_plan tea_plan = {
	tea_entries,
	sizeof(tea_entries) / sizeof(tea_entries[0]),
};

const struct demo_step demo_script_plan[] = {
	SAY("A plan for a cup of tea. ☕"),
	PLAN(tea_plan, 0),
	PAUSE(40),
	PLAN(tea_plan, 1),
	SAY("\n\nThe water boils. An agent sends its whole plan each time, and each time it is one event."),
	PLAN(tea_plan, 2),
	PAUSE(60),
	PLAN(tea_plan, 3),
	SAY("\n\nAlmost there…"),
	PAUSE(30),
	PLAN(tea_plan, 4),
	SAY(" and done. Enjoy your tea!"),
	{0},
};

const struct demo_step demo_script_long[] = {
	STEP(DEMO_FILL),
	{0},
};

const char *const demo_fill_texts[] = {
	"### On keeping a log\n\n"
	"A ship's log is written **at once**, not in the evening: what happened is put down while it happens, with the hour before it, and no line is ever rubbed out. Whoever comes on watch reads from the last line he knows to the end, and then knows what everyone else on board knows.",

	"- A log answers three questions:\n"
	"  1. what happened,\n"
	"  2. in which order,\n"
	"  3. and what have I missed?\n"
	"- It does not answer a fourth one: *why*. For that there are letters home.\n"
	"- Für alles andere gibt es Rum.",

	"| Watch | Hours | Bells |\n"
	"|-------|-------|------:|\n"
	"| first | 20 to 24 | 8 |\n"
	"| middle | 0 to 4 | 8 |\n"
	"| morning | 4 to 8 | 8 |\n"
	"| 早班, café | 8 to 12 | 8 |",

	"```c\n"
	"/* The watch on deck: nothing that was seen is lost. */\n"
	"while (at_sea()) {\n"
	"	log_append(sight(), `noon`);   // not C, but a backtick or two\n"
	"}\n"
	"```",

	"The wind held from the south-west through the night, and the ship made seven knots under topsails. Toward morning the lookout reported a light, two points off the bow; it was a fisherman going home. We passed near enough to wish each other a good day, and wrote that down, too, since a log is no place to decide what will matter later. At eight bells the watch was relieved, the glass was turned, and the next page began where the last one had ended. Of such pages a voyage is made: none of them remarkable, not one of them missing. In the afternoon it rained a little, the sails were dried as soon as the sun came through again, and the cook found a last sack of *good* flour behind the water casks, which was thought worth a line of its own.",
};

const size_t demo_fill_text_count = sizeof(demo_fill_texts) / sizeof(demo_fill_texts[0]);
