#include "holdfast/markdown_terminal.h"

#include "render_internal.h"
#include "terminal_table.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm-extension_api.h>
#include <stdio.h>
#include <string.h>

/* --- inline --- */

static bool is_kind(cmark_node *node, const char *kind)
{
	return strcmp(cmark_node_get_type_string(node), kind) == 0;
}

struct mark {
	unsigned style;
	const char *plain; /* written around it on pages without styles */
};

static struct mark mark_of(cmark_node *node)
{
	switch (cmark_node_get_type(node)) {
	case CMARK_NODE_EMPH:
		return (struct mark){TERMINAL_ITALIC, "*"};
	case CMARK_NODE_STRONG:
		return (struct mark){TERMINAL_BOLD, "**"};
	case CMARK_NODE_LINK:
		return (struct mark){TERMINAL_UNDERLINE, NULL};
	case CMARK_NODE_IMAGE:
		return (struct mark){TERMINAL_DIM, NULL};
	default:
		return is_kind(node, "strikethrough") ? (struct mark){TERMINAL_STRIKE, "~~"}
						      : (struct mark){0};
	}
}

/** Whether the text of a link already shows its URL. */
static bool shows_address(cmark_node *link)
{
	cmark_node *child = cmark_node_first_child(link);
	const char *text = child && cmark_node_get_type(child) == CMARK_NODE_TEXT
				   ? cmark_node_get_literal(child)
				   : "";
	const char *url = cmark_node_get_url(link);
	size_t len = strlen(url);
	size_t text_len = strlen(text);
	return text_len && text_len <= len && strcmp(url + len - text_len, text) == 0;
}

static void enter(struct terminal_text *out, cmark_node *node, bool has_styles, unsigned style)
{
	if (cmark_node_get_type(node) == CMARK_NODE_IMAGE) {
		terminal_text_put(out, style | TERMINAL_DIM, "[image: ");
	}
	terminal_text_put(out, style, has_styles ? NULL : mark_of(node).plain);
}

static void leave(struct terminal_text *out, cmark_node *node, bool has_styles, unsigned style)
{
	cmark_node_type type = cmark_node_get_type(node);
	const char *url = type == CMARK_NODE_LINK || type == CMARK_NODE_IMAGE
				  ? cmark_node_get_url(node)
				  : NULL;
	terminal_text_put(out, style, has_styles ? NULL : mark_of(node).plain);
	terminal_text_put(out, style | TERMINAL_DIM, type == CMARK_NODE_IMAGE ? "]" : NULL);
	if (url && *url && !shows_address(node)) {
		terminal_text_put(out, style | TERMINAL_DIM, " (");
		terminal_text_put(out, style | TERMINAL_DIM, url);
		terminal_text_put(out, style | TERMINAL_DIM, ")");
	}
}

static void put_leaf(struct terminal_text *out, cmark_node *node, bool has_styles, unsigned style)
{
	const char *quote = has_styles ? NULL : "`";
	switch (cmark_node_get_type(node)) {
	case CMARK_NODE_SOFTBREAK:
		terminal_text_put(out, style, " ");
		break;
	case CMARK_NODE_LINEBREAK:
		terminal_text_break(out);
		break;
	case CMARK_NODE_CODE:
		terminal_text_put(out, style | TERMINAL_CYAN, quote);
		terminal_text_put(out, style | TERMINAL_CYAN, cmark_node_get_literal(node));
		terminal_text_put(out, style | TERMINAL_CYAN, quote);
		break;
	default:
		terminal_text_put(out, style, cmark_node_get_literal(node));
	}
}

