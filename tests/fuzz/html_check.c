#include "html_check.h"

#include "fuzz.h"

#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DEPTH_MAX    4096
#define VALUE_MAX \
	(1024 * 1024) /* an address of 64 KiB of bytes that all have to be replaced and escaped */

/* What an element is, for the one it stands in. */
enum place {
	PLACE_BLOCK,
	PLACE_INLINE,
	PLACE_ITEM,
	PLACE_CHECKBOX,
	PLACE_TABLE_PART,
	PLACE_ROW,
	PLACE_CELL,
};

/* What may stand in an element: a bit for each place, and whether text may. */
enum {
	IN_TEXT = 1 << 16,
	IN_INLINE = 1 << PLACE_INLINE | IN_TEXT,
	IN_ITEM = IN_INLINE | 1 << PLACE_BLOCK | 1 << PLACE_CHECKBOX,
};

enum value {
	VALUE_TEXT,
	VALUE_ADDRESS,
	VALUE_NUMBER,
	VALUE_LANGUAGE,
	VALUE_ALIGN,
	VALUE_CHECKBOX,
	VALUE_EMPTY,
};

struct attribute {
	const char *name;
	enum value value;
	bool needed;
};

struct element {
	const char *name;
	enum place place;
	unsigned content;
	bool is_void;
	struct attribute attributes[3];
};

static const struct element elements[] = {
	{.name = "p", .place = PLACE_BLOCK, .content = IN_INLINE},
	{.name = "h1", .place = PLACE_BLOCK, .content = IN_INLINE},
	{.name = "h2", .place = PLACE_BLOCK, .content = IN_INLINE},
	{.name = "h3", .place = PLACE_BLOCK, .content = IN_INLINE},
	{.name = "h4", .place = PLACE_BLOCK, .content = IN_INLINE},
	{.name = "h5", .place = PLACE_BLOCK, .content = IN_INLINE},
	{.name = "h6", .place = PLACE_BLOCK, .content = IN_INLINE},
	{.name = "ul", .place = PLACE_BLOCK, .content = 1 << PLACE_ITEM},
	{.name = "ol",
		.place = PLACE_BLOCK,
		.content = 1 << PLACE_ITEM,
		.attributes = {{"start", VALUE_NUMBER, false}}},
	{.name = "li", .place = PLACE_ITEM, .content = IN_ITEM},
	{.name = "blockquote", .place = PLACE_BLOCK, .content = 1 << PLACE_BLOCK},
	{.name = "pre", .place = PLACE_BLOCK, .content = 1 << PLACE_INLINE},
	{.name = "code",
		.place = PLACE_INLINE,
		.content = IN_TEXT,
		.attributes = {{"class", VALUE_LANGUAGE, false}}},
	{.name = "em", .place = PLACE_INLINE, .content = IN_INLINE},
	{.name = "strong", .place = PLACE_INLINE, .content = IN_INLINE},
	{.name = "del", .place = PLACE_INLINE, .content = IN_INLINE},
	{.name = "a",
		.place = PLACE_INLINE,
		.content = IN_INLINE,
		.attributes = {{"href", VALUE_ADDRESS, true}, {"title", VALUE_TEXT, false}}},
	{.name = "img",
		.place = PLACE_INLINE,
		.is_void = true,
		.attributes = {{"src", VALUE_ADDRESS, true}, {"alt", VALUE_TEXT, true},
			{"title", VALUE_TEXT, false}}},
	{.name = "br", .place = PLACE_INLINE, .is_void = true},
	{.name = "hr", .place = PLACE_BLOCK, .is_void = true},
	{.name = "table", .place = PLACE_BLOCK, .content = 1 << PLACE_TABLE_PART},
	{.name = "thead", .place = PLACE_TABLE_PART, .content = 1 << PLACE_ROW},
	{.name = "tbody", .place = PLACE_TABLE_PART, .content = 1 << PLACE_ROW},
	{.name = "tr", .place = PLACE_ROW, .content = 1 << PLACE_CELL},
	{.name = "th",
		.place = PLACE_CELL,
		.content = IN_INLINE,
		.attributes = {{"align", VALUE_ALIGN, false}}},
	{.name = "td",
		.place = PLACE_CELL,
		.content = IN_INLINE,
		.attributes = {{"align", VALUE_ALIGN, false}}},
	{.name = "input",
		.place = PLACE_CHECKBOX,
		.is_void = true,
		.attributes = {{"type", VALUE_CHECKBOX, true}, {"checked", VALUE_EMPTY, false},
			{"disabled", VALUE_EMPTY, true}}},
};

