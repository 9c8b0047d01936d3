#include "leaves.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

#define DEPTH_MAX 256

/* What a leaf is in. */
struct around {
	char tag; /* 'u' and 'o': a list and its newest item, 'q': a quote, 't': a table */
	bool is_new; /* no leaf has been in it */
	long number; /* of the item, in an ordered list */
};

struct reader {
	struct leaves *leaves;
	size_t first; /* the first leaf of this HTML */
	struct around stack[DEPTH_MAX];
	size_t depth;
	struct leaf *open; /* the leaf that is being read, or NULL */
	bool is_run; /* it is text of a tight item, which has no tag */
};

/* --- leaves --- */

static struct leaf *new_leaf(struct leaves *leaves)
{
	if (leaves->count == leaves->cap) {
		leaves->cap = leaves->cap ? 2 * leaves->cap : 64;
		leaves->items = xrealloc(leaves->items, leaves->cap * sizeof(*leaves->items));
	}
	leaves->items[leaves->count] = (struct leaf){0};
	return &leaves->items[leaves->count++];
}

static void drop_leaf(struct leaves *leaves, size_t i)
{
	buffer_finish(&leaves->items[i].path);
	buffer_finish(&leaves->items[i].text);
	memmove(leaves->items + i, leaves->items + i + 1,
		(leaves->count - i - 1) * sizeof(*leaves->items));
	leaves->count--;
}

static void begin_leaf(struct reader *r, const char *tag, size_t tag_len)
{
	struct leaf *leaf = r->open = new_leaf(r->leaves);
	for (size_t i = 0; i < r->depth; i++) {
		struct around *around = &r->stack[i];
		buffer_append_char(&leaf->path, around->tag);
		if (around->tag == 'o') {
			buffer_printf(&leaf->path, " %ld", around->number);
		}
		buffer_append_str(&leaf->path, around->is_new ? "*>" : ">");
		around->is_new = false;
	}
	buffer_cstr(&leaf->path);
	buffer_append(&leaf->text, tag, tag_len);
	buffer_append_char(&leaf->text, ':');
}

static void end_leaf(struct reader *r)
{
	struct buffer *text = r->open ? &r->open->text : NULL;
	while (text && text->data[text->len - 1] == '\n') {
		text->len--;
	}
	if (text) {
		buffer_cstr(text);
	}
	r->open = NULL;
	r->is_run = false;
}

/* --- reading --- */

static bool is_tag(const char *tag, size_t len, const char *name)
{
	size_t name_len = strlen(name);
	return len >= name_len && memcmp(tag, name, name_len) == 0 &&
	       (len == name_len || tag[name_len] == ' ');
}

static void push(struct reader *r, char tag, long number)
{
	assert_true(r->depth < DEPTH_MAX);
	r->stack[r->depth++] = (struct around){.tag = tag, .is_new = true, .number = number};
}

/* An item without anything in it is a leaf, too. */
static void end_around(struct reader *r)
{
	end_leaf(r);
	if (r->stack[r->depth - 1].is_new && r->stack[r->depth - 1].tag != 't') {
		begin_leaf(r, "empty", 5);
		end_leaf(r);
	}
}

static void open_block(struct reader *r, const char *tag, size_t len)
{
	end_leaf(r);
	if (is_tag(tag, len, "ol")) {
		const char *start = memmem(tag, len, "start=\"", 7);
		push(r, 'o', (start ? strtol(start + 7, NULL, 10) : 1) - 1);
	} else if (is_tag(tag, len, "ul")) {
		push(r, 'u', 0);
	} else if (is_tag(tag, len, "li")) {
		r->stack[r->depth - 1].is_new = true;
		r->stack[r->depth - 1].number++;
	} else if (is_tag(tag, len, "blockquote")) {
		push(r, 'q', 0);
	} else if (is_tag(tag, len, "table")) {
		push(r, 't', 0);
	} else if (!is_tag(tag, len, "thead") && !is_tag(tag, len, "tbody")) {
		begin_leaf(r, tag, len);
	}
}

