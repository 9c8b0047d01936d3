/*
 * What must hold for any input: the events do not depend on the chunks, nothing is lost, doubled or
 * put out of order, and a saved state goes on as if nothing had been.
 */
#include "corpus.h"
#include "random.h"
#include "stream_bench.h"
#include "text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static const char *const texts[] = {
	"Plain text.\n\nAnd *more* of **it**, with `code`.\n\n\n\nEnd",
	"# Head\nText\n===\n- a\n- b\n\n  c\n\n1. d\n2. e\n\ndone\n",
	"- a\n\n- b\n\n\n- c\n1) d\n\n   e\n\n    f\n",
	"```js\nlet a;\n\n```\nafter\n~~~\n```\n~~~\n~~~ open\n\nto the end",
	"| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |\n\n| x |\nno table\na|b\n-|-\nc",
	"> quote\nlazy\n> - list\n>   more\n\n> other\n\ntext\n***\n<div>\nhtml\n\n</div>\n",
	"Grüße — 日本語 😀\n\n- ä\n- 😀😀\n\n| é | 漢 |\n|--|--|\n| ñ | 字 |\n\n\xef\xbb\xbf end",
	"    code\n\n    more\ntext\r\n\r\n- a\r\n- b\r\r1. x\r\n\tTab\n",
	"-\n-\n\n*\n+ +\n- - -\n10. ten\n\n[a]: b\n[c]: d 'e'\ntext\n---\n",
};

/* --- chunks --- */

static void assert_same_log(
	struct stream_bench *b, const struct buffer *want, const char *text, size_t len, size_t at)
{
	stream_bench_end_turn(b);
	if (b->log.len != want->len || memcmp(b->log.data, want->data, want->len) != 0) {
		print_error("cut:   %s\n", buffer_cstr(&b->log));
		text_fail("other events than in one piece", text, len, at);
	}
	stream_bench_finish(b);
}

/**
 * Chunks of random length; with `longest` 1, character by character. Now and then, a saved state
 * goes on.
 */
static void say_in_chunks(
	struct stream_bench *b, const char *text, size_t len, size_t longest, struct random *r)
{
	size_t end;
	for (size_t at = 0; at < len; at = end) {
		end = at;
		for (size_t n = 1 + random_below(r, (uint32_t)longest); n && end < len; n--) {
			end = text_next(text, len, end);
		}
		stream_bench_say_n(b, text + at, end - at);
		if (random_below(r, 64) == 0) {
			stream_bench_reload(b);
		}
	}
}

static void check_chunks(const char *text, size_t len, size_t block_size, struct random *r)
{
	struct stream_bench whole;
	stream_bench_init(&whole);
	whole.limits.block_size = block_size;
	whole.limits.paragraph_flush_size = block_size / 4;
	stream_bench_say_n(&whole, text, len);
	stream_bench_end_turn(&whole);
	for (size_t at = 1; at < len; at = text_next(text, len, at)) {
		struct stream_bench b;
		stream_bench_init(&b);
		b.limits = whole.limits;
		stream_bench_say_n(&b, text, at);
		stream_bench_say_n(&b, text + at, len - at);
		assert_same_log(&b, &whole.log, text, len, at);
	}
	for (size_t longest = 1; longest <= 16; longest *= 2) {
		struct stream_bench b;
		stream_bench_init(&b);
		b.limits = whole.limits;
		say_in_chunks(&b, text, len, longest, r);
		assert_same_log(&b, &whole.log, text, len, longest);
	}
	stream_bench_finish(&whole);
}

static void events_do_not_depend_on_chunks(void **state)
{
	struct random r = {20261120};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		check_chunks(texts[i], strlen(texts[i]), 65536, &r);
		check_chunks(texts[i], strlen(texts[i]), 24, &r);
	}
	(void)state;
}

static void visit_chunks(void *arg, const char *name, const char *text, size_t len)
{
	check_chunks(text, len, 65536, arg);
	check_chunks(text, len, 512, arg);
}

static void events_of_the_corpus_do_not_depend_on_chunks(void **state)
{
	struct random r = {7};
	corpus_each("markdown", visit_chunks, &r);
	(void)state;
}

