/*
 * A block that is cut: whatever stands behind the cut, rendered with its context it is one block of
 * the same kind.
 */
#include "stream_bench.h"

#include "holdfast/markdown_html.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct pieces {
	struct buffer html; /* of the piece behind the cut */
	struct buffer context;
	struct buffer text; /* of all pieces */
	size_t count;
	bool continues; /* the last piece goes on the one before it */
};

static void take_piece(void *owner, const struct event_view *view)
{
	struct pieces *p = owner;
	json_t *data = json_loadb(view->data, view->data_len, 0, NULL);
	const json_t *markdown = json_object_get(data, "markdown");
	const json_t *context = json_object_get(data, "context");
	buffer_clear(&p->html);
	buffer_clear(&p->context);
	if (context) {
		buffer_append(&p->context, json_string_value(context), json_string_length(context));
	}
	buffer_append(&p->text, json_string_value(markdown), json_string_length(markdown));
	markdown_to_html(
		&(struct markdown){.context = buffer_cstr(&p->context),
			.context_len = p->context.len,
			.text = json_string_value(markdown),
			.len = json_string_length(markdown),
			.start = (uint32_t)json_integer_value(json_object_get(data, "start"))},
		&p->html);
	p->continues = json_object_get(data, "continues") != NULL;
	p->count++;
	json_decref(data);
}

static void ignore_held(void *owner, uint64_t seq, const struct stream_input *input)
{
}

static void say(struct stream_buffer *sb, const char *text, size_t len)
{
	if (len) {
		stream_buffer_put(
			sb, &(struct stream_input){
				    .type = EVENT_MESSAGE_CHUNK, .data = text, .data_len = len});
	}
}

/** Says `before`, cuts, and says `after`, in chunks of at most `step` bytes. */
static void cut_between(struct pieces *p, const char *before, size_t before_len, const char *after,
	size_t after_len, size_t step)
{
	static const struct stream_buffer_ops ops = {take_piece, ignore_held};
	*p = (struct pieces){0};
	struct stream_buffer *sb = stream_buffer_create(limits_default(), 1, &ops, p);
	say(sb, before, before_len);
	stream_buffer_flush(sb, STREAM_FLUSH_BLOCK);
	for (size_t at = 0; at < after_len; at += step) {
		say(sb, after + at, after_len - at < step ? after_len - at : step);
		struct buffer state = {0};
		stream_buffer_save(sb, &state);
		struct unpack in = {.bytes = state.data, .len = state.len};
		assert_int_equal(stream_buffer_load(sb, &in, STREAM_FORMAT_NOW), 0);
		buffer_finish(&state);
	}
	stream_buffer_finish_turn(sb);
	stream_buffer_destroy(sb);
}

static void pieces_finish(struct pieces *p)
{
	buffer_finish(&p->html);
	buffer_finish(&p->context);
	buffer_finish(&p->text);
}

/* ---- Each kind ---- */

struct cut_case {
	const char *before;
	const char *after;
	const char *context;
	const char *html;
};

