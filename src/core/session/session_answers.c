/*
 * Answers to permission requests. They are known at once, so that a second answer is refused; the
 * session's agent is told when they are durable.
 */
#include "session_internal.h"

#include <stdlib.h>
#include <string.h>

struct resolution {
	uint64_t seq;
	char by[]; /* a signature, "" if cancelled */
};

/** An answer that is not durable yet; then it is told to the session's agent. */
struct pending_answer {
	struct pending pending;
	char *request_id;
	char *option_id; /* NULL: cancelled */
	int64_t wait_ms; /* see struct session_answer */
};

void session_take_answer(void *owner, const struct session_answer *answer)
{
	struct session *session = owner;
	const char *id = answer->request_id;
	struct resolution *resolution = xmalloc(sizeof(*resolution) + strlen(answer->by) + 1);
	resolution->seq = answer->seq;
	strcpy(resolution->by, answer->by);
	free(hash_put(session->resolved, id, strlen(id), resolution));
	if (session->table->recovering) {
		return; /* the agent that asked is gone */
	}
	struct pending_answer *pending = xcalloc(1, sizeof(*pending));
	pending->pending.lsn = session->applying_lsn;
	pending->request_id = xstrdup(id);
	pending->wait_ms = answer->wait_ms;
	pending->option_id = answer->option_id ? xstrdup(answer->option_id) : NULL;
	list_append(&session->pending_answers, &pending->pending.link);
}

static void free_pending(struct pending_answer *pending)
{
	free(pending->request_id);
	free(pending->option_id);
	free(pending);
}

void session_answers_tell(struct session *session, uint64_t lsn)
{
	const struct session_table *table = session->table;
	struct pending_answer *pending;
	while ((pending = session_take_pending(&session->pending_answers, lsn))) {
		if (pending->wait_ms >= 0) {
			metrics_observe(table->metrics, HISTOGRAM_PERMISSION_WAIT_SECONDS,
				(double)pending->wait_ms / 1e3);
		}
		if (server_may(table->life, MAY_TELL)) {
			table->ops->answered(
				table->owner, session, pending->request_id, pending->option_id);
		}
		free_pending(pending);
	}
}

void session_answers_drop(struct session *session)
{
	struct pending_answer *pending;
	while ((pending = session_take_pending(&session->pending_answers, UINT64_MAX))) {
		free_pending(pending);
	}
}

static bool is_in_log(void *value, void *arg)
{
	const struct session *session = arg;
	struct resolution *resolution = value;
	bool is = resolution->seq <= session_log_last_seq(session->log);
	if (!is) {
		free(resolution);
	}
	return is;
}

void session_answers_rewind(struct session *session)
{
	hash_filter(session->resolved, is_in_log, session);
}

static bool is_not_in_log(void *value, void *arg)
{
	const struct session *session = arg;
	struct resolution *resolution = value;
	bool is = resolution->seq > session->channel.max_seq;
	if (!is) {
		free(resolution);
	}
	return is;
}

void session_answers_commit(struct session *session)
{
	if (hash_count(session->resolved) && session_has_names(session)) {
		hash_filter(session->resolved, is_not_in_log, session);
	}
}

void session_answers_finish(struct session *session)
{
	hash_destroy_all(session->resolved);
}

/* --- lookups --- */

bool session_find_answer(
	const struct session *session, const char *request_id, struct log_key *ret_answer)
{
	const struct resolution *resolution =
		hash_get(session->resolved, request_id, strlen(request_id));
	struct log_key key = {0};
	if (resolution) {
		key = (struct log_key){.seq = resolution->seq, .by = resolution->by};
	}
	bool found = resolution ||
		     session_log_find_key(session->log, LOG_KEY_ANSWER, request_id, &key) > 0;
	if (found && ret_answer) {
		*ret_answer = key;
	}
	return found;
}

struct permission_view session_permission(const struct session *session, const char *request_id)
{
	struct permission_view view = {.state = PERMISSION_UNKNOWN, .by = ""};
	struct log_key answer;
	if (session_state_asks(&session->state, request_id, NULL)) {
		view.state = PERMISSION_PENDING;
	} else if (session_find_answer(session, request_id, &answer)) {
		view.state = PERMISSION_RESOLVED;
		view.by = answer.by;
		view.seq = answer.seq;
	}
	return view;
}

struct permission_count session_count_permissions(const struct session *session)
{
	return (struct permission_count){.open = session_state_count_asked(&session->state),
		.most = session->table->limits->open_permissions};
}

bool session_permission_has_option(
	const struct session *session, const char *request_id, const char *option_id)
{
	return session_state_asks(&session->state, request_id, option_id);
}

const char *session_permission_pick(
	const struct session *session, const char *request_id, bool allows)
{
	return session_state_pick(&session->state, request_id, allows);
}

const char *session_elicitation(const struct session *session, const char *request_id)
{
	return session_state_elicitation(&session->state, request_id);
}

void session_each_permission(
	struct session *session, void (*visit)(void *arg, const char *request_id), void *arg)
{
	session_state_each_asked(&session->state, visit, arg);
}
