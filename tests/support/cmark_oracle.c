#include "cmark_oracle.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm-extension_api.h>
#include <stdbool.h>
#include <string.h>

void oracle_feed(cmark_parser *parser, const char *text, size_t len)
{
	static const char mark[] = "\xef\xbb\xbf";
	if (len >= 3 && memcmp(text, mark, 3) == 0) {
		cmark_parser_feed(parser, mark, 3);
	}
	cmark_parser_feed(parser, text, len);
}

cmark_node *oracle_parse(const char *text, size_t len, char **ret_html)
{
	cmark_gfm_core_extensions_ensure_registered();
	cmark_parser *parser = cmark_parser_new(CMARK_OPT_VALIDATE_UTF8);
	cmark_parser_attach_syntax_extension(parser, cmark_find_syntax_extension("table"));
	oracle_feed(parser, text, len);
	cmark_node *root = cmark_parser_finish(parser);
	if (ret_html) {
		*ret_html = cmark_render_html(
			root, CMARK_OPT_UNSAFE, cmark_parser_get_syntax_extensions(parser));
	}
	cmark_parser_free(parser);
	return root;
}

char *oracle_render(const char *text, size_t len)
{
	static const char *const extensions[] = {"table", "strikethrough", "autolink", "tasklist"};
	cmark_gfm_core_extensions_ensure_registered();
	cmark_parser *parser = cmark_parser_new(CMARK_OPT_VALIDATE_UTF8);
	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		cmark_parser_attach_syntax_extension(
			parser, cmark_find_syntax_extension(extensions[i]));
	}
	oracle_feed(parser, text, len);
	cmark_node *document = cmark_parser_finish(parser);
	char *html = cmark_render_html(document, CMARK_OPT_DEFAULT, NULL);
	cmark_node_free(document);
	cmark_parser_free(parser);
	return html;
}

size_t oracle_line_start(const char *text, size_t len, int line)
{
	size_t at = 0;
	while (line > 1 && at < len) {
		bool crlf = text[at] == '\r' && at + 1 < len && text[at + 1] == '\n';
		line -= text[at] == '\n' || (text[at] == '\r' && !crlf);
		at++;
	}
	return at;
}

int oracle_header_line(cmark_node *table)
{
	int rows = 0;
	for (cmark_node *r = cmark_node_first_child(table); r; r = cmark_node_next(r)) {
		rows++;
	}
	return cmark_node_get_end_line(table) - rows;
}
