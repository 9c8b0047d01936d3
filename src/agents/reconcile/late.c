#include "align.h"

#include <stdlib.h>

/*
 * What was replayed too late. If an agent continues its replay after it has got its prompt (because
 * of a slow disk, or a pause longer than we wait), the server takes that for its answer: the log
 * then has a message of an earlier turn in a later one. In the next replay that message comes in
 * its own turn, where the log does not have it. So what is left of the replay is compared with what
 * is left of the log once more, regardless of turns. A text matches if its message's name says so;
 * or if it is long enough, or a prompt, and something else of the log's turn is replayed without
 * it. Each text and call of the log still matches only once.
 */

/** For each turn of the log, whether anything of it is replayed. */
static bool *find_told_turns(const struct track *track)
{
	bool *turns = xcalloc(track->turn_count, sizeof(*turns));
	for (size_t i = 0; i < track->unit_count; i++) {
		turns[track->units[i].turn] =
			turns[track->units[i].turn] || track->units[i].is_told;
	}
	for (size_t i = 0; i < track->call_count; i++) {
		const struct call *call = &track->calls[i];
		turns[call->turn] = turns[call->turn] || call->taken_by != SIZE_MAX;
	}
	return turns;
}

static bool may_be_text(const struct align *align, const struct link *link, const bool *told_turns)
{
	const struct item *item = &align->items.list[link->item];
	const struct unit *unit = &align->track->units[link->place];
	const struct unit *last = &align->track->units[link->last];
	/* The log joins thoughts of several messages into one text. */
	bool is_whole = unit->said == SAID_THOUGHT || link->len == last->at + last->len - unit->at;
	for (const struct unit *u = unit; u <= last; u++) {
		if (u->is_told) {
			return false;
		}
	}
	return item->name || (is_whole && told_turns[link->turn]);
}

static bool may_be_call(const struct align *align, const struct link *link, const bool *told_turns)
{
	const struct call *call = &align->track->calls[link->place];
	return !align->items.list[link->item].has_call && call->taken_by == SIZE_MAX &&
	       (call->has_long_id || told_turns[link->turn]);
}

void late_keep_links(struct align *align)
{
	struct links *links = &align->links;
	bool *told_turns = find_told_turns(align->track);
	size_t count = 0;
	for (size_t i = 0; i < links->count; i++) {
		const struct link *link = &links->list[i];
		if (link->kind == LINK_TEXT       ? may_be_text(align, link, told_turns)
			: link->kind == LINK_CALL ? may_be_call(align, link, told_turns)
						  : false) {
			links->list[count++] = *link;
		}
	}
	links->count = count;
	free(told_turns);
}
