/*
 * Intake: the first touch of everything that comes in. It checks, refuses with a code and words,
 * and hands on what is good; nothing reaches a session by another way.
 */
#ifndef HOLDFAST_INTAKE_H
#define HOLDFAST_INTAKE_H

#include "holdfast/requests.h"
#include "holdfast/session.h"
#include "holdfast/snapshot.h"

/**
 * Appends a batch of input events of a producer, `events` and what follows it, all or none: the
 * first bad one refuses the batch, with its place in *ret_bad. `acks` has room for every event. They may be told
 * to the producer once session_wait_durable() says so.
 */
int intake_append(struct session *session, const struct json_span *events, size_t count,
	const struct limits *limits, struct append_ack *acks, size_t *ret_bad,
	struct refusal *refusal);

/** What a snapshot has added. */
struct snapshot_result {
	struct append_ack *acks; /* of the events that it became; the caller frees */
	size_t ack_count;
	size_t known; /* messages that were there already */
	size_t added;
};
/**
 * Appends what is new in a producer's whole state, `data` = {messages, skip_first?, run_id?}; all
 * or none (snapshot.h). *ret_bad is the message that it is refused for, SNAPSHOT_NO_INDEX if none.
 */
int intake_snapshot(struct session *session, const json_t *data, const struct limits *limits,
	struct snapshot_result *ret, size_t *ret_bad, struct refusal *refusal);

/** One piece of text of the session's agent; valid UTF-8. Returns -EIO if the store has failed. */
int intake_text(struct session *session, bool thought, const char *text, size_t len,
	const char *message_id);
/**
 * Another event of the session's agent; `text` is `data` as JSON. -EINVAL if its data is not what
 * its type asks for.
 */
int intake_event(struct session *session, const char *type, const json_t *data, const char *text);

/**
 * An input event that the agent told when it went on with its session, and that the log lacks: the
 * events that it becomes have `recovered` in their data. Text, as a chunk, is a whole message.
 */
int intake_recovered(struct session *session, const char *type, const json_t *data,
	const char *text, const char *message_id);

/** A prompt of a controller. *ret_seq 0: it waits in the queue. */
int intake_prompt(struct session *session, const struct request *request,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate,
	struct refusal *refusal);

/**
 * A controller changes the message of a prompt that waits, or takes it out of the queue. Refused
 * with not_queued if it does not wait: *ret_had is how it stands, as of what is journaled.
 */
int intake_edit_prompt(struct session *session, const struct request *request,
	struct prompt_view *ret_had, struct refusal *refusal);
/** *ret_had is PROMPT_REMOVED if it had been taken out before. */
int intake_remove_prompt(struct session *session, const struct request *request,
	struct prompt_view *ret_had, struct refusal *refusal);
/** Sets the refusal for a prompt that does not wait, and returns -EINVAL. */
int intake_refuse_not_queued(const struct prompt_view *had, struct refusal *refusal);

/**
 * A controller's answer to a permission request: the first one wins. A refusal tells who was first,
 * and where.
 */
int intake_answer(struct session *session, const struct request *request,
	const struct author *author, struct refusal *refusal);
/** The same for an elicitation. Only the action and who it was is kept, not what was answered. */
int intake_elicited(struct session *session, const struct request *request,
	const struct author *author, struct refusal *refusal);
/**
 * Closes a pending request without an answer (the agent withdrew it, or the turn is being
 * cancelled).
 */
int intake_cancel_permission(struct session *session, const char *request_id);

#endif
