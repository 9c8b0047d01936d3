#include "acp_firewall.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Half a second or so, of the loop: only a history that is made for it takes that. */
#define WORK_MAX ((size_t)256 << 20)
/* What each search costs besides the bytes that it looks through. */
#define WORK_MIN ((size_t)64)
/* glibc's memmem() is linear only for what is longer. */
#define SHORT_MAX ((size_t)256)
/* Of the bytes that texts may take; a name takes about a hundred. */
#define NAMES_MAX(known) ((known)->size_max / 128)

static void begin_turn(struct acp_known *known)
{
	size_t count = known->turn_count;
	if ((count & (count - 1)) == 0) { /* there is room for the next power of two */
		known->turns =
			xrealloc(known->turns, (count ? 2 * count : 1) * sizeof(*known->turns));
	}
	for (int said = 0; said < ACP_SAID_COUNT; said++) {
		known->turns[known->turn_count].begin[said] = known->texts[said].len;
	}
	known->turn_count++;
}

void acp_known_init(struct acp_known *known, size_t size_max)
{
	*known = (struct acp_known){.size_max = size_max};
	known->names = hash_create();
	known->others = hash_create();
	begin_turn(known);
}

static void forget_texts(struct acp_known *known)
{
	for (int said = 0; said < ACP_SAID_COUNT; said++) {
		buffer_finish(&known->texts[said]);
		buffer_finish(&known->recovered[said]);
	}
	free(known->turns);
	known->turns = NULL;
	known->turn_count = 0;
}

void acp_known_finish(struct acp_known *known)
{
	forget_texts(known);
	hash_destroy(known->names);
	hash_destroy(known->others);
}

/** So long a history is forgotten from its beginning on; all at once, which is seldom enough. */
static void cut_if_long(struct acp_known *known)
{
	size_t size = 0;
	for (int said = 0; said < ACP_SAID_COUNT; said++) {
		size += known->texts[said].len + known->recovered[said].len;
	}
	bool has_many_names =
		hash_count(known->names) + hash_count(known->others) > NAMES_MAX(known);
	if (size > known->size_max || has_many_names) {
		size_t size_max = known->size_max;
		acp_known_finish(known);
		acp_known_init(known, size_max);
		known->is_cut = true;
	}
}

/* --- texts --- */

static bool is_compared(enum acp_said said, char c)
{
	bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			 (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
	/* Some put marks between the pieces of a thought. */
	return said == ACP_SAID_THOUGHT ? is_letter : !strchr(" \t\n\v\f\r", c) && c;
}

size_t acp_known_normalize(
	struct buffer *out, enum acp_said said, const char *text, size_t len, size_t max)
{
	size_t at = 0;
	for (size_t had = out->len; at < len && out->len - had < max; at++) {
		if (is_compared(said, text[at])) {
			buffer_append_char(out, text[at]);
		}
	}
	return at;
}

size_t acp_known_turn_end(const struct acp_known *known, size_t turn, enum acp_said said)
{
	return turn + 1 < known->turn_count ? known->turns[turn + 1].begin[said]
					    : known->texts[said].len;
}

size_t acp_known_turn_of(const struct acp_known *known, enum acp_said said, size_t at)
{
	size_t low = 0;
	size_t high = known->turn_count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (known->turns[middle].begin[said] <= at) {
			low = middle;
		} else {
			high = middle;
		}
	}
	return low;
}

static void add_text(
	struct acp_known *known, enum acp_said said, const json_t *data, const char *member)
{
	const json_t *text = json_object_get(data, member);
	bool was_recovered = json_is_true(json_object_get(data, "recovered"));
	if (said == ACP_SAID_PROMPT && !was_recovered) {
		begin_turn(known);
	}
	if (json_is_string(text)) {
		acp_known_normalize(was_recovered ? &known->recovered[said] : &known->texts[said],
			said, json_string_value(text), json_string_length(text), SIZE_MAX);
	}
}

/** memmem() for at most SHORT_MAX bytes, in linear time (Knuth, Morris, Pratt). */
static const char *find_short(const char *in, size_t in_len, const char *text, size_t len)
{
	uint16_t back[SHORT_MAX + 1]; /* how much is still found when the byte there is another */
	size_t had = 0;
	back[0] = back[1] = 0;
	for (size_t i = 1; i < len; i++) {
		while (had && text[i] != text[had]) {
			had = back[had];
		}
		had += text[i] == text[had];
		back[i + 1] = (uint16_t)had;
	}
	had = 0;
	for (size_t i = 0; i < in_len; i++) {
		while (had && in[i] != text[had]) {
			had = back[had];
		}
		had += in[i] == text[had];
		if (had == len) {
			return in + i + 1 - len;
		}
	}
	return NULL;
}

