#include "chunks.h"

#include "holdfast/stream_buffer.h"
#include "random.h"
#include "text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define RANDOM_WAYS 200

/** A text with the places it may be cut at, and a way to try a cut. */
struct subject {
	const struct text *text;
	size_t *places; /* rising; neither 0 nor the text's length */
	size_t places_count;
	/** `cuts` are some of the places, rising. */
	void (*try_cuts)(struct subject *subject, const size_t *cuts, size_t count);
	struct chunks_count *count;
	const struct limits *limits;
	const void *want; /* what the whole text gave */
};

/* --- every way to cut --- */

static void try_cuts(struct subject *s, const size_t *cuts, size_t count)
{
	s->try_cuts(s, cuts, count);
	s->count->cuts++;
}

static void try_pairs(struct subject *s)
{
	for (size_t i = 0; i < s->places_count; i++) {
		for (size_t j = i + 1; j < s->places_count; j++) {
			try_cuts(s, (size_t[]){s->places[i], s->places[j]}, 2);
		}
	}
}

/** Each way has a longest chunk of its own, from one character to the whole text. */
static void try_randomly(struct subject *s)
{
	struct random r = {20261122 + s->text->markdown.len};
	size_t *cuts = xmalloc((s->places_count + 1) * sizeof(*cuts));
	for (int way = 0; way < RANDOM_WAYS; way++) {
		uint32_t longest = 1 + random_below(&r, (uint32_t)s->places_count + 1);
		longest = way % 2 ? longest : 1 + random_below(&r, 8);
		size_t count = 0;
		for (size_t i = random_below(&r, longest); i < s->places_count;) {
			cuts[count++] = s->places[i];
			i += 1 + random_below(&r, longest);
		}
		try_cuts(s, cuts, count);
	}
	free(cuts);
}

static void try_all(struct subject *s)
{
	for (size_t i = 0; i < s->places_count; i++) {
		try_cuts(s, &s->places[i], 1);
	}
	if (s->text->markdown.len < CHUNKS_PAIRS_MAX) {
		try_pairs(s);
	}
	try_cuts(s, s->places, s->places_count);
	try_randomly(s);
	s->count->texts++;
}

static void fail_cuts(const struct subject *s, const size_t *cuts, size_t count)
{
	const struct buffer *markdown = &s->text->markdown;
	print_error("%s in %zu chunks", s->text->name.data, count + 1);
	for (size_t i = 0; i < count && i < 8; i++) {
		print_error(", cut at byte %zu", cuts[i]);
	}
	print_error("\n");
	text_fail("a cut makes a difference", markdown->data, markdown->len, count ? cuts[0] : 0);
}

/* --- the stream buffer --- */

/** All of an event but its time, a line each. A bench would read the JSON, which takes longer. */
static void log_event(void *owner, const struct event_view *view)
{
	struct buffer *log = owner;
	buffer_append_u64(log, view->seq);
	buffer_append_char(log, ' ');
	buffer_append_str(log, event_type_name(view->type));
	buffer_append_char(log, ' ');
	buffer_append(log, view->data, view->data_len);
	buffer_append_char(log, '\n');
}

static const struct stream_buffer_ops log_ops = {.emit = log_event};

/** Writes to `log` what the text gives in these chunks; returns the seq of the last event. */
static uint64_t say_in_chunks(
	const struct subject *s, const size_t *cuts, size_t count, struct buffer *log)
{
	const struct buffer *markdown = &s->text->markdown;
	struct stream_buffer *sb = stream_buffer_create(s->limits, 1, &log_ops, log);
	size_t at = 0;
	for (size_t i = 0; i <= count; i++) {
		size_t end = i < count ? cuts[i] : markdown->len;
		stream_buffer_put(sb, &(struct stream_input){.type = EVENT_MESSAGE_CHUNK,
					      .data = markdown->data + at,
					      .data_len = end - at,
					      .ts = 1,
					      .turn = 1});
		at = end;
	}
	stream_buffer_finish_turn(sb);
	uint64_t last_seq = stream_buffer_emitted_seq(sb);
	stream_buffer_destroy(sb);
	return last_seq;
}

