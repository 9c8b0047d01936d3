#include "transcript.h"

#include "sheet.h"

#include "holdfast/agent_state.h"
#include "holdfast/hash.h"
#include "holdfast/json_text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WRITE_SIZE ((size_t)64 << 10)
/* The most that is held back between two pieces of a cut block, so that they stay together. */
#define WAITING_MAX ((size_t)16 << 20)

/** A tool call in its final state. */
struct tool_call {
	char *title;
	char *kind;
	char *status;
};

/** The plan of a turn. */
struct plan {
	json_t *entries;
	bool is_written;
};

struct transcript {
	void (*write)(void *owner, const char *bytes, size_t len);
	void *owner;
	/* Results of the first pass; keys are numbers unless noted. */
	struct hash *tools_by_id; /* struct tool_call, the newest with that id (a text) */
	struct hash *tools; /* struct tool_call, by the seq that it began with */
	struct hash *plans; /* struct plan, by turn */
	struct hash *answers; /* json_t, data of permission_resolved by request_id (a text) */
	struct hash *cut; /* a set: the seq of each message that another one continues */
	/* State of the second pass. */
	struct sheet sheet;
	struct sheet waiting; /* everything after `unfinished` */
	uint64_t unfinished; /* seq of a message that another one will continue; 0: none */
	uint64_t turn;
	bool has_heading;
	char *message_id; /* of the last message */
};

static void *get_by_number(const struct hash *hash, uint64_t number)
{
	return hash_get(hash, (const char *)&number, sizeof(number));
}

static void put_by_number(struct hash *hash, uint64_t number, void *value)
{
	hash_put(hash, (const char *)&number, sizeof(number), value);
}

struct transcript *transcript_create(
	void (*write)(void *owner, const char *bytes, size_t len), void *owner)
{
	struct transcript *t = xcalloc(1, sizeof(*t));
	*t = (struct transcript){.write = write,
		.owner = owner,
		.tools_by_id = hash_create(),
		.tools = hash_create(),
		.plans = hash_create(),
		.answers = hash_create(),
		.cut = hash_create()};
	return t;
}

static void free_tool(void *value, void *arg)
{
	struct tool_call *tool = value;
	free(tool->title);
	free(tool->kind);
	free(tool->status);
	free(tool);
}

static void free_plan(void *value, void *arg)
{
	struct plan *plan = value;
	json_decref(plan->entries);
	free(plan);
}

static void free_json(void *value, void *arg)
{
	json_decref(value);
}

void transcript_destroy(struct transcript *t)
{
	hash_each(t->tools, free_tool, NULL);
	hash_each(t->plans, free_plan, NULL);
	hash_each(t->answers, free_json, NULL);
	hash_destroy(t->tools_by_id);
	hash_destroy(t->tools);
	hash_destroy(t->plans);
	hash_destroy(t->answers);
	hash_destroy(t->cut);
	buffer_finish(&t->sheet.text);
	buffer_finish(&t->waiting.text);
	free(t->message_id);
	free(t);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

/* --- first pass --- */

static void update_text(char **at, const json_t *data, const char *name)
{
	const char *text = json_string_value(json_object_get(data, name));
	if (text) {
		free(*at);
		*at = xstrdup(text);
	}
}

static void look_at_tool(struct transcript *t, const struct event_view *view, const json_t *data)
{
	const char *id = text_of(data, "tool_call_id");
	struct tool_call *tool = hash_get(t->tools_by_id, id, strlen(id));
	if (view->type == EVENT_TOOL_CALL) {
		tool = xcalloc(1, sizeof(*tool));
		hash_put(t->tools_by_id, id, strlen(id), tool);
		put_by_number(t->tools, view->seq, tool);
	}
	if (tool) {
		update_text(&tool->title, data, "title");
		update_text(&tool->kind, data, "kind");
		update_text(&tool->status, data, "status");
	}
}

static void look_at_plan(struct transcript *t, const struct event_view *view, json_t *data)
{
	struct plan *plan = get_by_number(t->plans, view->turn);
	if (!plan) {
		plan = xcalloc(1, sizeof(*plan));
		put_by_number(t->plans, view->turn, plan);
	}
	json_decref(plan->entries);
	plan->entries = json_incref(json_object_get(data, "entries"));
}

static void look_at_answer(struct transcript *t, json_t *data)
{
	const char *id = text_of(data, "request_id");
	json_decref(hash_put(t->answers, id, strlen(id), json_incref(data)));
}

static bool tells_an_end(enum event_type type)
{
	return type == EVENT_AGENT_MESSAGE || type == EVENT_TOOL_CALL ||
	       type == EVENT_TOOL_CALL_UPDATE || type == EVENT_PLAN ||
	       type == EVENT_PERMISSION_RESOLVED || type == EVENT_ELICITATION_RESOLVED;
}

void transcript_look(struct transcript *t, const struct event_view *view)
{
	if (!tells_an_end(view->type)) {
		return;
	}
	json_t *data = json_read(view->data, view->data_len, 0, NULL, NULL);
	if (!data) {
		return;
	}
	switch (view->type) {
	case EVENT_AGENT_MESSAGE: {
		json_int_t before = json_integer_value(json_object_get(data, "continues"));
		if (before > 0) {
			put_by_number(t->cut, (uint64_t)before, t);
		}
		break;
	}
	case EVENT_TOOL_CALL:
	case EVENT_TOOL_CALL_UPDATE:
		look_at_tool(t, view, data);
		break;
	case EVENT_PLAN:
		look_at_plan(t, view, data);
		break;
	case EVENT_PERMISSION_RESOLVED:
	case EVENT_ELICITATION_RESOLVED:
		look_at_answer(t, data);
		break;
	default:
		break;
	}
	json_decref(data);
}

/* --- second pass: lines --- */

static void write_out(struct transcript *t, size_t at_least)
{
	struct buffer *text = &t->sheet.text;
	if (text->len >= at_least && text->len) {
		t->write(t->owner, text->data, text->len);
		buffer_clear(text);
	}
}

static void put_time(struct sheet *sheet, int64_t ts)
{
	char text[40];
	time_t seconds = (time_t)(ts / 1000);
	struct tm tm;
	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm)) {
		sheet_mark(sheet, text);
	}
}

