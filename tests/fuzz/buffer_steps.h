/*
 * The inputs of the stream buffer's fuzz target: bytes read as a story of steps. Text stands for
 * itself (made valid UTF-8), so that any markdown file is a story of one chunk; control characters
 * that markdown has no use for are the other steps.
 */
#ifndef HOLDFAST_TESTS_BUFFER_STEPS_H
#define HOLDFAST_TESTS_BUFFER_STEPS_H

#include "holdfast/buffer.h"

#include <stddef.h>
#include <stdint.h>

/* Where a byte follows, its value picks one of several. */
enum step_kind {
	STEP_TEXT = 0, /* no byte of its own: a chunk of a message */
	STEP_PIECE = 0x01, /* nothing: the text behind is another chunk */
	STEP_THOUGHT = 0x02, /* the text behind is a chunk of a thought */
	STEP_TOOL_CALL = 0x03,
	STEP_TOOL_CALL_UPDATE = 0x04,
	STEP_PERMISSION_REQUEST = 0x05,
	STEP_CUSTOM = 0x06,
	STEP_MESSAGE_ID = 0x07, /* of the chunks behind; a byte follows */
	STEP_WAIT = 0x0e, /* a byte follows */
	STEP_TURN_END = 0x0f,
	STEP_RELOAD = 0x10,
	STEP_LIMITS = 0x11, /* small limits for the whole story; a byte follows */
	STEP_SPOIL = 0x12, /* a copy of the state is spoilt by all bytes that follow */
};

#define STEPS_MAX 2048

struct step {
	enum step_kind kind;
	uint8_t number; /* the byte that follows */
	uint8_t message_id; /* 0: none */
	size_t at; /* in `text` of the story; for STEP_SPOIL, in the input */
	size_t len;
};

struct steps {
	struct step step[STEPS_MAX];
	size_t count;
	struct buffer text;
	uint8_t limits; /* 0: the defaults */
};

/** Reads the bytes; the text is the caller's to finish. */
void steps_read(struct steps *steps, const uint8_t *data, size_t size);

#endif
