/*
 * The names of a session in memory, so that they are looked up without reading the disk: a hash
 * table with a slot of 24 bytes for each name, which has the digest of its kind and key, and the
 * values of its line.
 */
#include "store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void name_table_begin(struct name_table *table, const struct name_kind *kinds, uint64_t seed)
{
	*table = (struct name_table){.kinds = kinds, .seed = seed, .slot_count = 16};
	table->slots = xcalloc(table->slot_count, sizeof(*table->slots));
}

void name_table_finish(struct name_table *table)
{
	free(table->slots);
	buffer_finish(&table->by);
	buffer_finish(&table->listed);
	*table = (struct name_table){0};
}

/**
 * The digest of a name; 0 is reserved for free slots. Clients cannot know the seed. The kind is
 * hashed in a second step, not added to the seed: for keys of a few bytes XXH3 is little more than
 * an exclusive or with the seed, and short names of two kinds could collide.
 */
static uint64_t digest_of(
	const struct name_table *table, unsigned kind, const char *key, size_t len)
{
	const uint64_t both[] = {journal_session_hash(key, len, table->seed), (uint64_t)kind};
	uint64_t digest = journal_session_hash((const char *)both, sizeof(both), table->seed);
	return digest ? digest : 1;
}

static struct name_slot *find_slot(const struct name_table *table, uint64_t digest)
{
	size_t mask = table->slot_count - 1;
	size_t i = (size_t)digest & mask;
	while (table->slots[i].digest && table->slots[i].digest != digest) {
		i = (i + 1) & mask;
	}
	return &table->slots[i];
}

static void make_room(struct name_table *table)
{
	if (table->used < table->slot_count / 4 * 3) {
		return;
	}
	struct name_table grown = *table;
	grown.slot_count = table->slot_count * 2;
	grown.slots = xcalloc(grown.slot_count, sizeof(*grown.slots));
	for (size_t i = 0; i < table->slot_count; i++) {
		if (table->slots[i].digest) {
			*find_slot(&grown, table->slots[i].digest) = table->slots[i];
		}
	}
	free(table->slots);
	*table = grown;
}

/** Appends a JSON string and a NUL; `text` is escaped already, without its quotes. */
static void append_string(struct buffer *out, const char *text, size_t len)
{
	buffer_append_char(out, '"');
	buffer_append(out, text, len);
	buffer_append(out, "\"", 2);
}

void name_table_put(struct name_table *table, const struct raw_name *name)
{
	const struct name_kind *kind = &table->kinds[name->kind];
	make_room(table);
	uint64_t digest = digest_of(table, name->kind, name->key, name->key_len);
	struct name_slot *slot = find_slot(table, digest);
	if (kind->is_count) {
		table->inputs += strtoull(name->key, NULL, 10);
	} else if (!kind->is_of_event) {
		table->inputs += !slot->digest || !kind->is_once;
	}
	if (slot->digest && !kind->is_of_event) {
		return; /* the first one counts */
	}
	table->used += !slot->digest;
	*slot = (struct name_slot){.digest = digest,
		.seq = name->seq,
		.rule = name->sum.rule < UINT8_MAX ? name->sum.rule : UINT8_MAX,
		.value = name->sum.value};
	if (kind->has_by) {
		slot->value = table->by.len;
		append_string(&table->by, name->by, name->by_len);
	} else if (kind->is_listed) {
		append_string(&table->listed, name->key, name->key_len);
	}
}

const struct name_slot *name_table_get(
	const struct name_table *table, unsigned kind, const char *key, size_t len)
{
	const struct name_slot *slot = find_slot(table, digest_of(table, kind, key, len));
	return slot->digest ? slot : NULL;
}

/* --- lines --- */

int name_lines_take(
	const struct store_facts *facts, struct name_table *names, const char *bytes, size_t len)
{
	const char *end = bytes + len;
	for (const char *at = bytes; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct raw_name name;
		if (!newline || log_name_scan(facts, at, (size_t)(newline - at), &name) < 0) {
			return -EBADMSG;
		}
		if (name.kind) {
			name_table_put(names, &name);
		}
		at = newline + 1;
	}
	return 0;
}

uint64_t name_lines_count(const struct store_facts *facts, const struct buffer *lines)
{
	struct name_table names;
	name_table_begin(&names, facts->name_kinds, 0);
	(void)name_lines_take(facts, &names, lines->data, lines->len);
	uint64_t count = names.inputs;
	name_table_finish(&names);
	return count;
}
