/*
 * markdown_to_html(): whatever the bytes, what comes out is well-formed, safe and bounded, and the
 * same each time; where nothing of it is to be made safe, it is what cmark-gfm itself writes.
 * markdown_to_terminal(): nothing but text and our styles comes out, in lines of the page's width.
 */
#include "cmark_oracle.h"
#include "fuzz.h"
#include "html_check.h"

#include "holdfast/block_scanner.h"
#include "holdfast/markdown_html.h"
#include "holdfast/markdown_terminal.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define CUTS_MAX      4
#define ADDRESSES_MAX (6 * 16 * 1024 * 1024)
#define REPEAT_SIZE   (64 * 1024) /* no event is larger */

/* The most that a text can become: the cells that a row lacks, and addresses used many times. */
static size_t most_html(const char *text, size_t len)
{
	size_t closers = 0;
	for (size_t i = 0; i < len; i++) {
		closers += text[i] == ']';
	}
	size_t addresses = 6 * closers * len;
	return 64 * len + (addresses < ADDRESSES_MAX ? addresses : ADDRESSES_MAX) + 4 * 1024 * 1024;
}

static struct buffer render(
	const struct buffer *context, const char *text, size_t len, uint32_t start)
{
	struct buffer html = {0};
	markdown_to_html(&(struct markdown){.context = context->len ? context->data : "",
				 .context_len = context->len,
				 .text = text,
				 .len = len,
				 .start = start},
		&html);
	buffer_cstr(&html);
	return html;
}

static void check_html(const struct buffer *html)
{
	size_t at;
	const char *wrong = html_check(html->data, html->len, &at);
	if (wrong) {
		fprintf(stderr, "at byte %zu of this HTML: %s\n%s\n", at, wrong, html->data);
	}
	fuzz_check(!wrong, "the HTML is well-formed and safe");
}

static struct buffer render_checked(const struct buffer *context, const char *text, size_t len)
{
	struct buffer html = render(context, text, len, 0);
	struct buffer numbered = render(context, text, len, (uint32_t)len + 1);
	check_html(&html);
	check_html(&numbered);
	buffer_finish(&numbered);
	struct buffer whole = {0};
	buffer_append(&whole, context->data, context->len);
	buffer_append(&whole, text, len);
	fuzz_check(html.len <= most_html(whole.data, whole.len), "the HTML is bounded");
	buffer_finish(&whole);
	return html;
}

static void check_same(const struct buffer *a, const struct buffer *b, const char *what)
{
	bool same = a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
	if (!same) {
		fprintf(stderr, "---\n%s---\n%s---\n", a->data, b->data);
	}
	fuzz_check(same, what);
}

/* --- cmark-gfm's own renderer --- */

/*
 * Whether the text has nothing that is made safe: no raw HTML, no address but relative ones and
 * those that the autolink extension makes, no language that is not taken as it is.
 */
static bool needs_no_care(const char *text, size_t len)
{
	static const char *const cares[] = {"//", "```", "~~~", "\\"};
	for (size_t i = 0; i < COUNT(cares); i++) {
		if (memmem(text, len, cares[i], strlen(cares[i]))) {
			return false;
		}
	}
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < ' ' ? text[i] != '\n' && text[i] != '\t'
						 : strchr("<&:\x7f", text[i]) != NULL) {
			return false;
		}
	}
	return len <= 4096;
}

/* What costs too much comes out as code instead; no short text does but a deeply nested one. */
static bool is_shown_as_code(const struct buffer *html)
{
	return strncmp(html->data, "<pre><code>", 11) == 0;
}

static void check_plain(const struct buffer *html, const char *text, size_t len)
{
	if (!needs_no_care(text, len) || is_shown_as_code(html)) {
		return;
	}
	struct buffer plain = {0};
	char *cmark_html = oracle_render(text, len);
	buffer_append_str(&plain, cmark_html);
	buffer_cstr(&plain);
	check_same(html, &plain, "it is what cmark-gfm writes");
	buffer_finish(&plain);
	free(cmark_html);
}

