#include "align.h"

#include <stdlib.h>
#include <string.h>

/*
 * Within a turn, the chain with the most bytes is chosen; of chains with the same number of bytes,
 * the one with more weight.
 */
#define BYTE_WEIGHT ((size_t)1 << 16)

/* About half a second on the loop; only a history crafted for it takes that long. */
#define WORK_MAX ((size_t)128 << 20)

bool align_is_exhausted(const struct align *align)
{
	return align->work > WORK_MAX;
}

void align_exhaust(struct align *align)
{
	align->work = WORK_MAX + 1;
}

void parts_add(struct parts *parts, size_t item, size_t from, size_t to)
{
	parts->list = list_grow(parts->list, parts->count, sizeof(*parts->list));
	parts->list[parts->count++] = (struct part){item, from, to};
}

size_t align_common(struct align *align, size_t at, size_t to, size_t log_at, size_t log_to)
{
	const char *told = align->items.text.bytes.data + at;
	const char *log = align->track->text.bytes.data + log_at;
	size_t max = to - at < log_to - log_at ? to - at : log_to - log_at;
	size_t len = 0;
	while (len < max && told[len] == log[len]) {
		len++;
	}
	align->work += len + LOOK_WORK;
	return len;
}

/* --- groups --- */

static size_t group_of_name(uint32_t name)
{
	return SAID_COUNT + (size_t)name - 1;
}

size_t align_group_of(const struct item *item)
{
	return item->name ? group_of_name(item->name) : item->run->said;
}

bool align_fits(const struct align *align, const struct item *item, const struct unit *unit)
{
	if (item->name) {
		return unit->name == item->name;
	}
	/*
	 * An unknown name means a new message, provided that the log has names of this agent at
	 * all.
	 */
	return !item->is_new_name || !align->items.has_logged_names || !unit->name;
}

static size_t unit_group(const struct unit *unit, const bool *is_told)
{
	return unit->name && is_told[unit->name] ? group_of_name(unit->name) : unit->said;
}

/** Sorts the units by their groups. */
static void make_groups(struct align *align)
{
	const struct track *track = align->track;
	size_t names = hash_count(align->logged->names);
	bool *is_told = xcalloc(names + 1, sizeof(*is_told));
	for (size_t i = 0; i < align->items.count; i++) {
		is_told[align->items.list[i].name] = true;
	}
	align->group_count = SAID_COUNT + names;
	align->order = xcalloc(track->unit_count + 1, sizeof(size_t));
	align->rank = xcalloc(track->unit_count + 1, sizeof(size_t));
	size_t *from = align->group_from = xcalloc(align->group_count + 2, sizeof(size_t));
	for (size_t i = 0; i < track->unit_count; i++) {
		from[unit_group(&track->units[i], is_told) + 2]++;
	}
	for (size_t i = 2; i < align->group_count + 2; i++) {
		from[i] += from[i - 1];
	}
	for (size_t i = 0; i < track->unit_count; i++) {
		size_t rank = from[unit_group(&track->units[i], is_told) + 1]++;
		align->order[rank] = i;
		align->rank[i] = rank;
	}
	free(is_told);
}

/* --- the chain --- */

static bool is_prompt(const struct align *align, const struct link *link)
{
	return link->kind == LINK_TEXT && align->items.list[link->item].run->said == SAID_PROMPT;
}

static void drop_unchosen(struct links *links)
{
	size_t count = 0;
	for (size_t i = 0; i < links->count; i++) {
		if (links->list[i].is_chosen) {
			links->list[count++] = links->list[i];
		}
	}
	links->count = count;
}

static size_t seq_of(const struct align *align, const struct link *link)
{
	const struct track *track = align->track;
	return link->kind == LINK_CALL ? track->calls[link->place].seq
				       : track->units[link->place].seq;
}

/**
 * Chooses one chain over all kinds of links. Within a turn, the log may have the kinds in another
 * order (a tool called in the middle of a list comes after the list); then some links are not in
 * this chain.
 */
static void choose_turns(struct align *align)
{
	struct links *links = &align->links;
	for (size_t i = 0; i < links->count; i++) {
		struct link *link = &links->list[i];
		link->log_from = seq_of(align, link);
		link->log_to = link->log_from + (link->kind == LINK_NAME ? 0
							: link->kind == LINK_CALL
								? 1
								: link->last - link->place + 1);
	}
	chain_choose(links->list, links->count, align->track->seq_count + 2, true);
}

static int compare_grouped(const void *a, const void *b)
{
	const struct link *x = a;
	const struct link *y = b;
	if (x->group != y->group) {
		return x->group < y->group ? -1 : 1;
	}
	return x->told_from < y->told_from ? -1 : x->told_from > y->told_from;
}

static int compare_links(const void *a, const void *b)
{
	const struct link *x = a;
	const struct link *y = b;
	return x->told_from < y->told_from ? -1 : x->told_from > y->told_from;
}

