/*
 * What other inputs between two lines make of a text: in a list, table, fence, quote, HTML or code
 * its HTML, joined, is that of the text in one piece. In a paragraph, which such an input ends, it
 * is that of the text with a blank line there. Every text, every line and each blank that it begins
 * with, every kind of input.
 */
#include "leaves.h"
#include "part.h"
#include "cmark_oracle.h"
#include "stream_bench.h"
#include "text.h"
#include "texts.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static const enum event_type kinds[] = {EVENT_TOOL_CALL, EVENT_THOUGHT_CHUNK, EVENT_USAGE,
	EVENT_PLAN, EVENT_CUSTOM, EVENT_TOOL_CALL_UPDATE, EVENT_FILE_READ, EVENT_FILE_WRITE,
	EVENT_PERMISSION_RESOLVED, EVENT_AGENT_STARTED};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* --- a text, told --- */

struct telling {
	struct stream_bench bench;
	struct buffer messages; /* the data of each agent_message in a line */
	struct leaves leaves; /* made of them by render() */
	size_t came_out; /* the text in front of the first other event */
	bool has_come;
	size_t continued; /* events that continue one */
};

static void take_event(void *arg, const struct event_view *view)
{
	struct telling *t = arg;
	if (view->type != EVENT_AGENT_MESSAGE) {
		t->came_out = t->has_come ? t->came_out : t->bench.text.len;
		t->has_come = true;
		return;
	}
	buffer_append(&t->messages, view->data, view->data_len);
	buffer_append_char(&t->messages, '\n');
}

static void render_line(struct telling *t, const char *line, size_t len)
{
	struct event *event = event_create(&(struct event_view){
		.seq = 1, .type = EVENT_AGENT_MESSAGE, .data = line, .data_len = len});
	const char *json = event_json(event, FORMAT_BOTH, &len);
	json_t *root = json_loadb(json, len, 0, NULL);
	const json_t *data = json_object_get(root, "data");
	const char *context = json_string_value(json_object_get(data, "context"));
	bool continues = json_object_get(data, "continues") != NULL;
	leaves_add(&t->leaves, json_string_value(json_object_get(data, "html")), continues,
		context ? context : "");
	t->continued += continues;
	json_decref(root);
	event_unref(event);
}

static void render(struct telling *t)
{
	for (const char *at = buffer_cstr(&t->messages); *at;) {
		size_t len = strcspn(at, "\n");
		render_line(t, at, len);
		at += len + 1;
	}
}

static void put(struct telling *t, enum event_type type)
{
	if (type == EVENT_THOUGHT_CHUNK) {
		stream_bench_think(&t->bench, "hm");
	} else {
		stream_bench_put(&t->bench, type);
	}
}

/** What comes at a place: nothing, one input, or several, and the state is loaded between. */
struct between {
	size_t at;
	enum event_type types[3];
	size_t count;
	bool reloads;
	bool is_by_character; /* the text comes so */
};

static void telling_begin(struct telling *t)
{
	*t = (struct telling){0};
	stream_bench_init(&t->bench);
	t->bench.watch = take_event;
	t->bench.watch_arg = t;
}

static void telling_end(struct telling *t)
{
	stream_bench_end_turn(&t->bench);
	stream_bench_finish(&t->bench);
}

static void telling_finish(struct telling *t)
{
	buffer_finish(&t->messages);
	leaves_finish(&t->leaves);
}

static void say(struct telling *t, const char *text, size_t len, bool is_by_character)
{
	for (size_t at = 0, next; at < len; at = next) {
		next = is_by_character ? text_next(text, len, at) : len;
		stream_bench_say_n(&t->bench, text + at, next - at);
	}
}

static void tell(struct telling *t, const char *text, size_t len, const struct between *between)
{
	telling_begin(t);
	say(t, text, between->at, between->is_by_character);
	for (size_t i = 0; i < between->count; i++) {
		put(t, between->types[i]);
		if (between->reloads) {
			stream_bench_reload(&t->bench);
		}
	}
	say(t, text + between->at, len - between->at, between->is_by_character);
	telling_end(t);
}

/* --- what it must be --- */

/** Whether the line in front of that of the place is of a paragraph. */
static bool is_in_paragraph(const char *text, size_t len, size_t at)
{
	cmark_node *root = oracle_parse(text, len, NULL);
	bool is = false;
	while (at > 0 && strchr(" \t", text[at - 1])) {
		at--;
	}
	for (cmark_node *n = cmark_node_first_child(root); n; n = cmark_node_next(n)) {
		cmark_node_type type = cmark_node_get_type(n);
		size_t start = oracle_line_start(text, len, cmark_node_get_start_line(n));
		size_t end = oracle_line_start(text, len, cmark_node_get_end_line(n) + 1);
		bool is_text = type == CMARK_NODE_PARAGRAPH || type == CMARK_NODE_HEADING ||
			       strcmp(cmark_node_get_type_string(n), "table") == 0;
		is = is || (is_text && at > start && at <= end);
	}
	cmark_node_free(root);
	return is || memmem(text, len, "]:", 2); /* definitions are no node */
}

/** The text with a blank line at the place. */
static void tell_parted(struct telling *t, const struct buffer *markdown, size_t at)
{
	struct buffer parted = {0};
	buffer_append(&parted, markdown->data, at);
	buffer_append_str(&parted, "\n");
	buffer_append(&parted, markdown->data + at, markdown->len - at);
	tell(t, parted.data, parted.len, &(struct between){0});
	render(t);
	buffer_finish(&parted);
}

