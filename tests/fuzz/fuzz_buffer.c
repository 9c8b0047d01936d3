/*
 * The stream buffer goes through a story in several ways, which must all give the same events: as
 * it is, with the text character by character, with chunks joined, and from its saved state after
 * every step. The model of buffer_story.h checks each of them.
 */
#include "buffer_story.h"
#include "fuzz.h"

#define INPUT_MAX 4096 /* fewer seqs than the model has room for */

enum way {
	WAY_PLAIN,
	WAY_BY_CHARACTER,
	WAY_JOINED,
	WAY_RELOADED,
};

static void say_by_character(struct story *s, const struct step *step, const char *text)
{
	size_t len;
	for (size_t at = 0; at < step->len; at += len) {
		len = fuzz_utf8_length(text + at, step->len - at);
		story_say(s, step, text + at, len);
		story_look(s);
	}
}

/* How much text comes from this step on without anything between; *ret_next is the step behind. */
static size_t joined_length(const struct steps *steps, size_t i, size_t *ret_next)
{
	size_t len = 0;
	size_t next = i;
	while (next < steps->count && steps->step[next].kind == STEP_TEXT &&
		steps->step[next].message_id == steps->step[i].message_id) {
		len += steps->step[next++].len;
	}
	*ret_next = next;
	return len;
}

/* Returns the index of the step behind. */
static size_t do_step(
	struct story *s, const struct steps *steps, size_t i, enum way way, const uint8_t *data)
{
	const struct step *step = &steps->step[i];
	const char *text = steps->text.data + step->at;
	size_t next = i + 1;
	if (step->kind == STEP_TEXT && way == WAY_BY_CHARACTER) {
		say_by_character(s, step, text);
	} else if (step->kind == STEP_TEXT) {
		size_t len = way == WAY_JOINED ? joined_length(steps, i, &next) : step->len;
		story_say(s, step, text, len);
	} else if (step->kind == STEP_RELOAD && way == WAY_PLAIN) {
		story_reload(s);
	} else if (step->kind == STEP_SPOIL && way == WAY_PLAIN) {
		story_spoil(s, data + step->at, step->len);
	} else {
		story_do(s, step, text);
	}
	story_look(s);
	if (way == WAY_RELOADED) {
		story_reload(s);
	}
	return next;
}

static void tell(struct story *s, const struct steps *steps, enum way way, const uint8_t *data)
{
	story_begin(s, steps);
	for (size_t i = 0; i < steps->count;) {
		i = do_step(s, steps, i, way, data);
	}
	story_end(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct steps steps;
	static struct story plain;
	static struct story other;
	steps_read(&steps, data, size < INPUT_MAX ? size : INPUT_MAX);
	tell(&plain, &steps, WAY_PLAIN, data);
	for (enum way way = WAY_BY_CHARACTER; way <= WAY_RELOADED; way++) {
		tell(&other, &steps, way, data);
		bool same = plain.log.len == other.log.len &&
			    memcmp(plain.log.data, other.log.data, plain.log.len) == 0;
		if (!same) {
			fprintf(stderr, "--- plain\n%s--- way %d\n%s---\n", plain.log.data,
				(int)way, other.log.data);
		}
		fuzz_check(same, "the events are the same however the text comes");
		story_free(&other);
	}
	story_free(&plain);
	buffer_finish(&steps.text);
	return 0;
}
