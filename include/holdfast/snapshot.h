/*
 * Snapshots: a producer that can only hand over its whole state sends `append_snapshot {messages,
 * skip_first?}`, of which only the parts that the log lacks are appended
 * (proto/protocol.md#producers). Pure: the log is queried through callbacks, and the new parts are
 * returned as input events.
 *
 * A message that the log has, by its message_id, adds no text, thought, prompt or usage. Tool calls
 * and their results are compared by their own ids, in any message: a call that was reported live
 * before its message was complete is not added again, but one that a known message has gained since
 * is.
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

/** Queries about the log, made only while snapshot_match() runs. */
struct snapshot_log {
	void *ctx;
	/** Whether the log has this id. */
	bool (*known)(void *ctx, enum snapshot_id kind, const char *id);
	/**
	 * The n-th message_id (from 0) in the order of the messages' first events, NULL beyond the
	 * last. Called only if the snapshot has skip_first.
	 */
	const char *(*nth)(void *ctx, size_t n);
};

struct snapshot_match {
	json_t *events; /* array of input events, possibly empty; the caller owns the reference */
	size_t known; /* messages that the log has, including those of skip_first */
	size_t added; /* messages that are new */
};

#define SNAPSHOT_NO_INDEX ((size_t)-1)

/**
 * Finds the new parts of `data`, the object {messages, skip_first?}; other members are ignored. The
 * events still have to pass intake_append(). Returns 0, or a negative value with the refusal filled
 * in (bad_request, missing_message_id, duplicate_message_id, unknown_role, duplicate_tool_use_id,
 * unknown_tool_use, history_mismatch, too_large) and *ret_bad set to the index of the message at
 * fault, or SNAPSHOT_NO_INDEX.
 */
int snapshot_match(const json_t *data, const struct limits *limits, const struct snapshot_log *log,
	struct snapshot_match *ret, size_t *ret_bad, struct refusal *refusal);

#endif
