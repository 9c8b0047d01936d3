/*
 * Snapshots: a producer that can only hand over its whole state, history and new, says so with
 * `append_snapshot {messages, skip_first?}`, and what the log holds already adds nothing
 * (proto/protocol.md#producers). Pure: what the log holds
 * is asked through callbacks, and what is new comes back as ordinary input events.
 *
 * A message that the log holds (by its message_id) adds no text, thought, prompt or usage. Tool
 * calls and their results go by their own ids, in whatever message they are: a call that was
 * reported live before its message was complete is not reported again, and one that a known message
 * has got since is.
 */
#ifndef HOLDFAST_SNAPSHOT_H
#define HOLDFAST_SNAPSHOT_H

#include "holdfast/limits.h"
#include "holdfast/requests.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum snapshot_id {
	SNAPSHOT_MESSAGE, /* the message_id of any event */
	SNAPSHOT_TOOL_CALL, /* the tool_call_id of a tool_call */
	SNAPSHOT_TOOL_RESULT, /* that of a tool_call_update with status completed or failed */
};

/** What the log holds; asked only while snapshot_match() runs. */
struct snapshot_log {
	void *ctx;
	bool (*known)(void *ctx, enum snapshot_id kind, const char *id);
	/**
	 * The message_id that came as the `n`-th (from 0), in the order of their first events; NULL
	 * beyond the last. Asked for only where there is a skip_first.
	 */
	const char *(*nth)(void *ctx, size_t n);
};

struct snapshot_match {
	json_t *events; /* array of input events, perhaps empty; the caller's reference */
	size_t known; /* messages that the log holds, those of skip_first among them */
	size_t added; /* messages that are new */
};

#define SNAPSHOT_NO_INDEX ((size_t)-1)

/**
 * Finds what is new in `data`, the object {messages, skip_first?}; its members of other names are
 * not looked at. Refused, with the index of the message in *ret_bad (SNAPSHOT_NO_INDEX: it is of
 * none): bad_request, missing_message_id, duplicate_message_id, unknown_role,
 * duplicate_tool_use_id, unknown_tool_use, history_mismatch, too_large. The events still have to
 * pass intake_append().
 */
int snapshot_match(const json_t *data, const struct limits *limits, const struct snapshot_log *log,
	struct snapshot_match *ret, size_t *ret_bad, struct refusal *refusal);

#endif