/** "**Label:** " in a block of its own. */
static void begin_line(struct sheet *sheet, const char *label)
{
	sheet_begin(sheet, SHEET_OTHER);
	sheet_mark(sheet, "**");
	sheet_mark(sheet, label);
	sheet_mark(sheet, ":** ");
}

static void put_tool(struct transcript *t, struct sheet *sheet, uint64_t seq)
{
	const struct tool_call *tool = get_by_number(t->tools, seq);
	if (!tool) {
		return;
	}
	begin_line(sheet, "Tool");
	sheet_plain(sheet, tool->title ? tool->title : "");
	if (tool->kind && strcmp(tool->kind, "other") != 0) {
		sheet_mark(sheet, " (");
		sheet_plain(sheet, tool->kind);
		sheet_mark(sheet, ")");
	}
	sheet_mark(sheet, ": ");
	sheet_plain(sheet, tool->status ? tool->status : "no status");
	sheet_mark(sheet, "\n");
}

static void put_plan(struct transcript *t, struct sheet *sheet, uint64_t turn)
{
	struct plan *plan = get_by_number(t->plans, turn);
	if (!plan || plan->is_written) {
		return;
	}
	plan->is_written = true;
	sheet_begin(sheet, SHEET_OTHER);
	sheet_mark(sheet, "**Plan:**");
	sheet_begin(sheet, SHEET_OTHER);
	size_t i;
	json_t *entry;
	json_array_foreach(plan->entries, i, entry) {
		const char *status = text_of(entry, "status");
		bool done = strcmp(status, "completed") == 0;
		sheet_mark(sheet, done ? "- [x] " : "- [ ] ");
		sheet_plain(sheet, text_of(entry, "content"));
		sheet_mark(sheet, strcmp(status, "in_progress") == 0 ? " (in progress)\n" : "\n");
	}
}

/** The name of a request's option, or its id if it has none. */
static const char *option_name(const json_t *request, const char *option_id)
{
	size_t i;
	json_t *option;
	json_array_foreach(json_object_get(request, "options"), i, option) {
		if (strcmp(text_of(option, "option_id"), option_id) == 0) {
			return text_of(option, "name");
		}
	}
	return option_id;
}

/** Appends who did it. Names are not verified, so the `sub` of the token follows, if it had one. */
static void put_author(struct sheet *sheet, const json_t *data, const char *client)
{
	const char *name = text_of(data, "name");
	const char *sub = text_of(data, "sub");
	const char *who = *name ? name : *sub ? sub : text_of(data, client);
	if (*who) {
		sheet_mark(sheet, ", by ");
		sheet_plain(sheet, who);
	}
	if (*name && *sub && strcmp(name, sub) != 0) {
		sheet_mark(sheet, " (");
		sheet_plain(sheet, sub);
		sheet_mark(sheet, ")");
	}
}

