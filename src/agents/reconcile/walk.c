#include "align.h"

#include <stdlib.h>
#include <string.h>

/*
 * Compares what lies between two links of the chain: it matches if it continues where the log
 * continues after the previous match. Only where the log's text was cut off does the beginning of a
 * text suffice.
 */

/* How many of the following parts are searched for the continuation of a text. */
#define NEXT_PARTS 8

/* A place in a group: in the unit with this rank. */
struct place {
	size_t rank;
	size_t off; /* bytes into it */
};

struct walk {
	struct align *align;
	struct place *cursors; /* for each group: the place after the last match */
	size_t *limits; /* for each part: the rank of the next link after it, in its group */
	size_t link; /* index of the next link */
	struct parts left;
	bool *is_answered; /* for each turn: something of its answer was replayed */
};

/*
 * The current comparison: the replay from `at` to `to`, and the log up to a rank and in some turns.
 */
struct gap {
	size_t part;
	size_t group;
	size_t at;
	size_t to;
	size_t limit;
	struct turns turns;
};

struct walked {
	struct place place;
	size_t len; /* length of the match */
	bool is_all; /* the match covers the whole gap */
};

static struct unit *unit_at(const struct walk *walk, size_t rank)
{
	return &walk->align->track->units[walk->align->order[rank]];
}

/** In the late phase, units that were matched before are passed over: each matches once. */
static bool is_late(const struct walk *walk)
{
	return walk->align->phase == PHASE_LATE;
}

/**
 * Follows both sides as far as they are equal: whole units, and possibly a part of the last one.
 */
static struct walked go_from(struct walk *walk, const struct gap *gap, struct place place)
{
	struct walked walked = {.place = place};
	size_t at = gap->at;
	while (at < gap->to && walked.place.rank < gap->limit) {
		const struct unit *unit = unit_at(walk, walked.place.rank);
		size_t rest = unit->len - walked.place.off;
		size_t end = unit->at + unit->len;
		bool is_passed = unit->turn > gap->turns.to ||
				 (is_late(walk) && unit->is_told && !walked.place.off);
		size_t len =
			is_passed ? 0 : align_common(walk->align, at, gap->to, end - rest, end);
		if (len < rest && at + len < gap->to) {
			return walked;
		}
		at += len;
		walked.len += len;
		walked.place = len < rest
				       ? (struct place){walked.place.rank, unit->len - rest + len}
				       : (struct place){walked.place.rank + 1, 0};
	}
	walked.is_all = at == gap->to;
	return walked;
}

/** Whether the next text of the group continues with the rest of the unit. */
static bool goes_on(const struct walk *walk, const struct gap *gap, struct place place)
{
	const struct parts *parts = &walk->align->parts;
	const struct unit *unit = unit_at(walk, place.rank);
	size_t end = unit->at + unit->len;
	size_t rest = unit->len - place.off;
	if (gap->to < parts->list[gap->part].to) {
		return false;
	}
	for (size_t i = gap->part + 1; i < parts->count && i <= gap->part + NEXT_PARTS; i++) {
		const struct part *next = &parts->list[i];
		if (align_group_of(&walk->align->items.list[next->item]) == gap->group) {
			size_t len =
				align_common(walk->align, next->from, next->to, end - rest, end);
			return len == rest || next->from + len == next->to;
		}
	}
	return false;
}

/** Marks a match as replayed and moves behind it. */
static void take(struct walk *walk, struct gap *gap, struct place from, struct walked walked)
{
	for (size_t rank = from.rank; rank < walked.place.rank + (walked.place.off > 0); rank++) {
		unit_at(walk, rank)->is_told = true;
		unit_at(walk, rank)->is_told_whole = rank < walked.place.rank;
	}
	walk->cursors[gap->group] = walked.place;
	gap->at += walked.len;
}

/**
 * Whether the unit is the last of its group in its turn, so that the log may have been cut off
 * there.
 */
static bool is_last_of_turn(const struct walk *walk, const struct gap *gap, size_t rank)
{
	return rank + 1 >= walk->align->group_from[gap->group + 1] ||
	       unit_at(walk, rank)->turn != unit_at(walk, rank + 1)->turn;
}

