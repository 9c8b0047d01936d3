#include "told.h"

#include <stdlib.h>
#include <string.h>

/* Approximate memory of an update besides its text. */
#define UPDATE_SIZE ((size_t)200)
/* Limit on the search for adjacent prompts, in bytes, and the cost of one lookup. */
#define PROMPT_WORK_MAX ((size_t)256 << 20)
#define PROMPT_WORK     ((size_t)64)

/* --- gathering --- */

void told_finish(struct told *told)
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

static struct run *add_run(struct told *told, enum told_kind kind)
{
	size_t pieces = told->ends.len / sizeof(size_t);
	told->runs = list_grow(told->runs, told->run_count, sizeof(*told->runs));
	struct run *run = &told->runs[told->run_count++];
	*run = (struct run){.kind = kind,
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

bool told_begin_update(struct told *told, size_t size)
{
	told->is_full = told->is_full || told->size + size + UPDATE_SIZE > told->size_max;
	told->size += told->is_full ? 0 : size + UPDATE_SIZE;
	return !told->is_full;
}

void told_text(
	struct told *told, enum said said, const char *text, size_t len, const char *message_id)
{
	struct run *run = told->is_open ? &told->runs[told->run_count - 1] : NULL;
	if (!run || run->said != said || !is_same(run->message_id, message_id)) {
		run = add_run(told, TOLD_TEXT);
		run->said = said;
		run->message_id = message_id ? xstrdup(message_id) : NULL;
		told->is_open = true;
	}
	buffer_append(&told->raw, text, len);
	run->to = told->raw.len;
	buffer_append(&told->ends, &run->to, sizeof(run->to));
	run->piece_to++;
}

void told_event(struct told *told, const char *type, const json_t *data)
{
	bool is_call = strcmp(type, "tool_call") == 0 || strcmp(type, "tool_call_update") == 0;
	if (strcmp(type, "usage") == 0) {
		return; /* the usage of earlier turns has been counted already */
	}
	struct run *run = add_run(told, is_call ? TOLD_CALL : TOLD_OTHER);
	run->type = xstrdup(type);
	run->data =
		json_incref((json_t *)data); /* a copy would lose the numbers' original spelling */
	told->is_open = false;
}

/* --- items --- */

struct making {
	struct items *items;
	const struct told *told;
	const struct logged *logged;
	const struct run *run;
	size_t work; /* bytes searched for prompts */
	bool behind_ours; /* this run has had a prompt of the log */
};

static struct item *add_item(struct making *making)
{
	struct items *items = making->items;
	items->list = list_grow(items->list, items->count, sizeof(*items->list));
	struct item *item = &items->list[items->count++];
	size_t len = items->text.bytes.len;
	*item = (struct item){.run = making->run,
		.from = len,
		.to = len,
		.turn = items->turn_count - 1,
		.call = SIZE_MAX};
	return item;
}

/** Returns the piece of the run that contains the byte `at`. */
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

/** Appends the run's text from `from` to `to`; each piece counts as the start of a line. */
static void append_text(struct making *making, size_t from, size_t to)
{
	const struct told *told = making->told;
	const size_t *ends = (const size_t *)told->ends.data;
	for (size_t piece = piece_at(making, from); from < to; from = ends[piece++]) {
		size_t end = ends[piece] < to ? ends[piece] : to;
		bare_text_append(
			&making->items->text, making->run->said, told->raw.data + from, end - from);
	}
}

static struct item *add_text(struct making *making, size_t from, size_t to)
{
	struct item *item = add_item(making);
	const char *message_id = making->run->message_id;
	item->raw_from = from;
	item->raw_to = to;
	append_text(making, from, to);
	item->to = making->items->text.bytes.len;
	if (item->to == item->from) {
		making->items->count--;
		return NULL;
	}
	if (message_id && making->run->said == SAID_MESSAGE) {
		item->name = logged_name(making->logged, message_id);
		item->is_new_name = !item->name;
		making->items->has_logged_names = making->items->has_logged_names || item->name;
	}
	return item;
}

/* --- prompts; several can be adjacent --- */

static void add_prompt(struct making *making, size_t from, size_t to, bool is_ours)
{
	struct items *items = making->items;
	struct item *item = add_text(making, from, to);
	if (!item) {
		return;
	}
	/*
	 * Text after a prompt of ours may have been added to it by the agent, so it begins no turn.
	 */
	item->is_behind_ours = making->behind_ours && !is_ours;
	items->turn_count += !item->is_behind_ours;
	item->turn = items->turn_count - 1;
	making->behind_ours = making->behind_ours || is_ours;
	items->has_prompts = true;
}

/** claude-code records a cancel as a prompt. Returns the length of that mark, or 0. */
static size_t mark_of_cancel(const char *bare, size_t len)
{
	static const char mark[] = "[Requestinterruptedbyuser";
	const char *end = len >= sizeof(mark) - 1 && memcmp(bare, mark, sizeof(mark) - 1) == 0
				  ? memchr(bare, ']', len)
				  : NULL;
	return end ? (size_t)(end - bare) + 1 : 0;
}

/**
 * Returns the length of the longest prompt of the log, or mark, that the text begins with; 0: none.
 */
static size_t first_prompt(struct making *making, const char *bare, size_t len)
{
	const struct logged *logged = making->logged;
	const size_t *lens = (const size_t *)logged->prompt_lens.data;
	size_t best = mark_of_cancel(bare, len);
	for (size_t i = 0; i < logged->prompt_lens.len / sizeof(*lens); i++) {
		if (lens[i] <= best || lens[i] > len || making->work > PROMPT_WORK_MAX) {
			continue;
		}
		making->work += PROMPT_WORK + lens[i];
		best = logged_has_prompt(logged, bare, lens[i]) ? lens[i] : best;
	}
	return best;
}

/** If the text consists entirely of prompts of the log, adds each of them and returns true. */
static bool take_tiles(struct making *making, const struct bare_text *bare)
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
			bare_text_skip(SAID_PROMPT, raw + raw_at, making->run->to - raw_at, n);
		if (mark_of_cancel(bytes + at, n) != n) {
			add_prompt(making, raw_at, raw_at + taken, true);
		}
		raw_at += taken;
	}
	return true;
}

