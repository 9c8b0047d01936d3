/*
 * Searches the parts of events that people see: messages, thoughts, prompts, and the titles and
 * output of tools. Ignores case, and treats all white space alike.
 */
#ifndef HOLDFAST_EVENT_SEARCH_H
#define HOLDFAST_EVENT_SEARCH_H

#include "holdfast/event.h"

struct needle;

/** Compiles a search text, which must be valid UTF-8 and not empty. */
struct needle *needle_create(const char *text, size_t len);
/** Accepts NULL. */
void needle_destroy(struct needle *needle);

/**
 * Whether the event contains the text. If so, appends the text around the first match to
 * `ret_snippet`: one line of whole characters, with an ellipsis where it is cut. The time is linear
 * in the event's size, whatever the search text. Any thread, also concurrently.
 */
bool event_search(
	const struct event_view *view, const struct needle *needle, struct buffer *ret_snippet);

#endif
