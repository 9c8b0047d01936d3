/* Applies a snapshot to a session, whose names say what its log has. */
#include "holdfast/intake.h"

#include "holdfast/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** Answers the queries of snapshot_match(). */
struct holder {
	struct session *session;
	int error; /* negative errno if a name could not be read */
	bool has_messages; /* `messages` has been filled in */
	struct hash *seen; /* set of the ids in `messages` */
	char **messages; /* ids, in the order of their first input */
	size_t count;
};

static bool is_known(void *ctx, enum snapshot_id kind, const char *id)
{
	static const enum log_key_kind kinds[] = {[SNAPSHOT_MESSAGE] = LOG_KEY_MESSAGE,
		[SNAPSHOT_TOOL_CALL] = LOG_KEY_TOOL_CALL,
		[SNAPSHOT_TOOL_RESULT] = LOG_KEY_TOOL_RESULT};
	struct holder *holder = ctx;
	struct log_key had;
	int r = session_find_name(holder->session, kinds[kind], id, &had);
	if (r < 0) {
		holder->error = r;
	}
	return r > 0;
}

static void take_message(void *arg, const char *message_id)
{
	struct holder *holder = arg;
	if (hash_put(holder->seen, message_id, strlen(message_id), holder)) {
		return;
	}
	holder->messages =
		xrealloc(holder->messages, (holder->count + 1) * sizeof(*holder->messages));
	holder->messages[holder->count++] = xstrdup(message_id);
}

static const char *nth_message(void *ctx, size_t n)
{
	struct holder *holder = ctx;
	if (!holder->has_messages) {
		holder->has_messages = true;
		int r = session_each_message(holder->session, take_message, holder);
		holder->error = r < 0 ? r : holder->error;
	}
	return n < holder->count ? holder->messages[n] : NULL;
}

static void holder_finish(struct holder *holder)
{
	while (holder->count) {
		free(holder->messages[--holder->count]);
	}
	free(holder->messages);
	hash_destroy(holder->seen);
}

static int name_run(const json_t *data, json_t *events, struct refusal *refusal)
{
	json_t *run_id = json_object_get(data, "run_id");
	size_t i;
	json_t *event;
	if (run_id && !json_is_string(run_id)) {
		return refuse(refusal, ERROR_bad_request, "run_id must be a string");
	}
	json_array_foreach(events, i, event) {
		if (run_id) {
			json_object_set(event, "run_id", run_id);
		}
	}
	return 0;
}

/**
 * Appends the events. The index of a bad one would not help the producer, which did not send them.
 */
static int append(struct session *session, const json_t *data, const struct limits *limits,
	json_t *events, struct snapshot_result *ret, struct refusal *refusal)
{
	size_t bad;
	ret->ack_count = json_array_size(events);
	if (ret->ack_count > limits->batch_events) {
		return refuse_limit(refusal, LIMIT_batch_events,
			"the snapshot adds %zu events, and an append takes at most %zu; send fewer messages at once",
			ret->ack_count, limits->batch_events);
	}
	if (name_run(data, events, refusal) < 0) {
		return -EINVAL;
	}
	char *text = json_text(events, session_table_numbers(session_table_of(session)));
	struct json_spans spans;
	ret->acks = xcalloc(ret->ack_count + 1, sizeof(*ret->acks));
	int r = json_spans_parse(text, strlen(text), &spans, refusal);
	if (r == 0) {
		r = intake_append(
			session, spans.all + 1, ret->ack_count, limits, ret->acks, &bad, refusal);
		json_spans_finish(&spans);
	}
	free(text);
	if (r < 0) {
		free(ret->acks);
		ret->acks = NULL;
	}
	return r;
}

int intake_snapshot(struct session *session, const json_t *data, const struct limits *limits,
	struct snapshot_result *ret, size_t *ret_bad, struct refusal *refusal)
{
	struct holder holder = {.session = session, .seen = hash_create()};
	const struct snapshot_log log = {.ctx = &holder, .known = is_known, .nth = nth_message};
	struct snapshot_match match;
	*ret = (struct snapshot_result){0};
	*ret_bad = SNAPSHOT_NO_INDEX;
	int r = snapshot_match(data, limits, &log, &match, ret_bad, refusal);
	holder_finish(&holder);
	if (holder.error) {
		/* Any other refusal may only be a consequence of the missing names. */
		*ret_bad = SNAPSHOT_NO_INDEX;
		if (r == 0) {
			json_decref(match.events);
		}
		return refuse_names(refusal, session_storage(session), holder.error);
	}
	if (r < 0) {
		return r;
	}
	*ret_bad = SNAPSHOT_NO_INDEX;
	r = append(session, data, limits, match.events, ret, refusal);
	ret->known = match.known;
	ret->added = match.added;
	json_decref(match.events);
	return r;
}
