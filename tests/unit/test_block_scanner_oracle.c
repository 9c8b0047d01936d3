/* The scanner against cmark-gfm (tests/support/block_oracle.h), and cut in every way. */
#include "block_oracle.h"
#include "block_scanner_soup.h"
#include "corpus.h"
#include "examples.h"

/* ---- Running the scanner ---- */

enum cutting {
	WHOLE,
	BYTEWISE,
	RANDOMLY,
	SAVED, /* bytewise, in a new scanner after each byte */
};

static size_t next_piece(size_t left, enum cutting cutting)
{
	size_t len = cutting == WHOLE ? left : cutting == RANDOMLY ? soup_random() % 7 + 1 : 1;
	return len < left ? len : left;
}

/* Finds the blocks, and checks on the way that what was called decided stays where it is. */
static void find_starts(
	const char *text, size_t len, enum cutting cutting, struct block_starts *ret)
{
	struct block_scanner *s = block_scanner_create();
	size_t start = 0;
	size_t decided = 0;
	ret->count = 0;
	block_starts_add(ret, 0, false);
	for (size_t at = 0; at < len;) {
		size_t end;
		at += block_scanner_feed(s, text + at, next_piece(len - at, cutting), &end);
		if (end != BLOCK_SCANNER_NO_END) {
			assert_true(end > 0);
			assert_true(end >= decided);
			start += end;
			decided = 0;
			block_starts_add(ret, start, false);
		}
		assert_int_equal(block_scanner_length(s), at - start);
		assert_true(block_scanner_decided(s) >= decided);
		decided = block_scanner_decided(s);
		assert_true(decided <= at - start);
		if (cutting == SAVED) {
			s = soup_reload(s);
		}
	}
	block_scanner_destroy(s);
}

static void check_cut(
	const char *text, size_t len, enum cutting cutting, const struct block_starts *want)
{
	static struct block_starts got;
	find_starts(text, len, cutting, &got);
	if (got.count != want->count || memcmp(got.at, want->at, got.count * sizeof(size_t)) != 0) {
		soup_fail("the cut made a difference", text, len);
	}
}

/* Reads what the other scanner has read by itself, byte by byte; both must end the same blocks. */
static void follow_bytewise(struct block_scanner *s, const char *text, size_t len, size_t want)
{
	for (size_t at = 0; at < len; at++) {
		size_t end;
		assert_int_equal(block_scanner_feed(s, text + at, 1, &end), 1);
		assert_int_equal(end, at + 1 == len ? want : BLOCK_SCANNER_NO_END);
	}
}

/* Bytes read many at once must leave the very state behind that they leave one by one. */
static void check_states(const char *text, size_t len, size_t longest)
{
	struct block_scanner *fast = block_scanner_create();
	struct block_scanner *slow = block_scanner_create();
	struct buffer got = {0};
	struct buffer want = {0};
	size_t used;
	for (size_t at = 0; at < len; at += used) {
		size_t end;
		size_t piece = soup_random() % longest + 1;
		used = block_scanner_feed(
			fast, text + at, piece < len - at ? piece : len - at, &end);
		follow_bytewise(slow, text + at, used, end);
		buffer_clear(&got);
		buffer_clear(&want);
		block_scanner_save(fast, &got);
		block_scanner_save(slow, &want);
		if (got.len != want.len || memcmp(got.data, want.data, got.len) != 0) {
			soup_fail("another state than byte by byte", text, at + used);
		}
	}
	buffer_finish(&got);
	buffer_finish(&want);
	block_scanner_destroy(fast);
	block_scanner_destroy(slow);
}

