/*
 * One session as an editor sees it: an observer's frames in, messages of ACP v1 out (docs/editors.md). It
 * knows what the editor waits for: its load, its prompts, its settings, and the questions that it was
 * asked. Pure.
 *
 * Every update says where it is, so that an editor can resume: `_meta.holdfast {epoch, seq, ts}`; of a
 * block that still grows `{epoch, seq, open}`, with the bytes of it that are told.
 */
#ifndef HOLDFAST_EDITOR_VIEW_H
#define HOLDFAST_EDITOR_VIEW_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct editor_view;

/* Prompts and settings of one editor in one session that wait for an answer at once, at most. */
#define EDITOR_WAITS_MAX 64

struct editor_view_config {
	const char *session_id; /* copied, as are all texts */
	const char *client_id; /* prompts with this one are the editor's own */
	uint64_t epoch;
	uint64_t told_seq; /* the editor has the events up to here */
	uint64_t open_told; /* and so many bytes of the next one; 0: nothing */
	bool tells_own; /* until it has all there is, it is told its own prompts as well */
	const char *load_id; /* JSON: of the request that is answered then; NULL: none is */
	bool names_session; /* and the answer says which one it is */
	const char *
		reset; /* why its position was of no use, for that answer; NULL: it was, or it had none */
	bool asks; /* it is asked questions */
	bool takes_forms; /* and what agents ask in forms */
	bool takes_urls; /* and with addresses */
};

struct editor_view *editor_view_create(const struct editor_view_config *config);
/** Accepts NULL. */
void editor_view_destroy(struct editor_view *view);

/** Takes a frame and appends the messages that it becomes to `out`, each with a newline behind it. */
void editor_view_take(struct editor_view *view, const char *frame, size_t len, struct buffer *out);
/**
 * How far an editor has been told: two of the same session with the same bytes here make the same messages of a
 * frame, unless editor_view_own() grows by it. It has no padding.
 */
struct editor_place {
	uint64_t epoch;
	uint64_t told_seq;
	uint64_t had_seq;
	uint64_t seen_seq;
	uint64_t open_seq; /* the event that grows, of which so many bytes are told */
	uint64_t open_told;
	bool asks;
	bool takes_forms;
	bool takes_urls;
	bool tells_own;
	unsigned char none[4];
};
/** False: it loads, or waits for an answer, and so is told what others are not. */
bool editor_view_place(const struct editor_view *view, struct editor_place *ret);
uint64_t editor_view_own(const struct editor_view *view);
/** Goes to where another one was behind the same frame. */
void editor_view_follow(struct editor_view *view, const struct editor_place *after);
/** What comes next begins at an earlier event: what the editor has is not told again. */
void editor_view_load_again(struct editor_view *view);
/** It has all that there is. */
bool editor_view_is_live(const struct editor_view *view);
/** The last event that the editor has been told. */
uint64_t editor_view_told(const struct editor_view *view);
/** The session's events can be read no more: what waits is answered with an error. */
void editor_view_fail(
	struct editor_view *view, const char *code, const char *why, struct buffer *out);

/** The request `id` (JSON) is answered when the turn of this prompt ends. False: too many wait. */
bool editor_view_add_prompt(struct editor_view *view, const char *id, const char *prompt_id);
/** Calls `visit` for each prompt whose turn has not begun. It must not change the view. */
void editor_view_each_waiting(
	const struct editor_view *view, void (*visit)(void *arg, const char *prompt_id), void *arg);
/** How many prompts wait, with those whose turn is running. */
size_t editor_view_count_prompts(const struct editor_view *view);
/** Whether the running turn is that of one of them. */
bool editor_view_is_at_work(const struct editor_view *view);
/** The prompt of this request; NULL: none. Borrowed. */
const char *editor_view_prompt_of(const struct editor_view *view, const char *id);
/** Answers the requests for this prompt: cancelled, or with an error if there are words. */
void editor_view_end_prompt(struct editor_view *view, const char *prompt_id, const char *error_code,
	const char *error, struct buffer *out);

enum editor_setting { EDITOR_MODE, EDITOR_MODEL, EDITOR_OPTION };
/**
 * The request `id` is answered when the agent has said that the setting is made, or refused; at once if it is
 * made already, or if the agent does not run. `value` is JSON, of an option. False: too many wait.
 */
bool editor_view_add_setting(struct editor_view *view, const char *id, enum editor_setting kind,
	const char *name, const char *value, bool waits, struct buffer *out);

/** What a question is. */
enum editor_question { EDITOR_NO_QUESTION, EDITOR_PERMISSION, EDITOR_ELICITATION };
/**
 * The editor has answered the request of this id (without quotes): which question that was. *ret_request_id
 * is borrowed until the next frame. It is not taken back from the editor any more.
 */
enum editor_question editor_view_answered(
	struct editor_view *view, const char *id, const char **ret_request_id);
/** The answer could not be kept: the editor is asked again. */
void editor_view_ask_again(struct editor_view *view, const char *request_id, struct buffer *out);

/* Messages to an editor. `id` is JSON; each has a newline behind it. */
void editor_put_result(struct buffer *out, const char *id, const char *result, size_t len);
/** `code` is one of proto/protocol.md, and is told in `data`. */
void editor_put_error(struct buffer *out, const char *id, const char *code, const char *message);

#endif
