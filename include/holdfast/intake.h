/*
 * Intake: checks all input before it reaches a session, and refuses invalid input with a code and a
 * message. Events, prompts and answers of others reach a session no other way.
 *
 * All functions run on the loop's thread. Those with a `refusal` return 0, or a negative value with
 * the refusal filled in. An accepted input is durable only later: answers wait for
 * session_wait_durable().
 */
#ifndef HOLDFAST_INTAKE_H
#define HOLDFAST_INTAKE_H

#include "holdfast/requests.h"
#include "holdfast/session.h"
#include "holdfast/snapshot.h"

/**
 * Appends a batch of `count` input events of a producer, beginning with `events`, all or none. If
 * one is bad, the batch is refused, with the index of the first bad one in *ret_bad. `acks` must
 * have room for all events.
 */
int intake_append(struct session *session, const struct json_span *events, size_t count,
	const struct limits *limits, struct append_ack *acks, size_t *ret_bad,
	struct refusal *refusal);

/** The outcome of a snapshot. */
struct snapshot_result {
	struct append_ack *acks; /* of the events that were appended; the caller frees them */
	size_t ack_count;
	size_t known; /* messages that the log had already */
	size_t added; /* messages that are new */
};
/**
 * Appends what is new in a producer's whole state, `data` = {messages, skip_first?, run_id?}, all
 * or nothing (snapshot.h). If it is refused because of a message, *ret_bad is the message's index,
 * else SNAPSHOT_NO_INDEX.
 */
int intake_snapshot(struct session *session, const json_t *data, const struct limits *limits,
	struct snapshot_result *ret, size_t *ret_bad, struct refusal *refusal);

/**
 * Takes a piece of text, valid UTF-8, from the session's agent. Returns -EIO if the store fails.
 */
int intake_text(struct session *session, bool thought, const char *text, size_t len,
	const char *message_id);
/**
 * Takes another event from the session's agent; `text` is `data` as JSON. Returns -EINVAL if the
 * data is invalid for the type, -ENOBUFS if too many permission requests are open, or -EIO.
 */
int intake_event(struct session *session, const char *type, const json_t *data, const char *text);

/**
 * Takes an input event that the agent reported when it resumed its session, and that the log lacks.
 * The resulting events have `recovered` in their data. A chunk of text is a whole message.
 */
int intake_recovered(struct session *session, const char *type, const json_t *data,
	const char *text, const char *message_id);

/** Takes a prompt of a controller. *ret_seq is 0 if the prompt waits in the queue. */
int intake_prompt(struct session *session, const struct request *request,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate,
	struct refusal *refusal);

/**
 * Changes the message of a queued prompt. Refused with not_queued if the prompt is not in the
 * queue; *ret_had is then its state, as of the newest input.
 */
int intake_edit_prompt(struct session *session, const struct request *request,
	struct prompt_view *ret_had, struct refusal *refusal);
/**
 * Removes a queued prompt; refused like intake_edit_prompt(). ret_had->place is PROMPT_REMOVED if
 * it had been removed before.
 */
int intake_remove_prompt(struct session *session, const struct request *request,
	struct prompt_view *ret_had, struct refusal *refusal);
/** Fills in the refusal for a prompt that is not queued, and returns -EINVAL. */
int intake_refuse_not_queued(const struct prompt_view *had, struct refusal *refusal);

/**
 * Takes a controller's answer to a permission request. The first answer wins; the refusal of a
 * later one says whose the first was, and its seq.
 */
int intake_answer(struct session *session, const struct request *request,
	const struct author *author, struct refusal *refusal);
/** The same for an elicitation. Stores the action and the author, but not the content. */
int intake_elicited(struct session *session, const struct request *request,
	const struct author *author, struct refusal *refusal);
/**
 * Closes a pending permission request or elicitation without an answer, because the agent withdrew
 * it or its turn is cancelled. Does nothing if it is not pending.
 */
int intake_cancel_permission(struct session *session, const char *request_id);

#endif
