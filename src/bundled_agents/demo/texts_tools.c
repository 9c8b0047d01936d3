/* Tools, files, permission: what an agent does besides talking. */
#include "script.h"

#define DEMO_FILE "holdfast-demo.txt"

static const struct demo_call build_call = {
	.title = "Build the boat",
	.kind = "execute",
	.query = "make boat",
	.result = "keel\nplanks\nmast\nbuilt: boat",
};

static const struct demo_call launch_call = {
	.title = "Launch the boat",
	.kind = "execute",
	.query = "make launch",
	.result = "launch: no water here (exit status 2)",
};

#define PROGRESS(which, so_far)                                                    \
	{                                                                          \
		.kind = DEMO_CALL_UPDATE, .call = &(which), .text = "in_progress", \
		.extra = (so_far)                                                  \
	}

const struct demo_step demo_script_tool[] = {
	SAY("Tools often take their time, and tell what they are doing while they do it. This one builds a boat:"),
	CALL(build_call, "pending"),
	PAUSE(45),
	PROGRESS(build_call, "keel\n"),
	PAUSE(75),
	PROGRESS(build_call, "keel\nplanks\n"),
	PAUSE(75),
	PROGRESS(build_call, "keel\nplanks\nmast\n"),
	PAUSE(75),
	CALL_UPDATE(build_call, "completed"),
	SAY("\n\nThe next one will not go well, as happens to the best of agents:"),
	CALL(launch_call, "in_progress"),
	PAUSE(90),
	CALL_UPDATE(launch_call, "failed"),
	SAY("\n\nEach report was an event of its own, the failure as much as the rest. You will find them again in every replay, in this order."),
	PAUSE(45),
	{0},
};

static const struct demo_call read_call = {
	.title = "Read README.md",
	.kind = "read",
	.file = "README.md",
	.line = 1,
};

const struct demo_step demo_script_read[] = {
	SAY("Files I do not open myself. I ask the client for them, and the client decides; Holdfast serves the folder it was started for and nothing outside of it. Let me see if there is a `README.md`."),
	STEP_CALL(DEMO_READ, read_call),
	PAUSE(45),
	SAY_IF(DEMO_DONE, "\n\nThere is. Its first line is "),
	QUOTE_IF(DEMO_DONE),
	SAY_IF(DEMO_DONE,
		", which I could not have known: it is the one thing I say that was not written beforehand."),
	SAY_IF(DEMO_FAILED,
		"\n\n"
		"No such luck; the tool call above says why. I can live without it, and a refusal is an answer, too."),
	SAY_IF(DEMO_UNSUPPORTED,
		"\n\nBut this client does not offer me any files, so I leave it at that."),
	PAUSE(45),
	{0},
};

static const struct demo_call write_call = {
	.title = "Write " DEMO_FILE,
	.kind = "edit",
	.file = DEMO_FILE,
	.new_text = "Written by the demo agent of Holdfast, because the prompt said “write”.\n"
		    "Nobody needs this file; delete it as you like.\n",
};

const struct demo_step demo_script_write[] = {
	SAY("I will write a small file, `" DEMO_FILE "`, into the folder I work in."),
	STEP_CALL(DEMO_WRITE, write_call),
	PAUSE(45),
	SAY_IF(DEMO_DONE, "\n\nDone. The log has a `file_write` for it, with path and size."),
	SAY_IF(DEMO_FAILED, "\n\nThat failed; the tool call above says why. Nothing was written."),
	SAY_IF(DEMO_UNSUPPORTED,
		"\n\nOr rather, I would have: this client does not offer to write files."),
	{0},
};

static const struct demo_call ask_call = {
	.title = "Write " DEMO_FILE,
	.kind = "edit",
	.file = DEMO_FILE,
	.new_text = "Written by the demo agent of Holdfast, after somebody said that it may.\n"
		    "Nobody needs this file; delete it as you like.\n",
};

const struct demo_step demo_script_permission[] = {
	SAY("Some things an agent should not do unasked. I would like to write a small file, `" DEMO_FILE
	    "`, into the folder I work in. Everyone who watches this session sees the question, on whatever screen; the first answer counts, and the others learn what it was. **May I?**"),
	STEP_CALL(DEMO_ASK, ask_call),
	SAY_IF(DEMO_ALLOWED, "\n\nThank you! Then I go ahead."),
	SAY_IF(DEMO_ALLOWED_BEFORE,
		"\n\nYou said “always” earlier in this session, so I take that for a yes."),
	SAY_IF(DEMO_REJECTED,
		"\n\n"
		"All right, then I leave it. Nothing was written, and your no is in the log as a yes would have been."),
	SAY_IF(DEMO_UNASKED,
		"\n\nI could not get the question across, and without an answer I write nothing."),
	{.kind = DEMO_WRITE, .when = DEMO_ALLOWED | DEMO_ALLOWED_BEFORE, .call = &ask_call},
	PAUSE(45),
	SAY_IF(DEMO_DONE,
		"\n\n"
		"It is written. The question, your answer and the file each have their number, and whoever opens this session tomorrow can see who allowed what."),
	SAY_IF(DEMO_FAILED,
		"\n\nAnd yet it failed; the tool call above says why. Nothing was written."),
	SAY_IF(DEMO_UNSUPPORTED,
		"\n\nAnd yet I cannot: this client does not offer to write files."),
	PAUSE(45),
	{0},
};

const struct demo_step demo_script_usage[] = {
	STEP(DEMO_USAGE),
	{0},
};
