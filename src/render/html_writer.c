#include "render_internal.h"

#include <cmark-gfm-core-extensions.h>
#include <string.h>
#include <strings.h>

#define LANGUAGE_LEN_MAX 64

struct writer {
	struct buffer *out;
	size_t start; /* of this document in `out` */
	size_t skip; /* see html_write_document() */
	cmark_node *image; /* the image whose alternative text is being written, or NULL */
	cmark_node *link; /* the link being written, or NULL */
	const uint8_t *alignments; /* of the table being written */
	size_t columns;
	size_t column;
	bool in_table_head;
	bool in_table_body;
};

static void put(struct writer *w, const char *html)
{
	buffer_append_str(w->out, html);
}

static void put_escaped(struct writer *w, const char *text, size_t len)
{
	size_t plain = 0; /* start of the run that needs no escape */
	for (size_t i = 0; i < len; i++) {
		const char *entity;
		switch (text[i]) {
		case '<':
			entity = "&lt;";
			break;
		case '>':
			entity = "&gt;";
			break;
		case '&':
			entity = "&amp;";
			break;
		case '"':
			entity = "&quot;";
			break;
		default:
			continue;
		}
		buffer_append(w->out, text + plain, i - plain);
		put(w, entity);
		plain = i + 1;
	}
	buffer_append(w->out, text + plain, len - plain);
}

static void put_literal(struct writer *w, cmark_node *node)
{
	const char *literal = cmark_node_get_literal(node);
	put_escaped(w, literal, strlen(literal));
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static void put_url(struct writer *w, const char *url)
{
	for (; *url; url++) {
		if (is_alnum(*url) || strchr("-_.+!*(),%#@?=;:/$~", *url)) {
			buffer_append_char(w->out, *url);
		} else if (*url == '&') {
			put(w, "&amp;");
		} else if (*url == '\'') {
			put(w, "&#x27;");
		} else {
			buffer_printf(w->out, "%%%02X", (unsigned char)*url);
		}
	}
}

/* Ends the line, unless a new one has just begun. */
static void end_line(struct writer *w)
{
	if (w->out->len > w->start && w->out->data[w->out->len - 1] != '\n') {
		buffer_append_char(w->out, '\n');
	}
}

static bool url_is_allowed(const char *url)
{
	static const char *const schemes[] = {"http", "https", "mailto"};
	for (const char *c = url; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f) {
			return false;
		}
	}
	/* A browser reads a backslash as a slash; //host would leave the page's own host. */
	if (*url == ' ' ||
		((url[0] == '/' || url[0] == '\\') && (url[1] == '/' || url[1] == '\\'))) {
		return false;
	}
	size_t scheme_len = strcspn(url, ":/?#");
	if (url[scheme_len] != ':') {
		return true;
	}
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (strlen(schemes[i]) == scheme_len &&
			strncasecmp(url, schemes[i], scheme_len) == 0) {
			return true;
		}
	}
	return false;
}

static void write_tag(struct writer *w, bool entering, const char *open, const char *close)
{
	put(w, entering ? open : close);
}

/* A block's tag begins a line, and so does its content if `open` ends with a newline. */
static void write_block_tag(struct writer *w, bool entering, const char *open, const char *close)
{
	if (entering) {
		end_line(w);
	}
	write_tag(w, entering, open, close);
}

static void write_list(struct writer *w, cmark_node *list, bool entering)
{
	bool ordered = cmark_node_get_list_type(list) == CMARK_ORDERED_LIST;
	int start = cmark_node_get_list_start(list);
	if (ordered && entering && start != 1) {
		end_line(w);
		buffer_printf(w->out, "<ol start=\"%d\">\n", start);
	} else if (ordered) {
		write_block_tag(w, entering, "<ol>\n", "</ol>\n");
	} else {
		write_block_tag(w, entering, "<ul>\n", "</ul>\n");
	}
}

static void write_item(struct writer *w, cmark_node *item, bool entering)
{
	write_block_tag(w, entering, "<li>", "</li>\n");
	if (!entering || strcmp(cmark_node_get_type_string(item), "tasklist") != 0) {
		return;
	}
	put(w, "<input type=\"checkbox\"");
	if (cmark_gfm_extensions_get_tasklist_item_checked(item)) {
		put(w, " checked=\"\"");
	}
	put(w, " disabled=\"\" /> ");
}

