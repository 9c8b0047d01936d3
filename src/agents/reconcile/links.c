#include "align.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/*
 * Finds the places of the log that something replayed may be: by the first bytes of a text, by the
 * whole text if it is short or a prompt, by a call's id, and by a message's name.
 */

/* If many places have the same text: how many are tried before and after the likely ones. */
#define NEAR ((size_t)32)
/* Limits that only a history crafted for it exceeds. */
#define HITS_MAX  ((size_t)1 << 18)
#define LINKS_MAX ((size_t)1 << 19)
/* The weight of other matches, in bytes of text. */
#define NAME_WEIGHT   ((size_t)128)
#define PROMPT_WEIGHT ((size_t)32)

enum key_kind { KEY_LONG, KEY_SHORT, KEY_PROMPT, KEY_CALL, KEY_NAME };

struct key {
	uint64_t sum;
	size_t place; /* of a unit, or of a call */
};

/* Keys with the same sum. */
struct bunch {
	size_t from; /* in `keys` */
	size_t count;
	size_t told; /* how often the replay has it */
	size_t seen; /* how often, up to the current hit */
};

struct index {
	struct key *keys; /* sorted by sum, then by their order in the log */
	size_t count;
	struct bunch *bunches;
	struct hash *by_sum; /* index of a bunch + 1 */
};

/* Something replayed that the log has at one or more places. */
struct hit {
	enum link_kind kind;
	size_t part; /* of a text */
	size_t item;
	size_t at;
	size_t to; /* end of the text that may match */
	size_t bunch;
};

struct search {
	struct align *align;
	struct index index;
	struct hit *hits;
	size_t hit_count;
};

static uint64_t sum_of_text(enum said said, const char *bytes, size_t len)
{
	enum key_kind kind = said == SAID_PROMPT ? KEY_PROMPT
			     : len < TELLING_LEN ? KEY_SHORT
						 : KEY_LONG;
	size_t n = kind == KEY_LONG ? TELLING_LEN : len;
	return XXH3_64bits_withSeed(bytes, n, kind * 8 + said);
}

static uint64_t sum_of_number(enum key_kind kind, size_t number)
{
	return XXH3_64bits_withSeed(&number, sizeof(number), kind * 8);
}

/**
 * Returns the last of the consecutive units that together are long enough; a single one may be
 * short, because a timer has cut the text. Returns `first` if they are too short even together.
 */
static size_t last_of_span(const struct track *track, size_t first)
{
	const struct unit *unit = &track->units[first];
	size_t last = first;
	size_t end = unit->at + unit->len;
	while (unit->said != SAID_PROMPT && end - unit->at < TELLING_LEN &&
		last + 1 < track->unit_count) {
		const struct unit *next = &track->units[last + 1];
		bool is_one = next->said == unit->said && next->name == unit->name &&
			      next->turn == unit->turn && next->seq == track->units[last].seq + 1;
		if (!is_one) {
			break;
		}
		last++;
		end = next->at + next->len;
	}
	return end - unit->at < TELLING_LEN ? first : last;
}

static size_t end_of(const struct track *track, size_t unit)
{
	return track->units[unit].at + track->units[unit].len;
}

/* --- the index --- */

static void add_key(struct index *index, uint64_t sum, size_t place)
{
	index->keys = list_grow(index->keys, index->count, sizeof(*index->keys));
	index->keys[index->count++] = (struct key){sum, place};
}

static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a;
	const struct key *y = b;
	if (x->sum != y->sum) {
		return x->sum < y->sum ? -1 : 1;
	}
	return x->place < y->place ? -1 : x->place > y->place;
}

/** Returns the bunch with this sum; SIZE_MAX: none. */
static size_t find_bunch(const struct index *index, uint64_t sum)
{
	return (size_t)(uintptr_t)hash_get(index->by_sum, (const char *)&sum, sizeof(sum)) - 1;
}

static void make_bunches(struct index *index)
{
	index->bunches = xcalloc(index->count + 1, sizeof(*index->bunches));
	index->by_sum = hash_create();
	if (index->count) {
		qsort(index->keys, index->count, sizeof(*index->keys), compare_keys);
	}
	size_t bunch = 0;
	for (size_t i = 0; i < index->count; i++) {
		const struct key *key = &index->keys[i];
		if (i == 0 || key->sum != key[-1].sum) {
			index->bunches[bunch++].from = i;
			hash_put(index->by_sum, (const char *)&key->sum, sizeof(key->sum),
				(void *)(uintptr_t)bunch);
		}
		index->bunches[bunch - 1].count++;
	}
}

