#include "logged.h"

#include "holdfast/content_blobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The limit on names, derived from the limit on text; a name takes about a hundred bytes. */
#define NAMES_MAX(logged) ((logged)->size_max / 128)
/*
 * Most different lengths of prompts; prompts of further lengths are not searched for inside
 * replayed text.
 */
#define PROMPT_LENS_MAX 256

void *list_grow(void *list, size_t count, size_t size)
{
	bool is_full = (count & (count - 1)) == 0; /* the capacity is always a power of two */
	return is_full ? xrealloc(list, (count ? 2 * count : 1) * size) : list;
}

/* --- texts --- */

static bool is_compared(enum said said, char c)
{
	bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			 (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
	/* Some agents put marks between the pieces of a thought. */
	return said == SAID_THOUGHT ? is_letter : !strchr(" \t\n\v\f\r", c) && c;
}

void bare_text_append(struct bare_text *out, enum said said, const char *text, size_t len)
{
	enum start start = START_LINE;
	for (size_t at = 0; at < len; at++) {
		if (is_compared(said, text[at])) {
			buffer_append_char(&out->bytes, text[at]);
			buffer_append_char(&out->starts, (char)start);
			start = START_NONE;
		} else if (text[at] == '\n') {
			start = START_LINE;
		} else if (start == START_NONE) {
			start = START_WORD;
		}
	}
}

size_t bare_text_skip(enum said said, const char *text, size_t len, size_t bare)
{
	size_t at = 0;
	for (; at < len && bare > 0; at++) {
		bare -= is_compared(said, text[at]);
	}
	return at;
}

void bare_text_finish(struct bare_text *text)
{
	buffer_finish(&text->bytes);
	buffer_finish(&text->starts);
}

/* --- tracks --- */

struct track *track_create(void)
{
	struct track *track = xcalloc(1, sizeof(*track));
	track->call_ids = hash_create();
	track->turn_count = 1;
	return track;
}

void track_destroy(struct track *track)
{
	if (!track) {
		return;
	}
	bare_text_finish(&track->text);
	free(track->units);
	free(track->calls);
	hash_destroy(track->call_ids);
	free(track);
}

static struct unit *add_unit(struct track *track, enum said said, const char *text, size_t len)
{
	size_t at = track->text.bytes.len;
	bare_text_append(&track->text, said, text, len);
	size_t bare = track->text.bytes.len - at;
	if (!bare) {
		return NULL;
	}
	track->units = list_grow(track->units, track->unit_count, sizeof(*track->units));
	struct unit *unit = &track->units[track->unit_count++];
	*unit = (struct unit){.said = said,
		.at = at,
		.len = bare,
		.turn = track->turn_count - 1,
		.seq = track->seq_count++};
	return unit;
}

/* --- calls --- */

size_t track_find_call(const struct track *track, const char *id)
{
	return (size_t)(uintptr_t)hash_get(track->call_ids, id, strlen(id)) - 1;
}

bool call_is_done(const json_t *call)
{
	const char *status = json_string_value(json_object_get(call, "status"));
	return status && (strcmp(status, "completed") == 0 || strcmp(status, "failed") == 0);
}

static uint64_t sum_of(const json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	uint64_t sum = text ? XXH3_64bits(text, strlen(text)) | 1 : 0;
	free(text);
	return sum;
}

static void note_sum(uint64_t sums[2], uint64_t sum)
{
	sums[0] = sums[0] ? sums[0] : sum;
	sums[1] = sum;
}

static bool have_sum(const uint64_t a[2], const uint64_t b[2])
{
	return a[0] && b[0] && (a[0] == b[0] || a[0] == b[1] || a[1] == b[0] || a[1] == b[1]);
}

bool call_fits(const struct call *call, const struct call *other)
{
	return call->has_long_id || !call->titles[0] || !other->titles[0] ||
	       have_sum(call->titles, other->titles) || have_sum(call->inputs, other->inputs);
}

/** Adds a new call, after those with the same id. */
static size_t begin_call(struct track *track, const char *id, size_t first, size_t turn)
{
	size_t place = track->call_count;
	track->calls = list_grow(track->calls, place, sizeof(*track->calls));
	track->calls[place] = (struct call){.turn = turn,
		.seq = track->seq_count++,
		.first = first == SIZE_MAX ? place : first,
		.newest = place,
		.has_long_id = strlen(id) >= TELLING_LEN,
		.taken_by = SIZE_MAX};
	track->call_count++;
	if (first == SIZE_MAX) {
		hash_put(track->call_ids, id, strlen(id), (void *)(uintptr_t)(place + 1));
	} else {
		track->calls[first].newest = place;
	}
	return place;
}

size_t track_add_call(struct track *track, size_t turn, const char *type, const json_t *call)
{
	const char *id = json_string_value(json_object_get(call, "tool_call_id"));
	const json_t *title = json_object_get(call, "title");
	const json_t *input = json_object_get(call, "raw_input");
	if (!id) {
		return SIZE_MAX;
	}
	size_t first = track_find_call(track, id);
	size_t place = first == SIZE_MAX ? SIZE_MAX : track->calls[first].newest;
	/* An update belongs to the preceding call with its id, in whatever turn it arrives. */
	bool begins = place == SIZE_MAX ||
		      (strcmp(type, "tool_call") == 0 &&
			      (track->calls[place].turn != turn || track->calls[place].is_done));
	if (begins) {
		place = begin_call(track, id, first, turn);
	}
	struct call *logged = &track->calls[place];
	logged->is_done = logged->is_done || call_is_done(call);
	if (json_string_length(title)) {
		note_sum(logged->titles, sum_of(title));
	}
	if (json_object_size(input)) {
		note_sum(logged->inputs, sum_of(input));
	}
	return place;
}

/* --- the log --- */

static void add_track(struct logged *logged)
{
	logged->tracks = list_grow(logged->tracks, logged->track_count, sizeof(struct track *));
	logged->tracks[logged->track_count++] = track_create();
}

void logged_init(struct logged *logged, size_t size_max)
{
	*logged = (struct logged){.size_max = size_max};
	logged->names = hash_create();
	logged->prompts = hash_create();
	logged->others = hash_create();
	add_track(logged);
}

void logged_finish(struct logged *logged)
{
	for (size_t i = 0; i < logged->track_count; i++) {
		track_destroy(logged->tracks[i]);
	}
	free(logged->tracks);
	hash_destroy(logged->names);
	hash_destroy(logged->prompts);
	hash_destroy(logged->others);
	buffer_finish(&logged->prompt_lens);
}

/** Drops a history that has become too long: everything at once, which is rarely necessary. */
static void cut_if_long(struct logged *logged)
{
	if (logged->size > logged->size_max || logged->name_count > NAMES_MAX(logged)) {
		size_t size_max = logged->size_max;
		logged_finish(logged);
		logged_init(logged, size_max);
		logged->is_cut = true;
	}
}

uint32_t logged_name(const struct logged *logged, const char *message_id)
{
	return (uint32_t)(uintptr_t)hash_get(logged->names, message_id, strlen(message_id));
}

static uint32_t name_of(struct logged *logged, const char *message_id)
{
	uint32_t name = message_id ? logged_name(logged, message_id) : 0;
	if (message_id && !name) {
		name = (uint32_t)hash_count(logged->names) + 1;
		hash_put(logged->names, message_id, strlen(message_id), (void *)(uintptr_t)name);
		logged->name_count++;
	}
	return name;
}

bool logged_has_prompt(const struct logged *logged, const char *bare, size_t len)
{
	return hash_get(logged->prompts, bare, len) != NULL;
}

static void note_prompt(struct logged *logged, const char *bare, size_t len)
{
	const size_t *lens = (const size_t *)logged->prompt_lens.data;
	size_t count = logged->prompt_lens.len / sizeof(len);
	size_t i = 0;
	hash_put(logged->prompts, bare, len, logged);
	while (i < count && lens[i] != len) {
		i++;
	}
	if (i == count && count < PROMPT_LENS_MAX) {
		buffer_append(&logged->prompt_lens, &len, sizeof(len));
	}
}

static void add_text(struct logged *logged, struct track *track, enum said said, const json_t *text,
	const char *message_id)
{
	if (said == SAID_PROMPT && track == logged->tracks[0]) {
		track->turn_count++;
	}
	struct unit *unit =
		add_unit(track, said, json_string_value(text), json_string_length(text));
	if (!unit) {
		return;
	}
	/* The log joins thoughts of several messages into one event, named after the first. */
	unit->name = said == SAID_MESSAGE ? name_of(logged, message_id) : 0;
	logged->size += unit->len;
	if (said == SAID_PROMPT) {
		note_prompt(logged, track->text.bytes.data + unit->at, unit->len);
	}
}

static void fingerprint(const char *type, const json_t *data, char out[17])
{
	/* because the log has references in place of large contents */
	json_t *bare = content_move(type, data, NULL);
	json_object_del(bare, "recovered");
	char *text = json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS);
	uint64_t seed = XXH3_64bits(type, strlen(type));
	uint64_t sum = text ? XXH3_64bits_withSeed(text, strlen(text), seed) : 0;
	snprintf(out, 17, "%016" PRIx64, sum);
	free(text);
	json_decref(bare);
}

