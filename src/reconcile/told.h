/*
 * Private to src/reconcile: what an agent tells of its history, gathered into whole texts, prompts
 * and calls, whatever the pieces it comes in.
 */
#ifndef HOLDFAST_RECONCILE_TOLD_H
#define HOLDFAST_RECONCILE_TOLD_H

#include "logged.h"

enum told_kind { TOLD_TEXT, TOLD_CALL, TOLD_OTHER };

/* Chunks of one text, one after the other; or an event. */
struct run {
	enum told_kind kind;
	enum said said;
	char *message_id; /* NULL: none */
	size_t from; /* in `raw` */
	size_t to;
	size_t piece_from; /* in `ends`: where each piece ends in `raw` */
	size_t piece_to;
	char *type; /* of an event */
	json_t *data;
};

struct told {
	struct buffer raw;
	struct buffer ends; /* size_t */
	struct run *runs;
	size_t run_count;
	bool is_open; /* the last run may go on */
	size_t size;
	size_t size_max;
	bool is_full; /* there was more */
};

void told_finish(struct told *told);
/** One more update, and the bytes that it came in; false: it is too much. */
bool told_begin_update(struct told *told, size_t size);
void told_text(
	struct told *told, enum said said, const char *text, size_t len, const char *message_id);
void told_event(struct told *told, const char *type, const json_t *data);

/* One thing that is told: a text, or a part of one that is a prompt by itself; or an event. */
struct item {
	const struct run *run;
	size_t raw_from;
	size_t raw_to;
	size_t from; /* in the list's text, as compared */
	size_t to;
	size_t turn; /* of what is told; 0: before the first prompt */
	uint32_t name; /* of its message, if the log has it; 0: none */
	bool is_new_name; /* the log does not have it */
	bool is_behind_ours; /* a prompt, right behind one of the log's: it may be a part of it */
	size_t call; /* of a call: which of the list's */
	bool is_logged; /* the log has it; of texts: see the parts */
	bool has_call; /* the log has at least the call that it is of */
};

struct items {
	struct bare_text text;
	struct item *list;
	size_t count;
	size_t turn_count;
	bool has_prompts;
	bool has_logged_names; /* the agent's names for messages are those that the log has */
	struct track *calls;
	size_t *first_of_call; /* for each call the item that is told first */
};

/** What was told so far; lent until more is told. */
void items_make(struct items *items, const struct told *told, const struct logged *logged);
void items_finish(struct items *items);

#endif
