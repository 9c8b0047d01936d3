/* Names: the lines of keys.jsonl, and a table of them in memory. */
#ifndef HOLDFAST_LOG_NAMES_H
#define HOLDFAST_LOG_NAMES_H

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
	uint64_t value; /* the sum; for a kind with `by`, an offset in name_table.by */
};

struct name_table {
	const struct name_kind *kinds;
	struct name_slot *slots; /* NULL: the names are not in memory */
	size_t slot_count; /* a power of two */
	size_t used;
	uint64_t seed;
	struct buffer by; /* the `by` of names: JSON strings, each with a NUL */
	struct buffer listed; /* the keys of the listed kind, in their order; in the same form */
	uint64_t inputs; /* how many names given by inputs were put */
	uint64_t missing; /* of those that there should be; set by who reads them */
};

/* log_name.c */
/**
 * Parses a line of keys.jsonl without its newline. The strings of *ret_name are borrowed from
 * *ret_json, which the caller releases. -EBADMSG if the checksum is wrong or the line malformed.
 */
int log_name_parse(const struct store_facts *facts, const char *line, size_t len,
	struct log_name *ret_name, struct json_t **ret_json);
/**
 * A name as in a line that this program wrote, read without a JSON parser: a session may have very
 * many. Pointers are into the line.
 */
struct raw_name {
	unsigned kind;
	const char *key; /* escaped as in JSON, without quotes */
	size_t key_len;
	const char *by; /* the same */
	size_t by_len;
	uint64_t seq;
	struct key_sum sum;
};
/** Reads a line. -EBADMSG if its checksum is wrong; `kind` is 0 if a later version wrote it. */
int log_name_scan(
	const struct store_facts *facts, const char *line, size_t len, struct raw_name *ret);
/** Appends the line of a name; *ret is the same name, borrowed from `out`. */
void name_line_append(struct buffer *out, const struct name_kind *kinds,
	const struct log_name *name, struct raw_name *ret);

/* names_rebuild.c: any thread */
/** Makes the names of a log anew, of which lines are damaged or gone. */
struct names_rebuild {
	const struct store_facts *facts;
	struct name_table *names; /* begun, and empty */
	struct buffer lines; /* of the new file */
};
/** Takes the good lines of names that inputs gave: the log may not have them. */
void names_rebuild_salvage(struct names_rebuild *rebuild, const char *bytes, size_t len);
/**
 * Takes the names of an event, each unless an input gave it and its line was good. Call it for all
 * events, in their order, once all lines are salvaged.
 */
void names_rebuild_event(struct names_rebuild *rebuild, const struct event_view *view);

/* name_table.c: any thread */
void name_table_begin(struct name_table *table, const struct name_kind *kinds, uint64_t seed);
void name_table_finish(struct name_table *table);
void name_table_put(struct name_table *table, const struct raw_name *name);
/** Looks a name up by its kind and escaped key; NULL if it is not in the table. */
const struct name_slot *name_table_get(
	const struct name_table *table, unsigned kind, const char *key, size_t len);
/** Puts lines of keys.jsonl into a table; -EBADMSG if one of them is damaged. */
int name_lines_take(
	const struct store_facts *facts, struct name_table *names, const char *bytes, size_t len);
/** How many names given by inputs these lines have, which are good. */
uint64_t name_lines_count(const struct store_facts *facts, const struct buffer *lines);

#endif
