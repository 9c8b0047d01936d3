#include "inline_guard.h"

#include "inline_guard_internal.h"

#include <string.h>

#define NESTING_MAX 32 /* openers remembered; beyond this, the oldest count as text */
#define ROOM        (8 * NESTING_MAX) /* larger, so that entries are rarely moved */
#define TICKS_MAX   80 /* cmark-gfm's limit: a longer run of backticks is text */
/* A bracket that has been open for more bytes does not count as a link's. */
#define LINK_TEXT_MAX 400

struct delim {
	size_t pos;
	size_t count; /* characters not matched yet */
	size_t length; /* of the whole run, for the multiple-of-3 rule */
	char mark;
	bool can_close;
};

struct bracket {
	size_t pos;
	size_t len; /* 1 for `[`, 2 for `![` */
};

struct guard {
	const char *text;
	struct inline_run run;
	size_t pos;
	size_t end; /* end of what is shown */
	struct delim *delims; /* somewhere in delim_room */
	size_t delim_count;
	struct bracket *brackets;
	size_t bracket_count;
	size_t code; /* start of the open code span */
	size_t code_ticks; /* its number of backticks; 0: none is open */
	struct bracket link; /* the unfinished link or image; len 0: none */
	bool dangling; /* the text ends in a marker whose meaning is open */
	struct delim delim_room[ROOM];
	struct bracket bracket_room[ROOM];
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_at(const struct guard *g, size_t at, char c)
{
	return at < g->end && g->text[at] == c;
}

static size_t run_len(const struct guard *g, size_t at)
{
	size_t len = 1;
	while (is_at(g, at + len, g->text[at])) {
		len++;
	}
	return len;
}

/* The end of the code span whose opening backticks end at `at`, or 0. */
static size_t find_code_end(const struct guard *g, size_t at, size_t ticks)
{
	while (at < g->end) {
		const char *next = memchr(g->text + at, '`', g->end - at);
		if (!next) {
			return 0;
		}
		at = (size_t)(next - g->text);
		size_t len = run_len(g, at);
		at += len;
		if (len == ticks) {
			return at;
		}
	}
	return 0;
}

static void read_backticks(struct guard *g)
{
	size_t ticks = run_len(g, g->pos);
	if (ticks > TICKS_MAX) {
		g->pos += ticks;
		return;
	}
	size_t end = find_code_end(g, g->pos + ticks, ticks);
	if (!end) {
		/* Code binds tightest: markers in it do not count. */
		g->code = g->pos;
		g->code_ticks = ticks;
		end = g->end;
	}
	g->pos = end;
}

static bool find_opener(
	const struct guard *g, char mark, size_t length, bool can_open, size_t *ret_index)
{
	for (size_t i = g->delim_count; i-- > 0;) {
		const struct delim *d = &g->delims[i];
		if (d->mark != mark || (mark == '~' && d->length != length)) {
			continue;
		}
		if ((d->can_close || can_open) && length % 3 != 0 &&
			(d->length + length) % 3 == 0) {
			continue;
		}
		*ret_index = i;
		return true;
	}
	return false;
}

static void push_delim(struct guard *g, const struct delim *d)
{
	if (g->delim_count == NESTING_MAX) {
		g->delims++;
		g->delim_count--;
	}
	if (g->delims + g->delim_count == g->delim_room + ROOM) {
		memcpy(g->delim_room, g->delims, sizeof(*d) * g->delim_count);
		g->delims = g->delim_room;
	}
	g->delims[g->delim_count++] = *d;
}

/*
 * Matches a closer of `length` characters with openers; returns how many characters are left. With
 * `whole`, only complete openers are matched.
 */
static size_t close_delims(struct guard *g, char mark, size_t length, bool can_open, bool whole)
{
	size_t count = length;
	size_t i;
	while (count && find_opener(g, mark, length, can_open, &i)) {
		struct delim *d = &g->delims[i];
		if (whole && d->count > count) {
			break;
		}
		size_t used = d->count < count ? d->count : count;
		d->count -= used;
		count -= used;
		g->delim_count = d->count ? i + 1 : i;
	}
	return count;
}

static void read_delims(struct guard *g)
{
	char mark = g->text[g->pos];
	size_t length = run_len(g, g->pos);
	size_t after = g->pos + length;
	uint32_t prev = inline_char_before(g->text, g->run.start, g->pos);
	uint32_t next = inline_char_after(g->text, after, g->end);
	bool prev_punct = inline_char_is_punctuation(prev);
	bool next_punct = inline_char_is_punctuation(next);
	bool left = !inline_char_is_space(next) &&
		    (!next_punct || prev_punct || inline_char_is_space(prev));
	bool right = !inline_char_is_space(prev) &&
		     (!prev_punct || next_punct || inline_char_is_space(next));
	bool can_open = left && (mark != '_' || !right || prev_punct);
	bool can_close = right && (mark != '_' || !left || next_punct);
	g->pos = after;
	if (mark == '~' && length > 2) {
		return;
	}
	if (after == g->end) {
		/* It may get longer, or open something: only what certainly closes is kept. */
		size_t dangling = can_close ? close_delims(g, mark, length, false, true) : length;
		g->end -= dangling;
		g->dangling = g->dangling || dangling;
		return;
	}
	size_t rest = can_close ? close_delims(g, mark, length, can_open, false) : length;
	/* `5*3` is a product far more often than emphasis within a word. */
	bool in_word = mark == '*' && length == 1 && prev < 0x80 && next < 0x80 &&
		       is_alnum((char)prev) && is_alnum((char)next);
	if (rest && can_open && !in_word) {
		push_delim(g, &(struct delim){after - rest, rest, length, mark, can_close});
	}
}

static void push_bracket(struct guard *g, size_t len)
{
	if (g->bracket_count == NESTING_MAX) {
		g->brackets++;
		g->bracket_count--;
	}
	if (g->brackets + g->bracket_count == g->bracket_room + ROOM) {
		memcpy(g->bracket_room, g->brackets, sizeof(g->brackets[0]) * g->bracket_count);
		g->brackets = g->bracket_room;
	}
	g->brackets[g->bracket_count++] = (struct bracket){g->pos, len};
	g->pos += len;
}

/*
 * Whether a bracket can belong to a link: one that follows a letter or a digit is probably an
 * index.
 */
static bool may_be_link(const struct guard *g, const struct bracket *b)
{
	return b->len == 2 || b->pos == g->run.start || !is_alnum(g->text[b->pos - 1]);
}

static void read_close_bracket(struct guard *g)
{
	size_t close = g->pos++;
	if (!g->bracket_count) {
		return;
	}
	struct bracket b = g->brackets[--g->bracket_count];
	bool undecided = g->pos == g->end && may_be_link(g, &b);
	if (is_at(g, g->pos, '(')) {
		size_t after = inline_link_skip_destination(g->text, g->pos, g->end);
		undecided = after > g->end;
		g->pos = after && !undecided ? after : g->pos;
	}
	if (undecided) {
		g->link = b;
		g->end = close;
		g->pos = close;
	}
}

static void read_escape(struct guard *g)
{
	if (g->pos + 1 == g->end) {
		/* It may escape what follows, and would escape what is appended. */
		g->end--;
		return;
	}
	g->pos++;
	if (inline_char_is_punctuation((unsigned char)g->text[g->pos])) {
		g->pos++;
	}
}

static void read_inline(struct guard *g)
{
	switch (g->text[g->pos]) {
	case '\\':
		read_escape(g);
		break;
	case '`':
		read_backticks(g);
		break;
	case '*':
	case '_':
	case '~':
		read_delims(g);
		break;
	case '[':
		push_bracket(g, 1);
		break;
	case '!':
		if (is_at(g, g->pos + 1, '[')) {
			push_bracket(g, 2);
		} else {
			g->pos++;
		}
		break;
	case ']':
		read_close_bracket(g);
		break;
	case '<':
		g->pos = inline_link_skip_pointy(g->text, g->pos, g->end);
		break;
	case 'h':
	case 'w':
		/* Inside brackets, an address is not a link of its own. */
		g->pos = g->bracket_count
				 ? g->pos + 1
				 : inline_link_skip_bare(g->text, g->run.start, g->pos, g->end);
		break;
	default:
		g->pos++;
		break;
	}
}

/* Keeps only the open brackets that a link will probably close. */
static void drop_old_brackets(struct guard *g)
{
	size_t kept = 0;
	for (size_t i = 0; i < g->bracket_count; i++) {
		const struct bracket *b = &g->brackets[i];
		if (g->end - b->pos <= LINK_TEXT_MAX && may_be_link(g, b)) {
			g->brackets[kept++] = *b;
		}
	}
	g->bracket_count = kept;
	if (g->link.len) {
		push_bracket(g, 0);
		g->brackets[g->bracket_count - 1] = g->link;
	}
}

static bool is_task_marker(const char *text, size_t len)
{
	static const char *const markers[] = {"[", "[ ", "[x", "[X", "[ ]", "[x]", "[X]"};
	for (size_t i = 0; i < sizeof(markers) / sizeof(markers[0]); i++) {
		if (strlen(markers[i]) == len && memcmp(text, markers[i], len) == 0) {
			return true;
		}
	}
	return false;
}

static void guard_read(struct guard *g, const char *text, size_t len)
{
	memset(g, 0, offsetof(struct guard, delim_room));
	g->text = text;
	g->run = inline_run_find(text, len);
	g->delims = g->delim_room;
	g->brackets = g->bracket_room;
	g->pos = g->run.start;
	g->end = g->run.end;
	if (g->run.is_item && is_task_marker(text + g->pos, g->end - g->pos)) {
		g->end = g->pos;
	}
	while (g->pos < g->end) {
		read_inline(g);
	}
	drop_old_brackets(g);
}

bool inline_guard_is_open(const char *text, size_t len)
{
	struct guard g;
	guard_read(&g, text, len);
	return g.code_ticks || g.delim_count || g.bracket_count || g.dangling;
}

static size_t trim(const struct guard *g, size_t end)
{
	while (end > g->run.start && is_space(g->text[end - 1])) {
		end--;
	}
	return end;
}

/* Removes the open code span if it is empty so far, and a part of its closing backticks. */
static void heal_code(struct guard *g)
{
	size_t content = g->code + g->code_ticks;
	while (g->code_ticks && g->end > content && g->text[g->end - 1] == '`') {
		g->end--;
	}
	if (g->code_ticks && trim(g, g->end) <= content) {
		g->end = g->code;
		g->code_ticks = 0;
	}
}

/* Removes openers that nothing follows; returns where the text without trailing blanks ends. */
static size_t drop_empty_openers(struct guard *g)
{
	for (;;) {
		size_t tail = trim(g, g->end);
		const struct delim *d = g->delim_count ? &g->delims[g->delim_count - 1] : NULL;
		const struct bracket *b =
			g->bracket_count ? &g->brackets[g->bracket_count - 1] : NULL;
		if (d && d->pos + d->count >= tail) {
			g->end = d->pos;
			g->delim_count--;
		} else if (b && b->pos + b->len >= tail) {
			g->end = b->pos;
			g->bracket_count--;
		} else {
			return tail;
		}
	}
}

static void append_repeated(struct buffer *out, char c, size_t count)
{
	while (count--) {
		buffer_append_char(out, c);
	}
}

void inline_guard_heal(const char *text, size_t len, struct buffer *out)
{
	struct guard g;
	guard_read(&g, text, len);
	heal_code(&g);
	size_t tail = drop_empty_openers(&g);
	size_t at = 0;
	for (size_t i = 0; i < g.bracket_count; i++) {
		buffer_append(out, text + at, g.brackets[i].pos - at);
		at = g.brackets[i].pos + g.brackets[i].len;
	}
	if (g.code_ticks && text[tail - 1] == '`') {
		/* Backticks in the span must not join those that close it. */
		tail = g.end;
	}
	buffer_append(out, text + at, tail - at);
	append_repeated(out, '`', g.code_ticks);
	for (size_t i = g.delim_count; i-- > 0;) {
		append_repeated(out, g.delims[i].mark, g.delims[i].count);
	}
	buffer_append(out, text + tail, g.end - tail);
}