bool logged_has(const struct logged *logged, const char *type, const json_t *data)
{
	char sum[17];
	fingerprint(type, data, sum);
	return hash_get(logged->others, sum, 16) != NULL;
}

static void add_other(struct logged *logged, const char *type, const json_t *data)
{
	char sum[17];
	fingerprint(type, data, sum);
	logged->name_count += !hash_put(logged->others, sum, 16, logged);
}

/**
 * Returns the track of an event. Each recovery is a track of its own, because its events belong to
 * other places of the log.
 */
static struct track *track_of(struct logged *logged, bool is_recovered)
{
	if (is_recovered && !logged->was_recovered) {
		add_track(logged);
	}
	logged->was_recovered = is_recovered;
	return logged->tracks[is_recovered ? logged->track_count - 1 : 0];
}

void logged_add(struct logged *logged, const char *type, const json_t *data, const char *message_id)
{
	cut_if_long(logged);
	struct track *track = track_of(logged, json_is_true(json_object_get(data, "recovered")));
	size_t turn = track->turn_count - 1;
	size_t calls = track->call_count;
	if (strcmp(type, "user_prompt") == 0) {
		add_text(logged, track, SAID_PROMPT, json_object_get(data, "message"), NULL);
	} else if (strcmp(type, "agent_message") == 0) {
		add_text(
			logged, track, SAID_MESSAGE, json_object_get(data, "markdown"), message_id);
	} else if (strcmp(type, "agent_thought") == 0) {
		add_text(logged, track, SAID_THOUGHT, json_object_get(data, "text"), message_id);
	} else if (strcmp(type, "tool_call") == 0 || strcmp(type, "tool_call_update") == 0) {
		track_add_call(track, turn, type, data);
	} else if (strcmp(type, "permission_request") == 0) {
		track_add_call(track, turn, type, json_object_get(data, "tool_call"));
	} else if (strcmp(type, "turn_end") == 0) {
		const char *reason = json_string_value(json_object_get(data, "stop_reason"));
		logged->is_cut_off = reason && strcmp(reason, "agent_stopped") == 0;
	} else if (strcmp(type, "plan") == 0 || strncmp(type, "x-acp-", 6) == 0) {
		add_other(logged, type, data);
	}
	logged->name_count += track->call_count - calls;
}