static void write_heading(struct writer *w, cmark_node *heading, bool entering)
{
	int level = cmark_node_get_heading_level(heading);
	if (entering) {
		end_line(w);
	}
	buffer_printf(w->out, entering ? "<h%d>" : "</h%d>\n", level);
}

static void write_paragraph(struct writer *w, cmark_node *paragraph, bool entering)
{
	cmark_node *list = cmark_node_parent(cmark_node_parent(paragraph));
	bool tight = list && cmark_node_get_type(list) == CMARK_NODE_LIST &&
		     cmark_node_get_list_tight(list);
	if (!tight) {
		write_block_tag(w, entering, "<p>", "</p>\n");
	}
}

static void write_code_block(struct writer *w, cmark_node *code)
{
	char language[LANGUAGE_LEN_MAX + 1];
	size_t len = 0;
	const char *info = cmark_node_get_fence_info(code);
	for (; *info && !strchr(" \t\n\v\f\r", *info) && len < LANGUAGE_LEN_MAX; info++) {
		if (is_alnum(*info) || strchr("_+#.-", *info)) {
			language[len++] = *info;
		}
	}
	language[len] = '\0';
	end_line(w);
	if (len) {
		buffer_printf(w->out, "<pre><code class=\"language-%s\">", language);
	} else {
		put(w, "<pre><code>");
	}
	put_literal(w, code);
	put(w, "</code></pre>\n");
}

static void write_html_block(struct writer *w, cmark_node *html)
{
	const char *source = cmark_node_get_literal(html);
	size_t len = strlen(source);
	size_t skip = w->skip < len ? w->skip : len;
	while (skip < len && w->skip && ((unsigned char)source[skip] & 0xc0) == 0x80) {
		skip++; /* what replaced invalid bytes has other lengths */
	}
	w->skip = 0;
	source += skip;
	len -= skip;
	while (len && (source[len - 1] == '\n' || source[len - 1] == '\r')) {
		len--;
	}
	end_line(w);
	put(w, "<p>");
	put_escaped(w, source, len);
	put(w, "</p>\n");
}

static void put_title(struct writer *w, cmark_node *node)
{
	const char *title = cmark_node_get_title(node);
	if (*title) {
		put(w, "\" title=\"");
		put_escaped(w, title, strlen(title));
	}
}

/*
 * In HTML no link is in another; in what the parser gives, an address in a link's text may be
 * one (`[<a@b.c>](d)`). The outer one is written.
 */
static void write_link(struct writer *w, cmark_node *link, bool entering)
{
	const char *url = cmark_node_get_url(link);
	if (w->link == link) {
		put(w, "</a>");
		w->link = NULL;
		return;
	}
	if (!entering || w->link || !url_is_allowed(url)) {
		return;
	}
	w->link = link;
	put(w, "<a href=\"");
	put_url(w, url);
	put_title(w, link);
	put(w, "\">");
}

static void write_image(struct writer *w, cmark_node *image, bool entering)
{
	const char *url = cmark_node_get_url(image);
	if (!url_is_allowed(url)) {
		return;
	}
	if (entering) {
		put(w, "<img src=\"");
		put_url(w, url);
		put(w, "\" alt=\"");
		w->image = image;
	} else {
		put_title(w, image);
		put(w, "\" />");
		w->image = NULL;
	}
}

static void write_table(struct writer *w, cmark_node *table, bool entering)
{
	if (entering) {
		end_line(w);
		put(w, "<table>");
		w->alignments = cmark_gfm_extensions_get_table_alignments(table);
		w->columns = cmark_gfm_extensions_get_table_columns(table);
	} else {
		end_line(w);
		put(w, w->in_table_body ? "</tbody>\n</table>\n" : "</table>\n");
	}
	w->in_table_body = false;
}

static void write_table_row(struct writer *w, cmark_node *row, bool entering)
{
	bool head = cmark_gfm_extensions_get_table_row_is_header(row);
	end_line(w);
	if (!entering) {
		put(w, head ? "</tr>\n</thead>" : "</tr>");
		w->in_table_head = false;
		return;
	}
	if (head) {
		put(w, "<thead>\n");
	} else if (!w->in_table_body) {
		put(w, "<tbody>\n");
		w->in_table_body = true;
	}
	put(w, "<tr>");
	w->in_table_head = head;
	w->column = 0;
}

