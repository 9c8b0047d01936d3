/*
 * Text that an agent has cut in the middle of a character: the first half waits for the next piece of the
 * same text. What comes instead shows that there is none, and U+FFFD takes its place. The text of a
 * replayed history is joined in the same way, because the log that it is compared with has whole
 * characters.
 */
#include "acp_internal.h"

#include "holdfast/utf8.h"

#include <stdlib.h>
#include <string.h>

static const size_t mark_size = sizeof(UTF8_REPLACEMENT) - 1;

/** Whether `count` U+FFFD are at this place of the text. */
static bool has_marks(const char *text, size_t len, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (len < (i + 1) * mark_size ||
			memcmp(text + i * mark_size, UTF8_REPLACEMENT, mark_size) != 0) {
			return false;
		}
	}
	return count > 0;
}

static bool is_thought(const json_t *update)
{
	const char *kind = json_string_value(json_object_get(update, "sessionUpdate"));
	return kind && strcmp(kind, "agent_thought_chunk") == 0;
}

static bool is_same_message(const struct acp_session *session, const json_t *update)
{
	const char *id = json_string_value(json_object_get(update, "messageId"));
	const char *held = session->half_of;
	return session->half_is_thought == is_thought(update) &&
	       (id && held ? strcmp(id, held) == 0 : !id && !held);
}

static void drop(struct acp_session *session)
{
	session->half = (struct json_rpc_half){0};
	free(session->half_of);
	session->half_of = NULL;
}

void acp_agent_drop_half(struct acp_agent *agent)
{
	drop(&agent->session);
}

void acp_agent_give_half(struct acp_agent *agent)
{
	struct acp_session *session = &agent->session;
	if (session->half.marks) {
		char *id = session->half_of;
		session->half_of = NULL;
		drop(session);
		if (agent->resume.replay) {
			reconcile_text(agent->resume.replay,
				session->half_is_thought ? SAID_THOUGHT : SAID_MESSAGE,
				UTF8_REPLACEMENT, mark_size, id);
		} else {
			agent->ops->text(agent->owner, session->half_is_thought, UTF8_REPLACEMENT,
				mark_size, id);
		}
		free(id);
	}
}

void acp_agent_join(struct acp_agent *agent, const json_t *update)
{
	struct acp_session *session = &agent->session;
	struct json_rpc_halves *halves = &session->halves;
	json_t *content = json_object_get(update, "content");
	const json_t *value = json_object_get(content, "text");
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);
	struct buffer joined = {0};
	char character[4];
	size_t n = 0;
	if (!acp_update_is_chunk(update) || !text ||
		(!session->half.marks && !halves->back.marks)) {
		acp_agent_give_half(agent);
		return;
	}
	if (has_marks(text, len, halves->front.marks) && is_same_message(session, update)) {
		n = json_rpc_join(&session->half, &halves->front, character);
	}
	if (n) {
		drop(session);
		buffer_append(&joined, character, n);
		text += halves->front.marks * mark_size;
		len -= halves->front.marks * mark_size;
	} else if (len) {
		acp_agent_give_half(agent);
	}
	size_t back = halves->back.marks * mark_size;
	if (len >= back && has_marks(text + len - back, back, halves->back.marks)) {
		len -= back;
		const char *id = json_string_value(json_object_get(update, "messageId"));
		session->half = halves->back;
		session->half_is_thought = is_thought(update);
		session->half_of = id ? xstrdup(id) : NULL;
	}
	buffer_append(&joined, text, len);
	json_object_set_new(content, "text", json_stringn(buffer_cstr(&joined), joined.len));
	buffer_finish(&joined);
}
