/* Lays out events on a terminal: a page that only grows at its end. */
#include "view.h"

#include "holdfast/diag.h"
#include "holdfast/hash.h"
#include "holdfast/markdown_terminal.h"
#include "holdfast/terminal_page.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* How many lines of a tool's output are shown. */
#define TOOL_LINES_MAX 8
#define WIDTH_MIN      20
#define WIDTH_MAX      1000
/* Beyond this many tools all are forgotten: those of earlier turns do not change any more. */
#define TOOLS_MAX 10000
/* The same for options of questions. */
#define OPTIONS_MAX 10000

enum block {
	BLOCK_NONE,
	BLOCK_PROMPT,
	BLOCK_MESSAGE,
	BLOCK_THOUGHT,
	BLOCK_CARD,
	BLOCK_NOTE,
	BLOCK_PLAN
};

struct tool {
	char *title;
	char *shown; /* the status shown last */
};

struct terminal_view {
	struct terminal_page page;
	enum block last; /* what the page ends with */
	struct hash *tools; /* struct tool, by tool_call_id */
	size_t tool_count;
	struct hash *options; /* the name of an option, by "REQUEST_ID OPTION_ID" */
	size_t option_count;
};

static const char *text_of(const json_t *data, const char *name)
{
	return json_string_value(json_object_get(data, name));
}

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

static void free_tool(void *value, void *arg)
{
	struct tool *tool = value;
	free(tool->title);
	free(tool->shown);
	free(tool);
}

static void free_text(void *value, void *arg)
{
	free(value);
}

static void forget_tools(struct terminal_view *view)
{
	hash_each(view->tools, free_tool, NULL);
	hash_destroy(view->tools);
	view->tools = hash_create();
	view->tool_count = 0;
}

static void forget_options(struct terminal_view *view)
{
	hash_each(view->options, free_text, NULL);
	hash_destroy(view->options);
	view->options = hash_create();
	view->option_count = 0;
}

/** Whether to use colours: NO_COLOR (https://no-color.org) is unset or empty, and TERM not dumb. */
static bool wants_styles(void)
{
	const char *no_colour = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	return (!no_colour || !*no_colour) && (!term || strcmp(term, "dumb") != 0);
}

struct terminal_view *terminal_view_create(void)
{
	struct terminal_view *view = xcalloc(1, sizeof(*view));
	/* For wcwidth(): the output is UTF-8, whatever the locale. */
	setlocale(LC_CTYPE, "C.UTF-8");
	view->page.has_styles = wants_styles();
	view->tools = hash_create();
	view->options = hash_create();
	return view;
}

void terminal_view_reset(struct terminal_view *view)
{
	forget_tools(view);
	forget_options(view);
	view->last = BLOCK_NONE;
}

void terminal_view_destroy(struct terminal_view *view)
{
	forget_tools(view);
	forget_options(view);
	hash_destroy(view->tools);
	hash_destroy(view->options);
	terminal_page_finish(&view->page);
	free(view);
}

/* --- the page --- */

/** Returns the terminal's current width; it may change at any time. */
static size_t measure(void)
{
	struct winsize size = {0};
	const char *columns = getenv("COLUMNS");
	size_t width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
	if (!width && columns) {
		width = strtoul(columns, NULL, 10);
	}
	width = width ? width : 80;
	return width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
}

/** Begins a block after a blank line; consecutive cards or notes have none between them. */
static void begin(struct terminal_view *view, enum block block)
{
	bool goes_on = view->last == block && (block == BLOCK_CARD || block == BLOCK_NOTE);
	if (view->last != BLOCK_NONE && !goes_on) {
		terminal_page_gap(&view->page);
	}
	view->last = block;
}

static void flush(struct terminal_view *view)
{
	struct buffer *out = &view->page.out;
	diag_print_bytes(out->data, out->len);
	diag_flush();
	buffer_clear(out);
}

