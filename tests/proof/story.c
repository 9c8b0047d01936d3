#include "story.h"

#include "text.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

void story_fail(const struct story *s, const char *what)
{
	const struct buffer *markdown = &s->text->markdown;
	struct buffer log = s->bench.log;
	print_error("%s: %s\n", s->text->name.data, buffer_cstr(&log));
	for (size_t i = 0; i < s->count; i++) {
		print_error("input %zu came out at byte %zu\n", i + 1, s->inputs[i].came_out);
	}
	text_fail(what, markdown->data, markdown->len, s->said);
}

/* --- telling it --- */

static void watch_message(struct story *s, const struct event_view *view)
{
	if (s->count && view->seq > s->inputs[0].seq && !s->is_behind) {
		json_t *data = json_loadb(view->data, view->data_len, 0, NULL);
		s->continues = (uint64_t)json_integer_value(json_object_get(data, "continues"));
		s->is_behind = true;
		json_decref(data);
	}
	if (!s->is_behind) {
		s->last_message = view->seq;
	}
}

static void watch_event(void *arg, const struct event_view *view)
{
	struct story *s = arg;
	if (view->type == EVENT_AGENT_MESSAGE) {
		watch_message(s, view);
		return;
	}
	for (size_t i = 0; i < s->count; i++) {
		if (s->inputs[i].seq == view->seq) {
			s->inputs[i].came_out = s->bench.text.len;
		}
	}
}

void story_begin(struct story *s, const struct text *text)
{
	*s = (struct story){.text = text};
	stream_bench_init(&s->bench);
	s->bench.watch = watch_event;
	s->bench.watch_arg = s;
}

void story_say(struct story *s, size_t end)
{
	stream_bench_say_n(&s->bench, s->text->markdown.data + s->said, end - s->said);
	s->said = end;
}

void story_put(struct story *s, enum event_type type)
{
	struct story_input *input = &s->inputs[s->count++];
	/* It may come out before its seq is returned. */
	input->seq = stream_buffer_next_seq(s->bench.sb);
	uint64_t seq = type == EVENT_THOUGHT_CHUNK ? stream_bench_think(&s->bench, "hm")
						   : stream_bench_put(&s->bench, type);
	assert_int_equal(seq, input->seq);
	input->here = s->bench.text.len;
}

/** Only blanks behind the last block of the turn are no event. */
static bool is_joined(const struct story *s)
{
	const struct buffer *said = &s->text->markdown;
	size_t len = s->bench.text.len;
	return len <= said->len && (len == 0 || memcmp(s->bench.text.data, said->data, len) == 0) &&
	       strspn(said->data + len, " \t\r\n") == said->len - len;
}

void story_end(struct story *s)
{
	story_say(s, s->text->markdown.len);
	uint64_t last = stream_bench_end_turn(&s->bench);
	assert_int_equal(s->bench.last_seq, last); /* the bench has seen that none is missing */
	if (!is_joined(s)) {
		story_fail(s, "the messages are not the text");
	}
	for (size_t i = 0; i < s->count; i++) {
		s->inputs[i].held = s->inputs[i].came_out > s->inputs[i].here;
	}
	stream_bench_finish(&s->bench);
}

/* --- where an input may come out --- */

const struct extent *story_find_parted(
	const struct extents *extents, const struct story_input *input)
{
	const struct extent *found = NULL;
	for (size_t i = 0; i < extents->count; i++) {
		const struct extent *extent = &extents->items[i];
		if (input->came_out > extent->start && input->came_out < extent->end) {
			found = extent;
		}
	}
	return found;
}

bool story_is_below_blank_line(const char *text, size_t at)
{
	size_t ends = 0;
	for (; at > 0 && strchr(" \t\r\n", text[at - 1]) && text[at - 1]; at--) {
		ends += text[at - 1] == '\n' || (text[at - 1] == '\r' && text[at] != '\n');
	}
	return ends >= 2;
}

/** A paragraph is not held, and this is one so far: nothing in it says that a row may follow. */
static bool is_plain_header(const struct extent *extent, const char *text, size_t at)
{
	return extent->kind == EXTENT_TABLE && at <= extent->next_line &&
	       !memchr(text + extent->start, '|', at - extent->start);
}

void story_check_place(const struct story *s, const struct story_input *input,
	const struct extents *extents, struct story_count *count)
{
	const char *text = s->text->markdown.data;
	const struct extent *parted = story_find_parted(extents, input);
	count->held += input->held;
	if (!parted) {
		return;
	}
	bool closable =
		parted->kind == EXTENT_LIST && story_is_below_blank_line(text, input->came_out);
	bool header = is_plain_header(parted, text, input->came_out);
	/* What is held comes out at the end of the block, or with a later input that can. */
	bool early = input->held && input->came_out != s->inputs[s->count - 1].here;
	if (early || (!closable && !header)) {
		print_error("in a %s from byte %zu to %zu%s\n", extent_kind_name(parted->kind),
			parted->start, parted->end, early ? ", though it was held" : "");
		story_fail(s, "an input came out inside of a block");
	}
	count->in_closable += closable;
	count->in_header += header;
}