static void put_permission(struct transcript *t, struct sheet *sheet, const json_t *request)
{
	const char *id = text_of(request, "request_id");
	const json_t *answer = hash_get(t->answers, id, strlen(id));
	begin_line(sheet, "Permission");
	sheet_plain(sheet, text_of(json_object_get(request, "tool_call"), "title"));
	sheet_mark(sheet, ": ");
	if (!answer) {
		sheet_mark(sheet, "not answered\n");
		return;
	}
	if (strcmp(text_of(answer, "outcome"), "selected") == 0) {
		sheet_plain(sheet, option_name(request, text_of(answer, "option_id")));
	} else {
		sheet_plain(sheet, text_of(answer, "outcome"));
	}
	put_author(sheet, answer, "by");
	sheet_mark(sheet, "\n");
}

static void put_elicitation(struct transcript *t, struct sheet *sheet, const json_t *request)
{
	const char *id = text_of(request, "request_id");
	const json_t *answer = hash_get(t->answers, id, strlen(id));
	begin_line(sheet, "Question");
	sheet_plain(sheet, text_of(request, "message"));
	sheet_mark(sheet, ": ");
	sheet_plain(sheet, answer ? text_of(answer, "action") : "not answered");
	if (answer) {
		put_author(sheet, answer, "by");
	}
	sheet_mark(sheet, "\n");
}

static void put_file(struct sheet *sheet, const char *what, const json_t *data)
{
	char size[40];
	begin_line(sheet, "File");
	sheet_mark(sheet, what);
	sheet_plain(sheet, text_of(data, "path"));
	snprintf(size, sizeof(size), " (%lld bytes)\n",
		(long long)json_integer_value(json_object_get(data, "size")));
	sheet_mark(sheet, size);
}

/** A line with up to two texts; empty ones are left out. */
static void put_notice(
	struct sheet *sheet, const char *label, const char *first, const char *second)
{
	begin_line(sheet, label);
	sheet_plain(sheet, first);
	sheet_mark(sheet, *first && *second ? ": " : "");
	sheet_plain(sheet, second);
	sheet_mark(sheet, "\n");
}

static void put_turn_end(struct sheet *sheet, const json_t *data)
{
	const char *reason = text_of(data, "stop_reason");
	if (strcmp(reason, "end_turn") != 0) {
		put_notice(sheet, "The turn ended", reason, text_of(data, "message"));
	}
}

static void put_custom(struct sheet *sheet, const struct event_view *view)
{
	char type[80];
	snprintf(type, sizeof(type), "%.*s", (int)view->type_len, view->type_name);
	sheet_begin(sheet, SHEET_OTHER);
	sheet_mark(sheet, "**");
	sheet_plain(sheet, type);
	sheet_mark(sheet, ":** ");
	sheet_code(sheet, view->data, view->data_len);
	sheet_mark(sheet, "\n");
}

static void put_prompt(struct sheet *sheet, const struct event_view *view, const json_t *data)
{
	const json_t *message = json_object_get(data, "message");
	sheet_begin(sheet, SHEET_OTHER);
	sheet_mark(sheet, "## Prompt, ");
	put_time(sheet, view->ts);
	put_author(sheet, data, "client_id");
	sheet_begin(sheet, SHEET_OTHER);
	sheet_text(sheet, text_of(data, "message"), json_string_length(message));
}

static void put_other(struct transcript *t, struct sheet *sheet, const struct event_view *view,
	const json_t *data)
{
	switch (view->type) {
	case EVENT_TOOL_CALL:
		put_tool(t, sheet, view->seq);
		break;
	case EVENT_PLAN:
		put_plan(t, sheet, view->turn);
		break;
	case EVENT_PERMISSION_REQUEST:
		put_permission(t, sheet, data);
		break;
	case EVENT_ELICITATION_REQUEST:
		put_elicitation(t, sheet, data);
		break;
	case EVENT_FILE_READ:
		put_file(sheet, "read ", data);
		break;
	case EVENT_FILE_WRITE:
		put_file(sheet, "wrote ", data);
		break;
	case EVENT_TURN_END:
		put_turn_end(sheet, data);
		break;
	case EVENT_AGENT_STARTED:
		put_notice(
			sheet, "Agent started", text_of(data, "title"), text_of(data, "version"));
		break;
	case EVENT_AGENT_STOPPED:
		put_notice(
			sheet, "Agent stopped", text_of(data, "reason"), text_of(data, "detail"));
		break;
	case EVENT_SESSION_END:
		put_notice(sheet, "Session", "ended", "");
		break;
	case EVENT_CUSTOM:
		put_custom(sheet, view);
		break;
	default:
		break; /* usage, and updates of what is shown where it began */
	}
}

