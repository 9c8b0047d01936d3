#include "block_scanner_internal.h"

#include <string.h>

#define HTML_TEXTAREA_END (1 << 0) /* in html_tail.ends; bit 0 belongs to no kind */

enum start_state {
	START_LESS, /* after `<` */
	START_BANG,
	START_COMMENT, /* after `<!-` */
	START_CDATA,
	START_SLASH, /* after `</` */
	START_NAME,
	START_NAME_SLASH,
};

enum tag_state {
	TAG_LESS,
	TAG_NAME,
	TAG_SPACE,
	TAG_ATTRIBUTE,
	TAG_ATTRIBUTE_SPACE,
	TAG_EQUALS,
	TAG_BARE,
	TAG_SINGLE,
	TAG_DOUBLE,
	TAG_VALUE_END,
	TAG_SLASH,
	TAG_CLOSE,
	TAG_CLOSE_NAME,
	TAG_CLOSE_SPACE,
	TAG_DONE,
};

/* The tag names that open a block of kind 6 under all rules, sorted. */
static const char block_names[][HTML_NAME_MAX + 1] = {"address", "article", "aside", "base",
	"basefont", "blockquote", "body", "caption", "center", "col", "colgroup", "dd", "details",
	"dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form",
	"frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html",
	"iframe", "legend", "li", "link", "main", "menu", "menuitem", "nav", "noframes", "ol",
	"optgroup", "option", "p", "param", "section", "summary", "table", "tbody", "td", "tfoot",
	"th", "thead", "title", "tr", "track", "ul"};

static unsigned char lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c + ('a' - 'A')) : c;
}

static bool is_block_name(const char *name, enum block_rules rules)
{
	if (rules >= BLOCK_RULES_GFM_13 && strcmp(name, "source") == 0) {
		return true;
	}
	size_t low = 0;
	size_t high = sizeof(block_names) / sizeof(block_names[0]);
	while (low < high) {
		size_t mid = (low + high) / 2;
		int order = strcmp(name, block_names[mid]);
		if (order == 0) {
			return true;
		}
		if (order < 0) {
			high = mid;
		} else {
			low = mid + 1;
		}
	}
	return false;
}

static bool is_raw_name(const char *name, enum block_rules rules)
{
	if (rules >= BLOCK_RULES_GFM_13 && strcmp(name, "textarea") == 0) {
		return true;
	}
	return strcmp(name, "script") == 0 || strcmp(name, "pre") == 0 ||
	       strcmp(name, "style") == 0;
}

void html_start_begin(struct html_start *h)
{
	*h = (struct html_start){.state = START_LESS};
}

static int start_name(struct html_start *h, enum block_rules rules, unsigned char c)
{
	if (scan_is_letter(c) || scan_is_digit(c)) {
		if (h->name_len == HTML_NAME_MAX) {
			return HTML_DEAD;
		}
		h->name[h->name_len++] = (char)lower(c);
		h->name[h->name_len] = '\0';
		h->state = START_NAME;
		return 0;
	}
	if (c == '/') {
		h->state = START_NAME_SLASH;
		return is_block_name(h->name, rules) ? 0 : HTML_DEAD;
	}
	if (!scan_is_space(c) && c != '\n' && c != '>') {
		return HTML_DEAD;
	}
	if (is_block_name(h->name, rules)) {
		return 6;
	}
	return !h->closing && is_raw_name(h->name, rules) ? 1 : HTML_DEAD;
}

static int start_bang(struct html_start *h, unsigned char c)
{
	if (c >= 'A' && c <= 'Z') {
		return 4;
	}
	if (c == '-') {
		h->state = START_COMMENT;
		return 0;
	}
	h->state = START_CDATA;
	return c == '[' ? 0 : HTML_DEAD;
}

/* cmark-gfm ignores the case of the word; `name_len` counts the bytes seen of it. */
static int start_cdata(struct html_start *h, unsigned char c)
{
	static const unsigned char word[] = "cdata[";
	if (h->name_len >= sizeof(word) - 1 || lower(c) != word[h->name_len]) {
		return HTML_DEAD;
	}
	h->name_len++;
	return word[h->name_len] ? 0 : 5;
}

static int start_less(struct html_start *h, enum block_rules rules, unsigned char c)
{
	switch (c) {
	case '!':
		h->state = START_BANG;
		return 0;
	case '?':
		return 3;
	case '/':
		h->state = START_SLASH;
		h->closing = 1;
		return 0;
	default:
		return scan_is_letter(c) ? start_name(h, rules, c) : HTML_DEAD;
	}
}

int html_start_byte(struct html_start *h, enum block_rules rules, unsigned char c)
{
	switch (h->state) {
	case START_LESS:
		return start_less(h, rules, c);
	case START_BANG:
		return start_bang(h, c);
	case START_COMMENT:
		return c == '-' ? 2 : HTML_DEAD;
	case START_CDATA:
		return start_cdata(h, c);
	case START_SLASH:
		return scan_is_letter(c) ? start_name(h, rules, c) : HTML_DEAD;
	case START_NAME:
		return start_name(h, rules, c);
	default:
		return c == '>' ? 6 : HTML_DEAD;
	}
}

static bool is_name_byte(unsigned char c)
{
	return scan_is_letter(c) || scan_is_digit(c) || c == '-';
}

static bool is_attribute_start(unsigned char c)
{
	return scan_is_letter(c) || c == '_' || c == ':';
}

/* After a blank, a quoted value or a name, only the end of the tag can follow. */
static int tag_finish(unsigned char c)
{
	switch (c) {
	case '/':
		return TAG_SLASH;
	case '>':
		return TAG_DONE;
	default:
		return HTML_DEAD;
	}
}