static void make_index(struct search *search)
{
	const struct align *align = search->align;
	const struct track *track = align->track;
	struct index *index = &search->index;
	bool *had_name = xcalloc(hash_count(align->logged->names) + 1, sizeof(*had_name));
	for (size_t i = 0; i < track->unit_count; i++) {
		const struct unit *unit = &track->units[i];
		const char *bytes = track->text.bytes.data + unit->at;
		size_t len = end_of(track, last_of_span(track, i)) - unit->at;
		add_key(index, sum_of_text(unit->said, bytes, unit->len), i);
		if (len > unit->len) {
			add_key(index, sum_of_text(unit->said, bytes, len), i);
		}
		if (unit->name && !had_name[unit->name]) {
			had_name[unit->name] = true;
			add_key(index, sum_of_number(KEY_NAME, unit->name), i);
		}
	}
	for (size_t i = 0; i < track->call_count; i++) {
		add_key(index, sum_of_number(KEY_CALL, track->calls[i].first), i);
	}
	free(had_name);
	make_bunches(index);
}

/* --- the replay --- */

static void look_up(struct search *search, uint64_t sum, struct hit hit)
{
	hit.bunch = find_bunch(&search->index, sum);
	search->align->work += LOOK_WORK;
	if (hit.bunch == SIZE_MAX) {
		return;
	}
	if (search->hit_count == HITS_MAX) {
		align_exhaust(search->align);
		return;
	}
	search->index.bunches[hit.bunch].told++;
	search->hits = list_grow(search->hits, search->hit_count, sizeof(*search->hits));
	search->hits[search->hit_count++] = hit;
}

/** Looks up the whole lines from there on that together are still short. */
static void look_up_lines(struct search *search, struct hit hit)
{
	const struct align *align = search->align;
	const struct part *part = &align->parts.list[hit.part];
	const struct bare_text *text = &align->items.text;
	enum said said = align->items.list[hit.item].run->said;
	for (hit.to = hit.at + 1; hit.to <= part->to && hit.to - hit.at < TELLING_LEN; hit.to++) {
		if (hit.to == part->to || text->starts.data[hit.to] == START_LINE) {
			look_up(search,
				sum_of_text(said, text->bytes.data + hit.at, hit.to - hit.at), hit);
		}
	}
}

/**
 * Looks up a part of a text at each place where a text of the log can begin: at a line or a word,
 * or where the part begins.
 */
static void look_up_part(struct search *search, size_t place)
{
	struct align *align = search->align;
	const struct part *part = &align->parts.list[place];
	const struct bare_text *text = &align->items.text;
	enum said said = align->items.list[part->item].run->said;
	struct hit hit = {.part = place, .item = part->item, .at = part->from, .to = part->to};
	if (said == SAID_PROMPT) {
		look_up(search,
			sum_of_text(said, text->bytes.data + part->from, part->to - part->from),
			hit);
		return;
	}
	for (; hit.at < part->to && !align_is_exhausted(align); hit.at++) {
		char start = hit.at == part->from ? START_LINE : text->starts.data[hit.at];
		if (start && hit.at + TELLING_LEN <= part->to) {
			hit.to = part->to;
			look_up(search, sum_of_text(said, text->bytes.data + hit.at, TELLING_LEN),
				hit);
		}
		if (start == START_LINE) {
			look_up_lines(search, hit);
		}
	}
}

static void look_up_item(struct search *search, size_t place)
{
	const struct items *items = &search->align->items;
	const struct item *item = &items->list[place];
	if (item->name) {
		struct hit hit = {.kind = LINK_NAME, .item = place};
		look_up(search, sum_of_number(KEY_NAME, item->name), hit);
	}
	if (item->call == SIZE_MAX || items->first_of_call[item->call] != place ||
		items->calls->calls[item->call].is_logged) {
		return;
	}
	const char *id = json_string_value(json_object_get(item->run->data, "tool_call_id"));
	size_t first = track_find_call(search->align->track, id);
	if (first != SIZE_MAX) {
		struct hit hit = {.kind = LINK_CALL, .item = place};
		look_up(search, sum_of_number(KEY_CALL, first), hit);
	}
}

static void look_up_all(struct search *search)
{
	const struct parts *parts = &search->align->parts;
	size_t part = 0;
	for (size_t i = 0; i < search->align->items.count; i++) {
		look_up_item(search, i);
		for (; part < parts->count && parts->list[part].item == i; part++) {
			look_up_part(search, part);
		}
	}
}

