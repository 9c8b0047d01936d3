/* Shared by the files of an editor's view (editor_view.c, editor_questions.c, editor_waits.c). */
#ifndef HOLDFAST_EDITOR_VIEW_INTERNAL_H
#define HOLDFAST_EDITOR_VIEW_INTERNAL_H

#include "holdfast/acp_names.h"
#include "editor_view.h"
#include "holdfast/json_span.h"
#include "holdfast/list.h"

struct editor_view {
	char *session_id;
	char *client_id;
	uint64_t epoch;
	uint64_t told_seq;
	uint64_t had_seq; /* told_seq at creation */
	uint64_t seen_seq; /* the last event received */
	uint64_t open_seq; /* the event still growing, of which open_told bytes were sent */
	size_t open_told;
	bool tells_own;
	bool is_live;
	char *load_id; /* NULL: answered, or no load */
	bool names_session;
	char *reset;
	bool asks;
	bool takes_forms;
	bool takes_urls;
	/* The agent's state as JSON; empty: unknown. */
	struct buffer modes; /* the available modes */
	struct buffer mode; /* the id of the current one */
	struct buffer model; /* the id of the current one */
	struct buffer options;
	struct list waits; /* struct editor_wait */
	size_t wait_count;
	bool is_own; /* see editor_view_was_own() */
	struct list questions; /* struct editor_question_open */
	size_t question_count;
};

/** Appends `"epoch":…,"seq":…`. */
void editor_put_place(const struct editor_view *view, struct buffer *out, uint64_t seq);

/* editor_waits.c */
void editor_waits_finish(struct editor_view *view);
void editor_waits_see_prompt(struct editor_view *view, const char *prompt_id, uint64_t turn);
void editor_waits_see_turn_end(
	struct editor_view *view, uint64_t turn, const struct json_span *data, struct buffer *out);
/** The agent reported `current`, the id of a mode or a model; NULL for its options. */
void editor_waits_see_setting(struct editor_view *view, enum editor_setting kind,
	const char *current, struct buffer *out);
/** Handles an error for this client. */
void editor_waits_see_error(
	struct editor_view *view, const struct error_notice *in, struct buffer *out);
/** Answers the load. */
void editor_waits_answer_load(struct editor_view *view, struct buffer *out);
/** Answers all waiting requests with an error. */
void editor_waits_fail(
	struct editor_view *view, enum error_code code, const char *why, struct buffer *out);

/* editor_questions.c */
void editor_questions_finish(struct editor_view *view);
void editor_questions_see_request(struct editor_view *view, enum editor_question kind, uint64_t seq,
	const struct json_span *data);
void editor_questions_see_resolved(
	struct editor_view *view, const struct json_span *data, bool is_told, struct buffer *out);
/** Asks the questions that have not been asked yet. */
void editor_questions_ask(struct editor_view *view, struct buffer *out);
/** Cancels and drops all questions, because the session is gone. */
void editor_questions_take_back(struct editor_view *view, struct buffer *out);

#endif
