/*
 * What the tests of reconciling share: a log as far as it matters, and a replay of updates
 * against it, in pieces.
 */
#ifndef HOLDFAST_RECONCILE_FIXTURE_H
#define HOLDFAST_RECONCILE_FIXTURE_H

#include "agents/acp/acp_internal.h"
#include "agents/reconcile/logged.h"
#include "holdfast/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SIZE_LIMIT ((size_t)16 << 20)

static inline void log_append(
	json_t *events, const char *type, json_t *data, const char *message_id)
{
	json_t *event = json_pack("{s:s, s:o}", "type", type, "data", data);
	if (message_id) {
		json_object_set_new(event, "message_id", json_string(message_id));
	}
	json_array_append_new(events, event);
}

static inline void log_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	json_t *data = json_object();
	json_object_set_new(data, thought ? "text" : "markdown", json_stringn(text, len));
	log_append(owner, thought ? "agent_thought" : "agent_message", data, message_id);
}

static inline void log_event(void *owner, const char *type, const json_t *data)
{
	log_append(owner, type, json_deep_copy(data), NULL);
}

static const struct acp_agent_ops log_ops = {.text = log_text, .event = log_event};

static inline void log_prompt(json_t *events, const char *text)
{
	log_append(events, "user_prompt", json_pack("{s:s}", "message", text), NULL);
}

static const char *member(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static inline struct reconcile *reconcile_of(const json_t *events)
{
	struct reconcile *fw = reconcile_create(SIZE_LIMIT);
	for (size_t i = 0; i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);
		reconcile_log(fw, member(event, "type"), json_object_get(event, "data"),
			member(event, "message_id"));
	}
	return fw;
}

static inline void take(struct reconcile *fw, const json_t *update)
{
	char *line = json_dumps(update, JSON_COMPACT);
	acp_resume_replay(fw, update, strlen(line));
	free(line);
}

/** What a replay adds; it is told in pieces of at most `piece` bytes, 0: as it came. */
static inline json_t *replay(
	const json_t *events, const json_t *updates, size_t piece, bool *ret_foreign)
{
	struct reconcile *fw = reconcile_of(events);
	for (size_t i = 0; i < json_array_size(updates); i++) {
		json_t *update = json_array_get(updates, i);
		const json_t *text = json_object_get(json_object_get(update, "content"), "text");
		size_t len = json_string_length(text);
		if (!piece || len <= piece) {
			take(fw, update);
			continue;
		}
		for (size_t at = 0; at < len;) {
			size_t n = utf8_prefix(json_string_value(text) + at, len - at, piece);
			json_t *cut = json_deep_copy(update);
			json_object_set_new(json_object_get(cut, "content"), "text",
				json_stringn(json_string_value(text) + at, n));
			take(fw, cut);
			json_decref(cut);
			at += n;
		}
	}
	json_t *fresh = reconcile_finish(fw);
	if (ret_foreign) {
		*ret_foreign = reconcile_is_foreign(fw);
	}
	reconcile_destroy(fw);
	return fresh;
}

static inline void expect_fresh(
	const json_t *events, const json_t *updates, size_t piece, const char *json)
{
	json_t *fresh = replay(events, updates, piece, NULL);
	char *text = json_dumps(fresh, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text, json);
	free(text);
	json_decref(fresh);
}

static inline void said(json_t *events, const char *text)
{
	log_append(events, "agent_message", json_pack("{s:s}", "markdown", text), NULL);
}

static inline void recovered(json_t *events, const char *type, const char *name, const char *text)
{
	json_t *data = json_pack("{s:s, s:b}", name, text, "recovered", 1);
	log_append(events, type, data, NULL);
}

static inline void tell(json_t *updates, const char *kind, const char *text, const char *message_id)
{
	json_t *update = json_pack("{s:s, s:{s:s, s:s}}", "sessionUpdate", kind, "content", "type",
		"text", "text", text);
	if (message_id) {
		json_object_set_new(update, "messageId", json_string(message_id));
	}
	json_array_append_new(updates, update);
}

static inline void tell_user(json_t *updates, const char *text)
{
	tell(updates, "user_message_chunk", text, NULL);
}

static inline void tell_agent(json_t *updates, const char *text)
{
	tell(updates, "agent_message_chunk", text, NULL);
}

#define MESSAGE(text) "{\"data\":{\"text\":\"" text "\"},\"type\":\"agent_message_chunk\"}"

struct story {
	json_t *log;
	json_t *told;
};

static inline struct story *story_new(void)
{
	struct story *story = malloc(sizeof(*story));
	*story = (struct story){json_array(), json_array()};
	return story;
}

static inline void story_end(struct story *story, size_t piece, const char *expected)
{
	expect_fresh(story->log, story->told, piece, expected);
	json_decref(story->log);
	json_decref(story->told);
	free(story);
}

/** Appends to the log, as `recovered`, what the replay adds; the same replay adds nothing then. */
static inline void expect_nothing_more(struct story *story)
{
	json_t *fresh = replay(story->log, story->told, 0, NULL);
	for (size_t i = 0; i < json_array_size(fresh); i++) {
		const json_t *item = json_array_get(fresh, i);
		const char *type = member(item, "type");
		json_t *data = json_deep_copy(json_object_get(item, "data"));
		json_object_set_new(data, "recovered", json_true());
		if (strcmp(type, "agent_message_chunk") == 0) {
			json_object_set(data, "markdown", json_object_get(data, "text"));
		}
		log_append(story->log,
			strcmp(type, "agent_message_chunk") == 0   ? "agent_message"
			: strcmp(type, "agent_thought_chunk") == 0 ? "agent_thought"
								   : type,
			data, member(item, "message_id"));
	}
	json_decref(fresh);
	expect_fresh(story->log, story->told, 0, "[]");
}

#endif
