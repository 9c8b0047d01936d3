/* What the tour says between the parts that other words choose too. */
#include "script.h"

static const char *const tour_entries[] = {
	"Say what Holdfast does, in lists, with a tool at work in the middle of one",
	"Show a table and some code, interrupted as well",
	"Run a few tools and read a file",
	"Ask before writing a file",
};

static const struct demo_plan tour_plan = {
	tour_entries,
	sizeof(tour_entries) / sizeof(tour_entries[0]),
};

const struct demo_step demo_script_tour_open[] = {
	PAUSE(45),
	THINK("Somebody has just opened Holdfast, perhaps for the first time. I have no model to think with, so this thought was written beforehand; the way it travels is real, though. "),
	THINK("Where to begin? Best with what can be seen: text that arrives in small pieces, tools that start in the middle of it, and nothing that ever breaks apart. Then the reasons. A plan would help."),
	PAUSE(30),
	PLAN(tour_plan, 0),
	SAY("# A short tour of Holdfast\n\n"
	    "Welcome! 👋 I am the **demo agent**. I speak the *Agent Client Protocol* as every other agent does, only that there is no model behind me: what I say is always the same. What happens to it on its way to you is no show. It is the relay at work, the same as with any agent.\n\n"
	    "Notice how this sentence reaches you: in more than fifty pieces, some of them half a **wo**rd, some one of the two asterisks that make a **bold** one, some a lone backtick on its way to some `code`. You see none of that, and you should not."),
	{0},
};

const struct demo_step demo_script_tour_try[] = {
	SAY("> **Try it while I talk.** Open this page in a second window: it gets the whole story so far and then goes on live, together with this one. Or switch your network off, count to ten and switch it on again. I will not wait for you, and you will not miss a word: what you get then is what you had not seen, all of it and nothing twice."),
	PAUSE(90),
	{0},
};

const struct demo_step demo_script_tour_lists_done[] = {
	PLAN(tour_plan, 1),
	SAY("So much for lists. The first point of my plan is done, as you can see, and the plan was an event like the others. Next come the two kinds of block that suffer most when a stream is cut in the wrong place."),
	PAUSE(45),
	{0},
};

const struct demo_step demo_script_tour_blocks_done[] = {
	PLAN(tour_plan, 2),
	PAUSE(45),
	{0},
};

const struct demo_step demo_script_tour_tools_done[] = {
	PLAN(tour_plan, 3),
	PAUSE(45),
	{0},
};

const struct demo_step demo_script_tour_close[] = {
	PLAN(tour_plan, 4),
	PAUSE(30),
	SAY("## Where to go from here\n\n"
	    "That was the tour. All of it is in the log now, event by event. **Reload this page** and the same story comes back under the same numbers; kill the relay, start it again, reload: still the same. If two windows ever show you different things, one of us has a bug, and we would like to hear of it.\n\n"
	    "If you want to see one thing again, a word is enough: `list`, `nested`, `table`, `code`, `tool`, `read`, `permission`, `plan`, `thought`. Say `slow table` to watch the pieces come in one by one, or `long` for an answer that does not want to end, and cancel it when you have had enough. Then give Holdfast an agent with a model, and it will hold that one just as fast. ⚓"),
	{0},
};
