/* Makes a parsed tree safe for cmark-gfm's HTML renderer. */
#include "render_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LANGUAGE_LEN_MAX 64

static bool url_is_allowed(const char *url)
{
	static const char *const schemes[] = {"http", "https", "mailto"};
	for (const char *c = url; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f) {
			return false;
		}
	}
	/* Browsers treat a backslash as a slash; //host would leave the page's host. */
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

/** Replaces a node by its children. */
static void unwrap(cmark_node *node)
{
	cmark_node *child;
	while ((child = cmark_node_first_child(node))) {
		cmark_node_insert_before(node, child);
	}
	cmark_node_free(node);
}

static cmark_node *text_node(const char *literal)
{
	cmark_node *text = cmark_node_new_with_mem(CMARK_NODE_TEXT, scratch_memory());
	cmark_node_set_literal(text, literal);
	return text;
}

static void replace(cmark_node *node, cmark_node *by)
{
	cmark_node_replace(node, by);
	cmark_node_free(node);
}

/**
 * Replaces a block of raw HTML by a paragraph with its source as text, without the first `skip`
 * bytes.
 */
static void replace_html_block(cmark_node *html, size_t skip)
{
	const char *source = cmark_node_get_literal(html);
	size_t len = strlen(source);
	size_t from = skip < len ? skip : len;
	while (from < len && skip && ((unsigned char)source[from] & 0xc0) == 0x80) {
		from++; /* U+FFFD is longer than the invalid byte it replaced */
	}
	while (len > from && (source[len - 1] == '\n' || source[len - 1] == '\r')) {
		len--;
	}
	char *literal = xstrndup(source + from, len - from);
	cmark_node *paragraph = cmark_node_new_with_mem(CMARK_NODE_PARAGRAPH, scratch_memory());
	/* In a tight list, a paragraph gets its tags only inside another block. */
	cmark_node *block = cmark_node_new_with_mem(CMARK_NODE_CUSTOM_BLOCK, scratch_memory());
	cmark_node_append_child(paragraph, text_node(literal));
	cmark_node_append_child(block, paragraph);
	replace(html, block);
	free(literal);
}

/** Keeps only characters of the language that are safe in a class name. */
static void clean_language(cmark_node *code)
{
	char language[LANGUAGE_LEN_MAX + 1];
	size_t len = 0;
	const char *info = cmark_node_get_fence_info(code);
	for (; *info && !strchr(" \t\n\v\f\r", *info) && len < LANGUAGE_LEN_MAX; info++) {
		if ((*info >= '0' && *info <= '9') || (*info >= 'A' && *info <= 'Z') ||
			(*info >= 'a' && *info <= 'z') || strchr("_+#.-", *info)) {
			language[len++] = *info;
		}
	}
	language[len] = '\0';
	cmark_node_set_fence_info(code, language);
}

void safe_tree_make(cmark_node *document, size_t skip)
{
	/*
	 * HTML forbids nested links, but the parser can produce them from an address in a link's
	 * text (`[<a@b.c>](d)`). The outer one is kept.
	 */
	cmark_node *link = NULL;
	cmark_iter *iter = cmark_iter_new(document);
	cmark_event_type event;
	while ((event = cmark_iter_next(iter)) != CMARK_EVENT_DONE) {
		cmark_node *node = cmark_iter_get_node(iter);
		cmark_node_type type = cmark_node_get_type(node);
		bool is_address = type == CMARK_NODE_LINK || type == CMARK_NODE_IMAGE;
		if (type == CMARK_NODE_HTML_BLOCK) {
			replace_html_block(node, skip);
			skip = 0;
		} else if (type == CMARK_NODE_HTML_INLINE) {
			replace(node, text_node(cmark_node_get_literal(node)));
		} else if (type == CMARK_NODE_CODE_BLOCK) {
			clean_language(node);
		} else if (is_address && event == CMARK_EVENT_ENTER) {
			bool is_kept = !link && type == CMARK_NODE_LINK &&
				       url_is_allowed(cmark_node_get_url(node));
			link = is_kept ? node : link;
		} else if (link == node) {
			link = NULL;
		} else if (type == CMARK_NODE_LINK ||
			   (is_address && !url_is_allowed(cmark_node_get_url(node)))) {
			unwrap(node);
		}
	}
	cmark_iter_free(iter);
}
