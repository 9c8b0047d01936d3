#include "memory_internal.h"

#include <stdlib.h>
#include <string.h>

void memory_forget_records(struct list *records)
{
	list_for_each_safe(link, tmp, records) {
		list_remove(link);
		free(list_entry(link, struct kept, link));
	}
}

static void free_session(void *value, void *arg)
{
	struct kept_session *kept = value;
	memory_forget_records(&kept->records);
	for (size_t i = 0; i < kept->count; i++) {
		event_unref(kept->events[i]);
	}
	free(kept->events);
	free(kept->times);
	buffer_finish(&kept->created);
	buffer_finish(&kept->names);
	free(kept->id);
	free(kept);
}

struct memory *memory_create(void)
{
	struct memory *memory = xcalloc(1, sizeof(*memory));
	memory->sessions = hash_create();
	return memory;
}

void memory_destroy(struct memory *memory)
{
	if (memory) {
		hash_each(memory->sessions, free_session, NULL);
		hash_destroy(memory->sessions);
		free(memory);
	}
}

void memory_fault(struct memory *memory, enum memory_fault fault)
{
	memory->fault = fault;
}

void memory_take_over(struct memory *memory, const char *id)
{
	struct kept_session *kept = hash_get(memory->sessions, id, strlen(id));
	kept->fence++;
}

int memory_count_events(const struct memory *memory, const char *id)
{
	const struct kept_session *kept = hash_get(memory->sessions, id, strlen(id));
	return kept ? (int)kept->count : -1;
}

static void keep_event(struct kept_session *kept, const struct log_coming *coming)
{
	kept->events = xrealloc(kept->events, (kept->count + 1) * sizeof(*kept->events));
	kept->times = xrealloc(kept->times, (kept->count + 1) * sizeof(*kept->times));
	kept->events[kept->count] = event_ref(coming->event);
	kept->times[kept->count++] = coming->ts;
}

static struct kept_session *make_session(struct memory *memory, const struct session_log *log)
{
	struct kept_session *kept = xcalloc(1, sizeof(*kept));
	kept->id = xstrdup(log->id);
	kept->epoch = log->epoch;
	kept->created_at = log->created_at;
	list_init(&kept->records);
	hash_put(memory->sessions, kept->id, strlen(kept->id), kept);
	return kept;
}

static void keep_record(struct memory *memory, struct kept_session *kept, struct kept *record)
{
	list_remove(&record->link);
	kept->last_record++;
	switch (record->record.kind) {
	case RECORD_DELETE:
		free(record);
		free_session(hash_remove(memory->sessions, kept->id, strlen(kept->id)), NULL);
		return;
	case RECORD_CREATE:
		buffer_append(&kept->created, record->bytes, record->record.data_len);
		free(record);
		return;
	case RECORD_SNAPSHOT:
		memory_forget_records(&kept->records);
		break;
	default:
		break;
	}
	list_append(&kept->records, &record->link);
}

void memory_apply(struct memory *memory, struct part *part)
{
	struct session_log *log = part->part.log;
	struct kept_session *kept = hash_get(memory->sessions, log->id, strlen(log->id));
	kept = kept || list_empty(&part->records) ? kept : make_session(memory, log);
	if (!kept || kept->fence != part->fence || kept->last_record != part->after) {
		part->is_fenced = true;
		return;
	}
	for (size_t i = 0; i < part->part.count; i++) {
		keep_event(kept, &part->part.events[i]);
	}
	list_for_each_safe(link, tmp, &part->records) {
		keep_record(memory, kept, list_entry(link, struct kept, link));
	}
}