/** Prints at most `most` lines of a text, the first after `front`, the others after `rest`. */
static void put_lines(struct terminal_view *view, unsigned style, const char *front,
	const char *rest, const char *lines, size_t most)
{
	struct terminal_text text = {0};
	size_t mark = terminal_page_indent(&view->page, style, front, rest);
	size_t count = 0;
	size_t left_out = 0;
	while (*lines) {
		size_t len = strcspn(lines, "\n");
		if (count < most) {
			terminal_text_add(&text, style, lines, len);
			terminal_text_break(&text);
			count++;
		} else {
			left_out++;
		}
		lines += len + (lines[len] == '\n');
	}
	if (left_out) {
		char more[64];
		snprintf(more, sizeof(more), "… %zu more line%s", left_out,
			left_out == 1 ? "" : "s");
		terminal_text_put(&text, style | TERMINAL_DIM, more);
	}
	terminal_page_text(&view->page, &text, TERMINAL_WORDS);
	terminal_text_finish(&text);
	terminal_page_outdent(&view->page, mark);
}

/** Prints a line: our own word `what` and, after a colon, `said`, which somebody else wrote. */
static void put_note(struct terminal_view *view, unsigned style, const char *front,
	const char *what, const char *said)
{
	struct terminal_text text = {0};
	size_t mark = terminal_page_indent(&view->page, style, front, "  ");
	terminal_text_put(&text, style, what);
	terminal_text_put(&text, style, said && *what ? ": " : NULL);
	terminal_text_put(&text, style, said);
	terminal_page_text(&view->page, &text, TERMINAL_WORDS);
	terminal_text_finish(&text);
	terminal_page_outdent(&view->page, mark);
}

/* --- messages --- */

static void show_prompt(struct terminal_view *view, const json_t *data)
{
	begin(view, BLOCK_PROMPT);
	const char *name = text_of(data, "name");
	if (name) {
		put_note(view, TERMINAL_DIM, "", name, NULL);
	}
	put_lines(view, TERMINAL_BOLD | TERMINAL_BLUE, "❯ ", "  ",
		or_empty(text_of(data, "message")), SIZE_MAX);
}

static void show_message(struct terminal_view *view, const json_t *data)
{
	const char *context = or_empty(text_of(data, "context"));
	const char *markdown = or_empty(text_of(data, "markdown"));
	begin(view, BLOCK_MESSAGE);
	json_int_t start = json_integer_value(json_object_get(data, "start"));
	markdown_to_terminal(
		&(struct markdown){.context = context,
			.context_len = strlen(context),
			.text = markdown,
			.len = strlen(markdown),
			.start = start > 0 && start <= UINT32_MAX ? (uint32_t)start : 0},
		&view->page);
}

static void show_thought(struct terminal_view *view, const json_t *data)
{
	const char *text = text_of(data, "text");
	begin(view, BLOCK_THOUGHT);
	put_lines(view, TERMINAL_DIM | TERMINAL_ITALIC, "┊ ", "┊ ",
		or_empty(text ? text : text_of(data, "markdown")), SIZE_MAX);
}

/* --- tools --- */

static struct tool *find_tool(struct terminal_view *view, const json_t *data, bool is_new)
{
	const char *id = or_empty(text_of(data, "tool_call_id"));
	struct tool *tool = hash_get(view->tools, id, strlen(id));
	if (tool && is_new) {
		free(tool->shown); /* an agent may reuse the id for a new tool */
		tool->shown = NULL;
	} else if (!tool) {
		if (view->tool_count >= TOOLS_MAX) {
			forget_tools(view);
		}
		tool = xcalloc(1, sizeof(*tool));
		hash_put(view->tools, id, strlen(id), tool);
		view->tool_count++;
	}
	return tool;
}

static void replace_text(char **at, const char *text)
{
	if (text) {
		free(*at);
		*at = xstrdup(text);
	}
}

