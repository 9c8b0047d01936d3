/*
 * Private to src/reconcile: holds what an agent tells of its history against a track of the log, as
 * two sequences that go on in the same order (proto/protocol.md#how-a-replay-is-compared). What is
 * found of it is dropped; parts are left of what is not. Three steps:
 *
 * - links: each text of some length, each prompt, each call and each message's name, with the
 *   places where the log has it (links.c);
 * - of these the heaviest chain that goes on in both, first from turn to turn, then in each turn
 *   (chain.c);
 * - what lies between two links of the chain is compared where it is, however short it is
 *   (walk.c).
 *
 * In the end what is left of both is compared once more, wherever it is (late.c).
 */
#ifndef HOLDFAST_RECONCILE_ALIGN_H
#define HOLDFAST_RECONCILE_ALIGN_H

#include "told.h"

/* What a look costs, about, in bytes that are looked through. */
#define LOOK_WORK ((size_t)16)

enum link_kind { LINK_TEXT, LINK_CALL, LINK_NAME };

/* One place of what is told, and one of the log, that may be the same. */
struct link {
	enum link_kind kind;
	bool is_chosen;
	size_t item;
	size_t at; /* of a text: in the items' text */
	size_t len;
	size_t place; /* of a text or a name: the unit; else the call */
	size_t last; /* of a text: the last unit of it */
	size_t turn; /* of the log */
	size_t group; /* of a text, see align_group_of() */
	/* For the chain: where it begins and ends in what is told, and in the log. */
	size_t told_from;
	size_t told_to;
	size_t log_from;
	size_t log_to;
	size_t weight;
	/* What the chain makes of it. */
	size_t best;
	size_t before; /* the link before it, SIZE_MAX: none */
};

struct links {
	struct link *list;
	size_t count;
};

/* A part of a text that was told, and not found so far. */
struct part {
	size_t item;
	size_t from; /* in the items' text */
	size_t to;
};

struct parts {
	struct part *list;
	size_t count;
};

/* What is compared with what is told; `late` comes last, see late.c. */
enum phase { PHASE_LIVE, PHASE_RECOVERED, PHASE_LATE };

/* Which turns of the log a turn that is told can be; none if `from` is above `to`. */
struct turns {
	size_t from;
	size_t to;
};

struct align {
	struct logged *logged;
	struct items items;
	struct parts parts;
	bool is_complete; /* the newest turn of the log was told */
	size_t first_met; /* the first item that the log has for certain; SIZE_MAX: none */
	size_t work; /* about the bytes that were looked through */
	/* Of the track that is looked at now. */
	struct track *track;
	enum phase phase;
	struct links links;
	struct turns *turns; /* for each turn that is told */
	size_t *prompts; /* for each turn of the log its prompt's unit; SIZE_MAX: none */
	/* The units by what they are compared with: their groups one after the other. */
	size_t *order;
	size_t *rank; /* where in there each unit is */
	size_t *group_from; /* where each group begins, and the last one ends */
	size_t group_count;
};

/** Compares all that was told so far. */
void align_run(struct align *align, const struct told *told, struct logged *logged);
void align_finish(struct align *align);
/** So much was looked through that the rest was not: what is left of it need not be new. */
bool align_is_exhausted(const struct align *align);
/** It is, then. */
void align_exhaust(struct align *align);

/** Which prompts and messages of the log may be what, and where: links.c */
void links_find(struct align *align);
void links_finish(struct links *links);
/** How many bytes two texts have in common, from their beginning. */
size_t align_common(struct align *align, size_t at, size_t to, size_t log_at, size_t log_to);

void parts_add(struct parts *parts, size_t item, size_t from, size_t to);
/**
 * Which texts are compared with which: those of a kind, or, where the agent names its messages as
 * it did then, those of one message.
 */
size_t align_group_of(const struct item *item);
/** Whether the names that both have, if any, allow that they are the same. */
bool align_fits(const struct align *align, const struct item *item, const struct unit *unit);

/* chain.c */

/**
 * Chooses the heaviest chain of links that goes on in both. They are in the order of told_from;
 * log_to is below `log_size`. Of two that are as heavy, the one whose end is later in what is told
 * (`later`), or sooner; or else the one that ends sooner in the log.
 */
void chain_choose(struct link *links, size_t count, size_t log_size, bool later);

/* walk.c */

/** Replaces the parts by what is left of them. */
void align_walk(struct align *align);

/* late.c */

/** Keeps the links to what of the track was not told in its place, as far as it may be told late. */
void late_keep_links(struct align *align);

#endif
