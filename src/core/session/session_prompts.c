/* Prompts of controllers: taking, changing and removing them, and finding them by their ids. */
#include "session_internal.h"

#include <errno.h>
#include <string.h>

/* A value in session.prompt_ids that cannot be a seq + 1. */
#define IN_QUEUE ((uintptr_t)1)

int session_find_prompt(
	struct session *session, const char *prompt_id, struct prompt_view *ret_prompt)
{
	uintptr_t had = (uintptr_t)hash_get(session->prompt_ids, prompt_id, strlen(prompt_id));
	struct log_key key = {0};
	struct prompt_view view = {.place = PROMPT_UNKNOWN};
	int r = 0;
	if (had) {
		view.place = had == IN_QUEUE ? PROMPT_QUEUED : PROMPT_BEGUN;
		view.seq = (uint64_t)had - 1;
	} else if ((r = session_log_find_key(session->log, LOG_KEY_PROMPT, prompt_id, &key)) > 0) {
		view = (struct prompt_view){.place = PROMPT_BEGUN, .seq = key.seq};
	} else if (r == 0 &&
		   (r = session_find_name(session, LOG_KEY_REMOVED, prompt_id, &key)) > 0) {
		view.place = PROMPT_REMOVED;
	}
	*ret_prompt = view;
	return r < 0 ? r : 0;
}

void session_remember_prompt(struct session *session, const char *prompt_id, uint64_t seq)
{
	struct prompt_view had;
	/* A prompt that has begun is not in the queue, whatever an older snapshot says. */
	if (seq || (session_find_prompt(session, prompt_id, &had) == 0 &&
			   had.place == PROMPT_UNKNOWN)) {
		hash_put(session->prompt_ids, prompt_id, strlen(prompt_id),
			(void *)(uintptr_t)(seq + 1));
	}
}

void session_forget_prompt(struct session *session, const char *prompt_id)
{
	size_t len = strlen(prompt_id);
	if ((uintptr_t)hash_get(session->prompt_ids, prompt_id, len) == IN_QUEUE) {
		hash_remove(session->prompt_ids, prompt_id, len);
	}
}

static bool is_not_in_log(void *value, void *arg)
{
	const struct session *session = arg;
	uintptr_t had = (uintptr_t)value;
	return had == IN_QUEUE || had - 1 > session->channel.max_seq;
}

void session_prompts_commit(struct session *session)
{
	/* Cheap for most commits: then only those in the queue are here. */
	if (hash_count(session->prompt_ids) > session_queue_length(session) &&
		session_has_names(session)) {
		hash_filter(session->prompt_ids, is_not_in_log, session);
	}
}

static int journal_json(
	struct session *session, enum record_kind kind, struct buffer *data, uint64_t *ret_seq)
{
	buffer_append_char(data, '}');
	int r = session_journal(session, kind, data->data, data->len, NULL, ret_seq);
	buffer_finish(data);
	return r;
}

int session_prompt(struct session *session, const char *message, size_t len, const char *prompt_id,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate)
{
	const struct request request = {.type = REQUEST_PROMPT,
		.prompt = {.message = message, .message_len = len, .prompt_id = prompt_id}};
	return session_prompt_with(session, &request, author, ret_seq, ret_duplicate);
}

int session_prompt_with(struct session *session, const struct request *request,
	const struct author *author, uint64_t *ret_seq, bool *ret_duplicate)
{
	const char *prompt_id = request->prompt.prompt_id;
	struct prompt_view had;
	int r = session_find_prompt(session, prompt_id, &had);
	*ret_duplicate = had.place != PROMPT_UNKNOWN;
	*ret_seq = had.seq;
	if (r < 0 || *ret_duplicate) {
		return session->is_deleted ? -ENOENT : r < 0 ? -EIO : 0;
	}
	if (session_queue_length(session) >= session->table->limits->prompt_queue) {
		return -ENOBUFS;
	}
	struct buffer data = {0};
	buffer_append_str(&data, "{\"message\":");
	buffer_append_json(&data, request->prompt.message, request->prompt.message_len);
	buffer_append_member(&data, "prompt_id", prompt_id);
	buffer_append_member(&data, "client_id", author->client_id);
	if (*author->sub) {
		buffer_append_member(&data, "sub", author->sub);
	}
	if (author->name) {
		buffer_append_member(&data, "name", author->name);
	}
	if (request->prompt.content) {
		buffer_append_str(&data, ",\"content\":");
		json_write(&data, request->prompt.content, NULL);
	}
	return journal_json(session, RECORD_PROMPT, &data, ret_seq);
}

/** Returns 1 if the prompt is queued, so that it can be changed, 0 if not, or a negative errno. */
static int find_queued(
	struct session *session, const char *prompt_id, struct prompt_view *ret_prompt)
{
	int r = session_find_prompt(session, prompt_id, ret_prompt);
	const struct prompt_queue *queue = session->state.queue;
	if (session->is_deleted) {
		return -ENOENT;
	}
	return r < 0 ? -EIO : prompt_queue_find(queue, prompt_id) < prompt_queue_count(queue);
}

const char *session_queued_sub(const struct session *session, const char *prompt_id)
{
	const struct prompt_queue *queue = session->state.queue;
	size_t at = prompt_queue_find(queue, prompt_id);
	return at < prompt_queue_count(queue) ? queue->prompts[at]->sub : NULL;
}

int session_edit_prompt(struct session *session, const char *prompt_id, const char *message,
	size_t len, struct prompt_view *ret_had)
{
	int r = find_queued(session, prompt_id, ret_had);
	if (r <= 0) {
		return r < 0 ? r : -ESRCH;
	}
	uint64_t seq;
	struct buffer data = {0};
	buffer_append_char(&data, '{');
	buffer_append_member(&data, "prompt_id", prompt_id);
	buffer_append_str(&data, ",\"message\":");
	buffer_append_json(&data, message, len);
	return journal_json(session, RECORD_PROMPT_EDIT, &data, &seq);
}

int session_remove_prompt(
	struct session *session, const char *prompt_id, struct prompt_view *ret_had)
{
	int r = find_queued(session, prompt_id, ret_had);
	if (r <= 0) {
		return r < 0 ? r : ret_had->place == PROMPT_REMOVED ? 0 : -ESRCH;
	}
	uint64_t seq;
	struct buffer data = {0};
	buffer_append_char(&data, '{');
	buffer_append_member(&data, "prompt_id", prompt_id);
	return journal_json(session, RECORD_PROMPT_REMOVE, &data, &seq);
}
