/*
 * Events and names that the newest records of a log complete. They are kept in a part of the group
 * of these records until the engine reports its result; then they are added to the log or dropped.
 */
#include "store_internal.h"

#include <stdlib.h>
#include <string.h>

struct coming_name {
	uint64_t nth;
	unsigned kind;
	uint64_t seq;
	struct key_sum sum;
	size_t key; /* offset in name_keys; ends with a NUL */
};

void session_log_complete(struct session_log *log, struct event *event, int64_t ts)
{
	const struct store_engine *engine = log->store->engine;
	if (log->store->is_replaying) {
		log_keys_note_replayed(log, event->seq);
		void (*add)(struct session_log * log, struct event * event, int64_t ts) =
			engine->replayed ? engine->replayed : session_log_take;
		add(log, event, ts);
		return;
	}
	struct log_part *part = engine->part(log);
	if (part->count == part->capacity) {
		part->capacity = part->capacity ? part->capacity * 2 : 4;
		part->events = xrealloc(part->events, part->capacity * sizeof(*part->events));
	}
	part->events[part->count++] = (struct log_coming){event_ref(event), ts};
}

void session_log_name(struct session_log *log, uint64_t nth, const struct log_name *name)
{
	if (log->store->is_replaying) {
		log_keys_add_input(log, nth, name);
		return;
	}
	struct log_part *part = log->store->engine->part(log);
	const struct coming_name coming = {
		nth, name->kind, name->seq, name->sum, part->name_keys.len};
	buffer_append(&part->names, (const char *)&coming, sizeof(coming));
	buffer_append(&part->name_keys, name->key, strlen(name->key) + 1);
}

void log_part_land(struct log_part *part)
{
	struct session_log *log = part->log;
	for (size_t i = 0; i < part->count; i++) {
		session_log_take(log, part->events[i].event, part->events[i].ts);
	}
	for (size_t at = 0; at < part->names.len; at += sizeof(struct coming_name)) {
		struct coming_name name;
		memcpy(&name, part->names.data + at, sizeof(name));
		log_keys_add_input(log, name.nth,
			&(struct log_name){.kind = name.kind,
				.seq = name.seq,
				.key = part->name_keys.data + name.key,
				.by = "",
				.sum = name.sum});
	}
}

void log_part_forget(struct log_part *part)
{
	while (part->count) {
		event_unref(part->events[--part->count].event);
	}
	free(part->events);
	part->events = NULL;
	part->capacity = 0;
	buffer_finish(&part->names);
	buffer_finish(&part->name_keys);
}