static void close_block(struct reader *r, const char *tag, size_t len)
{
	if (is_tag(tag, len, "li")) {
		end_around(r);
	} else if (is_tag(tag, len, "ul") || is_tag(tag, len, "ol") || is_tag(tag, len, "table")) {
		end_leaf(r);
		r->depth--;
	} else if (is_tag(tag, len, "blockquote")) {
		end_around(r);
		r->depth--;
	} else if (!is_tag(tag, len, "thead") && !is_tag(tag, len, "tbody")) {
		end_leaf(r);
	}
}

static bool is_block(const char *tag, size_t len)
{
	static const char *const names[] = {"ol", "ul", "li", "blockquote", "table", "thead",
		"tbody", "tr", "p", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "hr"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is_tag(tag, len, names[i])) {
			return true;
		}
	}
	return false;
}

static void add_inline(struct reader *r, const char *bytes, size_t len)
{
	size_t ends = strspn(bytes, "\n");
	if (!r->open && ends >= len) {
		return; /* between blocks */
	}
	if (!r->open) {
		begin_leaf(r, "p", 1);
		r->is_run = true;
		bytes += ends;
		len -= ends;
	}
	buffer_append(&r->open->text, bytes, len);
}

/* The box of a task: a leaf of its own, so that it is the same in a tight list and in a loose one. */
static void add_box(struct reader *r, const char **at, const char *tag, size_t len)
{
	end_leaf(r);
	begin_leaf(r, tag, len);
	end_leaf(r);
	*at += **at == ' ';
}

static void read_html(struct reader *r, const char *html)
{
	for (const char *at = html; *at;) {
		if (*at != '<') {
			size_t len = strcspn(at, "<");
			add_inline(r, at, len);
			at += len;
			continue;
		}
		const char *tag = at + 1;
		bool is_close = *tag == '/';
		tag += is_close;
		size_t len = strcspn(tag, ">");
		at = tag + len + 1;
		if (is_close && is_block(tag, len)) {
			close_block(r, tag, len);
		} else if (is_block(tag, len)) {
			open_block(r, tag, len);
			if (is_tag(tag, len, "hr")) {
				end_leaf(r);
			}
		} else if (is_tag(tag, len, "input")) {
			add_box(r, &at, tag, len);
		} else {
			add_inline(r, tag - 1 - is_close, len + 2 + is_close);
		}
	}
	end_leaf(r);
	assert_int_equal(r->depth, 0);
}

/* --- joining --- */

/* How many lists and quotes a context has the marks of. */
static size_t count_marks(const char *context)
{
	size_t count = 0;
	for (const char *at = context + strspn(context, " "); *at; at += strspn(at, " ")) {
		size_t digits = strspn(at, "0123456789");
		bool is_item =
			digits ? strchr(".)", at[digits]) != NULL : strchr("-+*", *at) != NULL;
		if (*at != '>' && !(is_item && strchr(" \n", at[digits + 1]))) {
			break;
		}
		at += digits + 1;
		count++;
	}
	return count;
}

/* The first leaf does not begin what the context has the marks of, or a quote in front of it. */
static void take_stars(struct leaf *leaf, size_t marks)
{
	char *to = leaf->path.data;
	bool goes_on = true;
	for (const char *from = leaf->path.data; *from; from++) {
		if (from == leaf->path.data || from[-1] == '>') {
			goes_on = goes_on && (marks > 0 || *from == 'q');
			marks -= marks > 0;
		}
		if (*from != '*' || !goes_on) {
			*to++ = *from;
		}
	}
	*to = '\0';
	leaf->path.len = (size_t)(to - leaf->path.data);
}

static void append_to_last(struct leaves *leaves, size_t first, const char *between, size_t skip)
{
	struct buffer *last = &leaves->items[first - 1].text;
	const struct buffer *more = &leaves->items[first].text;
	buffer_append_str(last, between);
	buffer_append(last, more->data + skip, more->len - skip);
	buffer_cstr(last);
	drop_leaf(leaves, first);
}

