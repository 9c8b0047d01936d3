/*
 * What a batch of the journal does to the logs: the events that its records complete wait here
 * until it is on disk.
 */
#include "store_internal.h"

#include "holdfast/diag.h"

#include <stdlib.h>
#include <string.h>

/** An event on its way. */
struct coming {
	struct event *event;
	int64_t ts;
};

struct log_write {
	struct list link; /* journal.gather_writes, or flight_writes */
	struct session_log *log;
	bool creates; /* the batch has its RECORD_CREATE */
	struct coming *events;
	size_t count;
	size_t capacity;
};

/** What the batch that gathers does to this log. */
static struct log_write *write_of(struct session_log *log)
{
	if (!log->write) {
		log->write = xcalloc(1, sizeof(*log->write));
		log->write->log = log;
		list_append(&log->store->journal.gather_writes, &log->write->link);
	}
	return log->write;
}

void log_write_create(struct session_log *log)
{
	write_of(log)->creates = true;
}

void session_log_complete(struct session_log *log, struct event *event, int64_t ts)
{
	struct log_write *write = write_of(log);
	if (write->count == write->capacity) {
		write->capacity = write->capacity ? write->capacity * 2 : 4;
		write->events = xrealloc(write->events, write->capacity * sizeof(struct coming));
	}
	write->events[write->count++] = (struct coming){event_ref(event), ts};
}

static void finish(struct log_write *write)
{
	for (size_t i = 0; i < write->count; i++) {
		event_unref(write->events[i].event);
	}
	list_remove(&write->link);
	free(write->events);
	free(write);
}

void log_writes_launch(struct journal *journal)
{
	list_for_each(link, &journal->gather_writes) {
		list_entry(link, struct log_write, link)->log->write = NULL;
	}
	list_move_all(&journal->flight_writes, &journal->gather_writes);
}

void log_writes_forget(struct list *writes)
{
	list_for_each_safe(link, tmp, writes) {
		struct log_write *write = list_entry(link, struct log_write, link);
		write->log->write = NULL;
		finish(write);
	}
}

static void land(struct log_write *write)
{
	struct session_log *log = write->log;
	if (write->creates) {
		session_log_confirm(log);
	}
	for (size_t i = 0; i < write->count; i++) {
		session_log_append(log, write->events[i].event, write->events[i].ts);
	}
	int r = session_log_flush(log);
	if (r < 0) {
		diag(DIAG_WARN,
			"session %s: events.jsonl cannot be written: %s; the journal has its events; the file is tried again",
			log->id, strerror(-r));
	}
}

void log_writes_land(struct list *writes)
{
	list_for_each_safe(link, tmp, writes) {
		struct log_write *write = list_entry(link, struct log_write, link);
		land(write);
		finish(write);
	}
}

void log_write_drop(struct session_log *log)
{
	if (log->write) {
		finish(log->write);
		log->write = NULL;
	}
}
