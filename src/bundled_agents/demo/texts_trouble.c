/* An agent in trouble, for trying out what a client makes of it. */
#include "script.h"

const struct demo_step demo_script_noise[] = {
	SAY("Now comes a line on stdout that is not JSON, and some on stderr. "),
	STEP(DEMO_NOISE),
	SAY("If you can read this, the client did not mind."),
	{0},
};

const struct demo_step demo_script_hang[] = {
	STEP(DEMO_HANG),
	{0},
};

const struct demo_step demo_script_crash[] = {
	SAY("1. I go on for a few words\n2. and then, in the middle of a sen"),
	{.kind = DEMO_EXIT, .number = 3},
	{0},
};

const struct demo_step demo_script_exit[] = {
	SAY("I have to go now, without answering your prom"),
	{.kind = DEMO_EXIT, .number = 0},
	{0},
};

const struct demo_step demo_script_refuse[] = {
	SAY("That I would rather not do."),
	{.kind = DEMO_STOP, .text = "refusal"},
	{0},
};

const struct demo_step demo_script_error[] = {
	SAY("Let me ask the model that I do not"),
	{.kind = DEMO_FAIL, .text = "the model is out of reach (there is none)"},
	{0},
};
