/* What the files of an editor's view share (editor_view.c, editor_questions.c, editor_waits.c). */
#ifndef HOLDFAST_EDITOR_VIEW_INTERNAL_H
#define HOLDFAST_EDITOR_VIEW_INTERNAL_H

#include "holdfast/acp_names.h"
#include "holdfast/editor_view.h"
#include "holdfast/json_span.h"
#include "holdfast/list.h"

struct editor_view {
	char *session_id;
	char *client_id;
	uint64_t epoch;
	uint64_t told_seq;
	uint64_t had_seq; /* what it was told before this view was made */
	uint64_t seen_seq; /* the last event that has come */
	uint64_t open_seq; /* the event that grows, of which so many bytes are told */
	size_t open_told;
	bool tells_own;
	bool is_live;
	char *load_id; /* NULL: it is answered, or nobody waits */
	bool names_session;
	char *reset;
	bool asks;
	bool takes_forms;
	bool takes_urls;
	/* What the agent has said of itself: JSON, empty if it has not been seen. */
	struct buffer modes; /* the list */
	struct buffer mode; /* the id of the one that counts */
	struct buffer model; /* the id of the one that counts */
	struct buffer options;
	struct list waits; /* struct editor_wait */
	size_t wait_count;
	uint64_t
		own; /* grows by what a frame means to this editor alone, or is kept besides the place */
	struct list questions; /* struct editor_question_open */
	size_t question_count;
};

const char *editor_string(const struct json_span *object, const char *name);
/** Appends `"epoch":…,"seq":…`. */
void editor_put_place(const struct editor_view *view, struct buffer *out, uint64_t seq);

/* editor_waits.c */
void editor_waits_finish(struct editor_view *view);
void editor_waits_see_prompt(struct editor_view *view, const char *prompt_id, uint64_t turn);
void editor_waits_see_turn_end(
	struct editor_view *view, uint64_t turn, const struct json_span *data, struct buffer *out);
/** The agent has said `current`, the id of a mode or a model, or has told its options. */
void editor_waits_see_setting(struct editor_view *view, enum editor_setting kind,
	const char *current, struct buffer *out);
/** An `error` for this client. */
void editor_waits_see_error(
	struct editor_view *view, const struct json_span *data, struct buffer *out);
/** The load is answered. */
void editor_waits_answer_load(struct editor_view *view, struct buffer *out);
/** All are answered with an error. */
void editor_waits_fail(
	struct editor_view *view, const char *code, const char *why, struct buffer *out);

/* editor_questions.c */
void editor_questions_finish(struct editor_view *view);
void editor_questions_see_request(struct editor_view *view, enum editor_question kind, uint64_t seq,
	const struct json_span *data);
void editor_questions_see_resolved(
	struct editor_view *view, const struct json_span *data, bool is_told, struct buffer *out);
/** Asks what has not been asked. */
void editor_questions_ask(struct editor_view *view, struct buffer *out);
/** The session is gone: what was asked is taken back. */
void editor_questions_take_back(struct editor_view *view, struct buffer *out);

#endif