static void write_table_cell(struct writer *w, bool entering)
{
	if (!entering) {
		put(w, w->in_table_head ? "</th>" : "</td>");
		return;
	}
	end_line(w);
	put(w, w->in_table_head ? "<th" : "<td");
	switch (w->column < w->columns ? w->alignments[w->column] : 0) {
	case 'l':
		put(w, " align=\"left\"");
		break;
	case 'c':
		put(w, " align=\"center\"");
		break;
	case 'r':
		put(w, " align=\"right\"");
		break;
	default:
		break;
	}
	buffer_append_char(w->out, '>');
	w->column++;
}

/* The extensions' node types have numbers of the library's choice; their names are fixed. */
static void write_extension_node(struct writer *w, cmark_node *node, bool entering)
{
	const char *type = cmark_node_get_type_string(node);
	if (strcmp(type, "table_cell") == 0) {
		write_table_cell(w, entering);
	} else if (strcmp(type, "table_row") == 0 || strcmp(type, "table_header") == 0) {
		write_table_row(w, node, entering);
	} else if (strcmp(type, "table") == 0) {
		write_table(w, node, entering);
	} else if (strcmp(type, "strikethrough") == 0) {
		write_tag(w, entering, "<del>", "</del>");
	}
}

static void write_inline(struct writer *w, cmark_node *node, bool entering)
{
	switch (cmark_node_get_type(node)) {
	case CMARK_NODE_TEXT:
	case CMARK_NODE_HTML_INLINE:
		put_literal(w, node);
		break;
	case CMARK_NODE_SOFTBREAK:
		put(w, "\n");
		break;
	case CMARK_NODE_LINEBREAK:
		put(w, "<br />\n");
		break;
	case CMARK_NODE_CODE:
		put(w, "<code>");
		put_literal(w, node);
		put(w, "</code>");
		break;
	case CMARK_NODE_EMPH:
		write_tag(w, entering, "<em>", "</em>");
		break;
	case CMARK_NODE_STRONG:
		write_tag(w, entering, "<strong>", "</strong>");
		break;
	case CMARK_NODE_LINK:
		write_link(w, node, entering);
		break;
	case CMARK_NODE_IMAGE:
		write_image(w, node, entering);
		break;
	default:
		write_extension_node(w, node, entering);
		break;
	}
}

static void write_block(struct writer *w, cmark_node *node, bool entering)
{
	switch (cmark_node_get_type(node)) {
	case CMARK_NODE_DOCUMENT:
		break;
	case CMARK_NODE_BLOCK_QUOTE:
		end_line(w);
		write_tag(w, entering, "<blockquote>\n", "</blockquote>\n");
		break;
	case CMARK_NODE_LIST:
		write_list(w, node, entering);
		break;
	case CMARK_NODE_ITEM:
		write_item(w, node, entering);
		break;
	case CMARK_NODE_CODE_BLOCK:
		write_code_block(w, node);
		break;
	case CMARK_NODE_HTML_BLOCK:
		write_html_block(w, node);
		break;
	case CMARK_NODE_PARAGRAPH:
		write_paragraph(w, node, entering);
		break;
	case CMARK_NODE_HEADING:
		write_heading(w, node, entering);
		break;
	case CMARK_NODE_THEMATIC_BREAK:
		end_line(w);
		put(w, "<hr />\n");
		break;
	default:
		write_inline(w, node, entering);
		break;
	}
}

/* Inside an attribute: what is not text leaves no trace but its text. */
static void write_alternative_text(struct writer *w, cmark_node *node)
{
	switch (cmark_node_get_type(node)) {
	case CMARK_NODE_TEXT:
	case CMARK_NODE_CODE:
	case CMARK_NODE_HTML_INLINE:
		put_literal(w, node);
		break;
	case CMARK_NODE_SOFTBREAK:
	case CMARK_NODE_LINEBREAK:
		put(w, " ");
		break;
	default:
		break;
	}
}

void html_write_document(cmark_node *document, size_t skip, struct buffer *out)
{
	struct writer w = {.out = out, .start = out->len, .skip = skip};
	cmark_iter *iter = cmark_iter_new(document);
	cmark_event_type event;
	while ((event = cmark_iter_next(iter)) != CMARK_EVENT_DONE) {
		cmark_node *node = cmark_iter_get_node(iter);
		if (w.image && w.image != node) {
			write_alternative_text(&w, node);
		} else {
			write_block(&w, node, event == CMARK_EVENT_ENTER);
		}
	}
	cmark_iter_free(iter);
}
