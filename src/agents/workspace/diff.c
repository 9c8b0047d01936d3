#include "workspace_internal.h"

#include <stdlib.h>
#include <string.h>

/*
 * Describes what a write has changed, for people: hunks of a unified diff. Myers' algorithm finds
 * the shortest edit script up to a number of changes; beyond that, everything between the first and
 * the last change counts as changed.
 */

#define CONTEXT     3
#define CHANGES_MAX 200
#define LINES_MAX   100000
#define NO_NEWLINE  "\n\\ No newline at end of file\n"

struct line {
	const char *text;
	size_t len; /* with its newline */
	bool changed;
};

struct lines {
	struct line *all;
	size_t count;
};

struct hunk {
	size_t old_from;
	size_t old_to;
	size_t new_from;
	size_t new_to;
};

static size_t line_length(const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);
	return end ? (size_t)(end + 1 - text) : len;
}

/** Splits a text into lines. Returns false, with nothing allocated, if there are too many. */
static bool split_lines(struct lines *ret, const char *text, size_t len)
{
	size_t count = 0;
	for (size_t at = 0; at < len; at += line_length(text + at, len - at)) {
		count++;
	}
	if (count > LINES_MAX) {
		return false;
	}
	ret->all = xcalloc(count + 1, sizeof(*ret->all));
	ret->count = 0;
	for (size_t at = 0; at < len; at += ret->all[ret->count++].len) {
		ret->all[ret->count].text = text + at;
		ret->all[ret->count].len = line_length(text + at, len - at);
	}
	return true;
}

