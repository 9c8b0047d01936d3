/*
 * Search in what people see of events: messages, thoughts, prompts, the titles and the output of
 * tools. Upper and lower case are the same, and so are a space and a new line.
 */
#ifndef HOLDFAST_EVENT_SEARCH_H
#define HOLDFAST_EVENT_SEARCH_H

#include "holdfast/event.h"

struct needle;

/** What is looked for: valid UTF-8 that is not empty. */
struct needle *needle_create(const char *text, size_t len);
/** Accepts NULL. */
void needle_destroy(struct needle *needle);

/**
 * Whether the event says it. If so, the text around the first place is appended to `ret_snippet`:
 * on one line, of whole characters, with an ellipsis where it is cut. Takes time in proportion to
 * the event's size, whatever is looked for. Any thread, and several at once.
 */
bool event_search(
	const struct event_view *view, const struct needle *needle, struct buffer *ret_snippet);

#endif