/** Paragraphs and lists of some 30 KiB, where the size rules look for markers again and again. */
static void events_of_long_texts_do_not_depend_on_chunks(void **state)
{
	static const char *const words[] = {"word ", "more words", "é", "long line of text\n",
		"a b c ", "line\n", "**bold** ", "`code`", "line\r\n", "line\r", "**b ", "** ",
		"x\n", "`"};
	struct random r = {4};
	uint64_t events = 0;
	for (int round = 0; round < 30; round++) {
		struct buffer text = {0};
		struct stream_bench whole;
		stream_bench_init(&whole);
		buffer_append_str(&text, round % 3 ? "" : "- ");
		while (text.len < 30000) {
			buffer_append_str(
				&text, words[random_below(&r, random_below(&r, 300) ? 10 : 14)]);
		}
		stream_bench_say_n(&whole, text.data, text.len);
		events += whole.last_seq;
		stream_bench_end_turn(&whole);
		for (size_t longest = 1; longest <= 9000; longest *= 3) {
			struct stream_bench b;
			stream_bench_init(&b);
			say_in_chunks(&b, text.data, text.len, longest, &r);
			assert_same_log(&b, &whole.log, text.data, text.len, longest);
		}
		stream_bench_finish(&whole);
		buffer_finish(&text);
	}
	assert_true(events > 60);
	(void)state;
}

/** Text without an id behind a cut: whose it is must not depend on the chunks either. */
static void messages_behind_a_cut_do_not_depend_on_chunks(void **state)
{
	static const char *const after[] = {"# b\n", "|-|\n|-|\n", "\n\n- b\n", "b\n\nc\n", "***\n",
		"b\n| a |\n|---|\n", "\nb\n|-|\n"};
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
		struct stream_bench whole;
		struct stream_bench b;
		stream_bench_init(&whole);
		stream_bench_init(&b);
		stream_bench_say_as(&whole, "m1", "a\n");
		stream_bench_say_as(&b, "m1", "a\n");
		stream_buffer_flush(whole.sb, STREAM_FLUSH_BLOCK);
		stream_buffer_flush(b.sb, STREAM_FLUSH_BLOCK);
		stream_bench_say_n(&whole, after[i], strlen(after[i]));
		for (const char *at = after[i]; *at; at++) {
			stream_bench_say_n(&b, at, 1);
		}
		stream_bench_end_turn(&whole);
		assert_same_log(&b, &whole.log, after[i], strlen(after[i]), 1);
		stream_bench_finish(&whole);
	}
	(void)state;
}

/* --- a tool call anywhere --- */

/**
 * Whether the block that ends with `text` must not be broken here: its beginning, read by itself.
 */
static bool is_inside_block(const char *text, size_t len)
{
	struct block_scanner *s = block_scanner_create();
	size_t end;
	for (size_t at = 0; at < len;) {
		at += block_scanner_feed(s, text + at, len - at, &end);
	}
	enum block_kind kind = block_scanner_kind(s);
	bool inside = (kind == BLOCK_LIST || kind == BLOCK_TABLE || kind == BLOCK_FENCE ||
			      kind == BLOCK_QUOTE) &&
		      !block_scanner_closable(s);
	block_scanner_destroy(s);
	return inside;
}

/** Where the blocks of a text end: the ends of its messages when nothing comes between. */
struct ends {
	size_t at[256];
	size_t count;
};

static void find_ends(const char *text, size_t len, struct ends *ends)
{
	struct block_scanner *s = block_scanner_create();
	size_t start = 0;
	ends->count = 0;
	for (size_t at = 0; at < len;) {
		size_t end;
		at += block_scanner_feed(s, text + at, len - at, &end);
		if (end != BLOCK_SCANNER_NO_END) {
			assert_true(ends->count + 2 < 256);
			ends->at[ends->count++] = start += end;
		}
	}
	ends->at[ends->count++] = len;
	block_scanner_destroy(s);
}