/* --- links --- */

static void add_link(struct align *align, struct link link)
{
	struct links *links = &align->links;
	const struct item *item = &align->items.list[link.item];
	bool is_text = link.kind == LINK_TEXT;
	/* Each item has a position of its own, before its text. */
	link.told_from = 2 * link.item + (is_text ? link.at + 1 : item->from);
	link.told_to = link.told_from + (is_text ? link.len : 1);
	if (links->count == LINKS_MAX) {
		align_exhaust(align);
		return;
	}
	links->list = list_grow(links->list, links->count, sizeof(*links->list));
	links->list[links->count++] = link;
}

/** Matches that identify a place count twice. */
static size_t weight_of(size_t len, bool is_prompt)
{
	return is_prompt ? 2 * len + PROMPT_WEIGHT : len < TELLING_LEN ? len : 2 * len;
}

static void try_text(struct align *align, const struct hit *hit, size_t place)
{
	const struct unit *unit = &align->track->units[place];
	const struct item *item = &align->items.list[hit->item];
	size_t to = hit->to;
	bool is_short = to - hit->at < TELLING_LEN;
	size_t last = is_short ? place : last_of_span(align->track, place);
	size_t end = end_of(align->track, last);
	if (unit->said != item->run->said || !align_fits(align, item, unit)) {
		return;
	}
	size_t len = align_common(align, hit->at, to, unit->at, end);
	bool is_prompt = unit->said == SAID_PROMPT;
	bool is_end = hit->at + len == to && (is_prompt || len >= TELLING_LEN);
	/* The match ends where one of the two texts ends; for prompts, where both end. */
	if (is_prompt ? is_end && len == end - unit->at : is_end || len == end - unit->at) {
		add_link(align, (struct link){.item = hit->item,
					.at = hit->at,
					.len = len,
					.place = place,
					.last = last,
					.turn = unit->turn,
					.weight = weight_of(len, is_prompt)});
	}
}

static void try_place(struct align *align, const struct hit *hit, size_t place)
{
	const struct track *track = align->track;
	bool is_call = hit->kind == LINK_CALL;
	align->work += LOOK_WORK;
	/* Sums are no proof: an agent can make a text that has the sum of a call. */
	if (place >= (is_call ? track->call_count : track->unit_count)) {
		return;
	}
	if (hit->kind == LINK_TEXT) {
		try_text(align, hit, place);
		return;
	}
	const struct items *items = &align->items;
	if (is_call && !call_fits(&items->calls->calls[items->list[hit->item].call],
			       &track->calls[place])) {
		return;
	}
	add_link(align,
		(struct link){.kind = hit->kind,
			.item = hit->item,
			.place = place,
			.turn = is_call ? track->calls[place].turn : track->units[place].turn,
			.weight = NAME_WEIGHT});
}

/**
 * Tries the likely places. The third occurrence in the replay is probably the third in the log, or,
 * counted from the end, the one with the same distance: these are tried, and some around them.
 */
static void try_hit(struct search *search, const struct hit *hit)
{
	struct bunch *bunch = &search->index.bunches[hit->bunch];
	const struct key *keys = search->index.keys + bunch->from;
	size_t rank = bunch->seen++;
	size_t from_end = bunch->told - rank; /* 1: the last one */
	size_t back = bunch->count > from_end ? bunch->count - from_end : 0;
	size_t near = LINKS_MAX / 4 / search->hit_count;
	size_t last = 0; /* index after the place tried last */
	near = near > NEAR ? NEAR : near + !near;
	const size_t likely[2] = {rank < back ? rank : back, rank < back ? back : rank};
	for (int i = 0; i < 2; i++) {
		size_t from = likely[i] > near ? likely[i] - near : 0;
		size_t to =
			likely[i] + near + 1 < bunch->count ? likely[i] + near + 1 : bunch->count;
		for (size_t k = from > last ? from : last; k < to; k++) {
			try_place(search->align, hit, keys[k].place);
			last = k + 1;
		}
	}
}

void links_find(struct align *align)
{
	struct search search = {.align = align};
	make_index(&search);
	look_up_all(&search);
	for (size_t i = 0; i < search.hit_count && !align_is_exhausted(align); i++) {
		try_hit(&search, &search.hits[i]);
	}
	free(search.index.keys);
	free(search.index.bunches);
	hash_destroy(search.index.by_sum);
	free(search.hits);
}

void links_finish(struct links *links)
{
	free(links->list);
	*links = (struct links){0};
}
