/*
 * The inline guard. Of any bytes, at every cut: what is healed is the text without some brackets
 * and without a piece at its end, and closing markers; what is not open gets none. Of markdown that
 * a grammar makes from the plan, cut anywhere: a preview shows no marker as text.
 */
#include "fuzz.h"

#include "core/stream/inline_guard.h"
#include "holdfast/markdown_html.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define REPEAT_SIZE  (256 * 1024)
#define CUTS_MAX     256 /* a longer text is cut at its last bytes only */

/* A copy of its own, so that a read past the end of the cut is seen by the address sanitizer. */
static struct buffer heal(const char *text, size_t len, bool *ret_open)
{
	struct buffer healed = {0};
	char *copy = xmalloc(len);
	if (len) {
		memcpy(copy, text, len);
	}
	buffer_append_str(&healed, "kept");
	inline_guard_heal(copy, len, &healed);
	*ret_open = inline_guard_is_open(copy, len);
	free(copy);
	fuzz_check(healed.len >= 4 && memcmp(healed.data, "kept", 4) == 0, "it appends");
	buffer_consume(&healed, 4);
	return healed;
}

/* --- any bytes --- */

/* How much of the healed text is the text's own, in order, with nothing but brackets left out. */
static size_t match_own(const struct buffer *healed, const char *text, size_t len)
{
	size_t own = 0;
	for (size_t at = 0; own < healed->len && at < len; at++) {
		if (healed->data[own] == text[at]) {
			own++;
		} else if (text[at] != '[' && text[at] != '!') {
			break;
		}
	}
	return own;
}

static void check_shape(const struct buffer *healed, bool open, const char *text, size_t len)
{
	size_t own = match_own(healed, text, len);
	for (size_t i = own; i < healed->len; i++) {
		fuzz_check(healed->data[i] && strchr("*_~` \t\r\n", healed->data[i]),
			"what is added are closing markers");
	}
	fuzz_check(healed->len <= 2 * len, "it is bounded");
	fuzz_check(open || (own == healed->len && memcmp(healed->data, text, own) == 0),
		"what is not open gets nothing added and nothing taken out");
}

static void check_cut(const char *text, size_t len)
{
	bool open;
	struct buffer healed = heal(text, len, &open);
	buffer_cstr(&healed);
	check_shape(&healed, open, text, len);
	buffer_finish(&healed);
}

/* --- what a grammar makes --- */

struct writer {
	struct fuzz_input *plan;
	struct buffer text;
};

static void put(struct writer *w, const char *text)
{
	buffer_append_str(&w->text, text);
}

static void put_word(struct writer *w)
{
	static const char *const words[] = {"a", "word", "Wörter", "日本", "5", "x1", "h", "www"};
	put(w, words[fuzz_take(w->plan) % COUNT(words)]);
}

static void put_inline(struct writer *w, const char *outer);

/* Words with a marked piece between them, so that what opens and what closes is beyond doubt. */
static void put_marked(struct writer *w, const char *mark, const char *outer)
{
	put(w, mark);
	put_word(w);
	if (!strchr(outer, *mark) && strlen(outer) < 3) {
		char inner[8];
		snprintf(inner, sizeof(inner), "%s%c", outer, *mark);
		put(w, " ");
		put_inline(w, inner);
		put(w, " ");
		put_word(w);
	}
	put(w, mark);
}

static void put_inline(struct writer *w, const char *outer)
{
	static const char *const marks[] = {"**", "*", "_", "__", "~~"};
	unsigned choice = fuzz_take(w->plan) % 10;
	if (choice < COUNT(marks) && !strchr(outer, *marks[choice])) {
		put_marked(w, marks[choice], outer);
	} else if (choice == 5) {
		put(w, "`code`");
	} else if (choice == 6) {
		put(w, "``a ` b``");
	} else if (choice == 7 && !strchr(outer, '[')) {
		put(w, "[the ");
		put_word(w);
		put(w, "](https://a.b/c_d)");
	} else if (choice == 8 && !strchr(outer, '[')) {
		put(w, "![an ");
		put_word(w);
		put(w, "](i.png 'title')");
	} else {
		put_word(w);
	}
}

static void put_line(struct writer *w)
{
	for (unsigned n = fuzz_take(w->plan) % 4; n; n--) {
		put_word(w);
		put(w, " ");
		put_inline(w, "");
		put(w, " ");
	}
	put_word(w);
}

static void put_block(struct writer *w)
{
	static const char *const starts[] = {"", "", "- ", "* ", "1. ", "> ", "# ", "### ", "> - "};
	unsigned choice = fuzz_take(w->plan) % (COUNT(starts) + 2);
	if (choice == COUNT(starts)) {
		put(w, "```c\n** `a [b\n```\n");
	} else if (choice == COUNT(starts) + 1) {
		put(w, "| a | **b** |\n|---|:-:|\n| ");
		put_line(w);
		put(w, " | ");
		put_line(w);
		put(w, " |\n");
	} else {
		put(w, starts[choice]);
		put_line(w);
	}
	put(w, "\n");
}

/* Whether the page shows a marker outside of code: a letter of any word is none. */
static bool shows_marker(const char *html)
{
	for (const char *at = html; *at; at++) {
		if (strncmp(at, "<code", 5) == 0) {
			at = strstr(at, "</code>");
		} else if (*at == '<') {
			at = strchr(at, '>');
		} else if (strchr("*_~`[]", *at)) {
			return true;
		}
	}
	return false;
}

static void check_preview(const char *text, size_t len)
{
	bool open;
	struct buffer html = {0};
	struct buffer healed = heal(text, len, &open);
	buffer_cstr(&healed);
	markdown_to_html(&(struct markdown){.text = healed.data, .len = healed.len}, &html);
	if (shows_marker(buffer_cstr(&html))) {
		fprintf(stderr, "---\n%.*s\n--- is healed as\n%s\n--- and shown as\n%s", (int)len,
			text, healed.data, html.data);
		fuzz_check(false, "a preview shows no marker");
	}
	buffer_finish(&html);
	buffer_finish(&healed);
}

static void check_grammar(struct fuzz_input *plan)
{
	struct writer w = {.plan = plan};
	size_t at = fuzz_take_up_to(plan, 1024);
	while (plan->plan_len && w.text.len < 1024) {
		put_block(&w);
		if (fuzz_take(plan) % 2) {
			put(&w, "\n");
		}
	}
	at = at < w.text.len ? at : w.text.len;
	for (size_t end = at; end <= w.text.len && end < at + 32; end++) {
		/* What is shown is whole characters. */
		if (end == w.text.len || ((unsigned char)w.text.data[end] & 0xc0) != 0x80) {
			check_preview(w.text.data, end);
		}
	}
	check_preview(w.text.len ? w.text.data : "", w.text.len);
	buffer_finish(&w.text);
}

/* --- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_split(data, size);
	struct buffer much;
	if (fuzz_repeat(&in, REPEAT_SIZE, &much)) {
		check_cut(much.data, much.len);
		buffer_finish(&much);
		return 0;
	}
	for (size_t end = in.len > CUTS_MAX ? in.len - CUTS_MAX : 0; end <= in.len; end++) {
		check_cut(in.text, end);
	}
	if (in.plan_len) {
		check_grammar(&in);
	}
	return 0;
}