/**
 * Whether a match counts: it continues a text, or ends where a text of the log ends, or the next
 * part continues it. If the replay has more than the log, the log must have been cut off there.
 */
static bool is_found(
	const struct walk *walk, const struct gap *gap, struct place from, struct walked walked)
{
	if (walked.is_all) {
		return from.off || !walked.place.off || goes_on(walk, gap, walked.place);
	}
	return walked.len && is_last_of_turn(walk, gap, walked.place.rank - 1);
}

/**
 * Whether a unit is passed over: it is of an earlier turn, or, in the late phase, was matched
 * before.
 */
static bool is_behind(const struct walk *walk, const struct gap *gap, struct place place)
{
	const struct unit *unit = unit_at(walk, place.rank);
	return unit->turn < gap->turns.from || (is_late(walk) && unit->is_told && !place.off);
}

static void skip_earlier(struct walk *walk, const struct gap *gap)
{
	struct place *cursor = &walk->cursors[gap->group];
	while (cursor->rank < gap->limit && is_behind(walk, gap, *cursor)) {
		*cursor = (struct place){cursor->rank + 1, 0};
	}
}

static void walk_gap(struct walk *walk, struct gap gap)
{
	bool is_placed = gap.turns.from <= gap.turns.to;
	if (is_placed) {
		skip_earlier(walk, &gap);
	}
	while (is_placed && gap.at < gap.to && !align_is_exhausted(walk->align)) {
		struct place cursor = walk->cursors[gap.group];
		struct walked walked = go_from(walk, &gap, cursor);
		if (!is_found(walk, &gap, cursor, walked)) {
			break;
		}
		take(walk, &gap, cursor, walked);
	}
	if (gap.at < gap.to) {
		parts_add(&walk->left, walk->align->parts.list[gap.part].item, gap.at, gap.to);
	}
}

/** Returns the next link of the part; NULL if it has no more. */
static const struct link *next_link(struct walk *walk, size_t part)
{
	const struct links *links = &walk->align->links;
	const struct part *of = &walk->align->parts.list[part];
	for (; walk->link < links->count; walk->link++) {
		const struct link *link = &links->list[walk->link];
		bool is_text = link->kind == LINK_TEXT;
		if (link->item > of->item ||
			(is_text && link->item == of->item && link->at >= of->to)) {
			return NULL;
		}
		if (is_text && link->item == of->item && link->at >= of->from) {
			walk->link++;
			return link;
		}
	}
	return NULL;
}

static void walk_text(struct walk *walk, size_t part, size_t group)
{
	struct align *align = walk->align;
	const struct part *of = &align->parts.list[part];
	struct gap gap = {.part = part,
		.group = group,
		.at = of->from,
		.turns = align->turns[align->items.list[of->item].turn]};
	const struct link *link;
	while ((link = next_link(walk, part)) != NULL) {
		struct place place = {align->rank[link->place], 0};
		gap.to = link->at;
		gap.limit = place.rank;
		walk_gap(walk, gap);
		gap.at = link->at;
		gap.to = link->at + link->len;
		gap.limit = align->rank[link->last] + 1;
		take(walk, &gap, place, go_from(walk, &gap, place));
	}
	gap.to = of->to;
	gap.limit = walk->limits[part];
	walk_gap(walk, gap);
}

/* --- prompts --- */

static bool is_inside(
	struct align *align, const char *in, size_t in_len, const char *text, size_t len)
{
	align->work += in_len;
	return len >= TELLING_LEN && memmem(in, in_len, text, len) != NULL;
}

static bool has_in_common(struct align *align, const struct item *item, size_t prompt)
{
	const struct unit *unit = &align->track->units[prompt];
	const char *bytes = align->track->text.bytes.data + unit->at;
	const char *told = align->items.text.bytes.data + item->from;
	size_t len = item->to - item->from;
	return is_inside(align, told, len, bytes, unit->len) ||
	       is_inside(align, bytes, unit->len, told, len);
}

/**
 * Whether an item is a prompt of the log in an altered form: agents put text around a prompt,
 * replay a part of it, or append to it. It counts as the log's if something of its answer does.
 */
