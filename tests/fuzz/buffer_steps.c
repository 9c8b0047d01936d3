#include "buffer_steps.h"

#include "fuzz.h"

static bool is_step(uint8_t byte)
{
	return (byte >= STEP_PIECE && byte <= STEP_MESSAGE_ID) ||
	       (byte >= STEP_WAIT && byte <= STEP_SPOIL);
}

/* What is no UTF-8 becomes question marks, byte by byte. Returns where the text ends. */
static size_t read_text(struct steps *steps, const uint8_t *data, size_t at, size_t size)
{
	while (at < size && !is_step(data[at])) {
		size_t len = fuzz_utf8_length((const char *)data + at, size - at);
		if (len) {
			buffer_append(&steps->text, data + at, len);
		} else {
			buffer_append_char(&steps->text, '?');
		}
		at += len ? len : 1;
	}
	return at;
}

static void add_text(struct steps *steps, enum step_kind kind, uint8_t message_id, size_t at)
{
	if (steps->text.len > at) {
		steps->step[steps->count++] = (struct step){.kind = kind,
			.message_id = message_id,
			.at = at,
			.len = steps->text.len - at};
	}
}

void steps_read(struct steps *steps, const uint8_t *data, size_t size)
{
	uint8_t message_id = 0;
	enum step_kind text_kind = STEP_TEXT;
	steps->count = 0;
	steps->text = (struct buffer){0};
	buffer_reserve(&steps->text, 1); /* never NULL */
	steps->limits = 0;
	for (size_t at = 0; steps->count + 2 < STEPS_MAX;) {
		size_t text = steps->text.len;
		at = read_text(steps, data, at, size);
		add_text(steps, text_kind, message_id, text);
		if (at == size) {
			break;
		}
		struct step step = {.kind = data[at++], .message_id = message_id};
		bool numbered = step.kind == STEP_MESSAGE_ID || step.kind == STEP_WAIT ||
				step.kind == STEP_LIMITS;
		step.number = numbered && at < size ? data[at++] : 0;
		text_kind = step.kind == STEP_THOUGHT ? STEP_THOUGHT : STEP_TEXT;
		if (step.kind == STEP_MESSAGE_ID) {
			message_id = step.number % 3;
		} else if (step.kind == STEP_LIMITS) {
			steps->limits = step.number;
		} else if (step.kind == STEP_SPOIL) {
			step.at = at;
			step.len = size - at;
			at = size;
			steps->step[steps->count++] = step;
		} else if (step.kind != STEP_PIECE && step.kind != STEP_THOUGHT) {
			steps->step[steps->count++] = step;
		}
	}
}