/** The tool call must come behind the end of the block that it came in the middle of. */
static void check_tool_at(const char *text, size_t len, const struct ends *ends, size_t at)
{
	struct stream_bench b;
	stream_bench_init(&b);
	stream_bench_say_n(&b, text, at);
	uint64_t seq = stream_bench_put(&b, EVENT_TOOL_CALL);
	size_t before = b.last_seq == seq ? b.text.len : 0;
	for (size_t i = at; i < len; i = text_next(text, len, i)) {
		stream_bench_say_n(&b, text + i, text_next(text, len, i) - i);
		before = before || b.last_seq < seq ? before : b.text.len;
	}
	bool held = before == 0 && at > 0;
	stream_bench_end_turn(&b);
	size_t i = 0;
	size_t start = 0;
	while (ends->at[i] < at) {
		start = ends->at[i++];
	}
	bool inside = is_inside_block(text + start, at - start);
	if (b.text.len > len || memcmp(b.text.data, text, b.text.len) != 0 ||
		strspn(text + b.text.len, " \t\r\n") != len - b.text.len) {
		text_fail("the messages are not the text", text, len, at);
	}
	/* Blank lines below a complete block may come after the call. */
	bool broken = before < at || before > ends->at[i] ||
		      strspn(text + before, " \t\r\n") < ends->at[i] - before;
	if (inside && !held && broken) {
		text_fail("the tool call broke a block", text, len, at);
	}
	stream_bench_finish(&b);
}

static void visit_tools(void *arg, const char *name, const char *text, size_t len)
{
	struct ends ends;
	struct buffer copy = {0};
	buffer_append(&copy, text, len);
	find_ends(text, len, &ends);
	for (size_t at = 0; at <= len; at = text_next(text, len, at)) {
		check_tool_at(buffer_cstr(&copy), len, &ends, at);
	}
	buffer_finish(&copy);
}

static void a_tool_call_never_breaks_a_block(void **state)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		visit_tools(NULL, "", texts[i], strlen(texts[i]));
	}
	corpus_each("markdown", visit_tools, NULL);
	(void)state;
}

/* --- anything at all --- */

static const char *const pieces[] = {"- a\n", "  more\n", "\n", "\n\n", "text ", "text\n", "**",
	"`", "```\n", "```", "| a |\n|---|\n", "| b |\n", "> q\n", "# h\n", "1. x\n", "é", "😀",
	"    ", " ", "-", "<div>\n", "\xef\xbb\xbf", "\r\n", "\t", "***\n", "[a]: b\n"};

static const enum event_type others[] = {EVENT_TOOL_CALL, EVENT_TOOL_CALL_UPDATE, EVENT_PLAN,
	EVENT_FILE_READ, EVENT_FILE_WRITE, EVENT_PERMISSION_REQUEST, EVENT_PERMISSION_RESOLVED,
	EVENT_USAGE, EVENT_AGENT_STARTED, EVENT_CUSTOM};

struct story {
	struct stream_bench bench;
	struct random r;
	struct buffer said; /* text of the messages of this turn */
	struct buffer thought; /* text of all thoughts */
	size_t turn_start; /* in bench.text */
};

/** The messages of the turn are what was said in it, but for blanks at its end. */
static void check_turn(struct story *s)
{
	const char *got = s->bench.text.data + s->turn_start;
	size_t len = s->bench.text.len - s->turn_start;
	const char *said = buffer_cstr(&s->said);
	if (len > s->said.len || (len && memcmp(got, said, len) != 0) ||
		strspn(said + len, " \t\r\n") != s->said.len - len) {
		text_fail("the messages are not what was said", said, s->said.len, len);
	}
	buffer_clear(&s->said);
	s->turn_start = s->bench.text.len;
}

static void say_something(struct story *s)
{
	static const char *const ids[] = {NULL, "m1", "m2"};
	struct buffer text = {0};
	for (uint32_t n = 1 + random_below(&s->r, 4); n; n--) {
		buffer_append_str(
			&text, pieces[random_below(&s->r, sizeof(pieces) / sizeof(pieces[0]))]);
	}
	buffer_append(&s->said, text.data, text.len);
	if (random_below(&s->r, 20)) {
		stream_bench_say_n(&s->bench, text.data, text.len);
	} else {
		stream_bench_say_as(&s->bench, ids[1 + random_below(&s->r, 2)], buffer_cstr(&text));
	}
	buffer_finish(&text);
}