/** Appends the inline content of a block. */
static void put_inline(struct terminal_text *out, cmark_node *block, bool has_styles, unsigned base)
{
	unsigned depth[5] = {0}; /* per style bit: number of enclosing nodes that set it */
	unsigned style = base;
	cmark_iter *iter = cmark_iter_new(block);
	cmark_event_type event;
	while ((event = cmark_iter_next(iter)) != CMARK_EVENT_DONE) {
		cmark_node *node = cmark_iter_get_node(iter);
		bool is_enter = event == CMARK_EVENT_ENTER;
		unsigned own = mark_of(node).style;
		if (node == block) {
			continue;
		}
		if (!own) {
			put_leaf(out, node, has_styles, style);
			continue;
		}
		for (size_t i = 0; i < 5; i++) {
			depth[i] += own & (1u << i) ? is_enter ? 1u : -1u : 0;
			style = depth[i] ? style | 1u << i : style & ~(1u << i & ~base);
		}
		if (is_enter) {
			enter(out, node, has_styles, style);
		} else {
			leave(out, node, has_styles, style);
		}
	}
	cmark_iter_free(iter);
}

/* --- blocks --- */

static void put_blocks(cmark_node *parent, bool is_tight, struct terminal_page *page);

static void put_paragraph(cmark_node *node, unsigned style, struct terminal_page *page)
{
	struct terminal_text text = {0};
	put_inline(&text, node, page->has_styles, style);
	terminal_page_text(page, &text, TERMINAL_WORDS);
	terminal_text_finish(&text);
}

static void put_heading(cmark_node *node, struct terminal_page *page)
{
	int level = cmark_node_get_heading_level(node);
	unsigned style = TERMINAL_BOLD | (level == 1 ? TERMINAL_UNDERLINE : 0);
	char front[10];
	char rest[10];
	int len = snprintf(front, sizeof(front), "%.*s ", level, "######");
	snprintf(rest, sizeof(rest), "%*s", len, "");
	size_t mark = page->has_styles ? 0 : terminal_page_indent(page, 0, front, rest);
	put_paragraph(node, style, page);
	if (!page->has_styles) {
		terminal_page_outdent(page, mark);
	}
}

static void put_lines(
	const char *literal, unsigned style, const char *margin, struct terminal_page *page)
{
	struct terminal_text text = {0};
	size_t mark = terminal_page_indent(page, TERMINAL_DIM, margin, margin);
	while (*literal) {
		size_t len = strcspn(literal, "\n");
		for (size_t i = 0; i < len; i++) {
			bool is_tab = literal[i] == '\t';
			size_t part = is_tab ? 1 : strcspn(literal + i, "\t\n");
			terminal_text_add(&text, style, is_tab ? "    " : literal + i,
				is_tab ? 4 - text.count % 4 : part);
			i += part - 1;
		}
		terminal_text_break(&text);
		terminal_page_text(page, &text, TERMINAL_CHARACTERS);
		literal += len + (literal[len] == '\n');
	}
	terminal_text_finish(&text);
	terminal_page_outdent(page, mark);
}

static void put_quote(cmark_node *node, struct terminal_page *page)
{
	const char *bar = page->has_styles ? "│ " : "> ";
	size_t mark = terminal_page_indent(page, TERMINAL_DIM, bar, bar);
	put_blocks(node, false, page);
	terminal_page_outdent(page, mark);
}

static void put_item(cmark_node *item, long number, bool is_tight, struct terminal_page *page)
{
	char front[24] = "• ";
	char rest[24] = "  ";
	if (is_kind(item, "tasklist")) {
		bool is_done = cmark_gfm_extensions_get_tasklist_item_checked(item);
		snprintf(front, sizeof(front), "%s ", is_done ? "☑" : "☐");
	} else if (number >= 0) {
		int len = snprintf(front, sizeof(front), "%ld. ", number);
		snprintf(rest, sizeof(rest), "%*s", len, "");
	}
	size_t mark = terminal_page_indent(page, 0, front, rest);
	put_blocks(item, is_tight, page);
	terminal_page_outdent(page, mark);
}

static void put_list(cmark_node *list, struct terminal_page *page)
{
	bool is_tight = cmark_node_get_list_tight(list);
	bool is_numbered = cmark_node_get_list_type(list) == CMARK_ORDERED_LIST;
	long number = is_numbered ? cmark_node_get_list_start(list) : -1;
	for (cmark_node *item = cmark_node_first_child(list); item; item = cmark_node_next(item)) {
		if (!is_tight && cmark_node_previous(item)) {
			terminal_page_gap(page);
		}
		put_item(item, number, is_tight, page);
		number += is_numbered;
	}
}

