#include "inline_guard_internal.h"

#include <string.h>

#define PARENS_MAX 32 /* cmark-gfm's limit in a link's address */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t skip_spaces(const char *text, size_t at, size_t end)
{
	while (at < end && is_space(text[at])) {
		at++;
	}
	return at;
}

static bool starts_with(const char *text, size_t at, size_t end, const char *what)
{
	size_t len = strlen(what);
	return end - at >= len && memcmp(text + at, what, len) == 0;
}

/* Returns the end of the address at `at`; `end` if the text ends in it, 0 if it is invalid. */
static size_t skip_address(const char *text, size_t at, size_t end)
{
	bool pointy = text[at] == '<';
	size_t parens = 0;
	for (at += pointy; at < end; at++) {
		char c = text[at];
		if (c == '\\' && at + 1 < end && !is_space(text[at + 1])) {
			at++;
		} else if (pointy) {
			if (c == '>') {
				return at + 1;
			}
			if (c == '<' || c == '\n') {
				return 0;
			}
		} else if (is_space(c) || (c == ')' && !parens)) {
			return at;
		} else if (c == '(' && ++parens > PARENS_MAX) {
			return 0;
		} else if (c == ')') {
			parens--;
		}
	}
	return end;
}

/* Returns the end of the title at `start`; `end` if the text ends in it, `start` if there is none. */
static size_t skip_title(const char *text, size_t start, size_t end)
{
	char close = text[start] == '(' ? ')' : text[start];
	if (close != ')' && close != '"' && close != '\'') {
		return start;
	}
	size_t at = start + 1;
	for (; at < end && text[at] != close; at++) {
		if (text[at] == '(' && close == ')') {
			return start; /* it must be escaped there */
		}
		at += text[at] == '\\' && at + 1 < end;
	}
	return at < end ? at + 1 : end;
}

size_t inline_link_skip_destination(const char *text, size_t at, size_t end)
{
	at = skip_spaces(text, at + 1, end);
	if (at < end) {
		at = skip_address(text, at, end);
		if (!at) {
			return 0;
		}
	}
	size_t title = skip_spaces(text, at, end);
	if (title < end && title > at) {
		title = skip_spaces(text, skip_title(text, title, end), end);
	}
	if (title >= end) {
		return end + 1;
	}
	return text[title] == ')' ? title + 1 : 0;
}

size_t inline_link_skip_pointy(const char *text, size_t at, size_t end)
{
	size_t after = at + 1;
	if (after == end || (!is_alpha(text[after]) && text[after] != '/')) {
		return after;
	}
	while (after < end && text[after] != '>' && text[after] != '<') {
		after++;
	}
	return after < end && text[after] == '>' ? after + 1 : at + 1;
}

size_t inline_link_skip_bare(const char *text, size_t start, size_t at, size_t end)
{
	uint32_t prev = inline_char_before(text, start, at);
	bool www = starts_with(text, at, end, "www.") &&
		   (inline_char_is_space(prev) || (prev < 0x80 && strchr("*_~(", (int)prev)));
	bool http =
		(starts_with(text, at, end, "http://") || starts_with(text, at, end, "https://")) &&
		(prev >= 0x80 || !is_alpha((char)prev));
	if (!www && !http) {
		return at + 1;
	}
	size_t after = at;
	while (after < end && !is_space(text[after]) && text[after] != '<') {
		after++;
	}
	while (after > at + 1 && text[after - 1] && strchr("?!.,:*_~'\")", text[after - 1])) {
		after--;
	}
	return after;
}