static void try_buffer(struct subject *s, const size_t *cuts, size_t count)
{
	static struct buffer log; /* keeps its memory */
	const struct buffer *want = s->want;
	buffer_clear(&log);
	say_in_chunks(s, cuts, count, &log);
	if (log.len != want->len || memcmp(log.data, want->data, want->len) != 0) {
		print_error(
			"whole:\n%.*s\ncut:\n%s\n", (int)want->len, want->data, buffer_cstr(&log));
		fail_cuts(s, cuts, count);
	}
}

static size_t count_in(struct buffer *log, const char *what)
{
	size_t count = 0;
	for (const char *at = buffer_cstr(log); (at = strstr(at, what)); at++) {
		count++;
	}
	return count;
}

void chunks_check_buffer(
	const struct text *text, const struct limits *limits, struct chunks_count *count)
{
	const struct buffer *markdown = &text->markdown;
	struct subject s = {.text = text, .try_cuts = try_buffer, .count = count, .limits = limits};
	struct buffer whole = {0};
	s.places = xmalloc(markdown->len * sizeof(*s.places));
	for (size_t at = text_next(markdown->data, markdown->len, 0); at < markdown->len;
		at = text_next(markdown->data, markdown->len, at)) {
		s.places[s.places_count++] = at;
	}
	count->events += say_in_chunks(&s, NULL, 0, &whole);
	count->continued += count_in(&whole, ",\"continues\":");
	s.want = &whole;
	try_all(&s);
	buffer_finish(&whole);
	free(s.places);
}

/* --- the scanner --- */

/** Where a text's blocks end, and what the scanner knows of the last. */
struct ends {
	size_t count;
	size_t at[2048];
	enum block_kind kind;
	bool closable;
};

static void find_ends(
	const struct subject *s, const size_t *cuts, size_t count, struct ends *ret_ends)
{
	struct block_scanner *scanner = block_scanner_create();
	const struct buffer *markdown = &s->text->markdown;
	size_t start = 0;
	ret_ends->count = 0;
	for (size_t at = 0, i = 0; i <= count; i++) {
		size_t stop = i < count ? cuts[i] : markdown->len;
		while (at < stop) {
			size_t end;
			at += block_scanner_feed(scanner, markdown->data + at, stop - at, &end);
			if (end != BLOCK_SCANNER_NO_END) {
				assert_true(ret_ends->count < 2048);
				start += end;
				ret_ends->at[ret_ends->count++] = start;
			}
		}
	}
	ret_ends->kind = block_scanner_kind(scanner);
	ret_ends->closable = block_scanner_closable(scanner);
	assert_int_equal(block_scanner_length(scanner), markdown->len - start);
	block_scanner_destroy(scanner);
}

static void try_scanner(struct subject *s, const size_t *cuts, size_t count)
{
	static struct ends got;
	const struct ends *want = s->want;
	find_ends(s, cuts, count, &got);
	if (got.count != want->count || got.kind != want->kind || got.closable != want->closable ||
		memcmp(got.at, want->at, got.count * sizeof(got.at[0])) != 0) {
		fail_cuts(s, cuts, count);
	}
}

void chunks_check_scanner(const struct text *text, struct chunks_count *count)
{
	static struct ends whole;
	struct subject s = {.text = text, .try_cuts = try_scanner, .count = count, .want = &whole};
	s.places = xmalloc(text->markdown.len * sizeof(*s.places));
	for (size_t at = 1; at < text->markdown.len; at++) {
		s.places[s.places_count++] = at;
	}
	find_ends(&s, NULL, 0, &whole);
	count->events += whole.count + 1;
	try_all(&s);
	free(s.places);
}
