/* Names: the lines of keys.jsonl, and a table of them in memory. */
#ifndef HOLDFAST_NAMES_H
#define HOLDFAST_NAMES_H

#include "holdfast/buffer.h"
#include "holdfast/record.h"
#include "holdfast/store.h"

#include <stddef.h>
#include <stdint.h>

/** A name in memory. */
struct name_slot {
	uint64_t digest; /* of its kind and key; 0: the slot is free */
	uint64_t seq : 56;
	uint64_t rule : 8; /* of the sum */
	uint64_t value; /* its sum; of a kind that has `by`: a place in name_table.by */
};

struct name_table {
	const struct name_kind *kinds;
	struct name_slot *slots; /* a power of two of them; NULL: the names are not in memory */
	size_t slot_count;
	size_t used;
	uint64_t seed;
	struct buffer by; /* JSON strings, each with a NUL: who gave the names */
	struct buffer listed; /* the same: the names that are listed, in their order */
};

/* log_name.c */
/**
 * Reads a line of keys.jsonl without its newline, borrowed from *ret_json, which the caller gives
 * back; -EBADMSG if its checksum is wrong, or it is no name.
 */
int log_name_parse(const struct store_facts *facts, const char *line, size_t len,
	struct log_name *ret_name, struct json_t **ret_json);
/** What the lines that we write say, read without JSON: there may be very many. */
struct raw_name {
	unsigned kind;
	const char *key; /* escaped */
	size_t key_len;
	const char *by; /* the same */
	size_t by_len;
	uint64_t seq;
	struct key_sum sum;
};
/** -EBADMSG if the checksum is wrong; of a line of a later version the kind is 0. */
int log_name_scan(
	const struct store_facts *facts, const char *line, size_t len, struct raw_name *ret);

/* name_table.c: any thread */
void name_table_begin(struct name_table *table, const struct name_kind *kinds, uint64_t seed);
void name_table_finish(struct name_table *table);
void name_table_put(struct name_table *table, const struct raw_name *name);
/** The name of this key, escaped; NULL if there is none. */
const struct name_slot *name_table_get(
	const struct name_table *table, unsigned kind, const char *key, size_t len);

#endif
