#include "extents.h"

#include "cmark_oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static const char *const names[] = {"list", "table", "fence", "quote", "other"};

const char *extent_kind_name(enum extent_kind kind)
{
	return names[kind];
}

static enum extent_kind kind_of(cmark_node *node)
{
	int length;
	int offset;
	char mark;
	switch (cmark_node_get_type(node)) {
	case CMARK_NODE_LIST:
		return EXTENT_LIST;
	case CMARK_NODE_BLOCK_QUOTE:
		return EXTENT_QUOTE;
	case CMARK_NODE_CODE_BLOCK:
		return cmark_node_get_fenced(node, &length, &offset, &mark) ? EXTENT_FENCE
									    : EXTENT_OTHER;
	default:
		return strcmp(cmark_node_get_type_string(node), "table") == 0 ? EXTENT_TABLE
									      : EXTENT_OTHER;
	}
}

static size_t skip_blanks(const char *text, size_t at, size_t end)
{
	while (at < end && (text[at] == ' ' || text[at] == '\t')) {
		at++;
	}
	return at;
}

static size_t trim(const char *text, size_t start, size_t end)
{
	while (end > start && strchr(" \t\r\n", text[end - 1]) && text[end - 1]) {
		end--;
	}
	return end;
}

/** `limit` is where the node ends at the latest: the end line of some takes in what follows. */
static void add(struct extents *extents, cmark_node *node, bool nested, size_t limit,
	const char *text, size_t len)
{
	enum extent_kind kind = kind_of(node);
	int first =
		kind == EXTENT_TABLE ? oracle_header_line(node) : cmark_node_get_start_line(node);
	size_t end = oracle_line_start(text, len, cmark_node_get_end_line(node) + 1);
	assert_true(extents->count < EXTENTS_MAX);
	struct extent *extent = &extents->items[extents->count++];
	extent->kind = kind;
	extent->nested = nested;
	extent->start = skip_blanks(text, oracle_line_start(text, len, first), len);
	extent->end = trim(text, extent->start, end < limit ? end : limit);
	extent->next_line = oracle_line_start(text, len, first + 1);
}

static void add_nested_fences(
	struct extents *extents, cmark_node *parent, size_t limit, const char *text, size_t len)
{
	for (cmark_node *n = cmark_node_first_child(parent); n; n = cmark_node_next(n)) {
		if (kind_of(n) == EXTENT_FENCE) {
			add(extents, n, true, limit, text, len);
		}
		add_nested_fences(extents, n, limit, text, len);
	}
}

/** Where the next node begins. A table's header row may lie below the line that cmark-gfm gives. */
static size_t next_start(cmark_node *node, const char *text, size_t len)
{
	cmark_node *next = cmark_node_next(node);
	int line = next ? cmark_node_get_start_line(next) : 0;
	return line > cmark_node_get_start_line(node) ? oracle_line_start(text, len, line) : len;
}

void extents_find(const char *text, size_t len, struct extents *ret_extents)
{
	cmark_node *root = oracle_parse(text, len, NULL);
	ret_extents->count = 0;
	for (cmark_node *n = cmark_node_first_child(root); n; n = cmark_node_next(n)) {
		if (kind_of(n) != EXTENT_OTHER) {
			add(ret_extents, n, false, next_start(n, text, len), text, len);
			size_t end = ret_extents->items[ret_extents->count - 1].end;
			add_nested_fences(ret_extents, n, end, text, len);
		}
	}
	cmark_node_free(root);
}
