/*
 * What the tests of the firewall share: a log as far as it sees one, and a replay of updates
 * against it, in pieces.
 */
#ifndef HOLDFAST_ACP_FIREWALL_FIXTURE_H
#define HOLDFAST_ACP_FIREWALL_FIXTURE_H

#include "../../src/agent/acp_firewall.h"
#include "../../src/agent/acp_internal.h"

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

static inline struct acp_firewall *firewall_of(const json_t *events)
{
	struct acp_firewall *fw = acp_firewall_create(SIZE_LIMIT);
	for (size_t i = 0; i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);
		acp_known_add(acp_firewall_known(fw), member(event, "type"),
			json_object_get(event, "data"), member(event, "message_id"));
	}
	return fw;
}

static inline void take(struct acp_firewall *fw, const json_t *update)
{
	char *line = json_dumps(update, JSON_COMPACT);
	acp_firewall_take(fw, update, strlen(line));
	free(line);
}

/** What a replay adds; it is told in pieces of at most `piece` bytes, 0: as it came. */
static inline json_t *replay(
	const json_t *events, const json_t *updates, size_t piece, bool *ret_foreign)
{
	struct acp_firewall *fw = firewall_of(events);
	for (size_t i = 0; i < json_array_size(updates); i++) {
		json_t *update = json_array_get(updates, i);
		const json_t *text = json_object_get(json_object_get(update, "content"), "text");
		size_t len = json_string_length(text);
		if (!piece || len <= piece) {
			take(fw, update);
			continue;
		}
		for (size_t at = 0; at < len;) {
			size_t n = acp_utf8_prefix(json_string_value(text) + at, len - at, piece);
			json_t *cut = json_deep_copy(update);
			json_object_set_new(json_object_get(cut, "content"), "text",
				json_stringn(json_string_value(text) + at, n));
			take(fw, cut);
			json_decref(cut);
			at += n;
		}
	}
	json_t *fresh = acp_firewall_finish(fw);
	if (ret_foreign) {
		*ret_foreign = acp_firewall_is_foreign(fw);
	}
	acp_firewall_destroy(fw);
	return fresh;
}

#endif
