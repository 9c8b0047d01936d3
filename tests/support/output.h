/*
 * What observers are sent, written as frames of a WebSocket (proto/protocol.md), so that tests can
 * give it to any encoder.
 */
#ifndef HOLDFAST_TESTS_OUTPUT_H
#define HOLDFAST_TESTS_OUTPUT_H

#include "holdfast/encoder.h"

/**
 * Gives the encoder what the text of one frame says, as typed values. Returns its frame, one
 * reference; NULL: it made none, or the text is no frame of an observer. Events that say that they are
 * redacted are given with HIDE_ALL.
 */
struct frame *output_encode(
	const struct encoder *encoder, void *reader, const char *text, size_t len);
/** Its reader is a struct editor_view; a frame has the messages as that makes them, a line each. */
extern const struct encoder output_editor_lines;

/** Makes an event of its JSON object; NULL if it lacks a seq or a type. */
struct event *output_event(const char *text, size_t len);

#endif
