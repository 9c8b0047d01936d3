/*
 * Private to src/agents/reconcile: an agent's replayed history, gathered into whole texts, prompts and
 * calls, however it is cut into pieces. "Told" means replayed.
 */
#ifndef HOLDFAST_RECONCILE_TOLD_H
#define HOLDFAST_RECONCILE_TOLD_H

#include "logged.h"

enum told_kind { TOLD_TEXT, TOLD_CALL, TOLD_OTHER };

/* Consecutive chunks of one text, or an event. */
struct run {
	enum told_kind kind;
	enum said said;
	char *message_id; /* NULL: none */
	size_t from; /* range in `raw` */
	size_t to;
	size_t piece_from; /* range in `ends`, which says where each piece ends in `raw` */
	size_t piece_to;
	char *type; /* the type of an event */
	json_t *data;
};

struct told {
	struct buffer raw;
	struct buffer ends; /* size_t */
	struct run *runs;
	size_t run_count;
	bool is_open; /* the last run can be continued */
	size_t size;
	size_t size_max;
	bool is_full; /* the replay is larger than size_max */
};

void told_finish(struct told *told);
/** Begins an update of `size` bytes; returns false if the replay is too large. */
bool told_begin_update(struct told *told, size_t size);
void told_text(
	struct told *told, enum said said, const char *text, size_t len, const char *message_id);
void told_event(struct told *told, const char *type, const json_t *data);

/* One thing that is replayed: a text, a part of one that is a prompt by itself, or an event. */
struct item {
	const struct run *run;
	size_t raw_from;
	size_t raw_to;
	size_t from; /* range in items.text, as compared */
	size_t to;
	size_t turn; /* turn of the replay; 0: before the first prompt */
	uint32_t name; /* number of its message's name, if the log has that name; else 0 */
	bool is_new_name; /* it has a name that the log does not have */
	bool is_behind_ours; /* a prompt right after one that the log has: may be a part of that */
	size_t call; /* of a call: its index in items.calls; else SIZE_MAX */
	bool is_logged; /* the log has it; not for texts, whose parts say so */
	bool has_call; /* the log has at least the call that it belongs to */
};

struct items {
	struct bare_text text;
	struct item *list;
	size_t count;
	size_t turn_count;
	bool has_prompts;
	bool has_logged_names; /* the agent still uses message names that the log has */
	struct track *calls;
	size_t *first_of_call; /* for each call, the first item that belongs to it */
};

/** Makes the items of what was replayed so far; they borrow from `told`. */
void items_make(struct items *items, const struct told *told, const struct logged *logged);
void items_finish(struct items *items);

#endif
