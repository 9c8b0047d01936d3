/*
 * events.html: what events.jsonl looks like in FORMAT_HTML, so that it is rendered once
 * (proto/store-format.md). It may be cut, damaged, old or missing at any time: what it has of an event
 * counts only if its checksum, which goes over the event's own bytes too, is right. Any thread.
 */
#ifndef HOLDFAST_HTML_FILE_H
#define HOLDFAST_HTML_FILE_H

#include "holdfast/event.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The log that it belongs to. */
struct html_place {
	int sessions_fd;
	const char *id;
	uint64_t epoch;
	uint64_t base_seq; /* of the first line of events.jsonl */
};

/** Gives the events of a block, just read and nobody else's, what the file has of them. */
void html_file_give(const struct html_place *place, struct event_block *block);

/** HTML that is in memory already. */
struct html_ready {
	uint64_t seq;
	struct event *event; /* the owner's: what the two below belong to */
	const char *json;
	size_t len;
};

/** The next portion of the file. */
struct html_portion {
	uint64_t log_size; /* bytes of events.jsonl that are there */
	const struct html_ready *ready; /* by seq */
	size_t ready_count;
	/* Filled in: */
	uint64_t next_seq; /* the first that the file lacks */
	size_t rendered;
	bool is_whole; /* it has all of log_size */
};

/**
 * Adds a portion: some milliseconds of work. -ESTALE if it begins anew with the next one;
 * other errors if there is no sense in going on.
 */
int html_file_add(const struct html_place *place, struct html_portion *portion);

#endif
