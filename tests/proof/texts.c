#include "texts.h"

#include "examples.h"
#include "part.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

/* Texts up to this length are cut at every pair of places, which joined ones need not be. */
#define JOINED_MIN    200
#define JOINED_RANDOM 150
#define JOINED_LONG   2000

void texts_add(struct texts *texts, enum text_source source, const char *name, const char *markdown,
	size_t len)
{
	if (len == 0) {
		return;
	}
	for (size_t i = 0; i < texts->count; i++) {
		const struct buffer *other = &texts->items[i].markdown;
		if (other->len == len && memcmp(other->data, markdown, len) == 0) {
			return;
		}
	}
	if (texts->count == texts->cap) {
		texts->cap = texts->cap ? 2 * texts->cap : 1024;
		texts->items = xrealloc(texts->items, texts->cap * sizeof(*texts->items));
	}
	struct text *text = &texts->items[texts->count++];
	*text = (struct text){.source = source};
	buffer_append(&text->name, name, strlen(name) + 1);
	buffer_append(&text->markdown, markdown, len);
	buffer_cstr(&text->markdown);
	texts->of[source]++;
}

/* --- examples --- */

struct adding {
	struct texts *texts;
	enum text_source source;
	const char *prefix;
};

static void add_example(void *arg, const struct example *example)
{
	struct adding *adding = arg;
	char name[32];
	snprintf(name, sizeof(name), "%s %zu", adding->prefix, example->number);
	texts_add(adding->texts, adding->source, name, example->markdown, example->len);
}

/* --- several examples in a row --- */

/** A definition would change what the examples behind it mean. */
static bool can_be_joined(const struct text *text)
{
	const struct buffer *markdown = &text->markdown;
	return (text->source == TEXT_SPEC || text->source == TEXT_GFM) &&
	       !memmem(markdown->data, markdown->len, "]:", 2);
}

static void append_example(struct buffer *document, const struct text *text)
{
	if (document->len) {
		buffer_append_char(document, '\n');
	}
	buffer_append(document, text->markdown.data, text->markdown.len);
}

static void add_document(struct texts *texts, struct buffer *document)
{
	char name[32];
	snprintf(name, sizeof(name), "joined %zu", texts->of[TEXT_JOINED] + 1);
	texts_add(texts, TEXT_JOINED, name, document->data, document->len);
	buffer_clear(document);
}

/** As they come, so that each example is in one document of at least `size` bytes. */
static void join_neighbours(struct texts *texts, size_t size)
{
	struct buffer document = {0};
	size_t count = texts->count;
	for (size_t i = 0; i < count; i++) {
		if (can_be_joined(&texts->items[i])) {
			append_example(&document, &texts->items[i]);
		}
		if (document.len >= size) {
			add_document(texts, &document);
		}
	}
	add_document(texts, &document);
	buffer_finish(&document);
}

static void join_at_random(struct texts *texts, size_t documents)
{
	struct random r = {20261121};
	struct buffer document = {0};
	uint32_t count = (uint32_t)texts->count;
	while (documents > 0) {
		const struct text *text = &texts->items[random_below(&r, count)];
		if (can_be_joined(text)) {
			append_example(&document, text);
		}
		if (document.len >= JOINED_MIN) {
			add_document(texts, &document);
			documents--;
		}
	}
	buffer_finish(&document);
}

/* --- all of them --- */

int texts_setup(void **state)
{
	struct texts *texts = xcalloc(1, sizeof(*texts));
	struct adding spec = {texts, TEXT_SPEC, "spec"};
	struct adding gfm = {texts, TEXT_GFM, "gfm"};
	*state = texts;
	spec_examples_each(add_example, &spec);
	examples_each(PROOF_FILE("gfm_examples.txt"), add_example, &gfm);
	join_neighbours(texts, JOINED_MIN);
	join_neighbours(texts, JOINED_LONG);
	join_at_random(texts, JOINED_RANDOM);
	texts_add_corpus(texts);
	print_message(
		"texts: %zu of the specification, %zu of GFM, %zu of the corpus, %zu of several examples\n",
		texts->of[TEXT_SPEC], texts->of[TEXT_GFM], texts->of[TEXT_CORPUS],
		texts->of[TEXT_JOINED]);
	bool has_spec = texts->of[TEXT_SPEC] >= 600 || !getenv("HOLDFAST_SPEC_TXT");
	return has_spec && texts->of[TEXT_GFM] >= 55 ? 0 : -1;
}

int texts_setup_part(void **state)
{
	if (texts_setup(state) < 0) {
		return -1;
	}
	struct texts *texts = *state;
	size_t kept = 0;
	for (size_t i = 0; i < texts->count; i++) {
		struct text *text = &texts->items[i];
		if (part_has_next()) {
			texts->items[kept++] = *text;
		} else {
			texts->of[text->source]--;
			buffer_finish(&text->name);
			buffer_finish(&text->markdown);
		}
	}
	texts->count = kept;
	return 0;
}

int texts_teardown(void **state)
{
	struct texts *texts = *state;
	for (size_t i = 0; i < texts->count; i++) {
		buffer_finish(&texts->items[i].name);
		buffer_finish(&texts->items[i].markdown);
	}
	free(texts->items);
	free(texts);
	return 0;
}
