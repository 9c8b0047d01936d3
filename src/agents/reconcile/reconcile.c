#include "reconcile.h"

#include "align.h"

#include "holdfast/json_text.h"

#include <stdlib.h>
#include <string.h>

/* Approximate memory of a new event besides its text. */
#define FRESH_SIZE ((size_t)512)
/* Limit on the total work of reconcile_is_complete(); see align.work. */
#define LOOK_WORK_MAX ((size_t)64 << 20)

struct reconcile {
	struct logged logged;
	struct told told;
	size_t size_max;
	size_t look_work;
	size_t looked_at; /* told.size at the last check */
	bool is_complete;
	json_t *fresh;
	size_t fresh_size;
	bool is_cut; /* something may have been left out */
	bool is_foreign;
};

struct reconcile *reconcile_create(size_t size_max)
{
	struct reconcile *r = xcalloc(1, sizeof(*r));
	r->size_max = size_max;
	r->told.size_max = size_max;
	r->fresh = json_array();
	logged_init(&r->logged, size_max);
	return r;
}

void reconcile_destroy(struct reconcile *r)
{
	if (!r) {
		return;
	}
	logged_finish(&r->logged);
	told_finish(&r->told);
	json_decref(r->fresh);
	free(r);
}

struct logged *reconcile_logged(struct reconcile *r)
{
	return &r->logged;
}

void reconcile_log(
	struct reconcile *r, const char *type, const json_t *data, const char *message_id)
{
	logged_add(&r->logged, type, data, message_id);
}

void reconcile_log_is_cut(struct reconcile *r)
{
	r->logged.is_cut = true;
}

bool reconcile_begin_update(struct reconcile *r, size_t size)
{
	return told_begin_update(&r->told, size);
}

void reconcile_text(
	struct reconcile *r, enum said said, const char *text, size_t len, const char *message_id)
{
	told_text(&r->told, said, text, len, message_id);
}

void reconcile_event(struct reconcile *r, const char *type, const json_t *data)
{
	told_event(&r->told, type, data);
}

bool reconcile_is_complete(struct reconcile *r)
{
	struct align align;
	if (r->look_work && r->looked_at == r->told.size) {
		return r->is_complete;
	}
	r->looked_at = r->told.size;
	r->is_complete = false;
	if (r->look_work < LOOK_WORK_MAX) {
		align_run(&align, &r->told, &r->logged);
		r->look_work += align.work + 1;
		r->is_complete = align.is_complete;
		align_finish(&align);
	}
	return r->is_complete;
}

bool reconcile_is_cut_off(const struct reconcile *r)
{
	return r->logged.is_cut_off;
}

/* --- what is new --- */

/** Adds a new event; takes over `data`. */
static void add_fresh(
	struct reconcile *r, const char *type, json_t *data, size_t size, const char *message_id)
{
	r->is_cut = r->is_cut || r->fresh_size + size + FRESH_SIZE > r->size_max;
	if (r->is_cut) {
		json_decref(data);
		return;
	}
	r->fresh_size += size + FRESH_SIZE;
	json_t *item = json_pack("{s:s, s:o}", "type", type, "data", data);
	if (message_id) {
		json_object_set_new(item, "message_id", json_string(message_id));
	}
	json_array_append_new(r->fresh, item);
}

/* A position in an item: in its text as compared, and the same in its raw text. */
struct cursor {
	size_t bare;
	size_t raw;
};

static size_t go_to(
	const struct reconcile *r, const struct item *item, struct cursor *cursor, size_t bare)
{
	cursor->raw += bare_text_skip(item->run->said, r->told.raw.data + cursor->raw,
		item->raw_to - cursor->raw, bare - cursor->bare);
	cursor->bare = bare;
	return cursor->raw;
}

static void add_part(struct reconcile *r, const struct item *item, const struct part *part,
	struct cursor *cursor)
{
	static const struct {
		const char *type;
		const char *member;
	} forms[] = {
		[SAID_MESSAGE] = {"agent_message_chunk", "text"},
		[SAID_THOUGHT] = {"agent_thought_chunk", "text"},
		[SAID_PROMPT] = {"user_prompt", "message"},
	};
	enum said said = item->run->said;
	size_t from = go_to(r, item, cursor, part->from);
	size_t to = go_to(r, item, cursor, part->to);
	to = part->to < item->to ? to : item->raw_to;
	json_t *data = json_object();
	json_object_set_new(
		data, forms[said].member, json_stringn(r->told.raw.data + from, to - from));
	add_fresh(r, forms[said].type, data, to - from,
		said == SAID_PROMPT ? NULL : item->run->message_id);
}

static void add_event(struct reconcile *r, const struct align *align, size_t place)
{
	const struct item *item = &align->items.list[place];
	const char *type = item->run->type;
	/*
	 * The log has the call without its result. A second tool_call with the same id would be
	 * taken for another call.
	 */
	if (item->has_call) {
		type = "tool_call_update";
	}
	char *text = json_text(item->run->data, NULL);
	add_fresh(r, type, json_incref(item->run->data), strlen(text), NULL);
	free(text);
}

static void add_all(struct reconcile *r, const struct align *align)
{
	const struct parts *parts = &align->parts;
	size_t part = 0;
	for (size_t i = 0; i < align->items.count; i++) {
		const struct item *item = &align->items.list[i];
		/*
		 * If the log has lost its beginning, what precedes the first match may not be new.
		 */
		bool is_older = r->logged.is_cut && i < align->first_met;
		struct cursor cursor = {item->from, item->raw_from};
		for (; part < parts->count && parts->list[part].item == i; part++) {
			if (!is_older) {
				add_part(r, item, &parts->list[part], &cursor);
			}
		}
		if (item->run->kind != TOLD_TEXT && !item->is_logged && !is_older) {
			add_event(r, align, i);
		}
	}
}

json_t *reconcile_finish(struct reconcile *r)
{
	struct align align;
	align_run(&align, &r->told, &r->logged);
	bool is_exhausted = align_is_exhausted(&align);
	r->is_foreign = r->logged.tracks[0]->turn_count > 1 && align.items.has_prompts &&
			align.first_met == SIZE_MAX && !r->logged.is_cut && !is_exhausted;
	if (!is_exhausted) {
		add_all(r, &align);
	}
	r->is_cut = r->is_cut || is_exhausted || r->told.is_full;
	align_finish(&align);
	json_t *fresh = r->fresh;
	r->fresh = json_array();
	return fresh;
}

bool reconcile_is_cut(const struct reconcile *r)
{
	return r->is_cut;
}

bool reconcile_is_foreign(const struct reconcile *r)
{
	return r->is_foreign;
}