/* The last line is given an end: a line that could still go on is undecided, and rightly so. */
static void check_text(const char *text, size_t len, bool all_cuts)
{
	static struct block_starts got;
	static struct block_starts want;
	struct buffer lines = {0};
	buffer_append(&lines, text, len);
	if (len == 0 || !strchr("\r\n", text[len - 1]) || !text[len - 1]) {
		buffer_append_char(&lines, '\n');
	}
	block_oracle_find(buffer_cstr(&lines), lines.len, &want);
	find_starts(lines.data, lines.len, WHOLE, &got);
	if (!block_oracle_accepts(lines.data, lines.len, &got, &want)) {
		soup_fail("blocks differ from cmark-gfm's", lines.data, lines.len);
	}
	if (!memmem(lines.data, lines.len, "]:", 2) &&
		!block_oracle_renders_alike(lines.data, lines.len, &got)) {
		soup_fail("the blocks render differently", lines.data, lines.len);
	}
	check_cut(lines.data, lines.len, BYTEWISE, &got);
	check_states(lines.data, lines.len, lines.len);
	if (all_cuts) {
		check_cut(lines.data, lines.len, RANDOMLY, &got);
		check_cut(lines.data, lines.len, RANDOMLY, &got);
		check_cut(lines.data, lines.len, SAVED, &got);
		check_states(lines.data, lines.len, 20);
	}
	buffer_finish(&lines);
}

/* ---- Against the oracle ---- */

static const char *const texts[] = {
	"",
	"one\ntwo\n\nthree",
	"\n\n  \nlate start\n\n\nnext",
	"# a\n## b\n#c\n####### d\ntext\n# e",
	"a\n===\nb\n---\nc\n***\n---\n",
	"- a\n- b\n\n- c\n\n\n* d\n* e\n+ f\n",
	"- - - x\n- - -\n* - -\n* * *\n",
	"1. a\n2. b\n\n3) c\n10) d\n\ntext\n2. no\n1. yes",
	"- a\n\n  b\n\n      code\n\n c\n",
	"-\n\n  gone\n-\n  kept\n",
	"- a\nlazy\n> b\nlazy\n===\n\nc",
	"> > a\n> b\nc\n\n> - d\n> - e\n  - f",
	"```js\na\n\n- b\n```\nc\n~~~~\n```\n~~~\n~~~~~~\nd",
	"```a`b\n```\n``` ```\n",
	"- ```\n  a\n\n  b\n  ```\n- c\n  ```\nd\n",
	"    a\n\n    b\n  c\n    d\n",
	"| a | b |\n|---|---|\n| 1 | 2 |\ntext\n\nb",
	"p\nq\n| a | b |\n| - | - |\n| c |\n|\nr",
	"p\na \\| b\n| --- |\n",
	"p\n2. a | b\n:-|-:\nc",
	"p `x\\|y`\nh\n|-|\n",
	"> a | b\n> -|-\n> c\nd\n",
	"| a |\n| - |\n<div>\n\n| a |\n|-|\n- x\n",
	"a\n<b>\n\n<b>\nc\n\n<!-- x\n\ny --> z\nq\n<pre>\n\n</PRE>\nt",
	"<?a\n\n?>\nb\n<!X\n\n>\nc\n<![CDATA[\n\n]]>\nd\n</div\nx\n\ny",
	"<a href=\"x>y\" b='c' d=e/>  \nx\n\n<a\nb>\n\n</ins >\nz\n",
	"a\r\n\r\nb\rc\r\r- d\r\n  e\n\r\nf",
	"\t- a\n -\tb\n\t\tc\n\td\n",
	"-\ta\n\n\tb\n\n  \tc\n",
	"[a]: /b\n\"t\"\n[c]: d\n===\ne\n",
	"- [a]: /b\n\n\n  c\n",
	"\xef\xbb\xbf# a\n\nb",
	"-\v\n\n-\f- a\n-\n",
	/* What versions of cmark-gfm read differently: see enum block_rules. */
	"<textarea>\na\n\nb</textarea>\nc\n",
	"<TEXTAREA\n\n</xtextarea> </pre>\nb\n\n<pre>\n\n</textArea> x\nc\n",
	"a\n<textarea >\n\n</textarea\n\n> </ textarea>\n\n<source>\n\nd",
	"a\n<source src=\"x\">\nb\n\n</source>\nc\n\n<source/>\nd\n",
	"a\n|-|-|\nb\n|-|\nc\n\nd\n|-|\n",
	"|\n|-|\nb\n|-|\n\n> a\n> |-|-|\n> b\n> |-|\n\nc",
	"[a]: /b\n|-|\n===\nc\n|-|\n\nd",
	"a|b\n    |-|\nc|d\n|-|-|\ne\n",
};