static void choose_in_group(struct align *align, struct link *links, size_t count)
{
	size_t group = links->group;
	size_t from = align->group_from[group];
	for (size_t i = 0; i < count; i++) {
		links[i].log_from = align->rank[links[i].place] - from;
		links[i].log_to = links[i].log_from + links[i].last - links[i].place + 1;
		links[i].weight += links[i].len * BYTE_WEIGHT;
	}
	chain_choose(links, count, align->group_from[group + 1] - from + 1, false);
}

/** Chooses a chain in each group of texts. */
static void choose_texts(struct align *align)
{
	struct links *links = &align->links;
	for (size_t i = 0; i < links->count; i++) {
		struct link *link = &links->list[i];
		link->is_chosen = true;
		link->group = link->kind == LINK_TEXT
				      ? align_group_of(&align->items.list[link->item])
				      : SIZE_MAX;
	}
	if (!links->count) {
		return;
	}
	qsort(links->list, links->count, sizeof(*links->list), compare_grouped);
	for (size_t i = 0, next = 0; next < links->count; i = next) {
		while (next < links->count && links->list[next].group == links->list[i].group) {
			next++;
		}
		if (links->list[i].group != SIZE_MAX) {
			choose_in_group(align, links->list + i, next - i);
		}
	}
	drop_unchosen(links);
	qsort(links->list, links->count, sizeof(*links->list), compare_links);
}

/** Assigns each call of the log to at most one replayed call. */
static void choose_calls(struct align *align)
{
	const struct items *items = &align->items;
	for (size_t i = 0; i < align->links.count; i++) {
		struct link *link = &align->links.list[i];
		link->is_chosen = true;
		if (link->kind != LINK_CALL) {
			continue;
		}
		size_t call = items->list[link->item].call;
		struct call *told = &items->calls->calls[call];
		struct call *logged = &align->track->calls[link->place];
		link->is_chosen = told->taken_by == SIZE_MAX && logged->taken_by == SIZE_MAX;
		if (link->is_chosen) {
			logged->taken_by = call;
			told->taken_by = link->place;
		}
	}
	drop_unchosen(&align->links);
}

/* --- turns --- */

static void widen(struct turns *turns, size_t turn)
{
	turns->from = turn < turns->from ? turn : turns->from;
	turns->to = turn > turns->to ? turn : turns->to;
}

/**
 * Places what is replayed before the first prompt: in the log's first turns, or, if nothing but
 * that is replayed, in any turn.
 */
static void place_first_turn(struct align *align)
{
	struct turns *first = &align->turns[0];
	if (!align->items.has_prompts) {
		*first = (struct turns){0, align->track->turn_count - 1};
		return;
	}
	for (size_t i = 0; i < align->items.turn_count; i++) {
		if (align->turns[i].from <= align->turns[i].to) {
			*first = (struct turns){0, i ? align->turns[i].from : first->to};
			return;
		}
	}
}

/** Finds the turns of the log that each replayed turn can be. */
static void place_turns(struct align *align)
{
	struct track *track = align->track;
	for (size_t i = 0; i < align->items.turn_count; i++) {
		align->turns[i] = align->phase == PHASE_LIVE
					  ? (struct turns){SIZE_MAX, 0}
					  : (struct turns){0, track->turn_count - 1};
	}
	if (align->phase != PHASE_LIVE) {
		return;
	}
	for (size_t i = 0; i < track->unit_count; i++) {
		track->units[i].is_told = track->units[i].is_told_whole = false;
	}
	for (size_t i = 0; i < align->links.count; i++) {
		const struct link *link = &align->links.list[i];
		if (!link->is_chosen) {
			continue;
		}
		widen(&align->turns[align->items.list[link->item].turn], link->turn);
		if (is_prompt(align, link)) {
			track->units[link->place].is_told = true;
		}
	}
	place_first_turn(align);
}

/**
 * Keeps the links into the log's turn that the replayed turn belongs to, chosen or not; of prompts,
 * only chosen links.
 */
static void drop_misplaced(struct align *align)
{
	for (size_t i = 0; i < align->links.count; i++) {
		struct link *link = &align->links.list[i];
		struct turns turns = align->turns[align->items.list[link->item].turn];
		link->is_chosen = is_prompt(align, link)
					  ? link->is_chosen
					  : link->turn >= turns.from && link->turn <= turns.to;
	}
	drop_unchosen(&align->links);
}

static void find_prompts(struct align *align)
{
	const struct track *track = align->track;
	align->prompts = xmalloc(track->turn_count * sizeof(size_t));
	for (size_t i = 0; i < track->turn_count; i++) {
		align->prompts[i] = SIZE_MAX;
	}
	for (size_t i = 0; i < track->unit_count; i++) {
		if (track->units[i].said == SAID_PROMPT) {
			align->prompts[track->units[i].turn] = i;
		}
	}
}

