#include "view.h"

#include "holdfast/command.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct view {
	struct terminal_view *terminal; /* NULL: plain */
};

/** Prints each line of a text after `front`, made safe for a terminal. */
static void print_lines(const char *front, const char *text)
{
	while (text && *text) {
		size_t len = strcspn(text, "\n");
		diag_print("%s%.*s", front, (int)len, text);
		text += len + (text[len] == '\n');
	}
}

static const char *text_of(const json_t *data, const char *name)
{
	return json_string_value(json_object_get(data, name));
}

static void print_note(const char *what, const char *text)
{
	char *line = xprintf("%s%s%s", what, text ? ": " : "", text ? text : "");
	print_lines("-- ", line);
	free(line);
}

static void print_question(const json_t *data)
{
	size_t i;
	json_t *option;
	const char *title = text_of(json_object_get(data, "tool_call"), "title");
	print_note("the agent asks", title ? title : text_of(data, "title"));
	json_array_foreach(json_object_get(data, "options"), i, option) {
		char *line =
			xprintf("%s (%s)", text_of(option, "name"), text_of(option, "option_id"));
		print_lines("--   ", line);
		free(line);
	}
}

static void print_event(const char *type, const json_t *data)
{
	if (strcmp(type, "user_prompt") == 0) {
		print_lines("> ", text_of(data, "message"));
	} else if (strcmp(type, "agent_message") == 0) {
		print_lines("", text_of(data, "markdown"));
	} else if (strcmp(type, "agent_thought") == 0) {
		print_lines("  ~ ",
			text_of(data, "text") ? text_of(data, "text") : text_of(data, "markdown"));
	} else if (strcmp(type, "tool_call") == 0) {
		print_note("tool", text_of(data, "title"));
	} else if (strcmp(type, "permission_request") == 0) {
		print_question(data);
	} else if (strcmp(type, "permission_resolved") == 0) {
		print_note("answered", text_of(data, "option_id") ? text_of(data, "option_id")
								  : text_of(data, "outcome"));
	} else if (strcmp(type, "elicitation_request") == 0) {
		print_note("asks", text_of(data, "message"));
	} else if (strcmp(type, "elicitation_resolved") == 0) {
		print_note("answered", text_of(data, "action"));
	} else if (strcmp(type, "turn_end") == 0) {
		print_note("end of the turn", text_of(data, "stop_reason"));
	} else if (strcmp(type, "agent_stopped") == 0) {
		print_note("the agent has stopped", text_of(data, "detail"));
	} else if (strcmp(type, "x-holdfast-gap") == 0) {
		print_note("an event is lost here", text_of(data, "why"));
	} else if (strcmp(type, "x-holdfast-keys-forgotten") == 0) {
		print_note("keys of producers are lost", NULL);
	}
	diag_flush();
}

struct view *view_create(bool is_plain)
{
	struct view *view = xcalloc(1, sizeof(*view));
	if (!is_plain && isatty(STDOUT_FILENO)) {
		view->terminal = terminal_view_create();
	}
	return view;
}

void view_event(struct view *view, const json_t *event)
{
	const char *type = text_of(event, "type");
	const json_t *data = json_object_get(event, "data");
	if (view->terminal) {
		terminal_view_event(view->terminal, type ? type : "", data);
	} else {
		print_event(type ? type : "", data);
	}
}

void view_reset(struct view *view)
{
	if (view->terminal) {
		terminal_view_reset(view->terminal);
	}
}

void view_destroy(struct view *view)
{
	if (view->terminal) {
		terminal_view_destroy(view->terminal);
	}
	free(view);
}
