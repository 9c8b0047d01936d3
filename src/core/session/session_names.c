/*
 * Names given by inputs. The log has them once their input is durable. Until then they are kept
 * here, so that the same input on another connection finds them at once.
 */
#include "session_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pending_name {
	struct pending pending;
	enum log_key_kind kind; /* 0: not a name, but the end of the current run */
	uint64_t seq;
	struct key_sum sum;
	char key[];
};

/** Makes a key for fresh_names; begins with the kind, as names of two kinds may be equal. */
static void place_of(enum log_key_kind kind, const char *key, struct buffer *out)
{
	buffer_append_char(out, (char)kind);
	buffer_append(out, key, strlen(key));
}

/** A name is durable: notes the run that it begins or ends. */
static void follow(struct session *session, const struct pending_name *name)
{
	if (!name->kind || name->kind == LOG_KEY_RUN) {
		session_follow_run(session, name->kind ? name->key : NULL);
	}
}

static void drop(struct session *session, struct pending_name *name)
{
	struct buffer place = {0};
	place_of(name->kind, name->key, &place);
	if (hash_get(session->fresh_names, place.data, place.len) == name) {
		hash_remove(session->fresh_names, place.data, place.len);
	}
	buffer_finish(&place);
	free(name);
}

static void add(struct session *session, const struct session_name *given)
{
	struct pending_name *name = xcalloc(1, sizeof(*name) + given->len + 1);
	name->pending.lsn = session->applying_lsn;
	name->kind = given->kind;
	name->seq = given->seq;
	name->sum = given->sum ? *given->sum : (struct key_sum){0};
	memcpy(name->key, given->key, given->len);
	if (name->kind) {
		session_log_name(session->log, given->nth,
			&(struct log_name){.kind = name->kind,
				.seq = name->seq,
				.key = name->key,
				.by = "",
				.sum = name->sum});
	}
	if (session->table->recovering) { /* from disk */
		follow(session, name);
		free(name);
		return;
	}
	list_append(&session->pending_names, &name->pending.link);
	struct buffer place = {0};
	place_of(name->kind, name->key, &place);
	if (!hash_get(session->fresh_names, place.data, place.len)) {
		hash_put(session->fresh_names, place.data, place.len, name);
	}
	buffer_finish(&place);
}

void session_names_add(void *owner, const struct session_name *name)
{
	struct session *session = owner;
	if (name->kind == LOG_KEY_PROMPT) { /* the log derives it from the event */
		session_remember_prompt(session, name->key, name->seq);
		return;
	}
	if (name->kind == LOG_KEY_REMOVED) {
		session_forget_prompt(session, name->key);
	}
	add(session, name);
}

void session_names_commit(struct session *session, uint64_t lsn)
{
	struct pending_name *name;
	while ((name = session_take_pending(&session->pending_names, lsn))) {
		follow(session, name);
		drop(session, name);
	}
}

void session_names_drop(struct session *session)
{
	struct pending_name *name;
	while ((name = session_take_pending(&session->pending_names, UINT64_MAX))) {
		drop(session, name);
	}
}

/**
 * Whether a name that is not found may have been given all the same. Ids of messages and tool calls
 * follow from events, unless those are pruned; a removed prompt may be sent again.
 */
static bool may_be_lost(const struct session_log *log, enum log_key_kind kind)
{
	return session_log_lacks_names(log) && kind != LOG_KEY_REMOVED &&
	       (kind == LOG_KEY_INPUT || kind == LOG_KEY_RUN || session_log_first_seq(log) > 1);
}

int session_find_name(
	struct session *session, enum log_key_kind kind, const char *key, struct log_key *ret_key)
{
	struct buffer place = {0};
	place_of(kind, key, &place);
	const struct pending_name *name = hash_get(session->fresh_names, place.data, place.len);
	buffer_finish(&place);
	if (!name) {
		int r = session_log_find_key(session->log, kind, key, ret_key);
		return r == 0 && may_be_lost(session->log, kind) ? -ENODATA : r;
	}
	*ret_key = (struct log_key){.seq = name->seq, .by = "", .sum = name->sum};
	return 1;
}

bool session_has_names(const struct session *session)
{
	return session_log_has_names(session->log);
}

void session_load_names(struct session *session, struct names_wait *wait)
{
	session_log_load_names(session->log, wait);
}

int session_each_message(
	struct session *session, void (*visit)(void *arg, const char *message_id), void *arg)
{
	int r = session_log_each_listed(session->log, visit, arg);
	list_for_each(link, &session->pending_names) {
		const struct pending_name *name =
			list_entry(link, struct pending_name, pending.link);
		if (r == 0 && name->kind == LOG_KEY_MESSAGE) {
			visit(arg, name->key);
		}
	}
	return r;
}