/* --- calls --- */

/**
 * Decides which calls the log has. A call that it has without a result may have got one that the
 * server did not hear.
 */
static void judge_calls(struct align *align)
{
	struct items *items = &align->items;
	for (size_t i = 0; i < items->count; i++) {
		struct item *item = &items->list[i];
		if (item->call == SIZE_MAX) {
			continue;
		}
		struct call *call = &items->calls->calls[item->call];
		bool is_first = items->first_of_call[item->call] == i;
		item->has_call = item->has_call || call->taken_by != SIZE_MAX;
		item->is_logged =
			item->is_logged || (call->taken_by != SIZE_MAX &&
						   (align->track->calls[call->taken_by].is_done ||
							   !call_is_done(item->run->data)));
		call->is_logged = item->is_logged && (is_first || call->is_logged);
	}
}

static void release_calls(struct align *align)
{
	for (size_t i = 0; i < align->items.calls->call_count; i++) {
		align->items.calls->calls[i].taken_by = SIZE_MAX;
	}
	for (size_t i = 0; align->phase != PHASE_LATE && i < align->track->call_count; i++) {
		align->track->calls[i].taken_by = SIZE_MAX;
	}
}

/* --- the whole comparison --- */

/**
 * Whether the log's newest turn was replayed: its prompt, each message, the last call, and the last
 * thought if nothing follows it (some agents do not replay thoughts). The end alone is not enough:
 * a late replay is recorded there.
 */
static bool is_complete(const struct track *track)
{
	size_t turn = track->turn_count - 1;
	for (size_t i = track->unit_count; i > 0 && track->units[i - 1].turn == turn; i--) {
		const struct unit *unit = &track->units[i - 1];
		bool is_needed = unit->said != SAID_THOUGHT || unit->seq + 1 == track->seq_count;
		bool is_told = unit->said == SAID_PROMPT ? unit->is_told : unit->is_told_whole;
		if (is_needed && !is_told) {
			return false;
		}
	}
	bool has_calls = track->call_count > 0 && track->calls[track->call_count - 1].turn == turn;
	return !has_calls || track->calls[track->call_count - 1].taken_by != SIZE_MAX;
}

/** Notes the first certain match; a short text may match by chance. */
static void note_met(struct align *align)
{
	for (size_t i = 0; i < align->links.count && align->first_met == SIZE_MAX; i++) {
		const struct link *link = &align->links.list[i];
		if (link->kind != LINK_TEXT || link->len >= TELLING_LEN || is_prompt(align, link)) {
			align->first_met = link->item;
		}
	}
}

static void align_track(struct align *align, struct track *track, enum phase phase)
{
	align->track = track;
	align->phase = phase;
	align->turns = xcalloc(align->items.turn_count, sizeof(*align->turns));
	align->work += align->items.count + track->unit_count + hash_count(align->logged->names);
	release_calls(align);
	make_groups(align);
	find_prompts(align);
	links_find(align);
	if (phase == PHASE_LIVE) {
		align->work += LOOK_WORK * align->links.count;
		choose_turns(align);
		place_turns(align);
		drop_misplaced(align);
	} else if (phase == PHASE_LATE) {
		late_keep_links(align);
	}
	choose_texts(align);
	choose_calls(align);
	place_turns(align);
	note_met(align);
	align_walk(align);
	judge_calls(align);
	links_finish(&align->links);
	free(align->turns);
	free(align->prompts);
	free(align->order);
	free(align->rank);
	free(align->group_from);
}

/** Whether a text or a call is left unmatched. */
static bool has_left(const struct align *align)
{
	bool has = align->parts.count > 0;
	for (size_t i = 0; i < align->items.count && !has; i++) {
		const struct item *item = &align->items.list[i];
		has = item->call != SIZE_MAX && !item->is_logged && !item->has_call;
	}
	return has;
}

void align_run(struct align *align, const struct told *told, struct logged *logged)
{
	*align = (struct align){.logged = logged, .first_met = SIZE_MAX};
	items_make(&align->items, told, logged);
	for (size_t i = 0; i < align->items.count; i++) {
		struct item *item = &align->items.list[i];
		if (item->run->kind == TOLD_TEXT) {
			parts_add(&align->parts, i, item->from, item->to);
		} else if (item->run->kind == TOLD_OTHER) {
			item->is_logged = logged_has(logged, item->run->type, item->run->data);
		}
	}
	for (size_t i = 0; i < logged->track_count && !align_is_exhausted(align); i++) {
		align_track(align, logged->tracks[i], i ? PHASE_RECOVERED : PHASE_LIVE);
	}
	if (has_left(align) && !align_is_exhausted(align)) {
		align_track(align, logged->tracks[0], PHASE_LATE);
	}
	align->is_complete = is_complete(logged->tracks[0]);
}

void align_finish(struct align *align)
{
	items_finish(&align->items);
	free(align->parts.list);
}