static void test_written_texts(void **state)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		check_text(texts[i], strlen(texts[i]), true);
	}
}

static void test_nul_and_invalid_bytes(void **state)
{
	static const char text[] = "a\0\n\0\n\n- \xff\n\xc3\n\0-\n\n\0\n```\n\0\n```\n|\0|\n|-|\n";
	check_text(text, sizeof(text) - 1, true);
}

static void visit_example(void *arg, const struct example *example)
{
	check_text(example->markdown, example->len, true);
	(void)arg;
}

static void test_specification(void **state)
{
	size_t count = spec_examples_each(visit_example, NULL);
	assert_true(count > 600 || !getenv("HOLDFAST_SPEC_TXT"));
	(void)state;
}

static void test_examples_of_gfm(void **state)
{
	assert_true(examples_each(HOLDFAST_SOURCE_ROOT "/tests/proof/gfm_examples.txt",
			    visit_example, NULL) > 50);
	(void)state;
}

static void visit_file(void *arg, const char *name, const char *text, size_t len)
{
	check_text(text, len, true);
	(void)arg;
	(void)name;
}

static void test_corpus(void **state)
{
	corpus_each("markdown", visit_file, NULL);
	(void)state;
}

static void test_soup(void **state)
{
	char text[SOUP_MAX];
	soup_state = 0x9e3779b97f4a7c15;
	for (int i = 0; i < 20000; i++) {
		check_text(text, soup_cook(text, soup_random() % 60 + 1), i % 16 == 0);
	}
}

/* Long lines of which the end decides; each must be read whole whatever is kept of them. */
static void test_long_lines(void **state)
{
	static const char *const parts[][3] = {
		{"a\n\n<!-- ", "x", " -->\nb\n"},
		{"a\n\n<a b=\"", "x", "\">\nb\n\nc\n"},
		{"x\n| a", " |", " b |\n|-|\nc\n"},
		{"x\n", "=", "\ny\n"},
		{"x\n", "-", "\ny\n"},
		{"x\n***", "* ", "\ny\n"},
		{"x\n***", "*", "a\ny\n"},
		{"x\n```", "y", "`\n"},
		{"- a\n\n  ", "b ", "c\nd\n\ne"},
		{"", " ", "a\n\nb"},
		{"-", " ", "a\n- b\n\nc"},
		{"p\n|-", "|-", "|\n"},
		{"p\nword", " word | \\| \\", " |\n|-|-|\n"},
		{"p\n", " ", "x\n"},
		{"```\n", " ", "```\n```\nb\n"},
		{"<textarea>\n\n", "x", "</textarea>\nb\n\nc\n"},
		{"<pre>\n\n", "</", "textarea>\nb\n\nc\n"},
	};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct buffer text = {0};
		buffer_append_str(&text, parts[i][0]);
		for (int n = 0; n < 9000; n++) {
			buffer_append_str(&text, parts[i][1]);
		}
		buffer_append_str(&text, parts[i][2]);
		check_text(text.data, text.len, false);
		buffer_finish(&text);
	}
}

/* Below a fence a line is a block of its own; below text that only looks like one it is more text. */
static void test_many_marks(void **state)
{
	static const struct {
		const char *mark;
		size_t opens;
	} marks[] = {{"- ", 1}, {"> ", 1}, {"1. ", 1}, {"> - ", 2}, {"- > ", 2}};
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		for (size_t opened = 96; opened <= 100; opened += marks[i].opens) {
			struct buffer text = {0};
			for (size_t n = 0; n < opened / marks[i].opens; n++) {
				buffer_append_str(&text, marks[i].mark);
			}
			buffer_append_str(&text, "```\nb\n");
			check_text(text.data, text.len, false);
			buffer_finish(&text);
		}
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_texts),
		cmocka_unit_test(test_nul_and_invalid_bytes),
		cmocka_unit_test(test_specification),
		cmocka_unit_test(test_examples_of_gfm),
		cmocka_unit_test(test_corpus),
		cmocka_unit_test(test_soup),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_many_marks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
