#include "stream_text.h"

#include <string.h>

#define DEEP 10000 /* levels of a nested list, columns of a table */

static void write_nested_lists(struct buffer *out, size_t size)
{
	while (out->len < size) {
		for (int depth = 0; depth < DEEP; depth++) {
			buffer_append_str(out, "- ");
		}
		buffer_append_str(out, "x\n");
	}
}

/* Each line one level deeper than the one before: the text is mostly indentation. */
static void write_indented_lists(struct buffer *out, size_t size)
{
	size_t depth = 0;
	while (out->len < size) {
		for (size_t i = 0; i < depth; i++) {
			buffer_append_str(out, "  ");
		}
		buffer_append_str(out, "- x\n");
		depth = depth == DEEP ? 0 : depth + 1;
	}
}

static void write_row(struct buffer *out, const char *cell)
{
	buffer_append_char(out, '|');
	for (int column = 0; column < DEEP; column++) {
		buffer_append_str(out, cell);
	}
	buffer_append_char(out, '\n');
}

static void write_wide_table(struct buffer *out, size_t size)
{
	write_row(out, "a|");
	write_row(out, "-|");
	while (out->len < size) {
		write_row(out, "b|");
	}
}

const struct hostile_shape hostile_shapes[] = {
	{"`[`", "", "[", NULL},
	{"`*`", "", "*", NULL},
	{"`>`", "", ">", NULL},
	{"backticks", "", "`", NULL},
	{"lists nested 10,000 deep in a line", "", NULL, write_nested_lists},
	{"lists nested by indentation", "", NULL, write_indented_lists},
	{"a fence that never closes", "```\n", "int a = 1;\n", NULL},
	{"a table 10,000 columns wide", "", NULL, write_wide_table},
	{"newlines", "", "\n", NULL},
	{"blanks in one line", "", " ", NULL},
	{"pipes in one line", "", "|", NULL},
	{"escaped pipes in one line", "", "\\|", NULL},
	{"`- ` in one line", "", "- ", NULL},
	{"`* ` in one line", "", "* ", NULL},
	{"tables of two lines", "", "a\n-|\n\n", NULL},
	{"delimiter rows under text", "", "a\n-|-\n", NULL},
	{"a paragraph that never closes its `**`", "**a ", "b c\n", NULL},
	{"a paragraph full of `**a `", "", "**a \n", NULL},
	{"a paragraph full of `[a](`", "", "[a](\n", NULL},
	{"backtick runs of many lengths", "", "`a``b```c````d`````e``````f\n", NULL},
	{"references", "", "[a]: /b\n", NULL},
	{"a reference that never ends", "[", "a\\]", NULL},
	{"`<` in one line", "", "<", NULL},
	{"`<a b='` in one line", "", "<a b='", NULL},
	{"an HTML block that never ends", "<!--\n", "-- ->\n", NULL},
	{"carriage returns", "", "a\r", NULL},
	{"quotes 50 deep", "", ">>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>a\n", NULL},
	{"list items without text", "", "-\n", NULL},
	{"headings", "", "#\n", NULL},
	{"fences of a line", "", "```\n```\n", NULL},
};

const size_t hostile_shape_count = sizeof(hostile_shapes) / sizeof(hostile_shapes[0]);

void hostile_text(struct buffer *out, const struct hostile_shape *shape, size_t size)
{
	buffer_append_str(out, shape->start);
	while (shape->unit && out->len < size) {
		buffer_append_str(out, shape->unit);
	}
	if (shape->write) {
		shape->write(out, size);
	}
	out->len = size;
}