/**
 * Goes through the pieces: each piece that is a prompt of the log is a prompt, and what lies
 * between two of these is another one.
 */
static void take_pieces(struct making *making)
{
	const size_t *ends = (const size_t *)making->told->ends.data;
	const struct run *run = making->run;
	size_t begin = run->from;
	size_t other_from = begin;
	for (size_t i = run->piece_from; i < run->piece_to; begin = ends[i++]) {
		struct bare_text bare = {0};
		bare_text_append(
			&bare, SAID_PROMPT, making->told->raw.data + begin, ends[i] - begin);
		bool is_mark = bare.bytes.len &&
			       mark_of_cancel(bare.bytes.data, bare.bytes.len) == bare.bytes.len;
		bool is_ours = bare.bytes.len &&
			       logged_has_prompt(making->logged, bare.bytes.data, bare.bytes.len);
		bare_text_finish(&bare);
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
	const struct run *run = making->run;
	struct bare_text bare = {0};
	bare_text_append(
		&bare, SAID_PROMPT, making->told->raw.data + run->from, run->to - run->from);
	making->behind_ours = false;
	if (bare.bytes.len && !take_tiles(making, &bare)) {
		take_pieces(making);
	}
	bare_text_finish(&bare);
}

static void take_call(struct making *making)
{
	struct items *items = making->items;
	size_t count = items->calls->call_count;
	size_t call = track_add_call(
		items->calls, items->turn_count - 1, making->run->type, making->run->data);
	add_item(making)->call = call;
	if (items->calls->call_count > count) {
		items->first_of_call =
			list_grow(items->first_of_call, count, sizeof(*items->first_of_call));
		items->first_of_call[count] = items->count - 1;
	}
}

void items_make(struct items *items, const struct told *told, const struct logged *logged)
{
	*items = (struct items){.turn_count = 1, .calls = track_create()};
	struct making making = {.items = items, .told = told, .logged = logged};
	for (size_t i = 0; i < told->run_count; i++) {
		making.run = &told->runs[i];
		if (making.run->kind == TOLD_CALL) {
			take_call(&making);
		} else if (making.run->kind == TOLD_OTHER) {
			add_item(&making);
		} else if (making.run->said == SAID_PROMPT) {
			take_prompts(&making);
		} else {
			add_text(&making, making.run->from, making.run->to);
		}
	}
}

void items_finish(struct items *items)
{
	bare_text_finish(&items->text);
	free(items->list);
	free(items->first_of_call);
	track_destroy(items->calls);
}
