#include "told.h"

#include "../acp/acp_internal.h"

#include <stdlib.h>
#include <string.h>

/* What an update takes of memory besides its text, about. */
#define UPDATE_SIZE ((size_t)200)
/* How much prompts that stand side by side are looked for: bytes, and what each look costs. */
#define PROMPT_WORK_MAX ((size_t)256 << 20)
#define PROMPT_WORK     ((size_t)64)

/* --- gathering --- */

void acp_told_finish(struct acp_told *told)
{
	for (size_t i = 0; i < told->run_count; i++) {
		free(told->runs[i].message_id);
		free(told->runs[i].type);
		json_decref(told->runs[i].data);
	}
	free(told->runs);
	buffer_finish(&told->raw);
	buffer_finish(&told->ends);
}

static struct acp_run *add_run(struct acp_told *told, enum acp_told_kind kind)
{
	size_t pieces = told->ends.len / sizeof(size_t);
	told->runs = acp_grow(told->runs, told->run_count, sizeof(*told->runs));
	struct acp_run *run = &told->runs[told->run_count++];
	*run = (struct acp_run){.kind = kind,
		.from = told->raw.len,
		.to = told->raw.len,
		.piece_from = pieces,
		.piece_to = pieces};
	return run;
}

static bool is_same(const char *a, const char *b)
{
	return a ? b && strcmp(a, b) == 0 : !b;
}

static void gather(struct acp_told *told, enum acp_said said, const char *text, size_t len,
	const char *message_id)
{
	struct acp_run *run = told->is_open ? &told->runs[told->run_count - 1] : NULL;
	if (!run || run->said != said || !is_same(run->message_id, message_id)) {
		run = add_run(told, ACP_TOLD_TEXT);
		run->said = said;
		run->message_id = message_id ? xstrdup(message_id) : NULL;
		told->is_open = true;
	}
	buffer_append(&told->raw, text, len);
	run->to = told->raw.len;
	buffer_append(&told->ends, &run->to, sizeof(run->to));
	run->piece_to++;
}

static void handle_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	gather(owner, thought ? ACP_SAID_THOUGHT : ACP_SAID_MESSAGE, text, len, message_id);
}

static void handle_event(void *owner, const char *type, const json_t *data)
{
	struct acp_told *told = owner;
	bool is_call = !strcmp(type, "tool_call") || !strcmp(type, "tool_call_update");
	if (!strcmp(type, "usage")) {
		return; /* what an earlier turn has used was counted then */
	}
	struct acp_run *run = add_run(told, is_call ? ACP_TOLD_CALL : ACP_TOLD_OTHER);
	run->type = xstrdup(type);
	run->data =
		json_incref((json_t *)data); /* a copy would not have its numbers as they came */
	told->is_open = false;
}

void acp_told_take(struct acp_told *told, const json_t *update, size_t size)
{
	static const struct acp_agent_ops ops = {.text = handle_text, .event = handle_event};
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	const char *why;
	told->is_full = told->is_full || told->size + size + UPDATE_SIZE > told->size_max;
	if (!kind || told->is_full) {
		return;
	}
	told->size += size + UPDATE_SIZE;
	if (strcmp(kind, "user_message_chunk") != 0) {
		acp_update_report(update, &ops, told, &why);
		return;
	}
	const json_t *text = json_object_get(json_object_get(update, "content"), "text");
	if (json_string_length(text)) {
		gather(told, ACP_SAID_PROMPT, json_string_value(text), json_string_length(text),
			json_string_value(json_object_get(update, "messageId")));
	}
}

/* --- things that are told --- */

struct making {
	struct acp_items *items;
	const struct acp_told *told;
	const struct acp_known *known;
	const struct acp_run *run;
	size_t work; /* bytes that prompts were looked for in */
	bool behind_ours; /* a prompt of the log's has come in this run */
};

static struct acp_item *add_item(struct making *making)
{
	struct acp_items *items = making->items;
	items->list = acp_grow(items->list, items->count, sizeof(*items->list));
	struct acp_item *item = &items->list[items->count++];
	size_t len = items->text.bytes.len;
	*item = (struct acp_item){.run = making->run,
		.from = len,
		.to = len,
		.turn = items->turn_count - 1,
		.call = SIZE_MAX};
	return item;
}

/** The piece of the run that the byte is in. */
static size_t piece_at(const struct making *making, size_t at)
{
	const size_t *ends = (const size_t *)making->told->ends.data;
	size_t low = making->run->piece_from;
	size_t high = making->run->piece_to;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ends[middle] > at) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return low;
}

/** The run's text from `from` to `to`, each of its pieces with a beginning of its own. */
static void append_text(struct making *making, size_t from, size_t to)
{
	const struct acp_told *told = making->told;
	const size_t *ends = (const size_t *)told->ends.data;
	for (size_t piece = piece_at(making, from); from < to; from = ends[piece++]) {
		size_t end = ends[piece] < to ? ends[piece] : to;
		acp_text_append(
			&making->items->text, making->run->said, told->raw.data + from, end - from);
	}
}

static struct acp_item *add_text(struct making *making, size_t from, size_t to)
{
	struct acp_item *item = add_item(making);
	const char *message_id = making->run->message_id;
	item->raw_from = from;
	item->raw_to = to;
	append_text(making, from, to);
	item->to = making->items->text.bytes.len;
	if (item->to == item->from) {
		making->items->count--;
		return NULL;
	}
	if (message_id && making->run->said == ACP_SAID_MESSAGE) {
		item->name = acp_known_name(making->known, message_id);
		item->is_new_name = !item->name;
		making->items->has_known_names = making->items->has_known_names || item->name;
	}
	return item;
}

/* --- prompts, of which several may stand side by side --- */

