/*
 * Makes the names of a log anew when lines of them are damaged or gone: of the good lines, and of the
 * log's events. What only an input gave, in a damaged line, is lost.
 */
#include "store_internal.h"

#include "holdfast/json_text.h"
#include "holdfast/sealed_line.h"

#include <string.h>

void name_line_append(struct buffer *out, const struct name_kind *kinds,
	const struct log_name *name, struct raw_name *ret)
{
	const struct name_kind *kind = &kinds[name->kind];
	size_t start = out->len;
	buffer_printf(out, "{\"kind\":\"%s\",\"seq\":%llu,\"key\":", kind->name,
		(unsigned long long)name->seq);
	size_t key = out->len;
	buffer_append_json(out, name->key, strlen(name->key));
	size_t key_end = out->len;
	size_t by = 0;
	if (*name->by) {
		buffer_append_str(out, ",\"by\":");
		by = out->len;
		buffer_append_json(out, name->by, strlen(name->by));
	}
	size_t by_end = out->len;
	if (kind->has_sum) {
		buffer_printf(out, ",\"sum\":\"%016llx\"", (unsigned long long)name->sum.value);
	}
	if (name->sum.rule) {
		buffer_printf(out, ",\"rule\":%u", name->sum.rule);
	}
	sealed_line_end(out, start);
	*ret = (struct raw_name){.kind = name->kind,
		.key = out->data + key + 1,
		.key_len = key_end - key - 2,
		.by = by ? out->data + by + 1 : "",
		.by_len = by ? by_end - by - 2 : 0,
		.seq = name->seq,
		.sum = name->sum};
}

/** Adds a name of an event, unless an input gave it and its line was salvaged. */
static void remake_name(void *arg, const struct log_name *name)
{
	struct names_rebuild *rebuild = arg;
	const struct name_kind *kinds = rebuild->names->kinds;
	struct buffer escaped = {0};
	struct raw_name raw;
	buffer_append_json(&escaped, name->key, strlen(name->key));
	if (kinds[name->kind].is_of_event ||
		!name_table_get(rebuild->names, name->kind, escaped.data + 1, escaped.len - 2)) {
		name_line_append(&rebuild->lines, kinds, name, &raw);
		name_table_put(rebuild->names, &raw);
	}
	buffer_finish(&escaped);
}

void names_rebuild_event(struct names_rebuild *rebuild, const struct event_view *view)
{
	rebuild->facts->names_of(view, true, remake_name, rebuild);
}

void names_rebuild_salvage(struct names_rebuild *rebuild, const char *bytes, size_t len)
{
	const char *at = bytes;
	const char *end = at + len;
	const char *newline;
	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		struct raw_name name;
		if (log_name_scan(rebuild->facts, at, (size_t)(newline - at), &name) == 0 &&
			name.kind && !rebuild->names->kinds[name.kind].is_of_event) {
			/* These come first: metadata that has the old size may cut off the rest. */
			buffer_append(&rebuild->lines, at, (size_t)(newline + 1 - at));
			name_table_put(rebuild->names, &name);
		}
		at = newline + 1;
	}
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