/* --- on a terminal --- */

/* The length of a style that stands there, ESC [ digits and semicolons m; 0: it is none. */
static size_t style_length(const char *at)
{
	size_t len = strncmp(at, "\x1b[", 2) == 0 ? 2 + strspn(at + 2, "0123456789;") : 0;
	return len && at[len] == 'm' ? len + 1 : 0;
}

static void check_line(const char *at, size_t len, size_t width)
{
	struct buffer plain = {0};
	struct terminal_text text = {0};
	for (size_t i = 0; i < len;) {
		size_t style = style_length(at + i);
		if (!style) {
			unsigned char c = (unsigned char)at[i];
			bool is_c1 = c == 0xc2 && (unsigned char)at[i + 1] < 0xa0;
			fuzz_check(c >= ' ' && c != 0x7f && !is_c1, "a terminal obeys nothing");
			buffer_append_char(&plain, at[i]);
		}
		i += style ? style : 1;
	}
	terminal_text_add(&text, 0, plain.data, plain.len);
	fuzz_check(terminal_text_width(&text) <= width, "no line is wider than the page");
	terminal_text_finish(&text);
	buffer_finish(&plain);
}

static void check_terminal(
	const struct buffer *context, const char *text, size_t len, size_t width, bool has_styles)
{
	struct terminal_page page = {.width = width, .has_styles = has_styles};
	markdown_to_terminal(&(struct markdown){.context = context->len ? context->data : "",
				     .context_len = context->len,
				     .text = text,
				     .len = len},
		&page);
	const char *at = buffer_cstr(&page.out);
	fuzz_check(strlen(at) == page.out.len, "there is no NUL");
	while (*at) {
		size_t line = strcspn(at, "\n");
		fuzz_check(at[line] == '\n', "the last line has an end");
		check_line(at, line, width);
		at += line + 1;
	}
	terminal_page_finish(&page);
}

/* --- a block that was cut --- */

/* What the scanner says must stand in front of the text behind a cut at `at`. */
static void find_context(const char *text, size_t at, struct buffer *ret)
{
	struct block_scanner *s = block_scanner_create();
	size_t end;
	for (size_t i = 0; i < at;) {
		i += block_scanner_feed(s, text + i, at - i, &end);
	}
	block_scanner_cut(s);
	size_t context_len;
	const char *context = block_scanner_context(s, &context_len);
	buffer_append(ret, context, context_len);
	block_scanner_destroy(s);
}

static void check_cut(const char *text, size_t len, size_t at)
{
	struct buffer context = {0};
	find_context(text, at, &context);
	struct buffer html = render_checked(&context, text + at, len - at);
	buffer_finish(&html);
	check_terminal(&context, text + at, len - at, 20, true);
	/* And a context that no scanner would give. */
	buffer_clear(&context);
	buffer_append(&context, text, at);
	html = render_checked(&context, text + at, len - at);
	buffer_finish(&html);
	buffer_finish(&context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct buffer none = {0};
	struct fuzz_input in = fuzz_split(data, size);
	struct buffer much;
	if (fuzz_repeat(&in, REPEAT_SIZE, &much)) {
		struct buffer html = render_checked(&none, much.data, much.len);
		buffer_finish(&html);
		buffer_finish(&much);
		return 0;
	}
	struct buffer html = render_checked(&none, in.text, in.len);
	check_plain(&html, in.text, in.len);
	check_terminal(&none, in.text, in.len, 12, false);
	check_terminal(&none, in.text, in.len, 80, true);
	for (int cuts = 0; cuts == 0 || (in.plan_len && cuts < CUTS_MAX); cuts++) {
		check_cut(in.text, in.len, fuzz_take_up_to(&in, in.len));
	}
	struct buffer again = render(&none, in.text, in.len, 0);
	check_same(&html, &again, "it is the same each time");
	buffer_finish(&again);
	buffer_finish(&html);
	return 0;
}
