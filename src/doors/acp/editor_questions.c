/*
 * Asks an editor the questions of a session's agent. The id of our request identifies the question
 * across sessions and restarts, so an editor that reconnects is not asked twice.
 */
#include "editor_view_internal.h"

#include <stdlib.h>
#include <string.h>

/* Most open questions of one session that an editor is asked. */
#define QUESTIONS_MAX 256

struct editor_question_open {
	struct list link; /* editor_view.questions */
	enum editor_question kind;
	char *request_id;
	uint64_t seq;
	struct buffer params; /* of our request, as JSON; empty: this editor cannot ask it */
	bool is_asked;
	bool is_answered;
};

static void drop(struct editor_view *view, struct editor_question_open *question)
{
	list_remove(&question->link);
	view->question_count--;
	buffer_finish(&question->params);
	free(question->request_id);
	free(question);
}

void editor_questions_finish(struct editor_view *view)
{
	list_for_each_safe(link, tmp, &view->questions) {
		drop(view, list_entry(link, struct editor_question_open, link));
	}
}

static struct editor_question_open *find(const struct editor_view *view, const char *request_id)
{
	list_for_each(link, &view->questions) {
		struct editor_question_open *question =
			list_entry(link, struct editor_question_open, link);
		if (strcmp(question->request_id, request_id) == 0) {
			return question;
		}
	}
	return NULL;
}

/** Appends the id of our request, without quotes. */
static void put_id(const struct editor_view *view, struct buffer *out, const char *request_id)
{
	buffer_append_str(out, "question-");
	buffer_append_hex(out, view->epoch);
	buffer_append_char(out, '-');
	buffer_append_str(out, request_id);
}

static void put_json_id(const struct editor_view *view, struct buffer *out, const char *request_id)
{
	struct buffer id = {0};
	put_id(view, &id, request_id);
	buffer_append_json(out, id.data, id.len);
	buffer_finish(&id);
}

/* --- asking --- */

static bool is_option_kind(const char *kind)
{
	return kind &&
	       (strcmp(kind, "allow_once") == 0 || strcmp(kind, "allow_always") == 0 ||
		       strcmp(kind, "reject_once") == 0 || strcmp(kind, "reject_always") == 0);
}

/** Appends the options; ACP requires a kind for each. */
static void put_options(struct buffer *out, const struct json_span *options)
{
	buffer_append_char(out, '[');
	if (json_span_is(options, JSON_ARRAY)) {
		json_span_each(option, options) {
			const char *id = json_span_string(option, "option_id");
			const char *name = json_span_string(option, "name");
			const char *kind = json_span_string(option, "kind");
			if (!id) {
				continue;
			}
			buffer_append_str(out, out->data[out->len - 1] == '[' ? "{" : ",{");
			buffer_append_member(out, "optionId", id);
			buffer_append_member(out, "name", name ? name : id);
			buffer_append_member(
				out, "kind", is_option_kind(kind) ? kind : "allow_once");
			buffer_append_char(out, '}');
		}
	}
	buffer_append_char(out, ']');
}

static void put_permission(const struct editor_view *view, struct buffer *out,
	const char *request_id, const struct json_span *data)
{
	const struct json_span *call = json_span_get(data, "tool_call");
	buffer_append_str(out, ",\"toolCall\":");
	if (json_span_string(call, "tool_call_id")) {
		acp_names_write(out, call, view->session_id);
	} else {
		buffer_append_char(out, '{');
		buffer_append_member(out, "toolCallId", request_id);
		buffer_append_char(out, '}');
	}
	buffer_append_str(out, ",\"options\":");
	put_options(out, json_span_get(data, "options"));
}

/** Returns false if the editor did not announce support for this kind of elicitation. */
static bool put_elicitation(
	const struct editor_view *view, struct buffer *out, const struct json_span *data)
{
	const char *mode = json_span_string(data, "mode");
	const char *message = json_span_string(data, "message");
	const char *url = json_span_string(data, "url");
	const char *id = json_span_string(data, "elicitation_id");
	const char *call = json_span_string(data, "tool_call_id");
	const struct json_span *schema = json_span_get(data, "requested_schema");
	bool is_form = view->takes_forms && mode && strcmp(mode, "form") == 0 &&
		       json_span_is(schema, JSON_OBJECT);
	bool is_url = view->takes_urls && mode && strcmp(mode, "url") == 0 && url && id;
	if (!message || (!is_form && !is_url)) {
		return false;
	}
	buffer_append_member(out, "mode", mode);
	buffer_append_member(out, "message", message);
	if (call) {
		buffer_append_member(out, "toolCallId", call);
	}
	if (is_form) {
		buffer_append_str(out, ",\"requestedSchema\":");
		json_span_write(out, schema);
	} else {
		buffer_append_member(out, "elicitationId", id);
		buffer_append_member(out, "url", url);
	}
	return true;
}

