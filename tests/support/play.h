/*
 * Plays a session to an observer without a server: a load of pages, then the events that follow, in
 * batches, and the text of blocks as it grows, with some of it left out. The same each time.
 */
#ifndef HOLDFAST_TESTS_PLAY_H
#define HOLDFAST_TESTS_PLAY_H

#include "holdfast/encoder.h"

struct play {
	struct event **events; /* of the session; their seqs follow each other */
	size_t count;
	uint64_t epoch;
	size_t from; /* index of the event at which the load begins */
	size_t live; /* index of the first event that is not in a page */
	size_t page_size; /* most events of a page */
	unsigned hide; /* HIDE_ bits of the observer */
	const char *reset; /* of the first page, or NULL */
	unsigned seed; /* of cuts and batches */
};

/** Reads the events of a file of JSON objects, a line each. Free with play_finish(). */
void play_read(struct play *play, const char *path);
void play_finish(struct play *play);

/** Takes one output: gives it to an encoder, for example. `in` is what the encoder's function gets. */
typedef void (*play_taker)(void *arg, const char *what, const void *in);
/**
 * Gives everything to `take`, in order. `what` is the name of the function in struct encoder:
 * connected, page, events, delta, error or gone (`in` is NULL).
 */
void play_session(const struct play *play, play_taker take, void *arg);
/** Calls the function of that name. Returns its frame; NULL: it made none. */
struct frame *play_encode(
	const struct encoder *encoder, void *reader, const char *what, const void *in);

#endif
