/*
 * Parses link reference definitions at the start of a paragraph. They matter for blocks in three
 * ways: a paragraph that consists of them leaves its list item empty, cannot become a setext
 * heading, and is not split from a table below it.
 *
 * One detail differs from cmark-gfm: a quote after a backslash never ends a title here; there it
 * does if no other quote follows in the whole paragraph.
 */
#include "block_scanner_internal.h"

#include <ctype.h>

enum ref_state {
	REF_START, /* where a definition may begin */
	REF_TEXT, /* something else has followed: no further definition */
	REF_LABEL,
	REF_COLON,
	REF_GAP, /* blanks before the address */
	REF_ANGLE, /* in an address enclosed in < and > */
	REF_ADDRESS,
	REF_AFTER_ADDRESS,
	REF_TITLE_LINE, /* at the start of the next line: a title, or the next definition */
	REF_TITLE,
	REF_AFTER_TITLE,
};

#define LABEL_LEN_MAX 1000
#define PARENS_MAX    32

static bool is_white(unsigned char c)
{
	return scan_is_blank(c) || c == '\n';
}

static unsigned label_byte(struct ref_scan *r, unsigned char c)
{
	bool escaped = r->escaped && ispunct(c);
	r->escaped = 0;
	if (!escaped && c == ']') {
		return r->solid ? REF_COLON : REF_TEXT;
	}
	if (!escaped && c == '[') {
		return REF_TEXT;
	}
	if (++r->label_len > LABEL_LEN_MAX) {
		return REF_TEXT;
	}
	r->escaped = c == '\\' && !escaped;
	r->solid |= !is_white(c);
	return REF_LABEL;
}

static unsigned address_byte(struct ref_scan *r, unsigned char c)
{
	bool escaped = r->escaped && ispunct(c);
	r->escaped = c == '\\' && !escaped;
	if (escaped) {
		return REF_ADDRESS;
	}
	if (c == '(') {
		return ++r->parens > PARENS_MAX ? REF_TEXT : REF_ADDRESS;
	}
	if (c == ')') {
		return r->parens-- ? REF_ADDRESS : REF_TEXT;
	}
	if (c == '\n') {
		return REF_TITLE_LINE;
	}
	return scan_is_blank(c) ? REF_AFTER_ADDRESS : REF_ADDRESS;
}

static unsigned gap_byte(struct ref_scan *r, unsigned char c)
{
	if (is_white(c)) {
		return REF_GAP;
	}
	r->escaped = 0;
	r->parens = 0;
	return c == '<' ? REF_ANGLE : address_byte(r, c);
}

static unsigned angle_byte(struct ref_scan *r, unsigned char c)
{
	if (r->escaped) {
		r->escaped = 0;
		return REF_ANGLE;
	}
	r->escaped = c == '\\';
	if (c == '>') {
		r->solid = 0;
		return REF_AFTER_ADDRESS;
	}
	return c == '\n' || c == '<' ? REF_TEXT : REF_ANGLE;
}

static unsigned title_begin(struct ref_scan *r, unsigned char c)
{
	if (c != '"' && c != '\'' && c != '(') {
		return REF_TEXT;
	}
	r->closer = c == '(' ? ')' : c;
	r->escaped = 0;
	return REF_TITLE;
}

static unsigned after_address_byte(struct ref_scan *r, unsigned char c)
{
	if (scan_is_blank(c)) {
		r->solid = 1;
		return REF_AFTER_ADDRESS;
	}
	if (c == '\n') {
		return REF_TITLE_LINE;
	}
	return r->solid ? title_begin(r, c) : REF_TEXT;
}

static unsigned start_byte(struct ref_scan *r, unsigned char c)
{
	*r = (struct ref_scan){0};
	return c == '[' ? REF_LABEL : REF_TEXT;
}

static unsigned title_line_byte(struct ref_scan *r, unsigned char c)
{
	if (scan_is_blank(c)) {
		r->solid = 0; /* a definition cannot begin after a blank, a title can */
		return REF_TITLE_LINE;
	}
	if (c == '[') {
		return r->solid ? start_byte(r, c) : REF_TEXT;
	}
	return title_begin(r, c);
}

static unsigned title_byte(struct ref_scan *r, unsigned char c)
{
	if (r->escaped && ispunct(c)) {
		r->escaped = 0;
		return REF_TITLE;
	}
	r->escaped = c == '\\';
	if (c == r->closer) {
		return REF_AFTER_TITLE;
	}
	return c == '(' && r->closer == ')' ? REF_TEXT : REF_TITLE;
}

static unsigned next_state(struct ref_scan *r, unsigned char c)
{
	switch (r->state) {
	case REF_START:
		return start_byte(r, c);
	case REF_LABEL:
		return label_byte(r, c);
	case REF_COLON:
		return c == ':' ? REF_GAP : REF_TEXT;
	case REF_GAP:
		return gap_byte(r, c);
	case REF_ANGLE:
		return angle_byte(r, c);
	case REF_ADDRESS:
		return address_byte(r, c);
	case REF_AFTER_ADDRESS:
		return after_address_byte(r, c);
	case REF_TITLE_LINE:
		return title_line_byte(r, c);
	case REF_TITLE:
		return title_byte(r, c);
	case REF_AFTER_TITLE:
		if (c == '\n') {
			return REF_START;
		}
		return scan_is_blank(c) ? REF_AFTER_TITLE : REF_TEXT;
	default:
		return REF_TEXT;
	}
}

void ref_scan_byte(struct ref_scan *r, unsigned char c)
{
	unsigned before = r->state;
	if (before == REF_TEXT) {
		return;
	}
	unsigned after = next_state(r, c);
	r->state = (uint8_t)after;
	if (after == before) {
		return;
	}
	if (after == REF_AFTER_ADDRESS) {
		r->solid = before == REF_ADDRESS; /* the blank that ended it */
	} else if (after == REF_TITLE_LINE) {
		r->solid = 1;
	}
}

bool ref_scan_is_over(const struct ref_scan *r)
{
	return r->state == REF_TEXT;
}

bool ref_scan_is_complete(const struct ref_scan *r)
{
	return r->state == REF_START || r->state == REF_TITLE_LINE;
}