/* --- second pass: the agent's text --- */

static void stop_waiting(struct transcript *t)
{
	sheet_move(&t->sheet, &t->waiting);
	t->unfinished = 0;
}

/** Whether a message directly follows the last one in the text that the agent sent. */
static bool follows(const struct transcript *t, const struct event_view *view)
{
	size_t len = view->message_id_len;
	return t->sheet.last == SHEET_MESSAGE && t->sheet.newlines &&
	       (t->message_id != NULL) == (view->message_id != NULL) &&
	       (!t->message_id || (strlen(t->message_id) == len &&
					  memcmp(t->message_id, view->message_id, len) == 0));
}

static void put_message(struct transcript *t, const struct event_view *view, const json_t *data)
{
	const json_t *markdown = json_object_get(data, "markdown");
	const char *text = text_of(data, "markdown");
	size_t len = json_string_length(markdown);
	uint64_t before = (uint64_t)json_integer_value(json_object_get(data, "continues"));
	bool goes_on = before && before == t->unfinished;
	if (!goes_on) {
		stop_waiting(t);
	}
	if (!goes_on && !follows(t, view)) {
		sheet_begin(&t->sheet, SHEET_MESSAGE);
		for (; len && *text == '\n'; len--) {
			text++;
		}
		const json_t *context = json_object_get(data, "context");
		sheet_text(&t->sheet, text_of(data, "context"), json_string_length(context));
	}
	sheet_text(&t->sheet, text, len);
	free(t->message_id);
	t->message_id = view->message_id ? xstrndup(view->message_id, view->message_id_len) : NULL;
	t->unfinished = get_by_number(t->cut, view->seq) ? view->seq : 0;
	if (!t->unfinished) {
		stop_waiting(t);
	}
}

static void put_heading(struct transcript *t, const struct event_view *view)
{
	bool is_prompt = view->type == EVENT_USER_PROMPT;
	bool is_new = view->turn && view->turn != t->turn;
	t->has_heading = t->has_heading && !is_new;
	t->turn = is_new ? view->turn : t->turn;
	if (is_prompt || is_new) {
		stop_waiting(t);
	}
	if (!is_prompt && !t->has_heading && view->turn) {
		sheet_begin(&t->sheet, SHEET_OTHER);
		sheet_mark(&t->sheet, "## Answer, ");
		put_time(&t->sheet, view->ts);
		t->has_heading = true;
	}
}

void transcript_begin(struct transcript *t, const char *title, const char *id)
{
	sheet_mark(&t->sheet, "# ");
	sheet_plain(&t->sheet, *title ? title : id);
}

/** Whether an event is left out: an agent's settings and commands, and metadata of messages. */
static bool is_beside(const struct event_view *view)
{
	static const char meta[] = "x-acp-meta";
	return view->type == EVENT_CUSTOM &&
	       (agent_state_kind(view->type_name, view->type_len) < AGENT_STATE_COUNT ||
		       (view->type_len == sizeof(meta) - 1 &&
			       memcmp(view->type_name, meta, sizeof(meta) - 1) == 0));
}

void transcript_add(struct transcript *t, const struct event_view *view)
{
	if (is_beside(view)) {
		return;
	}
	json_t *data = json_read(view->data, view->data_len, 0, NULL, NULL);
	struct sheet *sheet = t->unfinished ? &t->waiting : &t->sheet;
	if (!data) {
		return;
	}
	put_heading(t, view);
	sheet = t->unfinished ? &t->waiting : &t->sheet;
	if (view->type == EVENT_AGENT_MESSAGE) {
		put_message(t, view, data);
	} else if (view->type == EVENT_AGENT_THOUGHT) {
		sheet_quote(sheet, text_of(data, "text"),
			json_string_length(json_object_get(data, "text")));
	} else if (view->type == EVENT_USER_PROMPT) {
		put_prompt(sheet, view, data);
	} else {
		put_other(t, sheet, view, data);
	}
	json_decref(data);
	if (t->waiting.text.len > WAITING_MAX) {
		stop_waiting(t);
	}
	write_out(t, WRITE_SIZE);
}

void transcript_end(struct transcript *t)
{
	stop_waiting(t);
	if (!t->sheet.newlines) {
		sheet_mark(&t->sheet, "\n");
	}
	write_out(t, 1);
}
