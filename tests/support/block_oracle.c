#include "block_oracle.h"

#include "cmark_oracle.h"
#include "holdfast/buffer.h"

#include <stdlib.h>
#include <string.h>

void block_starts_add(struct block_starts *s, size_t at, bool doubtful)
{
	if (s->count == BLOCK_STARTS_MAX) {
		abort(); /* no test has a text of so many blocks */
	}
	s->at[s->count] = at;
	s->doubtful[s->count++] = doubtful;
}

static size_t skip_blanks(const char *text, size_t len, size_t at)
{
	while (at < len && strchr(" \t\r\n", text[at]) && text[at]) {
		at++;
	}
	return at;
}

/* The scanner parts a table from the text above it only where that changes nothing. */
static void add_table(
	struct block_starts *s, cmark_node *table, bool after_text, const char *text, size_t len)
{
	size_t first = oracle_line_start(text, len, cmark_node_get_start_line(table));
	size_t header = oracle_line_start(text, len, oracle_header_line(table));
	size_t below = oracle_line_start(text, len, oracle_header_line(table) + 1);
	cmark_node *alone = oracle_parse(text + header, below - header, NULL);
	cmark_node *child = cmark_node_first_child(alone);
	bool plain = !child || cmark_node_get_type(child) == CMARK_NODE_PARAGRAPH;
	cmark_node_free(alone);
	bool has_refs = text[skip_blanks(text, len, first)] == '[';
	if (after_text) {
		block_starts_add(s, first, false);
		plain = plain && !memmem(text + first, header - first, "\\|", 2);
	}
	if (plain && (after_text || header != first)) {
		block_starts_add(s, header, has_refs);
	} else if (!after_text) {
		block_starts_add(s, first, false);
	}
}

void block_oracle_find(const char *text, size_t len, struct block_starts *ret)
{
	cmark_node *root = oracle_parse(text, len, NULL);
	bool after_text = false;
	ret->count = 0;
	for (cmark_node *n = cmark_node_first_child(root); n; n = cmark_node_next(n)) {
		int line = cmark_node_get_start_line(n);
		if (strcmp(cmark_node_get_type_string(n), "table") == 0) {
			add_table(ret, n, after_text, text, len);
		} else if (line > 0) {
			block_starts_add(ret, oracle_line_start(text, len, line), false);
		}
		after_text = line == 0;
	}
	cmark_node_free(root);
}

bool block_oracle_accepts(const char *text, size_t len, const struct block_starts *got,
	const struct block_starts *want)
{
	size_t i = 1;
	size_t j = want->count > 0 && skip_blanks(text, len, 0) >= want->at[0];
	while (i < got->count || j < want->count) {
		bool got_next = i < got->count && (j == want->count || got->at[i] < want->at[j]);
		if (i < got->count && j < want->count && got->at[i] == want->at[j]) {
			i++;
			j++;
		} else if (got_next && text[skip_blanks(text, len, got->at[i])] == '[') {
			i++;
		} else if (!got_next && want->doubtful[j]) {
			j++;
		} else {
			return false;
		}
	}
	return true;
}

bool block_oracle_renders_alike(const char *text, size_t len, const struct block_starts *starts)
{
	struct buffer joined = {0};
	char *html;
	for (size_t i = 0; i < starts->count; i++) {
		size_t end = i + 1 < starts->count ? starts->at[i + 1] : len;
		cmark_node_free(oracle_parse(text + starts->at[i], end - starts->at[i], &html));
		buffer_append_str(&joined, html);
		free(html);
	}
	cmark_node_free(oracle_parse(text, len, &html));
	bool alike = strcmp(buffer_cstr(&joined), html) == 0;
	free(html);
	buffer_finish(&joined);
	return alike;
}