static void join_first(struct leaves *leaves, size_t first, const char *context)
{
	struct leaf *leaf = &leaves->items[first];
	const char *text = buffer_cstr(&leaf->text);
	take_stars(leaf, count_marks(context));
	if (*context == '<') {
		append_to_last(leaves, first, "\n", 2);
	} else if (strcmp(text, "p: ") == 0 && strstr(context, "&#32;")) {
		drop_leaf(leaves, first);
	} else if (strncmp(text, "p: \n", 4) == 0 && strstr(context, "&#32;\n")) {
		append_to_last(leaves, first, "\n", 4);
	}
}

static bool is_code(const struct leaf *leaf)
{
	return strncmp(leaf->text.data, "pre:", 4) == 0;
}

/* Whether the second leaf is in what the first one is in, and begins nothing. */
static bool is_beside(const struct leaf *before, const struct leaf *leaf)
{
	const char *at = leaf->path.data;
	for (const char *b = before->path.data; *b; b++) {
		if (*b != '*' && *b != *at++) {
			return false;
		}
	}
	return !*at;
}

/* Joins code with the code in front of it, if both are in the same place. */
static void join_code(struct leaves *leaves, size_t first)
{
	for (size_t i = first ? first : 1; i < leaves->count;) {
		struct leaf *leaf = &leaves->items[i];
		struct leaf *before = leaf - 1;
		size_t tag = strcspn(leaf->text.data, ">") + 1;
		bool is_same = is_code(leaf) && is_code(before) && is_beside(before, leaf) &&
			       before->text.len >= tag &&
			       memcmp(before->text.data, leaf->text.data, tag) == 0;
		if (!is_same) {
			i++;
			continue;
		}
		struct buffer *text = &before->text;
		text->len -= sizeof("</code>") - 1;
		append_to_last(leaves, i, "", tag);
	}
}

/* Leaves out blank lines, which only code and HTML can have. */
static void squeeze(struct leaf *leaf)
{
	struct buffer kept = {0};
	for (const char *at = buffer_cstr(&leaf->text); *at;) {
		size_t len = strcspn(at, "\n");
		if (strspn(at, " \t") < len) {
			buffer_append(&kept, at, len + (at[len] == '\n'));
		}
		at += len + (at[len] == '\n');
	}
	buffer_cstr(&kept);
	buffer_finish(&leaf->text);
	leaf->text = kept;
}

void leaves_add(struct leaves *leaves, const char *html, bool continues, const char *context)
{
	struct reader r = {.leaves = leaves};
	size_t first = leaves->count;
	read_html(&r, html);
	if (continues && first > 0 && leaves->count > first) {
		join_first(leaves, first, context);
	}
	join_code(leaves, first);
	for (size_t i = first ? first - 1 : 0; i < leaves->count; i++) {
		squeeze(&leaves->items[i]);
	}
}

void leaves_finish(struct leaves *leaves)
{
	while (leaves->count) {
		drop_leaf(leaves, leaves->count - 1);
	}
	free(leaves->items);
	*leaves = (struct leaves){0};
}

static bool is_same(const struct buffer *a, const struct buffer *b)
{
	return a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0);
}

bool leaves_are_same(const struct leaves *a, const struct leaves *b)
{
	bool same = a->count == b->count;
	for (size_t i = 0; same && i < a->count; i++) {
		same = is_same(&a->items[i].path, &b->items[i].path) &&
		       is_same(&a->items[i].text, &b->items[i].text);
	}
	return same;
}

void leaves_print(const struct leaves *leaves)
{
	for (size_t i = 0; i < leaves->count; i++) {
		print_error("  %s %s\n",
			leaves->items[i].path.data ? leaves->items[i].path.data : "",
			leaves->items[i].text.data);
	}
}
