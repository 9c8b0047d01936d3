/* The scanner against cmark-gfm (tests/support/block_oracle.h), and cut in every way. */
#include "block_oracle.h"
#include "block_scanner_soup.h"

#include <dirent.h>
#include <stdio.h>

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
	if (all_cuts) {
		check_cut(lines.data, lines.len, RANDOMLY, &got);
		check_cut(lines.data, lines.len, RANDOMLY, &got);
		check_cut(lines.data, lines.len, SAVED, &got);
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

static char *read_file(const char *path, size_t *ret_len)
{
	FILE *file = fopen(path, "rb");
	if (!file) {
		return NULL;
	}
	struct buffer bytes = {0};
	char piece[4096];
	size_t got;
	while ((got = fread(piece, 1, sizeof(piece), file)) > 0) {
		buffer_append(&bytes, piece, got);
	}
	fclose(file);
	*ret_len = bytes.len;
	buffer_append_char(&bytes, '\0');
	return bytes.data;
}

/* The arrow stands for a tab in the examples of the specification. */
static size_t undo_arrows(char *text, size_t len)
{
	size_t to = 0;
	for (size_t from = 0; from < len; from++) {
		if (from + 3 <= len && memcmp(text + from, "→", 3) == 0) {
			text[to++] = '\t';
			from += 2;
		} else {
			text[to++] = text[from];
		}
	}
	return to;
}

static void test_specification(void **state)
{
	static const char fence[] = "\n```````````````````````````````` example\n";
	const char *path = getenv("HOLDFAST_SPEC_TXT");
	size_t len;
	char *spec = path ? read_file(path, &len) : NULL;
	if (!spec) {
		print_message("HOLDFAST_SPEC_TXT does not name the CommonMark spec: skipped\n");
		skip();
	}
	int examples = 0;
	for (char *at = strstr(spec, fence); at; at = strstr(at, fence)) {
		at += sizeof(fence) - 1;
		char *end = at[0] == '.' && at[1] == '\n' ? at : strstr(at, "\n.\n") + 1;
		assert_non_null(end);
		check_text(at, undo_arrows(at, (size_t)(end - at)), true);
		at = end;
		examples++;
	}
	assert_true(examples > 600);
	free(spec);
}

static void corpus_folder(char *path, size_t size)
{
	const char *root = getenv("HOLDFAST_CORPUS");
#ifdef HOLDFAST_SOURCE_ROOT
	if (!root) {
		snprintf(path, size, "%s/../shared/corpus/markdown", HOLDFAST_SOURCE_ROOT);
		return;
	}
#endif
	snprintf(path, size, "%s/markdown", root ? root : "../shared/corpus");
}

static void test_corpus(void **state)
{
	char folder[1024];
	corpus_folder(folder, sizeof(folder));
	DIR *dir = opendir(folder);
	if (!dir) {
		print_message("no corpus (HOLDFAST_CORPUS): skipped\n");
		skip();
	}
	int files = 0;
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		char path[2048];
		size_t len;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		char *text = e->d_name[0] == '.' ? NULL : read_file(path, &len);
		if (text) {
			check_text(text, len, true);
			files++;
		}
		free(text);
	}
	closedir(dir);
	assert_true(files > 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_texts),
		cmocka_unit_test(test_nul_and_invalid_bytes),
		cmocka_unit_test(test_specification),
		cmocka_unit_test(test_corpus),
		cmocka_unit_test(test_soup),
		cmocka_unit_test(test_long_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