static void add_prompt(struct making *making, size_t from, size_t to, bool is_ours)
{
	struct acp_items *items = making->items;
	struct acp_item *item = add_text(making, from, to);
	if (!item) {
		return;
	}
	/* What stands behind a prompt of ours may have been put to it, and has no turn then. */
	item->is_behind_ours = making->behind_ours && !is_ours;
	items->turn_count += !item->is_behind_ours;
	item->turn = items->turn_count - 1;
	making->behind_ours = making->behind_ours || is_ours;
	items->has_prompts = true;
}

/** claude-code keeps a cancel as if it were a prompt. Returns the length of that, or 0. */
static size_t mark_of_cancel(const char *bare, size_t len)
{
	static const char mark[] = "[Requestinterruptedbyuser";
	const char *end = len >= sizeof(mark) - 1 && !memcmp(bare, mark, sizeof(mark) - 1)
				  ? memchr(bare, ']', len)
				  : NULL;
	return end ? (size_t)(end - bare) + 1 : 0;
}

/** The longest prompt of the log, or mark, that the text begins with; 0: none. */
static size_t first_prompt(struct making *making, const char *bare, size_t len)
{
	const struct acp_known *known = making->known;
	const size_t *lens = (const size_t *)known->prompt_lens.data;
	size_t best = mark_of_cancel(bare, len);
	for (size_t i = 0; i < known->prompt_lens.len / sizeof(*lens); i++) {
		if (lens[i] <= best || lens[i] > len || making->work > PROMPT_WORK_MAX) {
			continue;
		}
		making->work += PROMPT_WORK + lens[i];
		best = acp_known_has_prompt(known, bare, lens[i]) ? lens[i] : best;
	}
	return best;
}

/** Whether it is made of prompts of the log alone: then each is one. */
static bool take_tiles(struct making *making, const struct acp_text *bare)
{
	const char *bytes = bare->bytes.data;
	size_t len = bare->bytes.len;
	size_t at = 0;
	size_t n = 1;
	while (at < len && (n = first_prompt(making, bytes + at, len - at)) > 0) {
		at += n;
	}
	if (!n) {
		return false;
	}
	const char *raw = making->told->raw.data;
	size_t raw_at = making->run->from;
	for (at = 0; at < len; at += n) {
		n = first_prompt(making, bytes + at, len - at);
		size_t taken =
			acp_text_skip(ACP_SAID_PROMPT, raw + raw_at, making->run->to - raw_at, n);
		if (mark_of_cancel(bytes + at, n) != n) {
			add_prompt(making, raw_at, raw_at + taken, true);
		}
		raw_at += taken;
	}
	return true;
}

/** Piece by piece: what is a prompt by itself is one, and what stands between two is another. */
static void take_pieces(struct making *making)
{
	const size_t *ends = (const size_t *)making->told->ends.data;
	const struct acp_run *run = making->run;
	size_t begin = run->from;
	size_t other_from = begin;
	for (size_t i = run->piece_from; i < run->piece_to; begin = ends[i++]) {
		struct acp_text bare = {0};
		acp_text_append(
			&bare, ACP_SAID_PROMPT, making->told->raw.data + begin, ends[i] - begin);
		bool is_mark = bare.bytes.len &&
			       mark_of_cancel(bare.bytes.data, bare.bytes.len) == bare.bytes.len;
		bool is_ours = bare.bytes.len &&
			       acp_known_has_prompt(making->known, bare.bytes.data, bare.bytes.len);
		acp_text_finish(&bare);
		if (!is_mark && !is_ours) {
			continue;
		}
		if (other_from < begin) {
			add_prompt(making, other_from, begin, false);
		}
		if (is_ours) {
			add_prompt(making, begin, ends[i], true);
		}
		other_from = ends[i];
	}
	if (other_from < run->to) {
		add_prompt(making, other_from, run->to, false);
	}
}

static void take_prompts(struct making *making)
{
	const struct acp_run *run = making->run;
	struct acp_text bare = {0};
	acp_text_append(
		&bare, ACP_SAID_PROMPT, making->told->raw.data + run->from, run->to - run->from);
	making->behind_ours = false;
	if (bare.bytes.len &&
		acp_known_has_prompt(making->known, bare.bytes.data, bare.bytes.len)) {
		add_prompt(making, run->from, run->to, true);
	} else if (bare.bytes.len && !take_tiles(making, &bare)) {
		take_pieces(making);
	}
	acp_text_finish(&bare);
}

static void take_call(struct making *making)
{
	struct acp_items *items = making->items;
	size_t count = items->calls->call_count;
	size_t call = acp_track_add_call(
		items->calls, items->turn_count - 1, making->run->type, making->run->data);
	add_item(making)->call = call;
	if (items->calls->call_count > count) {
		items->first_of_call =
			acp_grow(items->first_of_call, count, sizeof(*items->first_of_call));
		items->first_of_call[count] = items->count - 1;
	}
}

void acp_items_make(
	struct acp_items *items, const struct acp_told *told, const struct acp_known *known)
{
	*items = (struct acp_items){.turn_count = 1, .calls = acp_track_create()};
	struct making making = {.items = items, .told = told, .known = known};
	for (size_t i = 0; i < told->run_count; i++) {
		making.run = &told->runs[i];
		if (making.run->kind == ACP_TOLD_CALL) {
			take_call(&making);
		} else if (making.run->kind == ACP_TOLD_OTHER) {
			add_item(&making);
		} else if (making.run->said == ACP_SAID_PROMPT) {
			take_prompts(&making);
		} else {
			add_text(&making, making.run->from, making.run->to);
		}
	}
}

void acp_items_finish(struct acp_items *items)
{
	acp_text_finish(&items->text);
	free(items->list);
	free(items->first_of_call);
	acp_track_destroy(items->calls);
}