static const struct cut_case cases[] = {
	/* fences */
	{"~~~ a b\nc", "d\ne\n~~~\n", "~~~ a b\n",
		"<pre><code class=\"language-a\">d\ne\n</code></pre>\n"},
	{"```\nc", "\nd", "```", "<pre><code>d\n</code></pre>\n"},
	{"```\nc\n", "d", "```\n", "<pre><code>d\n</code></pre>\n"},
	{"```j", "s\nd", "```j", "<pre><code class=\"language-js\">d\n</code></pre>\n"},
	{"```\r\nc\r", "\nd\r\n", "```", "<pre><code>d\n</code></pre>\n"},
	/* tables */
	{"|a|b|\n|-|-|\n|1", "|2|\n|3|4|\n", "|a|b|\n|-|-|\n&#32;",
		"<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</"
		"thead>\n"
		"<tbody>\n"
		"<tr>\n"
		"<td> </td>\n"
		"<td>2</td>\n"
		"</tr>\n"
		"<tr>\n"
		"<td>3</td>\n"
		"<td>4</td>\n"
		"</tr>\n"
		"</tbody>\n"
		"</"
		"table>\n"},
	{"|a|\n|-|\n|1|", "\n|2|\n", "|a|\n|-|",
		"<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>2</td>\n</"
		"tr>\n"
		"</tbody>\n</table>\n"},
	{"|a|\r\n|-|\r\n|1|\r", "\n|2|\r\n", "|a|\n|-|",
		"<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>2</td>\n</"
		"tr>\n"
		"</tbody>\n</table>\n"},
	/* paragraphs */
	{"a ", "- b", "&#32;", "<p> - b</p>\n"},
	{"a\n", "2. b\n", "&#32;", "<p> 2. b</p>\n"},
	{"a\n", "    b\n", "&#32;", "<p>     b</p>\n"},
	{"a\n", "b\n===\n", "&#32;", "<h1> b</h1>\n"},
	{"[a]: b\n", "c\n", "", "<p>c</p>\n"},
	/* headings, code, HTML */
	{"## a", " b", "## &#32;", "<h2>  b</h2>\n"},
	{"#", "# b", "#", "<h2>b</h2>\n"},
	{"    a", " *b*\n    c\n", "    ", "<pre><code> *b*\nc\n</code></pre>\n"},
	{"    a\n", "    c\n", "", "<pre><code>c\n</code></pre>\n"},
	{"<div>\n", "*b*\n", "<p>\n", "<p>*b*</p>\n"},
	{"<!-- a", "\n\n*b*\n", "<!--", "<p>\n\n*b*</p>\n"},
	{"<!-- a\n", "\n*b* -->\n", "<!--\n", "<p>\n*b* --&gt;</p>\n"},
	{"<div>\r", "\n*b*\n", "<p>", "<p>\n*b*</p>\n"},
	/* lists */
	{"1. a\n2. b:", " c\n3. d\n", "2. &#32;",
		"<ol start=\"2\">\n<li>  c</li>\n<li>d</li>\n</ol>\n"},
	{"1. a\n1. b:", "\n1. d\n", "", "<ol start=\"3\">\n<li>d</li>\n</ol>\n"},
	{"7) a\n7) b\n", "   c\n", "8) &#32;\n", "<ol start=\"8\">\n<li> \nc</li>\n</ol>\n"},
	{"1. a\n2. b\n", "3. d\n", "", "<ol start=\"3\">\n<li>d</li>\n</ol>\n"},
	{"- a\n", "  b\n", "- &#32;\n", "<ul>\n<li> \nb</li>\n</ul>\n"},
	{"- a\n", "b\n", "- &#32;\n", "<ul>\n<li> \nb</li>\n</ul>\n"},
	{"- a\n\n", "  b\n", "- &#32;\n\n", "<ul>\n<li>\n<p> </p>\n<p>b</p>\n</li>\n</ul>\n"},
	{"- a\n-", " b\n", "- &#32;", "<ul>\n<li>  b</li>\n</ul>\n"},
	{"- a\n ", " b\n", "- &#32;\n ", "<ul>\n<li> \nb</li>\n</ul>\n"},
	{"- a\n     ", " \n  b\n", "- &#32;\n", "<ul>\n<li>\n<p> </p>\n<p>b</p>\n</li>\n</ul>\n"},
	{"> a\n>  ", " \n> b\n", ">  ", "<blockquote>\n<p>b</p>\n</blockquote>\n"},
	{"- a\n  - b", "\n  - c\n", "- &#32;",
		"<ul>\n<li> \n<ul>\n<li>c</li>\n</ul>\n</li>\n</ul>\n"},
	{"- a\n  - b", " c\n  - d\n", "- - &#32;",
		"<ul>\n<li>\n<ul>\n<li>  c</li>\n<li>d</li>\n</ul>\n</li>\n</ul>\n"},
	{"- a\n  - b\n", "- c\n", "", "<ul>\n<li>c</li>\n</ul>\n"},
	{"  -   a\n", "      b\n", " -    &#32;\n", "<ul>\n<li> \nb</li>\n</ul>\n"},
	{"- a\n  ```js\n  b", "c\n  ```\n- d\n", "- ```js\n  ",
		"<ul>\n"
		"<li>\n"
		"<pre><code class=\"language-js\">c\n"
		"</code></pre>\n"
		"</li>\n"
		"<li>d</li>\n"
		"</ul>\n"},
	{"- a\n  ```js\n", "  c\n  ```\n- d\n", "- ```js\n",
		"<ul>\n"
		"<li>\n"
		"<pre><code class=\"language-js\">c\n"
		"</code></pre>\n"
		"</li>\n"
		"<li>d</li>\n"
		"</ul>\n"},
	{"- ```js", "\n  c\n", "- ```js",
		"<ul>\n<li>\n<pre><code class=\"language-js\">c\n</code></pre>\n</li>\n</ul>\n"},
	/* quotes */
	{"> a", " b\n> c\n", "> &#32;", "<blockquote>\n<p>  b\nc</p>\n</blockquote>\n"},
	{"> a\n", "> b\n", "", "<blockquote>\n<p>b</p>\n</blockquote>\n"},
	{"> a\n>", " b\n", ">", "<blockquote>\n<p>b</p>\n</blockquote>\n"},
	{"> a\n", "b\n", "> &#32;\n", "<blockquote>\n<p> \nb</p>\n</blockquote>\n"},
	{"> ```\n> a\n", "> b\n> ```\n", "> ```\n",
		"<blockquote>\n<pre><code>b\n</code></pre>\n</blockquote>\n"},
	{"> - a\n", ">   b\n", "> - &#32;\n",
		"<blockquote>\n<ul>\n<li> \nb</li>\n</ul>\n</blockquote>\n"},
};

