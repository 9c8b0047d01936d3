#include "acp_firewall.h"

#include "align.h"

#include "holdfast/json_text.h"

#include <stdlib.h>
#include <string.h>

/* What a new event takes of memory besides its text, about. */
#define FRESH_SIZE ((size_t)512)
/* What it may cost to look whether the history is complete, all together; see acp_align.work. */
#define LOOK_WORK_MAX ((size_t)64 << 20)

struct acp_firewall {
	struct acp_known known;
	struct acp_told told;
	size_t size_max;
	size_t look_work;
	size_t looked_at; /* what had been told then */
	bool is_complete;
	json_t *fresh;
	size_t fresh_size;
	bool is_cut; /* there was too much of it */
	bool is_foreign;
};

struct acp_firewall *acp_firewall_create(size_t size_max)
{
	struct acp_firewall *fw = xcalloc(1, sizeof(*fw));
	fw->size_max = size_max;
	fw->told.size_max = size_max;
	fw->fresh = json_array();
	acp_known_init(&fw->known, size_max);
	return fw;
}

void acp_firewall_destroy(struct acp_firewall *fw)
{
	if (!fw) {
		return;
	}
	acp_known_finish(&fw->known);
	acp_told_finish(&fw->told);
	json_decref(fw->fresh);
	free(fw);
}

struct acp_known *acp_firewall_known(struct acp_firewall *fw)
{
	return &fw->known;
}

void acp_firewall_take(struct acp_firewall *fw, const json_t *update, size_t size)
{
	acp_told_take(&fw->told, update, size);
}

bool acp_firewall_is_complete(struct acp_firewall *fw)
{
	struct acp_align align;
	if (fw->look_work && fw->looked_at == fw->told.size) {
		return fw->is_complete;
	}
	fw->looked_at = fw->told.size;
	fw->is_complete = false;
	if (fw->look_work < LOOK_WORK_MAX) {
		acp_align_run(&align, &fw->told, &fw->known);
		fw->look_work += align.work + 1;
		fw->is_complete = align.is_complete;
		acp_align_finish(&align);
	}
	return fw->is_complete;
}

/* --- what is new --- */

/** Takes over `data`. */
static void add_fresh(struct acp_firewall *fw, const char *type, json_t *data, size_t size,
	const char *message_id)
{
	fw->is_cut = fw->is_cut || fw->fresh_size + size + FRESH_SIZE > fw->size_max;
	if (fw->is_cut) {
		json_decref(data);
		return;
	}
	fw->fresh_size += size + FRESH_SIZE;
	json_t *item = json_pack("{s:s, s:o}", "type", type, "data", data);
	if (message_id) {
		json_object_set_new(item, "message_id", json_string(message_id));
	}
	json_array_append_new(fw->fresh, item);
}

/* Where a byte of an item's text as it is compared stands in the text as it came. */
struct cursor {
	size_t bare;
	size_t raw;
};

static size_t go_to(const struct acp_firewall *fw, const struct acp_item *item,
	struct cursor *cursor, size_t bare)
{
	cursor->raw += acp_text_skip(item->run->said, fw->told.raw.data + cursor->raw,
		item->raw_to - cursor->raw, bare - cursor->bare);
	cursor->bare = bare;
	return cursor->raw;
}

static void add_part(struct acp_firewall *fw, const struct acp_item *item,
	const struct acp_part *part, struct cursor *cursor)
{
	static const struct {
		const char *type;
		const char *member;
	} forms[] = {
		[ACP_SAID_MESSAGE] = {"agent_message_chunk", "text"},
		[ACP_SAID_THOUGHT] = {"agent_thought_chunk", "text"},
		[ACP_SAID_PROMPT] = {"user_prompt", "message"},
	};
	enum acp_said said = item->run->said;
	size_t from = go_to(fw, item, cursor, part->from);
	size_t to = go_to(fw, item, cursor, part->to);
	to = part->to < item->to ? to : item->raw_to;
	json_t *data = json_object();
	json_object_set_new(
		data, forms[said].member, json_stringn(fw->told.raw.data + from, to - from));
	add_fresh(fw, forms[said].type, data, to - from,
		said == ACP_SAID_PROMPT ? NULL : item->run->message_id);
}

static void add_event(struct acp_firewall *fw, const struct acp_align *align, size_t place)
{
	const struct acp_item *item = &align->items.list[place];
	const char *type = item->run->type;
	/* The result of a call that the log has: a second call with that id would be another one.
	 */
	if (item->has_call) {
		type = "tool_call_update";
	}
	char *text = json_text(item->run->data, NULL);
	add_fresh(fw, type, json_incref(item->run->data), strlen(text), NULL);
	free(text);
}

static void add_all(struct acp_firewall *fw, const struct acp_align *align)
{
	const struct acp_parts *parts = &align->parts;
	size_t part = 0;
	for (size_t i = 0; i < align->items.count; i++) {
		const struct acp_item *item = &align->items.list[i];
		/* Of a history whose beginning the log does not have, the beginning is not new. */
		bool is_older = fw->known.is_cut && i < align->first_met;
		struct cursor cursor = {item->from, item->raw_from};
		for (; part < parts->count && parts->list[part].item == i; part++) {
			if (!is_older) {
				add_part(fw, item, &parts->list[part], &cursor);
			}
		}
		if (item->run->kind != ACP_TOLD_TEXT && !item->is_known && !is_older) {
			add_event(fw, align, i);
		}
	}
}

json_t *acp_firewall_finish(struct acp_firewall *fw)
{
	struct acp_align align;
	acp_align_run(&align, &fw->told, &fw->known);
	bool is_exhausted = acp_align_is_exhausted(&align);
	fw->is_foreign = fw->known.tracks[0]->turn_count > 1 && align.items.has_prompts &&
			 align.first_met == SIZE_MAX && !fw->known.is_cut && !is_exhausted;
	if (!is_exhausted) {
		add_all(fw, &align);
	}
	fw->is_cut = fw->is_cut || is_exhausted || fw->told.is_full;
	acp_align_finish(&align);
	json_t *fresh = fw->fresh;
	fw->fresh = json_array();
	return fresh;
}

bool acp_firewall_is_cut(const struct acp_firewall *fw)
{
	return fw->is_cut;
}

bool acp_firewall_is_foreign(const struct acp_firewall *fw)
{
	return fw->is_foreign;
}