static size_t count_lines(const char *text)
{
	size_t count = 0;
	for (; text && *text; count++) {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return count;
}

static void show_diff(struct terminal_view *view, const json_t *item)
{
	char counts[80];
	snprintf(counts, sizeof(counts), "%zu lines, now %zu",
		count_lines(text_of(item, "old_text")), count_lines(text_of(item, "new_text")));
	put_note(view, TERMINAL_DIM, "  ± ", or_empty(text_of(item, "path")), counts);
}

/** Shows a tool's results: the beginning of texts, and which files it changed. */
static void show_content(struct terminal_view *view, const json_t *data)
{
	size_t i;
	json_t *item;
	json_array_foreach(json_object_get(data, "content"), i, item) {
		const char *type = or_empty(text_of(item, "type"));
		const char *text = text_of(json_object_get(item, "content"), "text");
		if (strcmp(type, "diff") == 0) {
			show_diff(view, item);
		} else if (text) {
			put_lines(view, TERMINAL_DIM, "    ", "    ", text, TOOL_LINES_MAX);
		}
	}
}

static void show_tool(struct terminal_view *view, const json_t *data, bool is_new)
{
	static const struct {
		const char *status;
		const char *front;
		unsigned style;
	} looks[] = {
		{"pending", "○ ", TERMINAL_CYAN},
		{"in_progress", "◐ ", TERMINAL_CYAN},
		{"completed", "✔ ", TERMINAL_GREEN},
		{"failed", "✘ ", TERMINAL_RED},
	};
	struct tool *tool = find_tool(view, data, is_new);
	const char *status = text_of(data, "status");
	replace_text(&tool->title, text_of(data, "title"));
	status = status ? status : is_new ? "pending" : NULL;
	if (!status || (tool->shown && strcmp(status, tool->shown) == 0)) {
		return;
	}
	replace_text(&tool->shown, status);
	const char *front = "· ";
	unsigned style = 0;
	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
		if (strcmp(looks[i].status, status) == 0) {
			front = looks[i].front;
			style = looks[i].style;
		}
	}
	begin(view, BLOCK_CARD);
	char *said = xprintf("%s (%s)", or_empty(tool->title), status);
	put_note(view, style, front, "", said);
	free(said);
	if (style == TERMINAL_GREEN || style == TERMINAL_RED) {
		show_content(view, data);
	}
}

static void show_command(struct terminal_view *view, const json_t *data)
{
	const char *status = or_empty(text_of(data, "status"));
	const char *command = text_of(data, "command");
	const json_t *code = json_object_get(data, "exit_code");
	struct buffer line = {0};
	size_t i;
	json_t *arg;
	if (strcmp(status, "running") == 0 && command) {
		buffer_append_str(&line, command);
		json_array_foreach(json_object_get(data, "args"), i, arg) {
			buffer_printf(&line, " %s", or_empty(json_string_value(arg)));
		}
		begin(view, BLOCK_CARD);
		put_note(view, TERMINAL_CYAN, "$ ", "", buffer_cstr(&line));
	} else if (strcmp(status, "exited") == 0 && json_integer_value(code) != 0) {
		buffer_printf(
			&line, "the command ended with %lld", (long long)json_integer_value(code));
		begin(view, BLOCK_CARD);
		put_note(view, TERMINAL_RED, "✘ ", buffer_cstr(&line), NULL);
	}
	buffer_finish(&line);
}

static void show_plan(struct terminal_view *view, const json_t *data)
{
	size_t i;
	json_t *entry;
	begin(view, BLOCK_PLAN);
	put_note(view, TERMINAL_BOLD, "", "Plan", NULL);
	json_array_foreach(json_object_get(data, "entries"), i, entry) {
		const char *status = or_empty(text_of(entry, "status"));
		bool is_done = strcmp(status, "completed") == 0;
		bool is_going = strcmp(status, "in_progress") == 0;
		put_lines(view, is_done ? TERMINAL_DIM : 0,
			is_done    ? "  ☑ "
			: is_going ? "  ◐ "
				   : "  ☐ ",
			"    ", or_empty(text_of(entry, "content")), SIZE_MAX);
	}
}

/* --- questions --- */

static char *option_key(const json_t *data, const char *option_id)
{
	return xprintf("%s %s", or_empty(text_of(data, "request_id")), or_empty(option_id));
}

static void keep_option(struct terminal_view *view, const char *key, const char *name)
{
	if (view->option_count >= OPTIONS_MAX) {
		forget_options(view);
	}
	void *old = hash_put(view->options, key, strlen(key), xstrdup(name));
	view->option_count += !old;
	free(old);
}