static int tag_space(unsigned char c, int same)
{
	if (scan_is_space(c)) {
		return same;
	}
	return is_attribute_start(c) ? TAG_ATTRIBUTE : tag_finish(c);
}

static int tag_attribute(unsigned char c)
{
	if (scan_is_digit(c) || is_attribute_start(c) || c == '.' || c == '-') {
		return TAG_ATTRIBUTE;
	}
	if (c == '=') {
		return TAG_EQUALS;
	}
	return scan_is_space(c) ? TAG_ATTRIBUTE_SPACE : tag_finish(c);
}

static int tag_bare(unsigned char c)
{
	if (scan_is_space(c)) {
		return TAG_SPACE;
	}
	if (c == '>') {
		return TAG_DONE;
	}
	return strchr("\"'=<`", c) ? HTML_DEAD : TAG_BARE;
}

static int tag_equals(unsigned char c)
{
	if (scan_is_space(c)) {
		return TAG_EQUALS;
	}
	if (c == '"') {
		return TAG_DOUBLE;
	}
	if (c == '\'') {
		return TAG_SINGLE;
	}
	return c == '>' ? HTML_DEAD : tag_bare(c);
}

static int tag_less(unsigned char c)
{
	if (c == '/') {
		return TAG_CLOSE;
	}
	return scan_is_letter(c) ? TAG_NAME : HTML_DEAD;
}

static int tag_closing(unsigned state, unsigned char c)
{
	if (state == TAG_CLOSE) {
		return scan_is_letter(c) ? TAG_CLOSE_NAME : HTML_DEAD;
	}
	if (state == TAG_CLOSE_NAME && is_name_byte(c)) {
		return TAG_CLOSE_NAME;
	}
	if (scan_is_space(c)) {
		return TAG_CLOSE_SPACE;
	}
	return c == '>' ? TAG_DONE : HTML_DEAD;
}

int html_tag_byte(unsigned state, unsigned char c)
{
	switch (state) {
	case TAG_LESS:
		return tag_less(c);
	case TAG_NAME:
		if (is_name_byte(c)) {
			return TAG_NAME;
		}
		return scan_is_space(c) ? TAG_SPACE : tag_finish(c);
	case TAG_SPACE:
		return tag_space(c, TAG_SPACE);
	case TAG_ATTRIBUTE:
		return tag_attribute(c);
	case TAG_ATTRIBUTE_SPACE:
		return c == '=' ? TAG_EQUALS : tag_space(c, TAG_ATTRIBUTE_SPACE);
	case TAG_EQUALS:
		return tag_equals(c);
	case TAG_BARE:
		return tag_bare(c);
	case TAG_SINGLE:
		return c == '\'' ? TAG_VALUE_END : TAG_SINGLE;
	case TAG_DOUBLE:
		return c == '"' ? TAG_VALUE_END : TAG_DOUBLE;
	case TAG_VALUE_END:
		return scan_is_space(c) ? TAG_SPACE : tag_finish(c);
	case TAG_SLASH:
		return c == '>' ? TAG_DONE : HTML_DEAD;
	case TAG_DONE:
		return scan_is_blank(c) || c == '\f' ? TAG_DONE : HTML_DEAD;
	default:
		return tag_closing(state, c);
	}
}

bool html_tag_is_done(unsigned state)
{
	return state == TAG_DONE;
}

/*
 * Returns an earlier byte; `back` is 1 for the last one before the current byte, at most
 * HTML_TAIL_MAX.
 */
static unsigned char tail_byte(const struct html_tail *t, size_t back)
{
	size_t kept = sizeof(t->bytes);
	uint64_t bytes = back > kept ? t->early : t->bytes;
	return (unsigned char)(bytes >> (back - 1) % kept * 8);
}

/* Whether the bytes before the current one end in `word`, of at most HTML_TAIL_MAX bytes. */
static bool tail_ends_in(const struct html_tail *t, const char *word)
{
	size_t len = strlen(word);
	for (size_t back = 1; back <= len; back++) {
		if (tail_byte(t, back) != (unsigned char)word[len - back]) {
			return false;
		}
	}
	return true;
}

void html_tail_byte(struct html_tail *t, unsigned char c)
{
	if (c == '>') {
		t->ends |= 1 << 4;
		if (tail_ends_in(t, "--")) {
			t->ends |= 1 << 2;
		} else if (tail_ends_in(t, "?")) {
			t->ends |= 1 << 3;
		} else if (tail_ends_in(t, "]]")) {
			t->ends |= 1 << 5;
		} else if (tail_ends_in(t, "</pre") || tail_ends_in(t, "</style") ||
			   tail_ends_in(t, "</script")) {
			t->ends |= 1 << 1;
		} else if (tail_ends_in(t, "</textarea")) {
			t->ends |= HTML_TEXTAREA_END;
		}
	}
	t->early = (uint16_t)(t->early << 8 | t->bytes >> 56);
	t->bytes = t->bytes << 8 | lower(c);
}

bool html_tail_has_end(const struct html_tail *t, enum block_rules rules, unsigned kind)
{
	if (kind == 1 && rules >= BLOCK_RULES_GFM_13 && t->ends & HTML_TEXTAREA_END) {
		return true;
	}
	return kind < 6 && t->ends >> kind & 1;
}

/* An end is recognized at its `>`, and only the last bytes before that matter. */
void html_tail_read(struct html_tail *t, const char *text, size_t len)
{
	const char *end = text + len;
	while (text < end) {
		const char *close = memchr(text, '>', (size_t)(end - text));
		const char *next = close ? close + 1 : end;
		if (next - text > HTML_TAIL_MAX + 1) {
			text = next - HTML_TAIL_MAX - 1;
		}
		while (text < next) {
			html_tail_byte(t, (unsigned char)*text++);
		}
	}
}