size_t acp_known_find(struct acp_known *known, const struct buffer *in, size_t from, size_t to,
	const struct buffer *text)
{
	if (from >= to || !text->len || acp_known_is_exhausted(known)) {
		return SIZE_MAX;
	}
	const char *begin = in->data + from;
	const char *found = text->len <= SHORT_MAX
				    ? find_short(begin, to - from, text->data, text->len)
				    : memmem(begin, to - from, text->data, text->len);
	size_t at = found ? (size_t)(found - in->data) : SIZE_MAX;
	known->work += (found ? at : to) - from + text->len + WORK_MIN;
	return at;
}

bool acp_known_is_exhausted(const struct acp_known *known)
{
	return known->work > WORK_MAX;
}

/* --- names --- */

static void place_of(char kind, const char *name, struct buffer *out)
{
	buffer_append_char(out, kind);
	buffer_append_str(out, name);
}

static struct acp_known_name find(const struct acp_known *known, char kind, const char *name)
{
	struct buffer place = {0};
	place_of(kind, name, &place);
	uintptr_t value = (uintptr_t)hash_get(known->names, place.data, place.len);
	buffer_finish(&place);
	return (struct acp_known_name){
		.found = value != 0, .is_done = value & 1, .turn = value ? value / 2 - 1 : 0};
}

static void note(
	struct acp_known *known, char kind, const char *name, bool is_done, bool was_recovered)
{
	struct acp_known_name had = find(known, kind, name);
	/* What was recovered stands in a later turn than the one that it is of. */
	size_t here = was_recovered ? ACP_NO_TURN : known->turn_count - 1;
	size_t turn = had.found ? had.turn : here;
	uintptr_t value = (turn + 1) * 2 + (is_done || had.is_done);
	struct buffer place = {0};
	place_of(kind, name, &place);
	hash_put(known->names, place.data, place.len, (void *)value);
	buffer_finish(&place);
}

struct acp_known_name acp_known_tool(const struct acp_known *known, const char *tool_call_id)
{
	return find(known, 't', tool_call_id);
}

struct acp_known_name acp_known_message(const struct acp_known *known, const char *message_id)
{
	return find(known, 'm', message_id);
}

bool acp_known_call_is_done(const json_t *call)
{
	const char *status = json_string_value(json_object_get(call, "status"));
	return status && (!strcmp(status, "completed") || !strcmp(status, "failed"));
}

static void add_call(struct acp_known *known, const json_t *call, bool was_recovered)
{
	const char *id = json_string_value(json_object_get(call, "tool_call_id"));
	if (id) {
		note(known, 't', id, acp_known_call_is_done(call), was_recovered);
	}
}

/* --- others --- */

static void fingerprint(const char *type, const json_t *data, char out[17])
{
	json_t *bare = json_copy((json_t *)data);
	json_object_del(bare, "recovered");
	char *text = json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS);
	uint64_t seed = XXH3_64bits(type, strlen(type));
	uint64_t sum = text ? XXH3_64bits_withSeed(text, strlen(text), seed) : 0;
	snprintf(out, 17, "%016" PRIx64, sum);
	free(text);
	json_decref(bare);
}

bool acp_known_has(const struct acp_known *known, const char *type, const json_t *data)
{
	char sum[17];
	fingerprint(type, data, sum);
	return hash_get(known->others, sum, 16) != NULL;
}

static void add_other(struct acp_known *known, const char *type, const json_t *data)
{
	char sum[17];
	fingerprint(type, data, sum);
	hash_put(known->others, sum, 16, known);
}

void acp_known_add(
	struct acp_known *known, const char *type, const json_t *data, const char *message_id)
{
	bool was_recovered = json_is_true(json_object_get(data, "recovered"));
	cut_if_long(known);
	if (!strcmp(type, "user_prompt")) {
		add_text(known, ACP_SAID_PROMPT, data, "message");
	} else if (!strcmp(type, "agent_message")) {
		add_text(known, ACP_SAID_MESSAGE, data, "markdown");
	} else if (!strcmp(type, "agent_thought")) {
		add_text(known, ACP_SAID_THOUGHT, data, "text");
	} else if (!strcmp(type, "tool_call") || !strcmp(type, "tool_call_update")) {
		add_call(known, data, was_recovered);
	} else if (!strcmp(type, "permission_request")) {
		add_call(known, json_object_get(data, "tool_call"), was_recovered);
	} else if (!strcmp(type, "plan") || !strncmp(type, "x-acp-", 6)) {
		add_other(known, type, data);
	}
	if (message_id) {
		note(known, 'm', message_id, false, was_recovered);
	}
}
