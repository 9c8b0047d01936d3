/* Lists, a table, code: the blocks that Holdfast keeps whole, with tool calls in their middle. */
#include "script.h"

static const struct demo_call list_call = {
	.title = "Search for “seq” in the notes",
	.kind = "search",
	.query = "seq",
	.result = "3 matches: every number is given once, on receipt, and kept.",
};

const struct demo_step demo_script_list[] = {
	SAY("An agent talks in crumbs: a word, half a word, two asterisks. Holdfast stands between the agent and everyone who watches it, and it does four things with every crumb:\n\n"
	    "1. **It gives it a number.** Each piece belongs to an event, and an event gets its `seq` the moment its first piece arrives: 1, 2, 3 and so on, without a gap. The number never changes, is never used again, and is the same for everybody.\n\n"
	    "2. **It writes it down.** Each piece goes into a journal at once, and no event is shown to anyone before it is safely on disk. Should the power fail in the middle of this "),
	CALL(list_call, "pending"),
	SAY("sentence, then the words that were saved are still there afterwards, under the same number.\n\n"
	    "3. **It keeps blocks whole.** Just now, in the middle of a sentence of item 2, I started "),
	CALL_UPDATE(list_call, "in_progress"),
	SAY("a search. Passed on as it came, it would have torn this list in two. Holdfast *holds* it: the search has the next number already, and waits until the list has come to its end.\n\n"
	    "4. **It hands out exactly what is missing.** To Holdfast an observer is a position in the log, "),
	CALL_UPDATE(list_call, "completed"),
	SAY("no more. Whoever comes back, after a second or after a week, names the last number seen and gets everything behind it: once, and in order.\n\n"),
	PAUSE(65),
	SAY("That list was one event. The search that began in its middle stands below it, and has the higher number; the order you see is the order in which things began."),
	PAUSE(45),
	{0},
};

const struct demo_step demo_script_nested[] = {
	SAY("Where a block ends is not a matter of taste. Holdfast reads the text by the rules of CommonMark and of GitHub's tables, byte by byte, while it is still coming in:\n\n"
	    "- Kept whole, from the first line to the last:\n"
	    "  - lists, be they tight or loose,\n"
	    "    1. numbered ones,\n"
	    "    2. and ones inside of others,\n"
	    "       - as deep as you like\n"
	    "  - tables\n"
	    "  - code, up to the fence that closes it, even in a list:\n\n"
	    "    ```json\n"
	    "    {\"type\": \"events\", \"data\": {\"events\": [], \"max_seq\": 42}}\n"
	    "    ```\n\n"
	    "- Held back while one of these is open:\n"
	    "  - thoughts and plans\n"
	    "  - tool calls, and what comes of them\n"
	    "- Never held back:\n"
	    "  - a question to you, or we would both be waiting\n"
	    "  - the end of my turn\n\n"
	    "And nothing is held for long. If a tool call waits behind a block and I fall silent, then Holdfast shows you what there is after half a second."),
	PAUSE(45),
	{0},
};

static const struct demo_call table_call = {
	.title = "Count the rows",
	.kind = "execute",
	.query = "grep -c '^|' table.md",
	.result = "8",
};

const struct demo_step demo_script_table[] = {
	SAY("What becomes of the things an agent sends depends on where they turn up:\n\n"
	    "| What I send | In a paragraph | In a list, a table, a fence |\n"
	    "|:------------|:---------------|:---------------------------:|\n"
	    "| text | shown by the paragraph | goes on with the block |\n"
	    "| a thought 💭 | shown at once | held |\n"
	    "| a tool call | shown at "),
	CALL(table_call, "in_progress"),
	SAY("once | held, with a **notice** that it runs |\n"
	    "| a plan | shown at once | held |\n"
	    "| a question | shown at once | shown, and all before it |\n"
	    "| *naïve*, `你好`, Ωμέγα, 👩‍🚀 | whole | whole |\n\n"
	    "A tool has been counting the rows of this table since the middle of row three. Did you see the gap? There is none. And the astronaut in the last row is three characters that belong together; I sent her in three pieces, and no piece ever ends inside a character."),
	PAUSE(30),
	CALL_UPDATE(table_call, "completed"),
	PAUSE(45),
	{0},
};

static const struct demo_call fence_call = {
	.title = "Check the example",
	.kind = "execute",
	.file = "example.js",
	.line = 5,
	.query = "node --check example.js",
	.result = "No errors.",
};

const struct demo_step demo_script_fence[] = {
	SAY("In code a stray backtick is enough to turn half of an answer inside out. Here is how a page asks for what it has missed:\n\n"
	    "```js\n"
	    "// I had seen event 41 when the train went into the tunnel.\n"
	    "const url = `/api/sessions/${id}/ws?format=html`;\n"
	    "const socket = new WebSocket(url);\n"
	    "socket.onopen = () => socket.send(JSON.stringify({\n"
	    "  type: \"load_events\", "),
	CALL(fence_call, "pending"),
	SAY("// a tool call begins on this line\n"
	    "  data: { after_seq: 41, epoch, follow: true },\n"
	    "}));\n"),
	CALL_UPDATE(fence_call, "in_progress"),
	SAY("// The answer is `events_loaded` with 42, 43, 44 and so on,\n"
	    "// page after page, and from there on `events`, live.\n"
	    "```\n\n"
	    "The `epoch` tells one history from another: if the log is not the one you knew, Holdfast says so and starts you afresh, and never lets you go on in a story that only looks like yours.\n\n"),
	CALL_UPDATE(fence_call, "completed"),
	SAY("A fence can show a fence, too, with four backticks around three:\n\n"
	    "````markdown\n"
	    "Notes of a relay keeper\n\n"
	    "```sh\n"
	    "kill -9 \"$RELAY\"   # what was `shown` is on disk\n"
	    "```\n\n"
	    "That closed the inner one. This line is code still, ``` and so is that.\n"
	    "````\n\n"
	    "And here we are in the open again."),
	PAUSE(45),
	{0},
};
