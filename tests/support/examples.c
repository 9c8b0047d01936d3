#include "examples.h"

#include "corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char fence[] = "````````````````````````````````";

static void replace_arrows(struct buffer *text)
{
	static const char arrow[] = "→";
	size_t to = 0;
	for (size_t from = 0; from < text->len; to++) {
		bool is_arrow = text->len - from >= sizeof(arrow) - 1 &&
				memcmp(text->data + from, arrow, sizeof(arrow) - 1) == 0;
		text->data[to] = is_arrow ? '\t' : text->data[from];
		from += is_arrow ? sizeof(arrow) - 1 : 1;
	}
	text->len = to;
}

/** Appends the lines up to the next one that is `last`; returns what stands behind it. */
static const char *take_lines(const char *at, const char *last, struct buffer *out)
{
	while (at) {
		size_t len = strcspn(at, "\n");
		const char *next = at[len] ? at + len + 1 : NULL;
		if (len == strlen(last) && memcmp(at, last, len) == 0) {
			break;
		}
		buffer_append(out, at, len);
		buffer_append_char(out, '\n');
		at = next;
	}
	replace_arrows(out);
	return at ? at + strlen(last) : NULL;
}

size_t examples_each(
	const char *path, void (*visit)(void *arg, const struct example *example), void *arg)
{
	struct buffer file = {0};
	struct buffer opening = {0};
	size_t count = 0;
	buffer_append_char(&file, '\n');
	file_read(path, &file);
	buffer_printf(&opening, "\n%s example\n", fence);
	const char *at = buffer_cstr(&file);
	while (at && (at = strstr(at, buffer_cstr(&opening)))) {
		struct buffer markdown = {0};
		struct buffer html = {0};
		at = take_lines(at + opening.len, ".", &markdown);
		at = at ? take_lines(at + 1, fence, &html) : NULL;
		if (at) {
			visit(arg, &(struct example){.number = ++count,
					   .markdown = markdown.data,
					   .len = markdown.len,
					   .html = html.data,
					   .html_len = html.len});
		}
		buffer_finish(&markdown);
		buffer_finish(&html);
	}
	buffer_finish(&opening);
	buffer_finish(&file);
	return count;
}

size_t spec_examples_each(void (*visit)(void *arg, const struct example *example), void *arg)
{
	const char *path = getenv("HOLDFAST_SPEC_TXT");
	size_t count = path ? examples_each(path, visit, arg) : 0;
	if (!count) {
		printf("[  SKIPPED ] HOLDFAST_SPEC_TXT does not name the CommonMark spec\n");
	}
	return count;
}
