/*
 * A text with something else in the middle: what came out where. The messages are the text whatever
 * comes, and an input must not come out inside of a block.
 */
#ifndef HOLDFAST_TESTS_PROOF_STORY_H
#define HOLDFAST_TESTS_PROOF_STORY_H

#include "extents.h"
#include "stream_bench.h"
#include "texts.h"

#define STORY_INPUTS_MAX 2

/** An input that is no text of a message. */
struct story_input {
	uint64_t seq;
	size_t here; /* how much text had come out when it was received, and it with it, maybe */
	size_t came_out; /* how much text came out before it */
	bool held;
};

struct story {
	struct stream_bench bench;
	const struct text *text;
	size_t said; /* bytes of the text so far */
	size_t count;
	struct story_input inputs[STORY_INPUTS_MAX];
	uint64_t last_message; /* seq of the newest */
	uint64_t continues; /* what the first message behind the first input continues; 0: none */
	bool is_behind; /* that message has come */
};

void story_begin(struct story *s, const struct text *text);
/** Says the text up to `end`. */
void story_say(struct story *s, size_t end);
void story_put(struct story *s, enum event_type type);
/** Says the rest and ends the turn; the test fails if text or inputs were lost or out of order. */
void story_end(struct story *s);

struct story_count {
	size_t texts;
	size_t places; /* or pairs of them */
	size_t held;
	size_t in_closable; /* came out inside of a list, below a blank line of it */
	size_t in_header; /* inside of a table's header row in which no `|` had come so far */
};

/** Fails the test if the input came out inside of a block. */
void story_check_place(const struct story *s, const struct story_input *input,
	const struct extents *extents, struct story_count *count);
/** The extent that an input which is not held parts in two; NULL if none. */
const struct extent *story_find_parted(
	const struct extents *extents, const struct story_input *input);
/** Whether what stands in front of `at` ends in a blank line, and blanks behind it. */
bool story_is_below_blank_line(const char *text, size_t at);
void story_fail(const struct story *s, const char *what);

#endif
