/*
 * What comes in the middle of a text: at every character it comes out in its order and never inside
 * of a list, table, fence or quote, and no text is lost. Where those blocks lie is asked of
 * cmark-gfm, not of the scanner.
 */
#include "story.h"
#include "text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static void print_count(const char *what, const struct story_count *count)
{
	print_message(
		"%s at %zu places of %zu texts: held at %zu, in a list below a blank line at %zu, in a table's header row before its first | at %zu\n",
		what, count->places, count->texts, count->held, count->in_closable,
		count->in_header);
}

/* --- one input --- */

static void put_everywhere(const struct text *text, enum event_type type, struct story_count *count)
{
	const struct buffer *markdown = &text->markdown;
	static struct extents extents;
	extents_find(markdown->data, markdown->len, &extents);
	for (size_t at = 0; at <= markdown->len;
		at = text_next(markdown->data, markdown->len, at)) {
		struct story s;
		story_begin(&s, text);
		story_say(&s, at);
		story_put(&s, type);
		story_end(&s);
		story_check_place(&s, &s.inputs[0], &extents, count);
		count->places++;
	}
	count->texts++;
}

static void check_type(const struct texts *texts, enum event_type type, const char *what)
{
	struct story_count count = {0};
	for (size_t i = 0; i < texts->count; i++) {
		put_everywhere(&texts->items[i], type, &count);
	}
	print_count(what, &count);
	assert_true(count.held > count.texts);
}

static void a_tool_call_never_comes_out_in_a_block(void **state)
{
	check_type(*state, EVENT_TOOL_CALL, "a tool call");
}

static void a_thought_never_comes_out_in_a_block(void **state)
{
	check_type(*state, EVENT_THOUGHT_CHUNK, "a thought");
}

/* --- a question, which waits for nothing --- */

struct question_count {
	size_t places;
	size_t cuts; /* of a list, table, fence or quote: the rest continues it */
	size_t undecided; /* in the first marks of what might have become one, which end there */
};

/** Whether a prefix of a block is not yet known to be such a block. */
static bool is_undecided(const struct extent *extent, const char *text, size_t at)
{
	const char *begin = text + extent->start;
	size_t len = at - extent->start;
	switch (extent->kind) {
	case EXTENT_LIST:
		return strspn(begin, "0123456789-+*.) \t") >= len;
	case EXTENT_FENCE:
		/* A backtick in the rest of the line would make it text of the paragraph above. */
		return at < extent->next_line;
	case EXTENT_TABLE:
		return at < extent->next_line ||
		       !memchr(text + extent->next_line, '\n', at - extent->next_line);
	default:
		return false;
	}
}

static void judge_question(
	const struct story *s, const struct extent *parted, struct question_count *count)
{
	const char *text = s->text->markdown.data;
	size_t at = s->inputs[0].came_out;
	if (s->continues) {
		assert_int_equal(s->continues, s->last_message);
		count->cuts++;
	} else if (is_undecided(parted, text, at)) {
		count->undecided++;
	} else {
		story_fail(s, "a question ends a block for good");
	}
}

static void ask_at(const struct text *text, size_t at, const struct extents *extents,
	struct question_count *count)
{
	struct story s;
	story_begin(&s, text);
	story_say(&s, at);
	story_put(&s, EVENT_PERMISSION_REQUEST);
	if (s.bench.last_seq != s.inputs[0].seq) {
		story_fail(&s, "a question waits");
	}
	story_end(&s);
	const struct extent *parted = story_find_parted(extents, &s.inputs[0]);
	if (parted) {
		judge_question(&s, parted, count);
	}
	count->places++;
}

static void a_question_cuts_what_is_open(void **state)
{
	const struct texts *texts = *state;
	struct question_count count = {0};
	static struct extents extents;
	for (size_t i = 0; i < texts->count; i++) {
		const struct buffer *markdown = &texts->items[i].markdown;
		extents_find(markdown->data, markdown->len, &extents);
		for (size_t at = 0; at <= markdown->len;
			at = text_next(markdown->data, markdown->len, at)) {
			ask_at(&texts->items[i], at, &extents, &count);
		}
	}
	print_message(
		"a question at %zu places of %zu texts: at %zu it cuts a block, which goes on behind it; at %zu the block has only its first marks\n",
		count.places, texts->count, count.cuts, count.undecided);
	assert_true(count.cuts > texts->count);
}

/* --- a tool call and its update --- */

#define PAIRS_MAX 200 /* bytes of a text */

static void put_pair(const struct text *text, size_t first, size_t second,
	const struct extents *extents, struct story_count *count)
{
	struct story s;
	story_begin(&s, text);
	story_say(&s, first);
	story_put(&s, EVENT_TOOL_CALL);
	story_say(&s, second);
	story_put(&s, EVENT_TOOL_CALL_UPDATE);
	story_end(&s);
	if (s.inputs[0].seq >= s.inputs[1].seq || s.inputs[0].came_out > s.inputs[1].came_out) {
		story_fail(&s, "the update overtakes its tool call");
	}
	story_check_place(&s, &s.inputs[0], extents, count);
	if (s.inputs[0].held) {
		/* Else the text behind the tool call is a new one, and may have other blocks. */
		story_check_place(&s, &s.inputs[1], extents, count);
	}
	count->places++;
}

static void put_pairs(const struct text *text, struct story_count *count)
{
	const struct buffer *markdown = &text->markdown;
	static struct extents extents;
	extents_find(markdown->data, markdown->len, &extents);
	for (size_t i = 0; i <= markdown->len; i = text_next(markdown->data, markdown->len, i)) {
		for (size_t j = i; j <= markdown->len;
			j = text_next(markdown->data, markdown->len, j)) {
			put_pair(text, i, j, &extents, count);
		}
	}
	count->texts++;
}

static void an_update_never_overtakes_its_tool_call(void **state)
{
	const struct texts *texts = *state;
	struct story_count count = {0};
	for (size_t i = 0; i < texts->count; i++) {
		if (texts->items[i].markdown.len < PAIRS_MAX) {
			put_pairs(&texts->items[i], &count);
		}
	}
	print_count("a tool call and its update", &count);
	assert_true(count.held > count.texts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tool_call_never_comes_out_in_a_block),
		cmocka_unit_test(a_thought_never_comes_out_in_a_block),
		cmocka_unit_test(a_question_cuts_what_is_open),
		cmocka_unit_test(an_update_never_overtakes_its_tool_call),
	};
	return cmocka_run_group_tests_name(
		"proof_holding", tests, texts_setup_part, texts_teardown);
}
