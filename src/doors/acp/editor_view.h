/*
 * Translates one session for one editor: takes what an observer is sent (encoder.h), produces ACP v1
 * messages (docs/editors.md). Tracks what the editor waits for: its load, its prompts, its settings, and the
 * questions it was asked. Pure.
 *
 * Every update carries its position, so that an editor can resume: `_meta.holdfast {epoch, seq,
 * ts}`, or for a block that is still growing `{epoch, seq, open}`, where `open` is the number of
 * bytes sent so far.
 */
#ifndef HOLDFAST_EDITOR_VIEW_H
#define HOLDFAST_EDITOR_VIEW_H

#include "holdfast/encoder.h"
#include "holdfast/error_codes.h"
#include "holdfast/json_rpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct editor_view;

/* Most prompts and settings of one editor in one session that can wait for an answer. */
#define EDITOR_WAITS_MAX 64

struct editor_view_config {
	const char *session_id; /* copied, like all strings here */
	const char *client_id; /* identifies the editor's own prompts */
	uint64_t epoch;
	uint64_t told_seq; /* the editor has the events up to this one */
	uint64_t open_told; /* … and this many bytes of the next one */
	bool tells_own; /* send it its own prompts, too, until it is live */
	const char *load_id; /* JSON id of the request to answer when live; NULL: none */
	bool names_session; /* the answer includes the session's id */
	const char *reset; /* why its position was unusable, for that answer; or NULL */
	bool asks; /* send it permission requests and elicitations */
	bool takes_forms; /* it can show forms */
	bool takes_urls; /* it can open URLs */
};

/** Owned by the caller. */
struct editor_view *editor_view_create(const struct editor_view_config *config);
/** Accepts NULL. */
void editor_view_destroy(struct editor_view *view);

/* Take what the observer is sent. Messages are appended to `out`, each followed by a newline. */
void editor_view_page(struct editor_view *view, const struct loaded_frame *in, struct buffer *out);
void editor_view_events(struct editor_view *view, const struct live_events *in, struct buffer *out);
void editor_view_delta(struct editor_view *view, const struct open_part *in, struct buffer *out);
void editor_view_error(struct editor_view *view, const struct error_notice *in, struct buffer *out);
/**
 * The position of an editor's output. Views of the same session whose places are equal byte by byte
 * produce the same messages from the same output, unless editor_view_was_own(). No padding.
 */
struct editor_place {
	uint64_t epoch;
	uint64_t told_seq;
	uint64_t had_seq;
	uint64_t seen_seq;
	uint64_t open_seq; /* the event still growing … */
	uint64_t open_told;
	bool asks;
	bool takes_forms;
	bool takes_urls;
	bool tells_own;
	unsigned char none[4];
};
/**
 * Writes the view's place. Returns false if the editor loads or waits for an answer, and so gets
 * messages that others do not.
 */
bool editor_view_place(const struct editor_view *view, struct editor_place *ret);
/**
 * Whether the last output meant something to this editor alone, or changed state that is not part of
 * its place.
 */
bool editor_view_was_own(const struct editor_view *view);
/** Moves the view to the place that another had after the same output. */
void editor_view_follow(struct editor_view *view, const struct editor_place *after);
/**
 * Events will start again at an earlier one; events that the editor already has are not repeated.
 */
void editor_view_load_again(struct editor_view *view);
/** Whether the load is complete. */
bool editor_view_is_live(const struct editor_view *view);
/**
 * The session cannot be followed any longer: answers all waiting requests with an error, and
 * cancels open questions.
 */
void editor_view_fail(
	struct editor_view *view, enum error_code code, const char *why, struct buffer *out);

/**
 * Registers the request `id` (JSON), to be answered when the turn of this prompt ends. Returns
 * false if too many wait.
 */
bool editor_view_add_prompt(struct editor_view *view, const char *id, const char *prompt_id);
/** Calls `visit` for each prompt whose turn has not begun. It must not change the view. */
void editor_view_each_waiting(
	const struct editor_view *view, void (*visit)(void *arg, const char *prompt_id), void *arg);
/** Whether one more request, a prompt or a setting, can wait. */
bool editor_view_has_room(const struct editor_view *view);
/** Returns the number of waiting prompts, including those whose turn is running. */
size_t editor_view_count_prompts(const struct editor_view *view);
/** Whether the running turn belongs to one of them. */
bool editor_view_is_at_work(const struct editor_view *view);
/** Returns the prompt_id of this request, or NULL. Borrowed. */
const char *editor_view_prompt_of(
	const struct editor_view *view, const char *id, enum json_rpc_likeness likeness);
/**
 * Answers the requests for this prompt: with an error if `error` is not NULL, else as cancelled.
 */
void editor_view_end_prompt(struct editor_view *view, const char *prompt_id, enum error_code code,
	const char *error, struct buffer *out);

enum editor_setting { EDITOR_MODE, EDITOR_MODEL, EDITOR_OPTION };
/**
 * Registers the request `id`, to be answered when the agent confirms or refuses the setting;
 * answers at once if the value is already set, or if `waits` is false (no agent is running).
 * `value` is JSON, for an option only. Returns false if too many wait.
 */
bool editor_view_add_setting(struct editor_view *view, const char *id, enum editor_setting kind,
	const char *name, const char *value, bool waits, struct buffer *out);

/** Kinds of questions. */
enum editor_question { EDITOR_NO_QUESTION, EDITOR_PERMISSION, EDITOR_ELICITATION };
/**
 * Handles the editor's answer to our request `id` (without quotes): returns the kind of question
 * and its *ret_request_id, borrowed until the next output. The question is no longer cancelled at
 * the editor when it is resolved.
 */
enum editor_question editor_view_answered(
	struct editor_view *view, const char *id, const char **ret_request_id);
/** Asks again, because the answer could not be stored. */
void editor_view_ask_again(struct editor_view *view, const char *request_id, struct buffer *out);

/* Messages to an editor, each followed by a newline. `id` is JSON. */
void editor_put_result(struct buffer *out, const char *id, const char *result, size_t len);
/** `code` is one of proto/protocol.md, and is included in `data`. */
void editor_put_error(
	struct buffer *out, const char *id, enum error_code code, const char *message);

#endif