static bool is_same(const struct line *a, const struct line *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* State of the search: the furthest points reached on each diagonal, now and before each change. */
struct search {
	struct line *old;
	struct line *new;
	int old_count;
	int new_count;
	int most; /* changes */
	int *now; /* indexes -most-1 to most+1 */
	int *past; /* `most`+1 copies of what `now` was */
};

static bool comes_from_above(const int *points, int diagonal, int changes)
{
	return diagonal == -changes ||
	       (diagonal != changes && points[diagonal - 1] < points[diagonal + 1]);
}

static size_t row_size(const struct search *s)
{
	return (size_t)(2 * s->most + 3);
}

/** Searches with one more change; returns true when both texts' ends are reached. */
static bool search_step(struct search *s, int changes)
{
	memcpy(s->past + (size_t)changes * row_size(s), s->now - s->most - 1,
		row_size(s) * sizeof(int));
	for (int k = -changes; k <= changes; k += 2) {
		int x = comes_from_above(s->now, k, changes) ? s->now[k + 1] : s->now[k - 1] + 1;
		int y = x - k;
		while (x < s->old_count && y < s->new_count && is_same(&s->old[x], &s->new[y])) {
			x++;
			y++;
		}
		s->now[k] = x;
		if (x >= s->old_count && y >= s->new_count) {
			return true;
		}
	}
	return false;
}

static void mark_path(struct search *s, int changes)
{
	int x = s->old_count;
	int y = s->new_count;
	for (; changes > 0; changes--) {
		const int *points = s->past + (size_t)changes * row_size(s) + (size_t)(s->most + 1);
		int k = x - y;
		bool above = comes_from_above(points, k, changes);
		x = points[above ? k + 1 : k - 1];
		y = x - (above ? k + 1 : k - 1);
		(above ? s->new + y : s->old + x)->changed = true;
	}
}

static void mark_all(struct line *lines, int count)
{
	for (int i = 0; i < count; i++) {
		lines[i].changed = true;
	}
}

static void search_changes(struct search *s)
{
	int most = s->old_count + s->new_count;
	s->most = most < CHANGES_MAX ? most : CHANGES_MAX;
	int *row = xcalloc(row_size(s), sizeof(int));
	s->now = row + s->most + 1;
	s->past = xcalloc(row_size(s) * (size_t)(s->most + 1), sizeof(int));
	int changes = 0;
	while (changes <= s->most && !search_step(s, changes)) {
		changes++;
	}
	if (changes <= s->most) {
		mark_path(s, changes);
	} else {
		mark_all(s->old, s->old_count);
		mark_all(s->new, s->new_count);
	}
	free(s->past);
	free(row);
}

/** Marks the lines that are in one text only. The common beginning and end are skipped first. */
static void mark_changes(struct lines *old, struct lines *new)
{
	size_t least = old->count < new->count ? old->count : new->count;
	size_t begin = 0;
	while (begin < least && is_same(&old->all[begin], &new->all[begin])) {
		begin++;
	}
	size_t end = 0;
	while (end < least - begin &&
		is_same(&old->all[old->count - 1 - end], &new->all[new->count - 1 - end])) {
		end++;
	}
	struct search search = {
		.old = old->all + begin,
		.new = new->all + begin,
		.old_count = (int)(old->count - begin - end),
		.new_count = (int)(new->count - begin - end),
	};
	search_changes(&search);
}

static bool is_changed(const struct lines *lines, size_t at)
{
	return at < lines->count && lines->all[at].changed;
}

/** Finds the next hunk after `h`, including its context; returns false if there is none. */
static bool next_hunk(const struct lines *old, const struct lines *new, struct hunk *h)
{
	size_t i = h->old_to;
	size_t j = h->new_to;
	while (i < old->count && !is_changed(old, i) && !is_changed(new, j)) {
		i++;
		j++;
	}
	if (i == old->count && j == new->count) {
		return false;
	}
	size_t back = i - h->old_to < CONTEXT ? i - h->old_to : CONTEXT;
	h->old_from = i - back;
	h->new_from = j - back;
	size_t quiet = 0;
	while ((i < old->count || j < new->count) && quiet <= 2 * (size_t)CONTEXT) {
		bool removed = is_changed(old, i);
		bool added = !removed && is_changed(new, j);
		quiet = removed || added ? 0 : quiet + 1;
		i += !added;
		j += !removed;
	}
	size_t cut = quiet > CONTEXT ? quiet - CONTEXT : 0;
	h->old_to = i - cut;
	h->new_to = j - cut;
	return true;
}

static bool put_line(struct buffer *out, char mark, const struct line *line, size_t max)
{
	if (out->len + line->len + sizeof(NO_NEWLINE) > max) {
		return false;
	}
	buffer_append_char(out, mark);
	buffer_append(out, line->text, line->len);
	if (line->text[line->len - 1] != '\n') {
		buffer_append_str(out, NO_NEWLINE);
	}
	return true;
}

/**
 * Appends where a range begins, counted from 1, and its length. An empty range names the line
 * before it.
 */
static void put_range(struct buffer *out, char mark, size_t from, size_t to)
{
	buffer_printf(out, "%c%zu,%zu ", mark, to > from ? from + 1 : from, to - from);
}

static bool put_hunk(struct buffer *out, const struct lines *old, const struct lines *new,
	const struct hunk *h, size_t max)
{
	buffer_append_str(out, "@@ ");
	put_range(out, '-', h->old_from, h->old_to);
	put_range(out, '+', h->new_from, h->new_to);
	buffer_append_str(out, "@@\n");
	size_t i = h->old_from;
	size_t j = h->new_from;
	bool fits = true;
	while (fits && (i < h->old_to || j < h->new_to)) {
		if (is_changed(old, i)) {
			fits = put_line(out, '-', &old->all[i++], max);
		} else if (is_changed(new, j)) {
			fits = put_line(out, '+', &new->all[j++], max);
		} else {
			fits = put_line(out, ' ', &old->all[i++], max);
			j++;
		}
	}
	return fits;
}

bool diff_append(struct buffer *out, const struct buffer *old, const struct buffer *new, size_t max)
{
	struct lines a = {0};
	struct lines b = {0};
	bool whole = split_lines(&a, old->data, old->len) && split_lines(&b, new->data, new->len);
	if (whole) {
		mark_changes(&a, &b);
		struct hunk hunk = {0};
		while (whole && next_hunk(&a, &b, &hunk)) {
			whole = put_hunk(out, &a, &b, &hunk, max);
		}
	}
	free(a.all);
	free(b.all);
	return whole;
}