static void test_cut_cases(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct cut_case *c = &cases[i];
		for (size_t step = 1; step <= 64; step *= 4) {
			struct pieces p;
			cut_between(
				&p, c->before, strlen(c->before), c->after, strlen(c->after), step);
			if (strcmp(buffer_cstr(&p.context), c->context) != 0 ||
				strcmp(buffer_cstr(&p.html), c->html) != 0 || !p.continues) {
				print_error("case %zu in steps of %zu: context [%s]\nhtml [%s]\n",
					i, step, buffer_cstr(&p.context), buffer_cstr(&p.html));
				fail();
			}
			pieces_finish(&p);
		}
	}
}

/* ---- Every place ---- */

static const char *const blocks[] = {
	"A paragraph of *some* words,\nwith - marks\n12. and `code` in # it",
	"1. one\n2. two\n   more of it\n\n   - inner\n   - list\n\n       code\n3. three\n",
	"- a\n  - b\n    - c\n      d\ne\n  - f\n- g\n\n  h\n",
	"10) ten\n    ```sh\n    ls - x\n    ```\n11) eleven\n    > quote\n    > more\n",
	"> quote\n> - list\n>   > in\n> 1. one\n>\n>    ~~~\n>    code\n>    ~~~\n>\n> z\nlazy\n",
	"```js\nlet a = 1;\n- no list\n# none\n\n| a |\n```\n",
	"| a | b |\n|:--|--:|\n| 1 | 2 |\n| 3 | - x\n4 | `5`\n",
	"    indented\n      code\n\n    # more\n",
	"<table>\n<tr><td>*x*\n</table>\n",
	"Setext\nheading\n=======\n",
};

/** The first tag of the HTML. */
static size_t tag_length(const char *html)
{
	return strcspn(html, " >");
}

/** How many elements of the HTML stand in no other. */
static int top_level_elements(const char *html)
{
	int depth = 0;
	int count = 0;
	for (const char *at = strchr(html, '<'); at; at = strchr(at + 1, '<')) {
		const char *close = strchr(at, '>');
		if (at[1] == '/') {
			depth--;
		} else if (close[-1] != '/') {
			count += depth++ == 0;
		} else {
			count += depth == 0;
		}
	}
	return count;
}

static bool is_same_kind(const char *piece, const char *whole)
{
	if (strncmp(whole, "<h1", 3) == 0) {
		/* The underline may be missing, or alone. */
		return strncmp(piece, "<p>", 3) == 0 || strncmp(piece, "<h1", 3) == 0;
	}
	return strncmp(piece, whole, tag_length(whole)) == 0;
}

static void test_cut_everywhere(void **state)
{
	size_t cuts = 0;
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		const char *text = blocks[i];
		size_t len = strlen(text);
		struct buffer whole = {0};
		markdown_to_html(&(struct markdown){.text = text, .len = len}, &whole);
		if (top_level_elements(buffer_cstr(&whole)) != 1) {
			fail_msg("[%s] is not one block: [%s]", text, buffer_cstr(&whole));
		}
		for (size_t at = 1; at < len; at++) {
			struct pieces p;
			cut_between(&p, text, at, text + at, len - at, 1 + at % 7);
			/* A line end alone behind the last cut is no event. */
			assert_in_range(p.text.len, len - (text[len - 1] == '\n'), len);
			assert_memory_equal(p.text.data, text, p.text.len);
			cuts += p.continues;
			/* A table is none before its second row has ended. */
			bool early = *text == '|' && at <= strlen("| a | b |\n|:--|--:|");
			if (p.continues && !early &&
				(top_level_elements(buffer_cstr(&p.html)) != 1 ||
					!is_same_kind(buffer_cstr(&p.html), buffer_cstr(&whole)))) {
				print_error("cut at %zu of [%s]: context [%s]\nhtml [%s]\n", at,
					text, buffer_cstr(&p.context), buffer_cstr(&p.html));
				fail();
			}
			pieces_finish(&p);
		}
		buffer_finish(&whole);
	}
	assert_true(cuts > 400);
}

/* ---- Bounds ---- */

static void test_context_too_long(void **state)
{
	struct buffer text = {0};
	buffer_append_str(&text, "```");
	for (int i = 0; i < 5000; i++) {
		buffer_append_char(&text, 'x');
	}
	buffer_append_str(&text, "\n- a");
	struct pieces p;
	cut_between(&p, text.data, text.len, "b\n", 2, 1);
	assert_true(p.continues);
	assert_int_equal(p.context.len, 0);
	pieces_finish(&p);
	buffer_finish(&text);
}

static void test_deep_nesting_is_bounded(void **state)
{
	struct buffer text = {0};
	for (int i = 0; i < 3000; i++) {
		buffer_append_str(&text, i % 3 ? "> " : "123456789. ");
	}
	buffer_append_str(&text, "a");
	struct pieces p;
	cut_between(&p, text.data, text.len, "b\n", 2, 1);
	assert_true(p.continues);
	assert_in_range(p.context.len, 100, 2000);
	pieces_finish(&p);
	buffer_finish(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_cases),
		cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_context_too_long),
		cmocka_unit_test(test_deep_nesting_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
