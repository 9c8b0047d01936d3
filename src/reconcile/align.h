/*
 * Private to src/agent: holds what an agent tells of its history against a track of the log, as two
 * sequences that go on in the same order (proto/protocol.md#how-a-replay-is-compared). What is
 * found of it is dropped; parts are left of what is not. Three steps:
 *
 * - links: each text of some length, each prompt, each call and each message's name, with the
 *   places where the log has it (acp_links.c);
 * - of these the heaviest chain that goes on in both, first from turn to turn, then in each turn
 *   (acp_chain.c);
 * - what lies between two links of the chain is compared where it stands, however short it is
 *   (acp_walk.c).
 */
#ifndef HOLDFAST_ACP_ALIGN_H
#define HOLDFAST_ACP_ALIGN_H

#include "told.h"

/* What a look costs, about, in bytes that are looked through. */
#define ACP_LOOK_WORK ((size_t)16)

enum acp_link_kind { ACP_LINK_TEXT, ACP_LINK_CALL, ACP_LINK_NAME };

/* One place of what is told, and one of the log, that may be the same. */
struct acp_link {
	enum acp_link_kind kind;
	bool is_chosen;
	size_t item;
	size_t at; /* of a text: in the items' text */
	size_t len;
	size_t place; /* of a text or a name: the unit; else the call */
	size_t last; /* of a text: the last unit of it */
	size_t turn; /* of the log */
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

struct acp_links {
	struct acp_link *list;
	size_t count;
};

/* A part of a text that was told, and not found so far. */
struct acp_part {
	size_t item;
	size_t from; /* in the items' text */
	size_t to;
};

struct acp_parts {
	struct acp_part *list;
	size_t count;
};

/* Which turns of the log a turn that is told can be; none if `from` is above `to`. */
struct acp_turns {
	size_t from;
	size_t to;
};

struct acp_align {
	struct acp_known *known;
	struct acp_items items;
	struct acp_parts parts;
	bool is_complete; /* the newest turn of the log was told to its end */
	size_t first_met; /* the first item that the log has for certain; SIZE_MAX: none */
	size_t work; /* about the bytes that were looked through */
	/* Of the track that is looked at now. */
	struct acp_track *track;
	bool is_live; /* it is what was heard live */
	struct acp_links links;
	struct acp_turns *turns; /* for each turn that is told */
	size_t *prompts; /* for each turn of the log its prompt's unit; SIZE_MAX: none */
	/* The units by what they are compared with: their groups one after the other. */
	size_t *order;
	size_t *rank; /* where in there each unit is */
	size_t *group_from; /* where each group begins, and the last one ends */
	size_t group_count;
};

/** Compares all that was told so far. */
void acp_align_run(struct acp_align *align, const struct acp_told *told, struct acp_known *known);
void acp_align_finish(struct acp_align *align);
/** So much was looked through that the rest was not: what is left of it need not be new. */
bool acp_align_is_exhausted(const struct acp_align *align);
/** It is, then. */
void acp_align_exhaust(struct acp_align *align);

/** Which prompts and messages of the log may be what, and where: acp_links.c */
void acp_links_find(struct acp_align *align);
void acp_links_finish(struct acp_links *links);
/** How many bytes two texts have in common, from their beginning. */
size_t acp_align_common(
	struct acp_align *align, size_t at, size_t to, size_t log_at, size_t log_to);

void acp_parts_add(struct acp_parts *parts, size_t item, size_t from, size_t to);
/**
 * Which texts are compared with which: those of a kind, or, where the agent names its messages as
 * it did then, those of one message.
 */
size_t acp_align_group_of(const struct acp_item *item);
/** Whether the names that both have, if any, allow that they are the same. */
bool acp_align_fits(
	const struct acp_align *align, const struct acp_item *item, const struct acp_unit *unit);

/* acp_chain.c */

/**
 * Chooses the heaviest chain of links that goes on in both. They are in the order of told_from;
 * log_to is below `log_size`. Of two that are as heavy, the one whose end is later in what is told
 * (`later`), or sooner; or else the one that ends sooner in the log.
 */
void acp_chain_choose(struct acp_link *links, size_t count, size_t log_size, bool later);

/* acp_walk.c */

/** Replaces the parts by what is left of them. */
void acp_walk(struct acp_align *align);

#endif