static void put_rule(struct terminal_page *page)
{
	struct terminal_text text = {0};
	size_t room = terminal_page_room(page);
	for (size_t i = 0; i < room && i < 40; i++) {
		terminal_text_put(&text, TERMINAL_DIM, "─");
	}
	terminal_page_text(page, &text, TERMINAL_CHARACTERS);
	terminal_text_finish(&text);
}

static void put_table(cmark_node *table, struct terminal_page *page)
{
	uint16_t columns = cmark_gfm_extensions_get_table_columns(table);
	struct terminal_table *made =
		terminal_table_create(columns, cmark_gfm_extensions_get_table_alignments(table));
	for (cmark_node *row = cmark_node_first_child(table); row; row = cmark_node_next(row)) {
		bool is_header = cmark_gfm_extensions_get_table_row_is_header(row);
		terminal_table_add_row(made, is_header);
		for (cmark_node *cell = cmark_node_first_child(row); cell;
			cell = cmark_node_next(cell)) {
			put_inline(terminal_table_add_cell(made), cell, page->has_styles,
				is_header ? TERMINAL_BOLD : 0);
		}
	}
	terminal_table_write(made, page);
	terminal_table_destroy(made);
}

static void put_block(cmark_node *node, bool is_tight, struct terminal_page *page)
{
	switch (cmark_node_get_type(node)) {
	case CMARK_NODE_HEADING:
		put_heading(node, page);
		break;
	case CMARK_NODE_LIST:
		put_list(node, page);
		break;
	case CMARK_NODE_BLOCK_QUOTE:
		put_quote(node, page);
		break;
	case CMARK_NODE_CODE_BLOCK:
		put_lines(cmark_node_get_literal(node), TERMINAL_CYAN, "    ", page);
		break;
	case CMARK_NODE_HTML_BLOCK:
		put_lines(cmark_node_get_literal(node), 0, "", page);
		break;
	case CMARK_NODE_THEMATIC_BREAK:
		put_rule(page);
		break;
	case CMARK_NODE_PARAGRAPH:
		put_paragraph(node, 0, page);
		break;
	default:
		if (is_kind(node, "table")) {
			put_table(node, page);
		} else {
			put_blocks(node, is_tight, page);
		}
	}
}

static void put_blocks(cmark_node *parent, bool is_tight, struct terminal_page *page)
{
	for (cmark_node *node = cmark_node_first_child(parent); node;
		node = cmark_node_next(node)) {
		if (cmark_node_previous(node) && !is_tight) {
			terminal_page_gap(page);
		}
		put_block(node, is_tight, page);
	}
}

/** `text` is that of `markdown` with its context. */
static void put_document(
	const char *text, size_t len, const struct markdown *markdown, struct terminal_page *page)
{
	render_enter();
	cmark_parser *parser = render_parser_create();
	cmark_parser_feed(parser, text, len);
	cmark_node *document = cmark_parser_finish(parser);
	cmark_parser_free(parser);
	render_set_start(document, markdown);
	put_blocks(document, false, page);
	cmark_node_free(document);
	scratch_reset();
	render_leave();
}

void markdown_to_terminal(const struct markdown *markdown, struct terminal_page *page)
{
	struct buffer whole = {0};
	/* HTML is shown verbatim, so it needs no context. */
	if (markdown->context_len && *markdown->context != '<') {
		buffer_append(&whole, markdown->context, markdown->context_len);
	}
	buffer_append(&whole, markdown->text, markdown->len);
	if (markdown_cost_is_fair(buffer_cstr(&whole), whole.len)) {
		put_document(whole.data, whole.len, markdown, page);
	} else {
		put_lines(buffer_cstr(&whole), 0, "", page);
	}
	buffer_finish(&whole);
}
