/*
 * The HTML of the blocks that a text is emitted in, joined, is the HTML of the whole text: for all
 * texts, byte for byte. Only a reference link whose definition stands in another block cannot be
 * known when its own block is shown: reference_exceptions.txt names each such text with the reason,
 * and here it is proven to be the reason.
 */
#include "corpus.h"
#include "examples.h"
#include "stream_bench.h"
#include "text.h"
#include "texts.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* --- events as observers get them --- */

/** Appends data.html of an agent_message. */
static void append_event_html(const struct event_view *view, struct buffer *out)
{
	struct event *event = event_create(view);
	size_t len;
	const char *json = event_json(event, FORMAT_HTML, &len);
	json_t *root = json_loadb(json, len, 0, NULL);
	const json_t *html = json_object_get(json_object_get(root, "data"), "html");
	assert_true(json_is_string(html));
	buffer_append(out, json_string_value(html), json_string_length(html));
	json_decref(root);
	event_unref(event);
}

/** The same for a message of this markdown. */
static void append_html(const char *markdown, size_t len, struct buffer *out)
{
	struct buffer data = {0};
	buffer_append_str(&data, "{\"markdown\":");
	buffer_append_json(&data, markdown, len);
	buffer_append_char(&data, '}');
	append_event_html(&(struct event_view){.seq = 1,
				  .type = EVENT_AGENT_MESSAGE,
				  .data = data.data,
				  .data_len = data.len},
		out);
	buffer_finish(&data);
}