void editor_questions_see_request(struct editor_view *view, enum editor_question kind, uint64_t seq,
	const struct json_span *data)
{
	struct buffer params = {0};
	const char *request_id = json_span_string(data, "request_id");
	if (!view->asks || !request_id || find(view, request_id) ||
		view->question_count >= QUESTIONS_MAX) {
		return;
	}
	buffer_append_char(&params, '{');
	buffer_append_member(&params, "sessionId", view->session_id);
	if (kind == EDITOR_PERMISSION) {
		put_permission(view, &params, request_id, data);
	} else if (!put_elicitation(view, &params, data)) {
		buffer_finish(&params);
	}
	if (params.len) {
		buffer_append_str(&params, ",\"_meta\":{\"holdfast\":{");
		editor_put_place(view, &params, seq);
		buffer_append_member(&params, "request_id", request_id);
		buffer_append_str(&params, "}}}");
	}
	struct editor_question_open *question = xcalloc(1, sizeof(*question));
	question->kind = kind;
	question->request_id = xstrdup(request_id);
	question->seq = seq;
	question->params = params;
	list_append(&view->questions, &question->link);
	view->question_count++;
}

static void ask(
	const struct editor_view *view, struct editor_question_open *question, struct buffer *out)
{
	question->is_asked = true;
	buffer_append_str(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	put_json_id(view, out, question->request_id);
	buffer_append_member(out, "method",
		question->kind == EDITOR_PERMISSION ? "session/request_permission"
						    : "elicitation/create");
	buffer_append_str(out, ",\"params\":");
	buffer_append(out, question->params.data, question->params.len);
	buffer_append_str(out, "}\n");
}

void editor_questions_ask(struct editor_view *view, struct buffer *out)
{
	list_for_each(link, &view->questions) {
		struct editor_question_open *question =
			list_entry(link, struct editor_question_open, link);
		if (!question->is_asked && question->params.len) {
			ask(view, question, out);
		}
	}
}

/* --- answers --- */

static void take_back(const struct editor_view *view, const char *request_id, struct buffer *out)
{
	buffer_append_str(out,
		"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":");
	put_json_id(view, out, request_id);
	buffer_append_str(out, "}}\n");
}

void editor_questions_see_resolved(
	struct editor_view *view, const struct json_span *data, bool is_told, struct buffer *out)
{
	const char *request_id = json_span_string(data, "request_id");
	struct editor_question_open *question = request_id ? find(view, request_id) : NULL;
	if (!question) {
		/*
		 * An earlier connection may have asked it, in a turn that ended before this one, which
		 * therefore does not read the request. Who had nothing was asked nothing, and reads a
		 * resolution without its request where the log begins behind the request.
		 */
		if (request_id && is_told && view->asks && view->had_seq) {
			take_back(view, request_id, out);
		}
		return;
	}
	/* An earlier connection may have asked it. */
	bool was_asked = question->is_asked ||
			 (is_told && question->params.len && question->seq <= view->had_seq);
	if (was_asked && !question->is_answered) {
		take_back(view, question->request_id, out);
	}
	drop(view, question);
}

void editor_questions_take_back(struct editor_view *view, struct buffer *out)
{
	list_for_each_safe(link, tmp, &view->questions) {
		struct editor_question_open *question =
			list_entry(link, struct editor_question_open, link);
		if (question->is_asked && !question->is_answered) {
			take_back(view, question->request_id, out);
		}
		drop(view, question);
	}
}

enum editor_question editor_view_answered(
	struct editor_view *view, const char *id, const char **ret_request_id)
{
	list_for_each(link, &view->questions) {
		struct editor_question_open *question =
			list_entry(link, struct editor_question_open, link);
		struct buffer own = {0};
		put_id(view, &own, question->request_id);
		bool is_it = question->params.len && strcmp(buffer_cstr(&own), id) == 0;
		buffer_finish(&own);
		if (is_it) {
			question->is_answered = true;
			*ret_request_id = question->request_id;
			return question->kind;
		}
	}
	return EDITOR_NO_QUESTION;
}

void editor_view_ask_again(struct editor_view *view, const char *request_id, struct buffer *out)
{
	struct editor_question_open *question = find(view, request_id);
	if (question) {
		question->is_answered = false;
		ask(view, question, out);
	}
}
