/*
 * A session as a text to read, in markdown. It is made in two goes over the events: the first looks
 * at how things end (a tool call and a plan stand where they began, in their last state), the
 * second writes.
 */
#ifndef HOLDFAST_TRANSCRIPT_H
#define HOLDFAST_TRANSCRIPT_H

#include "holdfast/event.h"

struct transcript;

/** `write` is given the text in pieces, in order. */
struct transcript *transcript_create(
	void (*write)(void *owner, const char *bytes, size_t len), void *owner);
void transcript_destroy(struct transcript *t);
/** The first go: every event, in order. */
void transcript_look(struct transcript *t, const struct event_view *view);
/** The second go: the heading, then the same events again, then the end. */
void transcript_begin(struct transcript *t, const char *title, const char *id);
void transcript_add(struct transcript *t, const struct event_view *view);
void transcript_end(struct transcript *t);

#endif
