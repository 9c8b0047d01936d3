/*
 * Reads damaged logs: single events, and the ranges of events that cannot be read, for which pages
 * have gaps (event_create_gap()). Any thread.
 */
#ifndef HOLDFAST_GAPS_H
#define HOLDFAST_GAPS_H

#include "core/store/store_internal.h"

#include "holdfast/event.h"

#include <stdint.h>

/** A log and its index, which has just been rebuilt. */
struct gap_source {
	int fd; /* of events.jsonl */
	int index_fd; /* of events.index */
	uint64_t first_seq; /* of the first entry */
	uint64_t count; /* entries */
	uint64_t end; /* where the line of the last entry ends */
};

/**
 * Reads the event whose line is between two offsets. Sets *ret_event to NULL if the line is damaged
 * or is another event's. Returns a negative errno if the file cannot be read.
 */
int gap_read_line(int fd, uint64_t from, uint64_t end, uint64_t seq, struct event **ret_event);
/** Finds the whole gap around an event that cannot be read. */
int gap_find(const struct gap_source *source, uint64_t seq, struct gap *ret);

#endif