static void show_question(struct terminal_view *view, const json_t *data)
{
	size_t i;
	json_t *option;
	const char *title = text_of(json_object_get(data, "tool_call"), "title");
	begin(view, BLOCK_NOTE);
	put_note(view, TERMINAL_BOLD | TERMINAL_YELLOW, "? ", "The agent asks",
		title ? title : text_of(data, "title"));
	json_array_foreach(json_object_get(data, "options"), i, option) {
		char front[32];
		const char *id = text_of(option, "option_id");
		const char *name = or_empty(text_of(option, "name"));
		char *key = option_key(data, id);
		keep_option(view, key, name);
		snprintf(front, sizeof(front), "  %zu. ", i + 1);
		put_lines(view, TERMINAL_YELLOW, front, "     ", name, SIZE_MAX);
		free(key);
	}
}

static void show_answer(struct terminal_view *view, const json_t *data)
{
	const char *option_id = text_of(data, "option_id");
	const char *by = text_of(data, "name");
	char *key = option_key(data, option_id);
	const char *name = hash_get(view->options, key, strlen(key));
	const char *answer = name ? name : option_id ? option_id : text_of(data, "outcome");
	char *said = xprintf("%s%s%s", or_empty(answer), by ? ", by " : "", or_empty(by));
	begin(view, BLOCK_NOTE);
	put_note(view, TERMINAL_YELLOW, "→ ", "", said);
	free(said);
	free(key);
}

/* --- notes --- */

static void show_turn_end(struct terminal_view *view, const json_t *data)
{
	const char *reason = or_empty(text_of(data, "stop_reason"));
	bool is_error = strcmp(reason, "error") == 0;
	begin(view, BLOCK_NOTE);
	put_note(view, is_error ? TERMINAL_RED : TERMINAL_DIM, "── ", "end of the turn", reason);
	if (text_of(data, "message")) {
		put_lines(view, TERMINAL_RED, "   ", "   ", text_of(data, "message"), SIZE_MAX);
	}
}

static void show_agent_stopped(struct terminal_view *view, const json_t *data)
{
	const char *detail = text_of(data, "detail");
	begin(view, BLOCK_NOTE);
	put_note(view, TERMINAL_RED, "✘ ", "the agent has stopped",
		detail ? detail : text_of(data, "reason"));
	put_lines(view, TERMINAL_DIM, "    ", "    ", or_empty(text_of(data, "stderr")), SIZE_MAX);
}

static void show_note(struct terminal_view *view, const char *type, const json_t *data)
{
	if (strcmp(type, "turn_end") == 0) {
		show_turn_end(view, data);
	} else if (strcmp(type, "agent_stopped") == 0) {
		show_agent_stopped(view, data);
	} else if (strcmp(type, "x-acp-line_too_long") == 0 ||
		   strcmp(type, "x-acp-line_unread") == 0) {
		begin(view, BLOCK_NOTE);
		put_note(view, TERMINAL_RED, "✘ ", "a line is lost here", text_of(data, "message"));
	} else if (strcmp(type, "x-holdfast-gap") == 0) {
		begin(view, BLOCK_NOTE);
		put_note(view, TERMINAL_RED, "✘ ", "an event is lost here", text_of(data, "why"));
	}
}

void terminal_view_event(struct terminal_view *view, const char *type, const json_t *data)
{
	view->page.width = measure();
	if (strcmp(type, "user_prompt") == 0) {
		show_prompt(view, data);
	} else if (strcmp(type, "agent_message") == 0) {
		show_message(view, data);
	} else if (strcmp(type, "agent_thought") == 0) {
		show_thought(view, data);
	} else if (strcmp(type, "tool_call") == 0 || strcmp(type, "tool_call_update") == 0) {
		show_tool(view, data, strcmp(type, "tool_call") == 0);
	} else if (strcmp(type, "x-acp-terminal") == 0) {
		show_command(view, data);
	} else if (strcmp(type, "plan") == 0) {
		show_plan(view, data);
	} else if (strcmp(type, "permission_request") == 0) {
		show_question(view, data);
	} else if (strcmp(type, "permission_resolved") == 0) {
		show_answer(view, data);
	} else {
		show_note(view, type, data);
	}
	flush(view);
}
