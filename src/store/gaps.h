/*
 * Pages of a damaged log: what can be read of it, and stand-ins (event_create_gap()) for the rest.
 * Any thread.
 */
#ifndef HOLDFAST_GAPS_H
#define HOLDFAST_GAPS_H

#include "holdfast/event.h"

#include <stdint.h>

/** A log and its index, which has just been made again. */
struct gap_source {
	int fd; /* of events.jsonl */
	int index_fd; /* of events.index */
	uint64_t first_seq; /* of the first entry */
	uint64_t count; /* entries */
	uint64_t end; /* where the last of these lines ends */
};

/** Consecutive events none of which can be read. */
struct gap {
	uint64_t from; /* 0: none */
	uint64_t to;
	int64_t ts; /* of the event in front of it; of the one behind it, if there is none; or 0 */
};

/**
 * Reads an event between two offsets: *ret_event, or NULL if it is not there. A negative errno if
 * that is not known.
 */
int gap_read_line(int fd, uint64_t from, uint64_t end, uint64_t seq, struct event **ret_event);
/** The whole range that an event which cannot be read belongs to. */
int gap_find(const struct gap_source *source, uint64_t seq, struct gap *ret);

#endif
