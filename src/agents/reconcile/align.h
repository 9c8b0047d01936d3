/*
 * Private to src/agents/reconcile: matches an agent's replayed history with a track of the log; both are
 * sequences in the same order (proto/protocol.md#how-a-replay-is-compared). What matches is
 * dropped; parts are left of what does not. Three steps:
 *
 * - find links: for each text of some length, each prompt, each call and each message's name, the
 *   places where the log has it (links.c);
 * - choose the heaviest chain of links that is in order on both sides, first across turns, then
 *   within each turn (chain.c);
 * - compare what lies between two links of the chain in place, however short it is (walk.c).
 *
 * In the end, what is left on both sides is compared once more, regardless of its place (late.c).
 */
#ifndef HOLDFAST_RECONCILE_ALIGN_H
#define HOLDFAST_RECONCILE_ALIGN_H

#include "told.h"

/* Approximate cost of one lookup, in bytes compared. */
#define LOOK_WORK ((size_t)16)

enum link_kind { LINK_TEXT, LINK_CALL, LINK_NAME };

/* A place in the replay and a place in the log that may be the same. */
struct link {
	enum link_kind kind;
	bool is_chosen;
	size_t item;
	size_t at; /* of a text: offset in the items' text */
	size_t len;
	size_t place; /* in the log: of a text or a name the unit, else the call */
	size_t last; /* of a text: its last unit */
	size_t turn; /* of the log */
	size_t group; /* of a text, see align_group_of() */
	/* For the chain: the ranges that it covers in the replay and in the log. */
	size_t told_from;
	size_t told_to;
	size_t log_from;
	size_t log_to;
	size_t weight;
	/* Set while the chain is chosen. */
	size_t best;
	size_t before; /* the previous link of the chain; SIZE_MAX: none */
};

struct links {
	struct link *list;
	size_t count;
};

/* A part of a replayed text that has not been matched so far. */
struct part {
	size_t item;
	size_t from; /* offsets in the items' text */
	size_t to;
};

struct parts {
	struct part *list;
	size_t count;
};

/* What the replay is compared with; PHASE_LATE comes last, see late.c. */
enum phase { PHASE_LIVE, PHASE_RECOVERED, PHASE_LATE };

/* The turns of the log that a replayed turn can be; none if `from` is above `to`. */
struct turns {
	size_t from;
	size_t to;
};

struct align {
	struct logged *logged;
	struct items items;
	struct parts parts;
	bool is_complete; /* the newest turn of the log was replayed */
	size_t first_met; /* the first item that the log certainly has; SIZE_MAX: none */
	size_t work; /* approximate number of bytes compared */
	/* The track that is being compared. */
	struct track *track;
	enum phase phase;
	struct links links;
	struct turns *turns; /* for each replayed turn */
	size_t *prompts; /* for each turn of the log, the unit of its prompt; SIZE_MAX: none */
	/* The units sorted by their groups (see align_group_of()). */
	size_t *order;
	size_t *rank; /* the index of each unit in `order` */
	size_t *group_from; /* where each group begins in `order`; one more for the end */
	size_t group_count;
};

/** Compares everything replayed so far. */
void align_run(struct align *align, const struct told *told, struct logged *logged);
void align_finish(struct align *align);
/**
 * Whether the work limit was reached, so that the rest was not compared: what is left need not be
 * new.
 */
bool align_is_exhausted(const struct align *align);
/** Makes align_is_exhausted() true. */
void align_exhaust(struct align *align);

/** links.c: finds the places of the log that parts of the replay may be. */
void links_find(struct align *align);
void links_finish(struct links *links);
/** The length of the common prefix of two texts. */
size_t align_common(struct align *align, size_t at, size_t to, size_t log_at, size_t log_to);

void parts_add(struct parts *parts, size_t item, size_t from, size_t to);
/**
 * The group of an item: only texts of one group are compared. Those of one kind form a group, or,
 * if the agent still uses the message names that the log has, those of one message.
 */
size_t align_group_of(const struct item *item);
/** Whether their message names, if any, allow the two to be the same. */
bool align_fits(const struct align *align, const struct item *item, const struct unit *unit);

/* chain.c */

/**
 * Chooses the heaviest chain of links that is in order on both sides. The links are sorted by
 * told_from; every log_to is below `log_size`. Of two chains of equal weight, prefers the one that
 * ends later (`later`) or earlier in the replay, and then the one that ends earlier in the log.
 */
void chain_choose(struct link *links, size_t count, size_t log_size, bool later);

/* walk.c */

/** Replaces the parts by what is left of them after matching. */
void align_walk(struct align *align);

/* late.c */

/** Drops the links to what was already matched in its place, or must not match late. */
void late_keep_links(struct align *align);

#endif