static void let_time_pass(struct story *s)
{
	static const int64_t steps[] = {10, 200, 500, 2000, 10000, 30000};
	struct stream_buffer *sb = s->bench.sb;
	s->bench.now += steps[random_below(&s->r, 6)];
	enum stream_flush flush = stream_buffer_due(sb, s->bench.now);
	assert_true(flush == STREAM_FLUSH_NONE || stream_buffer_deadline(sb) <= s->bench.now);
	stream_buffer_flush(sb, flush);
	assert_true(flush == STREAM_FLUSH_NONE || stream_buffer_deadline(sb) == INT64_MAX);
}

/** What is shown of the open event never falls, and is the beginning of the event. */
static void check_open(struct story *s)
{
	struct stream_open open;
	stream_buffer_get_open(s->bench.sb, &open);
	assert_true(open.seq == 0 || open.seq == s->bench.last_seq + 1);
	assert_true(open.len == 0 || open.seq != 0);
}

static void do_something(struct story *s, bool reload)
{
	uint32_t what = random_below(&s->r, 100);
	if (what < 60) {
		say_something(s);
	} else if (what < 72) {
		stream_bench_put(
			&s->bench, others[random_below(&s->r, sizeof(others) / sizeof(others[0]))]);
	} else if (what < 82) {
		stream_bench_think(&s->bench, "hm ");
		buffer_append_str(&s->thought, "hm ");
	} else if (what < 96) {
		let_time_pass(s);
	} else {
		stream_bench_end_turn(&s->bench);
		check_turn(s);
	}
	check_open(s);
	assert_true(stream_buffer_emitted_seq(s->bench.sb) == s->bench.last_seq);
	if (reload) {
		stream_bench_reload(&s->bench);
	}
}

static void story_begin(struct story *s, uint64_t seed)
{
	*s = (struct story){.r = {seed}};
	stream_bench_init(&s->bench);
	if (seed % 3 == 0) {
		/*
		 * Small limits, so that the size rules apply all the time; blanks alone stay below.
		 */
		s->bench.limits.block_size = 200;
		s->bench.limits.paragraph_flush_size = 40;
		s->bench.limits.thought_size = 9;
	}
}

static void story_end(struct story *s)
{
	stream_bench_end_turn(&s->bench);
	check_turn(s);
	assert_int_equal(s->bench.last_seq + 1, stream_buffer_next_seq(s->bench.sb));
}

static void story_free(struct story *s)
{
	stream_bench_finish(&s->bench);
	buffer_finish(&s->said);
	buffer_finish(&s->thought);
}

/** Every thought that came is in the log, once. */
static size_t count(const struct buffer *log, const char *what)
{
	size_t n = 0;
	const char *end = log->data + log->len;
	for (const char *at = log->data; (at = memmem(at, (size_t)(end - at), what, strlen(what)));
		at += strlen(what)) {
		n++;
	}
	return n;
}

static void whatever_comes_is_emitted_once_and_in_order(void **state)
{
	for (uint64_t seed = 1; seed <= 20000; seed++) {
		struct story s;
		story_begin(&s, seed);
		for (int i = 0; i < 40; i++) {
			do_something(&s, false);
		}
		story_end(&s);
		assert_int_equal(count(&s.bench.log, "hm "), s.thought.len / 3);
		story_free(&s);
	}
	(void)state;
}

/* --- saved and gone on with --- */

static void a_saved_state_goes_on_the_same(void **state)
{
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		struct story straight;
		struct story saved;
		story_begin(&straight, seed);
		story_begin(&saved, seed);
		for (int i = 0; i < 40; i++) {
			do_something(&straight, false);
			do_something(&saved, true);
			assert_int_equal(stream_buffer_deadline(straight.bench.sb),
				stream_buffer_deadline(saved.bench.sb));
		}
		story_end(&straight);
		story_end(&saved);
		assert_string_equal(
			buffer_cstr(&saved.bench.log), buffer_cstr(&straight.bench.log));
		story_free(&straight);
		story_free(&saved);
	}
	(void)state;
}