struct reader {
	const char *html;
	size_t len;
	size_t at;
	const struct element *open[DEPTH_MAX];
	size_t depth;
	const char *wrong;
};

static bool is_at(const struct reader *r, const char *what)
{
	size_t len = strlen(what);
	return r->len - r->at >= len && memcmp(r->html + r->at, what, len) == 0;
}

static bool skip(struct reader *r, const char *what)
{
	bool found = is_at(r, what);
	r->at += found ? strlen(what) : 0;
	return found;
}

static bool refuse(struct reader *r, const char *why)
{
	r->wrong = r->wrong ? r->wrong : why;
	return false;
}

/* Reads one character of text or of a value, and gives its first byte with entities decoded. */
static bool read_char(struct reader *r, char *ret)
{
	static const char *const entities[][2] = {
		{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#x27;", "'"}};
	for (size_t i = 0; i < COUNT(entities); i++) {
		if (skip(r, entities[i][0])) {
			*ret = *entities[i][1];
			return true;
		}
	}
	*ret = r->html[r->at];
	if (!*ret || strchr("&<>\"", *ret)) {
		return refuse(r, "a raw character that has a meaning in HTML");
	}
	size_t len = fuzz_utf8_length(r->html + r->at, r->len - r->at);
	r->at += len;
	return len > 0 || refuse(r, "bytes that are no UTF-8");
}

/* As a browser reads an address: without the blanks around it and the line ends and tabs in it. */
static bool address_is_safe(const char *value, size_t len)
{
	static const char *const schemes[] = {"http", "https", "mailto"};
	static char address[VALUE_MAX + 1];
	size_t to = 0;
	for (size_t i = 0; i < len; i++) {
		if (!strchr("\t\r\n", value[i]) && (to || (unsigned char)value[i] > ' ')) {
			address[to++] = value[i];
		}
	}
	address[to] = '\0';
	if (to >= 2 && strchr("/\\", address[0]) && strchr("/\\", address[1])) {
		return false;
	}
	size_t scheme = strspn(address, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					"0123456789+-.");
	if (address[scheme] != ':') {
		return true;
	}
	for (size_t i = 0; i < COUNT(schemes); i++) {
		if (strlen(schemes[i]) == scheme && strncasecmp(address, schemes[i], scheme) == 0) {
			return true;
		}
	}
	return false;
}

static bool is_made_of(const char *value, size_t len, const char *chars)
{
	for (size_t i = 0; i < len; i++) {
		if (!strchr(chars, value[i])) {
			return false;
		}
	}
	return len > 0;
}

static bool is_one_of(const char *value, size_t len, const char *a, const char *b, const char *c)
{
	return (strlen(a) == len && memcmp(value, a, len) == 0) ||
	       (strlen(b) == len && memcmp(value, b, len) == 0) ||
	       (strlen(c) == len && memcmp(value, c, len) == 0);
}

static bool value_is_allowed(enum value kind, const char *value, size_t len)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_+#.-";
	static const char prefix[] = "language-";
	size_t prefix_len = sizeof(prefix) - 1;
	switch (kind) {
	case VALUE_ADDRESS:
		return address_is_safe(value, len);
	case VALUE_NUMBER:
		return len <= 9 && is_made_of(value, len, "0123456789");
	case VALUE_LANGUAGE:
		return len > prefix_len && len <= prefix_len + 64 &&
		       memcmp(value, prefix, prefix_len) == 0 &&
		       is_made_of(value + prefix_len, len - prefix_len, word);
	case VALUE_ALIGN:
		return is_one_of(value, len, "left", "center", "right");
	case VALUE_CHECKBOX:
		return is_one_of(value, len, "checkbox", "checkbox", "checkbox");
	case VALUE_EMPTY:
		return len == 0;
	case VALUE_TEXT:
		return true;
	}
	return false;
}

/* The value and its closing quote. Of a text nothing is kept. */
static bool read_value(struct reader *r, enum value kind)
{
	static char value[VALUE_MAX];
	size_t len = 0;
	while (r->at < r->len && r->html[r->at] != '"') {
		char c;
		if (!read_char(r, &c)) {
			return false;
		}
		if (kind != VALUE_TEXT && ((unsigned char)c >= 0x80 || len == VALUE_MAX)) {
			return refuse(r, "a value with a byte that it may not have, or too long");
		}
		value[len] = c;
		len += kind != VALUE_TEXT;
	}
	if (!skip(r, "\"")) {
		return refuse(r, "a value without an end");
	}
	return value_is_allowed(kind, value, len) || refuse(r, "a value that is not allowed");
}

static bool read_attributes(struct reader *r, const struct element *e)
{
	for (size_t i = 0; i < COUNT(e->attributes) && e->attributes[i].name; i++) {
		const struct attribute *a = &e->attributes[i];
		size_t start = r->at;
		if (skip(r, " ") && skip(r, a->name) && skip(r, "=\"")) {
			if (!read_value(r, a->value)) {
				return false;
			}
		} else if (a->needed) {
			return refuse(r, "a tag without an attribute that it needs");
		} else {
			r->at = start;
		}
	}
	return skip(r, e->is_void ? " />" : ">") || refuse(r, "a tag with something else in it");
}

static const struct element *read_name(struct reader *r)
{
	size_t len = 0;
	while (r->at + len < r->len &&
		((r->html[r->at + len] >= 'a' && r->html[r->at + len] <= 'z') ||
			(r->html[r->at + len] >= '0' && r->html[r->at + len] <= '9'))) {
		len++;
	}
	for (size_t i = 0; i < COUNT(elements); i++) {
		if (strlen(elements[i].name) == len &&
			memcmp(elements[i].name, r->html + r->at, len) == 0) {
			r->at += len;
			return &elements[i];
		}
	}
	refuse(r, "a tag that is none of ours");
	return NULL;
}

static bool is_open(const struct reader *r, const char *name)
{
	for (size_t i = 0; i < r->depth; i++) {
		if (strcmp(r->open[i]->name, name) == 0) {
			return true;
		}
	}
	return false;
}

static unsigned content_here(const struct reader *r)
{
	return r->depth ? r->open[r->depth - 1]->content : 1 << PLACE_BLOCK;
}

/* What the bits of `content` do not tell. */
static bool fits_here(const struct reader *r, const struct element *e)
{
	bool in_pre = r->depth && strcmp(r->open[r->depth - 1]->name, "pre") == 0;
	if (in_pre && strcmp(e->name, "code") != 0) {
		return false;
	}
	if (strcmp(e->name, "a") == 0 && is_open(r, "a")) {
		return false;
	}
	if (e->place == PLACE_CELL && (e->name[1] == 'h') != is_open(r, "thead")) {
		return false;
	}
	return (content_here(r) & 1u << e->place) != 0;
}

static bool read_open_tag(struct reader *r)
{
	const struct element *e = read_name(r);
	if (!e || !read_attributes(r, e)) {
		return false;
	}
	if (!fits_here(r, e)) {
		return refuse(r, "an element where it may not stand");
	}
	if (e->is_void) {
		return true;
	}
	if (r->depth == DEPTH_MAX) {
		return refuse(r, "elements nested too deep");
	}
	r->open[r->depth++] = e;
	return true;
}

static bool read_close_tag(struct reader *r)
{
	const struct element *e = read_name(r);
	if (!e || !skip(r, ">")) {
		return refuse(r, "a closing tag with something else in it");
	}
	if (!r->depth || r->open[r->depth - 1] != e) {
		return refuse(r, "a closing tag of what is not open");
	}
	r->depth--;
	return true;
}

static bool read_piece(struct reader *r)
{
	if (skip(r, "</")) {
		return read_close_tag(r);
	}
	if (skip(r, "<")) {
		return read_open_tag(r);
	}
	bool quote = is_at(r, "&#x27;");
	char c;
	if (!read_char(r, &c)) {
		return false;
	}
	if (quote || (c != '\n' && !(content_here(r) & IN_TEXT))) {
		return refuse(r, "text where there may be none");
	}
	return true;
}

const char *html_check(const char *html, size_t len, size_t *ret_at)
{
	static struct reader r; /* too large for the stack */
	r.html = html;
	r.len = len;
	r.at = 0;
	r.depth = 0;
	r.wrong = NULL;
	while (r.at < r.len && read_piece(&r)) {
	}
	if (!r.wrong && r.depth) {
		refuse(&r, "an element without its end");
	}
	*ret_at = r.at;
	return r.wrong;
}
