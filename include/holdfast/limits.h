/*
 * Every number that bounds something, in one table: limits_default() has the values and the reason
 * for each. Sizes are bytes, times milliseconds.
 */
#ifndef HOLDFAST_LIMITS_H
#define HOLDFAST_LIMITS_H

#include <stddef.h>
#include <stdint.h>

struct limits {
	/* The stream buffer (CONTRACT.md, section 3). */
	int64_t soft_flush_ms; /* a paragraph at the end of a line, or any block that may be closed
				*/
	int64_t idle_flush_ms; /* a paragraph, anywhere */
	int64_t idle_block_flush_ms; /* an open list, table, fence or quote, anywhere */
	int64_t hold_ms; /* something is held and no text has come for so long */
	int64_t hold_fence_ms; /* the same inside a fence */
	int64_t thought_flush_ms;
	size_t paragraph_flush_size; /* at the end of a line */
	size_t thought_size;
	size_t block_size; /* cap for any block */
	int64_t preview_ms; /* least time between two previews of one session */

	/* What comes from outside. */
	size_t frame_size; /* one WebSocket message of a client */
	size_t body_size; /* one HTTP request body */
	size_t event_size; /* the data of one input event */
	size_t batch_events; /* input events in one append */
	size_t prompt_size;
	size_t prompt_queue; /* prompts waiting in one session */
	size_t agent_line_size; /* one JSON-RPC line of an agent */
	size_t agent_file_size; /* one file read or written for an agent */
	int agent_stop_ms; /* from SIGTERM to SIGKILL */

	/* Loading. */
	size_t load_default; /* events in a page when the client names no limit */
	size_t load_max;
	size_t page_size; /* a page of events is cut at about this many bytes */
	size_t hot_tail_size; /* newest events of a session kept in memory */

	/* The store. */
	size_t segment_size; /* the journal is rotated beyond this */
	size_t journal_backlog; /* producers are paused while so much waits for the disk */

	/* Observers. */
	size_t outbox_frames; /* answers waiting for a socket that does not drain */
	size_t title_size;
};

/** The defaults; the program never changes them but by its options. */
const struct limits *limits_default(void);

#endif
