/*
 * Makes the names of a log anew when lines of them are damaged or gone: of the good lines, and of the
 * log's events. What only an input gave, in a damaged line, is lost.
 */
#include "store_internal.h"

#include "holdfast/json_text.h"

#include <string.h>

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
