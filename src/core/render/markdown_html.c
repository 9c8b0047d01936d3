#include "holdfast/markdown_html.h"

#include "render_internal.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm-extension_api.h>
#include <limits.h>
#include <string.h>

/* Increase this with every change that alters the HTML of some markdown. */
#define RENDERER_VERSION 1

cmark_parser *render_parser_create(void)
{
	static const char *const extensions[] = {"table", "strikethrough", "autolink", "tasklist"};
	cmark_gfm_core_extensions_ensure_registered();
	cmark_parser *parser = cmark_parser_new_with_mem(CMARK_OPT_VALIDATE_UTF8, scratch_memory());
	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		cmark_parser_attach_syntax_extension(
			parser, cmark_find_syntax_extension(extensions[i]));
	}
	return parser;
}

static int first_line_of_text(const struct markdown *markdown)
{
	int line = 1;
	for (size_t i = 0; i < markdown->context_len; i++) {
		line += markdown->context[i] == '\n';
	}
	return line;
}

void render_set_start(cmark_node *document, const struct markdown *markdown)
{
	int line = first_line_of_text(markdown);
	cmark_iter *iter = cmark_iter_new(document);
	cmark_event_type event;
	bool is_set = !markdown->start || markdown->start > INT_MAX;
	while (!is_set && (event = cmark_iter_next(iter)) != CMARK_EVENT_DONE) {
		cmark_node *node = cmark_iter_get_node(iter);
		if (event == CMARK_EVENT_ENTER && cmark_node_get_start_line(node) >= line &&
			cmark_node_get_list_type(node) == CMARK_ORDERED_LIST) {
			is_set = cmark_node_set_list_start(node, (int)markdown->start);
		}
	}
	cmark_iter_free(iter);
}

/** Parses and renders `text`, which is that of `markdown` with its context. */
static void render(
	const char *text, size_t len, const struct markdown *markdown, struct buffer *out)
{
	size_t skip =
		markdown->context_len && *markdown->context == '<' ? markdown->context_len : 0;

	static const char mark[3] = {'\xef', '\xbb', '\xbf'};
	render_enter();
	cmark_parser *parser = render_parser_create();
	if (len >= sizeof(mark) && memcmp(text, mark, sizeof(mark)) == 0) {
		/*
		 * cmark-gfm drops a leading byte order mark, but this text can be a later part of a
		 * message.
		 */
		cmark_parser_feed(parser, mark, sizeof(mark));
	}
	cmark_parser_feed(parser, text, len);
	cmark_node *document = cmark_parser_finish(parser);
	cmark_parser_free(parser);
	render_set_start(document, markdown);
	safe_tree_make(document, skip);
	char *html =
		cmark_render_html_with_mem(document, CMARK_OPT_DEFAULT, NULL, scratch_memory());
	buffer_append_str(out, html);
	scratch_memory()->free(html);
	cmark_node_free(document);
	scratch_reset();
	render_leave();
}

uint64_t markdown_html_version(void)
{
	return (uint64_t)RENDERER_VERSION << 32 | (uint32_t)cmark_version();
}

/* Renders text that is too expensive to parse verbatim, as indented code. */
static void render_as_code(const char *text, size_t len, struct buffer *out)
{
	struct buffer indented;
	buffer_init(&indented);
	size_t line = 0;
	for (size_t i = 0; i <= len; i++) {
		if (i < len && text[i] != '\n' && text[i] != '\r') {
			continue;
		}
		buffer_append_str(&indented, "    ");
		buffer_append(&indented, text + line, i - line);
		buffer_append_char(&indented, '\n');
		i += i + 1 < len && text[i] == '\r' && text[i + 1] == '\n';
		line = i + 1;
	}
	render(indented.data, indented.len, &(struct markdown){0}, out);
	buffer_finish(&indented);
}

void markdown_to_html(const struct markdown *markdown, struct buffer *out)
{
	struct buffer whole;
	buffer_init(&whole);
	buffer_append(&whole, markdown->context, markdown->context_len);
	buffer_append(&whole, markdown->text, markdown->len);
	const char *bytes = buffer_cstr(&whole);
	if (markdown_cost_is_fair(bytes, whole.len)) {
		render(bytes, whole.len, markdown, out);
	} else {
		render_as_code(markdown->text, markdown->len, out);
	}
	buffer_finish(&whole);
}
