/*
 * events.html: a cache of the events in FORMAT_HTML, so that each is rendered once
 * (proto/store-format.md). It may be truncated, damaged, outdated or missing at any time: HTML is
 * used only if its checksum, which includes the event itself, is right. Any thread.
 */
#ifndef HOLDFAST_HTML_FILE_H
#define HOLDFAST_HTML_FILE_H

#include "holdfast/event.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The log that a cache belongs to. */
struct html_place {
	int sessions_fd;
	const char *id;
	uint64_t epoch;
	uint64_t base_seq; /* of the first line of events.jsonl */
};

/**
 * Gives the events of a block their HTML from the file. No other thread may have the events yet.
 */
void html_file_give(const struct html_place *place, struct event_block *block);

/** HTML of an event that is in memory already. */
struct html_ready {
	uint64_t seq;
	struct event *event; /* owns `json`; the reference is the caller's */
	const char *json;
	size_t len;
};

/** The next portion of the file. */
struct html_portion {
	uint64_t log_size; /* bytes that events.jsonl has */
	const struct html_ready *ready; /* sorted by seq */
	size_t ready_count;
	/* Set by html_file_add(): */
	uint64_t next_seq; /* the first event that the file lacks */
	size_t rendered; /* events rendered */
	bool is_whole; /* the file covers all of log_size */
};

/**
 * Adds a portion to the file; takes some milliseconds. Returns -ESTALE if the file was outdated and
 * the next portion begins it anew, or another negative errno if retrying makes no sense.
 */
int html_file_add(const struct html_place *place, struct html_portion *portion);

#endif
