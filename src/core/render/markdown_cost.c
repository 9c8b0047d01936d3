/* Estimates what a markdown text costs to parse and render: markdown_cost_is_fair(). */
#include "render_internal.h"

#include "holdfast/bytes.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

/*
 * All figures below are upper bounds. Inline constructs, tables and reference definitions cannot
 * cross a blank line or a bullet, so whatever can become quadratic is counted between those (a
 * "run") and multiplied by the length of the run or of another count. The factors are nanoseconds,
 * measured on the worst known pattern of each kind.
 */
#define BUDGET_NS           (50 * 1000 * 1000)
#define NESTING_MAX         500
#define REFERENCE_BYTES_MAX (16 * 1024 * 1024)
#define TEXT_MAX            (4 * 1024 * 1024)

/* After this many at signs cmark-gfm stops looking for e-mail addresses in a text. */
#define AT_SIGNS_MAX 1000

struct word {
	size_t start;
	size_t link_starts; /* "www." and "://" */
	size_t parens; /* each `)` at a link's end rescans the link */
	size_t at_signs;
};

struct run {
	size_t start;
	size_t lines;
	size_t closers; /* `]` */
	size_t images; /* `![`: each link walks over all open ones */
	size_t raw_starts; /* `<!` and `<?`: each can cause a scan to the end of the run */
	size_t delims; /* runs of `*`, `_` and `~`: each link can walk over all of them */
	size_t at_signs;
	uint64_t pipes_squared; /* summed over lines: each cell is appended by walking a list */
	size_t columns; /* most cells of any line that could be a table's delimiter row */
	size_t definition; /* start of the first possible definition, or SIZE_MAX */
	bool defines;
	struct word word;
};

struct cost {
	const char *text;
	size_t len;
	uint64_t ns;
	size_t lines;
	size_t nesting; /* deepest possible nesting of containers */
	size_t closers;
	size_t definition_len; /* longest possible reference definition */
	struct run run;
};

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static size_t line_end(const char *text, size_t at, size_t len)
{
	return at + bytes_find_two(text + at, len - at, '\n', '\r');
}

static void end_word(struct cost *c, size_t end)
{
	struct word *w = &c->run.word;
	uint64_t len = end - w->start;
	c->ns += min(w->at_signs, AT_SIGNS_MAX) * len * 2;
	if (w->link_starts) {
		c->ns += w->link_starts * len * 5 + w->parens * len / 2;
	}
	*w = (struct word){.start = end + 1};
}

static void end_run(struct cost *c, size_t end)
{
	struct run *r = &c->run;
	uint64_t len = end - r->start;
	c->ns += ((uint64_t)r->images + r->delims) * r->closers * 4;
	c->ns += r->raw_starts * len / 2;
	c->ns += min(r->at_signs, AT_SIGNS_MAX) * len / 2;
	c->ns += r->columns ? r->pipes_squared * 3 : 0;
	uint64_t cells = (uint64_t)r->columns * r->lines;
	c->ns += cells * 300;
	c->closers += r->closers;
	if (r->defines && end - r->definition > c->definition_len) {
		c->definition_len = end - r->definition;
	}
	*r = (struct run){.definition = SIZE_MAX};
}

/* Counts the containers that a line can open or continue. Returns where its text begins. */
static size_t count_nesting(struct cost *c, size_t at, size_t end)
{
	size_t markers = 0;
	size_t columns = 0;
	while (at < end) {
		char ch = c->text[at];
		bool spaced = at + 1 == end || is_blank(c->text[at + 1]);
		if (is_blank(ch)) {
			columns += ch == '\t' ? 4 : 1;
		} else if (ch == '>') {
			markers++;
		} else if ((ch == '-' || ch == '*' || ch == '+' || ch == '.' || ch == ')') &&
			   spaced) {
			markers++;
		} else if (ch < '0' || ch > '9') {
			break;
		}
		at++;
	}
	/* Each continued list level is indented by at least two columns. */
	size_t nesting = markers + columns / 2;
	if (nesting > c->nesting) {
		c->nesting = nesting;
	}
	return at;
}

static size_t count_pipes(const char *text, size_t len)
{
	size_t pipes = 0;
	const char *end = text + len;
	while ((text = memchr(text, '|', (size_t)(end - text)))) {
		pipes++;
		text++;
	}
	return pipes;
}

static bool may_be_delimiter_row(const char *text, size_t len)
{
	bool dash = false;
	for (size_t at = 0; at < len; at++) {
		dash = dash || text[at] == '-';
		if (!text[at] || !strchr("|:- \t\v\f>", text[at])) {
			return false;
		}
	}
	return dash;
}

static void count_table_row(struct cost *c, size_t start, size_t end)
{
	size_t pipes = count_pipes(c->text + start, end - start);
	c->run.pipes_squared += (uint64_t)pipes * pipes;
	if (!may_be_delimiter_row(c->text + start, end - start)) {
		return;
	}
	c->run.columns = pipes + 1 > c->run.columns ? pipes + 1 : c->run.columns;
	/* The whole paragraph so far is scanned for a header, and each of its lines for a `|`. */
	uint64_t before = start - c->run.start;
	c->ns += before * 20 + c->run.pipes_squared * 3 + c->run.lines * before / 2;
}