struct count {
	size_t places;
	size_t continued;
	size_t parted;
	size_t faults;
};

static void print_fault(const struct text *text, const struct between *between,
	const struct leaves *want, const struct leaves *got)
{
	print_error("%s, %s at byte %zu of\n%s\nwant\n", text->name.data,
		event_type_name(between->types[0]), between->at, text->markdown.data);
	leaves_print(want);
	print_error("got\n");
	leaves_print(got);
}

static void check(const struct text *text, const struct telling *whole,
	const struct between *between, struct count *count)
{
	const struct buffer *markdown = &text->markdown;
	struct telling t;
	tell(&t, markdown->data, markdown->len, between);
	count->places++;
	bool is_same = t.messages.len == whole->messages.len &&
		       memcmp(t.messages.data, whole->messages.data, t.messages.len) == 0;
	if (!is_same) {
		render(&t);
		count->continued += t.continued > 0;
	}
	if (!is_same && !leaves_are_same(&t.leaves, &whole->leaves)) {
		struct telling parted;
		tell_parted(&parted, markdown, t.came_out);
		count->parted++;
		if (!is_in_paragraph(markdown->data, markdown->len, t.came_out) ||
			!leaves_are_same(&t.leaves, &parted.leaves)) {
			print_fault(text, between, &whole->leaves, &t.leaves);
			count->faults++;
		}
		telling_finish(&parted);
	}
	telling_finish(&t);
}

/** Whether nothing but blanks is in the line in front of the place. */
static bool is_at_line(const struct buffer *markdown, size_t at)
{
	while (at > 0 && (markdown->data[at - 1] == ' ' || markdown->data[at - 1] == '\t')) {
		at--;
	}
	return at && (markdown->data[at - 1] == '\n' || markdown->data[at - 1] == '\r');
}

static void for_each_line(const struct texts *texts, struct between *between, struct count *count)
{
	for (size_t i = 0; i < texts->count; i++) {
		const struct text *text = &texts->items[i];
		struct telling whole;
		tell(&whole, text->markdown.data, text->markdown.len, &(struct between){0});
		render(&whole);
		for (between->at = 1; between->at < text->markdown.len; between->at++) {
			if (is_at_line(&text->markdown, between->at)) {
				check(text, &whole, between, count);
			}
		}
		telling_finish(&whole);
	}
}

static void print_count(const char *what, const struct count *count)
{
	print_message(
		"%s at %zu places: at %zu something goes on behind it, at %zu it ends a paragraph\n",
		what, count->places, count->continued, count->parted);
	assert_int_equal(count->faults, 0);
	assert_true(!part_is_whole() || (count->continued > 0 && count->parted > 0));
}

static void an_input_between_two_lines_leaves_blocks_as_they_are(void **state)
{
	struct count count = {0};
	for (size_t k = 0; k < KINDS; k++) {
		for_each_line(*state, &(struct between){.types = {kinds[k]}, .count = 1}, &count);
	}
	print_count("one input", &count);
}

static void several_inputs_leave_them_so(void **state)
{
	struct count count = {0};
	for_each_line(*state,
		&(struct between){.types = {EVENT_TOOL_CALL, EVENT_THOUGHT_CHUNK, EVENT_PLAN},
			.count = 3,
			.reloads = true,
			.is_by_character = true},
		&count);
	print_count("three inputs", &count);
}

static void end_lines_by_two(struct text *text)
{
	struct buffer longer = {0};
	for (size_t i = 0; i < text->markdown.len; i++) {
		const char *at = text->markdown.data + i;
		if (*at == '\n' && (i == 0 || at[-1] != '\r')) {
			buffer_append_char(&longer, '\r');
		}
		buffer_append_char(&longer, *at);
	}
	buffer_cstr(&longer);
	buffer_finish(&text->markdown);
	text->markdown = longer;
}

/** Also between the two characters that end a line. */
static void lines_can_end_with_two_characters(void **state)
{
	struct texts *texts = *state;
	struct count count = {0};
	for (size_t i = 0; i < texts->count; i++) {
		end_lines_by_two(&texts->items[i]);
	}
	for_each_line(texts, &(struct between){.types = {EVENT_TOOL_CALL}, .count = 1}, &count);
	print_count("where lines end with CR LF, an input", &count);
}

/** Every number in front of an item becomes 1, in as many digits. */
static void number_by_ones(struct text *text)
{
	char *at = text->markdown.data;
	for (char *end = at + text->markdown.len; at < end;) {
		at += strspn(at, " \t>-*+");
		size_t digits = strspn(at, "0123456789");
		if (digits && strchr(".)", at[digits])) {
			memset(at, '0', digits);
			at[digits - 1] = '1';
		}
		char *newline = memchr(at, '\n', (size_t)(end - at));
		at = newline ? newline + 1 : end;
	}
}

static void a_list_goes_on_with_its_numbers(void **state)
{
	struct texts *texts = *state;
	struct count count = {0};
	for (size_t i = 0; i < texts->count; i++) {
		number_by_ones(&texts->items[i]);
	}
	for_each_line(texts, &(struct between){.types = {EVENT_TOOL_CALL}, .count = 1}, &count);
	print_count("in lists that are numbered 1, 1, 1, an input", &count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_input_between_two_lines_leaves_blocks_as_they_are),
		cmocka_unit_test(several_inputs_leave_them_so),
		cmocka_unit_test(a_list_goes_on_with_its_numbers),
		cmocka_unit_test(lines_can_end_with_two_characters),
	};
	return cmocka_run_group_tests_name(
		"proof_between", tests, texts_setup_part, texts_teardown);
}
