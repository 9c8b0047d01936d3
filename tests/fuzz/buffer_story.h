/*
 * A stream buffer that goes through a story, and a model beside it that knows what must come out:
 * seqs without a gap, everything once and in order, the text of a turn's messages as it was
 * received, what was shown of an open event as the beginning of that event.
 */
#ifndef HOLDFAST_TESTS_BUFFER_STORY_H
#define HOLDFAST_TESTS_BUFFER_STORY_H

#include "buffer_steps.h"

#include "holdfast/stream_buffer.h"

#define SEQS_MAX 8192

struct story {
	struct stream_buffer *sb;
	struct limits limits;
	struct buffer log; /* everything that was emitted or held, a line each */
	uint64_t last_seq; /* emitted */
	uint64_t turn;
	int64_t now;
	int64_t input_ts; /* of the newest input */

	/* Of this turn. */
	struct buffer said; /* the text of the chunks */
	struct buffer said_ids; /* the message id of each of its bytes */
	unsigned message_id; /* the last one that was given */
	struct buffer emitted;
	struct buffer thought;
	struct buffer thought_emitted;

	/* Inputs of the other kinds. */
	unsigned put_count;
	unsigned emitted_count;
	unsigned held_count;
	size_t held_size;

	bool held[SEQS_MAX]; /* by seq: whether it was held */
	uint8_t came[SEQS_MAX]; /* by seq: the type that was emitted and 1, or 0 */

	uint64_t shown_seq;
	struct buffer shown; /* of the open event */
	uint64_t message_seq; /* of the last message emitted */
};

void story_begin(struct story *s, const struct steps *steps);
void story_say(struct story *s, const struct step *step, const char *text, size_t len);
/** Any step but text, a reload or a spoilt state. */
void story_do(struct story *s, const struct step *step, const char *text);
/** The last turn ends, and everything must have come. */
void story_end(struct story *s);
void story_free(struct story *s);

/** What is open now must begin with what was shown of it before. */
void story_look(struct story *s);
/** Goes on in another buffer, with the state of this one. */
void story_reload(struct story *s);
/** A spoilt copy of the state must be refused, or do no harm. */
void story_spoil(struct story *s, const uint8_t *bytes, size_t len);

#endif