/** Emitted from a spoilt state: it may be nonsense, but not out of order. */
static void count_emit(void *owner, const struct event_view *view)
{
	uint64_t *last = owner;
	assert_int_equal(view->seq, *last + 1);
	*last = view->seq;
}

static void ignore_held(void *owner, uint64_t seq, const struct stream_input *input)
{
}

/** Returns whether the bytes were taken; if they were, the buffer must go on with them. */
static bool load_and_go_on(const struct limits *limits, const char *bytes, size_t len)
{
	static const struct stream_buffer_ops ops = {.emit = count_emit, .held = ignore_held};
	static const struct stream_input inputs[] = {
		{.type = EVENT_MESSAGE_CHUNK, .data = "a\n\n- é\n", .data_len = 8},
		{.type = EVENT_TOOL_CALL, .data = "{}", .data_len = 2},
		{.type = EVENT_THOUGHT_CHUNK, .data = "hm", .data_len = 2},
		{.type = EVENT_MESSAGE_CHUNK, .data = "\n```\n1\n", .data_len = 7},
		{.type = EVENT_PERMISSION_REQUEST, .data = "{}", .data_len = 2},
	};
	uint64_t last = 0;
	struct stream_buffer *sb = stream_buffer_create(limits, 1, &ops, &last);
	struct unpack in = {.bytes = bytes, .len = len};
	int r = stream_buffer_load(sb, &in, STREAM_FORMAT_NOW);
	assert_true(r == 0 || r == -EBADMSG);
	assert_true(r == 0 || stream_buffer_is_idle(sb));
	last = stream_buffer_emitted_seq(sb);
	for (size_t i = 0; r == 0 && i < sizeof(inputs) / sizeof(inputs[0]); i++) {
		struct stream_open open;
		stream_buffer_get_open(sb, &open);
		stream_buffer_flush(sb, stream_buffer_due(sb, 1000000));
		stream_buffer_put(sb, &inputs[i]);
	}
	if (r == 0) {
		stream_buffer_finish_turn(sb);
	}
	stream_buffer_destroy(sb);
	return r == 0;
}

static void spoil(const struct limits *limits, struct buffer *state, struct random *r)
{
	for (size_t len = 0; len < state->len; len++) {
		assert_false(load_and_go_on(limits, state->data, len));
	}
	for (size_t at = 0; at < state->len; at++) {
		char was = state->data[at];
		state->data[at] = (char)(was ^ (1 << random_below(r, 8)));
		load_and_go_on(limits, state->data, state->len);
		state->data[at] = (char)random_next(r);
		load_and_go_on(limits, state->data, state->len);
		state->data[at] = was;
	}
	assert_true(load_and_go_on(limits, state->data, state->len));
}

static void spoilt_bytes_do_no_harm(void **state)
{
	struct random r = {99};
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct story s;
		struct buffer bytes = {0};
		story_begin(&s, seed);
		for (int i = 0; i < 15; i++) {
			do_something(&s, false);
		}
		stream_buffer_save(s.bench.sb, &bytes);
		spoil(&s.bench.limits, &bytes, &r);
		buffer_finish(&bytes);
		story_free(&s);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_do_not_depend_on_chunks),
		cmocka_unit_test(events_of_the_corpus_do_not_depend_on_chunks),
		cmocka_unit_test(events_of_long_texts_do_not_depend_on_chunks),
		cmocka_unit_test(messages_behind_a_cut_do_not_depend_on_chunks),
		cmocka_unit_test(a_tool_call_never_breaks_a_block),
		cmocka_unit_test(whatever_comes_is_emitted_once_and_in_order),
		cmocka_unit_test(a_saved_state_goes_on_the_same),
		cmocka_unit_test(spoilt_bytes_do_no_harm),
	};
	return cmocka_run_group_tests_name("stream_buffer_random", tests, NULL, NULL);
}