static bool starts_with(const struct cost *c, size_t at, const char *what)
{
	size_t len = strlen(what);
	return c->len - at >= len && memcmp(c->text + at, what, len) == 0;
}

/* The characters that count_char() counts. */
static const bool is_counted[UCHAR_MAX + 1] = {
	[' '] = true,
	['\t'] = true,
	[']'] = true,
	['*'] = true,
	['_'] = true,
	['~'] = true,
	['!'] = true,
	['<'] = true,
	['@'] = true,
	[')'] = true,
	[':'] = true,
	['w'] = true,
};

static void count_char(struct cost *c, size_t at)
{
	struct run *r = &c->run;
	switch (c->text[at]) {
	case ' ':
	case '\t':
		end_word(c, at);
		break;
	case ']':
		r->closers++;
		r->defines = r->defines || (r->definition != SIZE_MAX && starts_with(c, at, "]:"));
		break;
	case '*':
	case '_':
	case '~':
		r->delims += !at || c->text[at - 1] != c->text[at];
		break;
	case '!':
		r->images += starts_with(c, at, "![");
		break;
	case '<':
		r->raw_starts += starts_with(c, at, "<!") || starts_with(c, at, "<?");
		break;
	case '@':
		r->at_signs++;
		r->word.at_signs++;
		break;
	case ')':
		r->word.parens++;
		break;
	case ':':
		r->word.link_starts += starts_with(c, at, "://");
		break;
	case 'w':
		r->word.link_starts += starts_with(c, at, "www.");
		break;
	default:
		break;
	}
}

/* Whether a list item begins here that ends any paragraph or table before it. */
static bool starts_item(const struct cost *c, size_t at, size_t text, size_t end)
{
	size_t next = text + 1;
	while (next < end && is_blank(c->text[next])) {
		next++;
	}
	return text - at <= 3 && !memchr(c->text + at, '\t', text - at) && next > text + 1 &&
	       next < end && strchr("-*+", c->text[text]) && c->text[text];
}

static void count_line(struct cost *c, size_t at, size_t end)
{
	c->lines++;
	size_t text = at;
	while (text < end && is_blank(c->text[text])) {
		text++;
	}
	if (text == end || starts_item(c, at, text, end)) {
		end_run(c, at);
		c->run.start = at;
	}
	if (text == end) {
		return;
	}
	c->run.lines++;
	text = count_nesting(c, at, end);
	if (text < end && c->text[text] == '[' && c->run.definition == SIZE_MAX) {
		c->run.definition = text;
	}
	count_table_row(c, at, end);
	c->run.word = (struct word){.start = at};
	for (size_t i = at; i < end; i++) {
		if (is_counted[(unsigned char)c->text[i]]) {
			count_char(c, i);
		}
	}
	end_word(c, end);
}

/*
 * Skips a fence at the very start of the text: its content is code, which costs nothing. Returns
 * the offset after it, or 0 if there is no fence.
 */
static size_t skip_fence(const char *text, size_t len)
{
	size_t end = line_end(text, 0, len);
	size_t at = 0;
	while (at < end && at < 3 && text[at] == ' ') {
		at++;
	}
	char mark = at < end ? text[at] : '\0';
	size_t marks = 0;
	while (at + marks < end && text[at + marks] == mark) {
		marks++;
	}
	/* cmark-gfm stores a fence's length in a byte; avoid lengths near its limit. */
	if ((mark != '`' && mark != '~') || marks < 3 || marks > 200) {
		return 0;
	}
	if (mark == '`' && memchr(text + at + marks, '`', end - at - marks)) {
		return 0;
	}
	for (size_t line = end; line < len; line = end) {
		line++;
		end = line_end(text, line, len);
		at = line;
		while (at < end && at - line < 3 && text[at] == ' ') {
			at++;
		}
		size_t closing = at;
		while (closing < end && text[closing] == mark) {
			closing++;
		}
		size_t rest = closing;
		while (rest < end && is_blank(text[rest])) {
			rest++;
		}
		if (closing - at >= marks && rest == end) {
			return end;
		}
	}
	return len;
}

bool markdown_cost_is_fair(const char *text, size_t len)
{
	struct cost c = {.text = text, .len = len};
	size_t at = skip_fence(text, len);
	c.run = (struct run){.start = at, .definition = SIZE_MAX};
	while (at < len) {
		size_t end = line_end(text, at, len);
		count_line(&c, at, end);
		at = end + 1;
	}
	end_run(&c, len);
	c.ns += (uint64_t)c.nesting * c.lines * 10;
	return len <= TEXT_MAX && c.ns <= BUDGET_NS && c.nesting <= NESTING_MAX &&
	       (uint64_t)c.closers * c.definition_len <= REFERENCE_BYTES_MAX;
}
