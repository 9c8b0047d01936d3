/*
 * Prints events of a session on stdout: on a terminal laid out, with markdown rendered; elsewhere,
 * or on request, as plain lines for a script. Escape and control characters of an agent never reach
 * the terminal.
 */
#ifndef HOLDFAST_VIEW_H
#define HOLDFAST_VIEW_H

#include "holdfast/options.h"

#include <jansson.h>
#include <stdbool.h>

struct view;

#define VIEW_PLAIN_OPTION            \
	"--plain", NULL, NULL, NULL, \
		"print plain lines, with markdown as it is. This is the default if stdout is not a terminal"

struct view *view_create(bool is_plain);
void view_event(struct view *view, const json_t *event);
/** To be called when the session's events start over. */
void view_reset(struct view *view);
void view_destroy(struct view *view);

/* view_terminal.c */
struct terminal_view;
struct terminal_view *terminal_view_create(void);
void terminal_view_event(struct terminal_view *view, const char *type, const json_t *data);
void terminal_view_reset(struct terminal_view *view);
void terminal_view_destroy(struct terminal_view *view);

#endif
