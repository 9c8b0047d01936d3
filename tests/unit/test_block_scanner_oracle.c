/*
 * The oracle here is cmark-gfm itself: a block must begin on every line on which a child of
 * the document node begins, and nowhere else, and the blocks rendered one by one must give what the
 * whole text gives. Two things cannot be compared: a paragraph of nothing but link reference
 * definitions is no node, and definitions above a table have no line of their own.
 */
#include "block_scanner_soup.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>
#include <dirent.h>
#include <stdio.h>

#define STARTS_MAX 8192

struct starts {
	size_t count;
	size_t at[STARTS_MAX];
	bool doubtful[STARTS_MAX]; /* the scanner may see none here */
};

static void add_start(struct starts *s, size_t at, bool doubtful)
{
	assert_true(s->count < STARTS_MAX);
	s->at[s->count] = at;
	s->doubtful[s->count++] = doubtful;
}

/* ---- The oracle ---- */

static cmark_node *parse(const char *text, size_t len, char **ret_html)
{
	cmark_gfm_core_extensions_ensure_registered();
	cmark_parser *parser = cmark_parser_new(CMARK_OPT_VALIDATE_UTF8);
	cmark_parser_attach_syntax_extension(parser, cmark_find_syntax_extension("table"));
	cmark_parser_feed(parser, text, len);
	cmark_node *root = cmark_parser_finish(parser);
	if (ret_html) {
		*ret_html = cmark_render_html(
			root, CMARK_OPT_UNSAFE, cmark_parser_get_syntax_extensions(parser));
	}
	cmark_parser_free(parser);
	return root;
}

/* Where line number `line` (from 1) begins, and the end of the text behind the last. */
static size_t line_start(const char *text, size_t len, int line)
{
	size_t at = 0;
	while (line > 1 && at < len) {
		bool crlf = text[at] == '\r' && at + 1 < len && text[at + 1] == '\n';
		line -= text[at] == '\n' || (text[at] == '\r' && !crlf);
		at++;
	}
	return at;
}

static size_t skip_blanks(const char *text, size_t len, size_t at)
{
	if (at == 0 && len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		at = 3;
	}
	while (at < len && strchr(" \t\r\n", text[at]) && text[at]) {
		at++;
	}
	return at;
}

static int header_line(cmark_node *table)
{
	int rows = 0;
	for (cmark_node *r = cmark_node_first_child(table); r; r = cmark_node_next(r)) {
		rows++;
	}
	return cmark_node_get_end_line(table) - rows;
}

/*
 * cmark-gfm gives a table the first line of the paragraph its header row was in, and the paragraph
 * above it none. The scanner parts the two only where that changes nothing.
 */
static void add_table(
	struct starts *s, cmark_node *table, bool after_text, const char *text, size_t len)
{
	size_t first = line_start(text, len, cmark_node_get_start_line(table));
	size_t header = line_start(text, len, header_line(table));
	size_t below = line_start(text, len, header_line(table) + 1);
	cmark_node *alone = parse(text + header, below - header, NULL);
	cmark_node *child = cmark_node_first_child(alone);
	bool plain = !child || cmark_node_get_type(child) == CMARK_NODE_PARAGRAPH;
	cmark_node_free(alone);
	bool has_refs = text[skip_blanks(text, len, first)] == '[';
	if (after_text) {
		add_start(s, first, false);
		plain = plain && !memmem(text + first, header - first, "\\|", 2);
	}
	if (plain && (after_text || header != first)) {
		add_start(s, header, has_refs);
	} else if (!after_text) {
		add_start(s, first, false);
	}
}

static void find_expected(const char *text, size_t len, struct starts *ret)
{
	cmark_node *root = parse(text, len, NULL);
	bool after_text = false;
	ret->count = 0;
	for (cmark_node *n = cmark_node_first_child(root); n; n = cmark_node_next(n)) {
		int line = cmark_node_get_start_line(n);
		if (strcmp(cmark_node_get_type_string(n), "table") == 0) {
			add_table(ret, n, after_text, text, len);
		} else if (line > 0) {
			add_start(ret, line_start(text, len, line), false);
		}
		after_text = line == 0;
	}
	cmark_node_free(root);
}

/* The scanner's first block begins at 0, with the blank lines in front of it. */
static bool starts_match(
	const char *text, size_t len, const struct starts *got, const struct starts *want)
{
	size_t i = 1;
	size_t j = want->count > 0 && skip_blanks(text, len, 0) >= want->at[0];
	while (i < got->count || j < want->count) {
		bool got_next = i < got->count && (j == want->count || got->at[i] < want->at[j]);
		if (i < got->count && j < want->count && got->at[i] == want->at[j]) {
			i++;
			j++;
		} else if (got_next && text[skip_blanks(text, len, got->at[i])] == '[') {
			i++;
		} else if (!got_next && want->doubtful[j]) {
			j++;
		} else {
			return false;
		}
	}
	return true;
}

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
static void find_starts(const char *text, size_t len, enum cutting cutting, struct starts *ret)
{
	struct block_scanner *s = block_scanner_create();
	size_t start = 0;
	size_t decided = 0;
	ret->count = 0;
	add_start(ret, 0, false);
	for (size_t at = 0; at < len;) {
		size_t end;
		at += block_scanner_feed(s, text + at, next_piece(len - at, cutting), &end);
		if (end != BLOCK_SCANNER_NO_END) {
			assert_true(end > 0);
			assert_true(end >= decided);
			start += end;
			decided = 0;
			add_start(ret, start, false);
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

static bool renders_alike(const char *text, size_t len, const struct starts *starts)
{
	struct buffer joined = {0};
	char *html;
	for (size_t i = 0; i < starts->count; i++) {
		size_t end = i + 1 < starts->count ? starts->at[i + 1] : len;
		cmark_node_free(parse(text + starts->at[i], end - starts->at[i], &html));
		buffer_append_str(&joined, html);
		free(html);
	}
	cmark_node_free(parse(text, len, &html));
	bool alike = strcmp(buffer_cstr(&joined), html) == 0;
	free(html);
	buffer_finish(&joined);
	return alike;
}

static void check_cut(const char *text, size_t len, enum cutting cutting, const struct starts *want)
{
	static struct starts got;
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
	static struct starts got;
	static struct starts want;
	struct buffer lines = {0};
	buffer_append(&lines, text, len);
	if (len == 0 || !strchr("\r\n", text[len - 1]) || !text[len - 1]) {
		buffer_append_char(&lines, '\n');
	}
	find_expected(buffer_cstr(&lines), lines.len, &want);
	find_starts(lines.data, lines.len, WHOLE, &got);
	if (!starts_match(lines.data, lines.len, &got, &want)) {
		soup_fail("blocks differ from cmark-gfm's", lines.data, lines.len);
	}
	if (!memmem(lines.data, lines.len, "]:", 2) &&
		!renders_alike(lines.data, lines.len, &got)) {
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
		{"p\nword", " word | \\| \\", " |\n|-|-|\n"},
		{"p\n", " ", "x\n"},
		{"```\n", " ", "```\n```\nb\n"},
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