static bool is_same(const struct buffer *a, const struct buffer *b)
{
	return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

/* --- a text in blocks --- */

#define BLOCKS_MAX 2048

struct blocks {
	struct stream_bench bench;
	size_t count;
	size_t ends[BLOCKS_MAX]; /* in bench.text */
	struct buffer html;
};

static void watch_block(void *arg, const struct event_view *view)
{
	struct blocks *blocks = arg;
	if (view->type == EVENT_AGENT_MESSAGE) {
		assert_true(blocks->count < BLOCKS_MAX);
		blocks->ends[blocks->count++] = blocks->bench.text.len;
		append_event_html(view, &blocks->html);
	}
}

static struct blocks *blocks_create(const struct buffer *markdown)
{
	struct blocks *blocks = xcalloc(1, sizeof(*blocks));
	stream_bench_init(&blocks->bench);
	blocks->bench.watch = watch_block;
	blocks->bench.watch_arg = blocks;
	stream_bench_say_n(&blocks->bench, markdown->data, markdown->len);
	stream_bench_end_turn(&blocks->bench);
	return blocks;
}

static void blocks_destroy(struct blocks *blocks)
{
	stream_bench_finish(&blocks->bench);
	buffer_finish(&blocks->html);
	free(blocks);
}

/* --- references into other blocks --- */

/**
 * What ends whatever a definition stands in (a list, a quote), so that the block behind it begins
 * on its own.
 */
#define BLOCKS_PART "\n\n<!-- -->\n\n"

/** All blocks in which there may be definitions, in their order: the first of two counts. */
static void append_definitions(const struct blocks *blocks, struct buffer *out)
{
	size_t start = 0;
	for (size_t i = 0; i < blocks->count; i++) {
		const char *block = blocks->bench.text.data + start;
		size_t len = blocks->ends[i] - start;
		if (memmem(block, len, "]:", 2)) {
			buffer_append(out, block, len);
			buffer_append_str(out, BLOCKS_PART);
		}
		start = blocks->ends[i];
	}
}

/** Whether each block rendered below all definitions of the text gives the whole text's HTML. */
static bool is_whole_with_definitions(const struct blocks *blocks, const struct buffer *want)
{
	struct buffer above = {0};
	struct buffer above_html = {0};
	struct buffer joined = {0};
	append_definitions(blocks, &above);
	append_html(above.data, above.len, &above_html);
	size_t len = above.len;
	size_t start = 0;
	bool is_whole = true;
	for (size_t i = 0; i < blocks->count && is_whole; i++) {
		struct buffer html = {0};
		buffer_append(&above, blocks->bench.text.data + start, blocks->ends[i] - start);
		append_html(above.data, above.len, &html);
		is_whole = html.len >= above_html.len &&
			   memcmp(html.data, above_html.data, above_html.len) == 0;
		buffer_append(&joined, html.data + above_html.len, html.len - above_html.len);
		buffer_finish(&html);
		above.len = len;
		start = blocks->ends[i];
	}
	is_whole = is_whole && is_same(&joined, want);
	buffer_finish(&above);
	buffer_finish(&above_html);
	buffer_finish(&joined);
	return is_whole;
}

/* --- reference_exceptions.txt --- */

struct exceptions {
	struct buffer file; /* lines `name: reason` */
	size_t used;
};

static size_t count_exceptions(const struct exceptions *exceptions)
{
	size_t count = 0;
	for (const char *at = exceptions->file.data; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		count += *at && *at != '\n' && *at != '#';
	}
	return count;
}

/** Whether a line of its own names the text and gives a reason. */
static bool is_exception(struct exceptions *exceptions, const char *name)
{
	struct buffer line = {0};
	buffer_printf(&line, "\n%s: ", name);
	const char *at = strstr(exceptions->file.data, buffer_cstr(&line));
	bool found = at && strcspn(at + line.len, "\n") > 0;
	buffer_finish(&line);
	exceptions->used += found;
	return found;
}

/* --- the tests --- */

/** What is wrong with a text's HTML; NULL if nothing is. */
static const char *find_fault(const struct text *text, const struct blocks *blocks,
	const struct buffer *whole, struct exceptions *exceptions)
{
	bool same = is_same(whole, &blocks->html);
	bool excepted = is_exception(exceptions, text->name.data);
	if (same) {
		return excepted ? "is named as an exception and is none" : NULL;
	}
	if (!is_whole_with_definitions(blocks, whole)) {
		return "the blocks render differently";
	}
	return excepted ? NULL : "has references into other blocks and is not named";
}

/** Returns whether the text is as it must be. */
static bool check_text(const struct text *text, struct exceptions *exceptions, size_t *ret_blocks)
{
	const struct buffer *markdown = &text->markdown;
	struct blocks *blocks = blocks_create(markdown);
	struct buffer whole = {0};
	append_html(markdown->data, markdown->len, &whole);
	const char *fault = find_fault(text, blocks, &whole, exceptions);
	if (fault) {
		print_error("%s: %s\n%.*s\nwhole:\n%s\nblocks:\n%s\n", text->name.data, fault,
			(int)markdown->len, markdown->data, buffer_cstr(&whole),
			buffer_cstr(&blocks->html));
	}
	*ret_blocks += blocks->count;
	buffer_finish(&whole);
	blocks_destroy(blocks);
	return !fault;
}

static void blocks_render_as_the_whole_text(void **state)
{
	const struct texts *texts = *state;
	struct exceptions exceptions = {0};
	size_t blocks = 0;
	size_t faults = 0;
	buffer_append_char(&exceptions.file, '\n');
	assert_true(file_read(PROOF_FILE("reference_exceptions.txt"), &exceptions.file));
	buffer_cstr(&exceptions.file);
	for (size_t i = 0; i < texts->count; i++) {
		faults += !check_text(&texts->items[i], &exceptions, &blocks);
	}
	print_message("%zu texts rendered in %zu blocks; %zu have references into other blocks\n",
		texts->count, blocks, exceptions.used);
	assert_int_equal(faults, 0);
	if (texts->of[TEXT_SPEC] && texts->of[TEXT_CORPUS]) {
		assert_int_equal(exceptions.used, count_exceptions(&exceptions));
	}
	buffer_finish(&exceptions.file);
}

static void check_example(void *arg, const struct example *example)
{
	struct buffer html = {0};
	append_html(example->markdown, example->len, &html);
	if (html.len != example->html_len || memcmp(html.data, example->html, html.len) != 0) {
		print_error("example %zu becomes\n%s", example->number, buffer_cstr(&html));
		text_fail(
			"other HTML than is written below it", example->markdown, example->len, 0);
	}
	buffer_finish(&html);
	(void)arg;
}

static void examples_of_gfm_render_as_written(void **state)
{
	size_t count = examples_each(PROOF_FILE("gfm_examples.txt"), check_example, NULL);
	print_message("%zu examples of GFM\n", count);
	assert_true(count >= 55);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(examples_of_gfm_render_as_written),
		cmocka_unit_test(blocks_render_as_the_whole_text),
	};
	return cmocka_run_group_tests_name("proof_rendering", tests, texts_setup, texts_teardown);
}
