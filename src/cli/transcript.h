/*
 * Writes a session as a readable text in markdown, in two passes over its events. The first finds
 * final states, since each tool call and plan is shown where it began, in its final state; the
 * second writes.
 */
#ifndef HOLDFAST_TRANSCRIPT_H
#define HOLDFAST_TRANSCRIPT_H

#include "holdfast/event.h"

struct transcript;

/** `write` is called with pieces of the text, in order. */
struct transcript *transcript_create(
	void (*write)(void *owner, const char *bytes, size_t len), void *owner);
void transcript_destroy(struct transcript *t);
/** First pass: takes every event, in order. */
void transcript_look(struct transcript *t, const struct event_view *view);
/** Second pass: call begin, then add with the same events again, then end. */
void transcript_begin(struct transcript *t, const char *title, const char *id);
void transcript_add(struct transcript *t, const struct event_view *view);
void transcript_end(struct transcript *t);

#endif