static bool is_in_frame(const struct walk *walk, const struct item *item)
{
	struct align *align = walk->align;
	struct turns turns = align->turns[item->turn];
	for (size_t turn = turns.from; align->phase == PHASE_LIVE && turn <= turns.to; turn++) {
		size_t prompt = align->prompts[turn];
		if (prompt == SIZE_MAX || !walk->is_answered[turn]) {
			continue;
		}
		bool is_told = align->track->units[prompt].is_told;
		if (is_told ? item->is_behind_ours : has_in_common(align, item, prompt)) {
			align->track->units[prompt].is_told = true;
			return true;
		}
	}
	return false;
}

static void walk_prompt(struct walk *walk, size_t part)
{
	const struct part *of = &walk->align->parts.list[part];
	const struct link *link = next_link(walk, part);
	if (link) {
		walk->align->track->units[link->place].is_told = true;
	} else if (!is_in_frame(walk, &walk->align->items.list[of->item])) {
		parts_add(&walk->left, of->item, of->from, of->to);
	}
}

static void find_answered(struct walk *walk)
{
	const struct track *track = walk->align->track;
	walk->is_answered = xcalloc(track->turn_count, sizeof(bool));
	for (size_t i = 0; i < track->unit_count; i++) {
		const struct unit *unit = &track->units[i];
		if (unit->is_told && unit->said != SAID_PROMPT) {
			walk->is_answered[unit->turn] = true;
		}
	}
	for (size_t i = 0; i < track->call_count; i++) {
		if (track->calls[i].taken_by != SIZE_MAX) {
			walk->is_answered[track->calls[i].turn] = true;
		}
	}
}

/* --- the whole walk --- */

static void find_limits(struct walk *walk)
{
	const struct align *align = walk->align;
	size_t *next = xcalloc(align->group_count, sizeof(*next));
	size_t link = align->links.count;
	memcpy(next, align->group_from + 1, align->group_count * sizeof(*next));
	for (size_t i = align->parts.count; i > 0; i--) {
		const struct part *part = &align->parts.list[i - 1];
		size_t group = align_group_of(&align->items.list[part->item]);
		walk->limits[i - 1] = next[group];
		for (; link > 0; link--) {
			const struct link *at = &align->links.list[link - 1];
			bool is_text = at->kind == LINK_TEXT;
			if (at->item < part->item ||
				(is_text && at->item == part->item && at->at < part->from)) {
				break;
			}
			if (is_text) {
				next[group] = align->rank[at->place];
			}
		}
	}
	free(next);
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a;
	const struct part *y = b;
	return x->from < y->from ? -1 : x->from > y->from;
}

/** Walks the texts, or the prompts; prompts are judged by whether their answers were found. */
static void walk_parts(struct walk *walk, bool prompts)
{
	const struct align *align = walk->align;
	walk->link = 0;
	for (size_t i = 0; i < align->parts.count; i++) {
		const struct item *item = &align->items.list[align->parts.list[i].item];
		bool is_prompt = item->run->said == SAID_PROMPT;
		if (is_prompt && prompts) {
			walk_prompt(walk, i);
		} else if (!is_prompt && !prompts) {
			walk_text(walk, i, align_group_of(item));
		}
	}
}

void align_walk(struct align *align)
{
	struct walk walk = {.align = align,
		.cursors = xcalloc(align->group_count, sizeof(struct place)),
		.limits = xcalloc(align->parts.count + 1, sizeof(size_t))};
	for (size_t i = 0; i < align->group_count; i++) {
		/*
		 * In the late phase only a name or a link gives the place, so the other groups
		 * begin at their end.
		 */
		bool begins = !is_late(&walk) || i >= SAID_COUNT;
		walk.cursors[i].rank = align->group_from[i + !begins];
	}
	find_limits(&walk);
	walk_parts(&walk, false);
	find_answered(&walk);
	walk_parts(&walk, true);
	if (walk.left.count) {
		qsort(walk.left.list, walk.left.count, sizeof(*walk.left.list), compare_parts);
	}
	free(walk.cursors);
	free(walk.limits);
	free(walk.is_answered);
	free(align->parts.list);
	align->parts = walk.left;
}
