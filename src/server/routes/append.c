/* Appends a producer's events or snapshot to its session, which they may create. */
#include "server/http_internal.h"

#include "holdfast/intake.h"

#include <errno.h>
#include <string.h>

/** Checks events as far as that needs no session: invalid ones must not create one. */
static int check_events(struct conn *conn, const struct json_span *events, size_t count,
	size_t *ret_bad, struct refusal *refusal)
{
	for (size_t i = 0; i < count; i++, events = json_span_next(events)) {
		struct input_event in = {0};
		int r = input_event_parse(events, conn->server->limits, &in, refusal);
		input_event_finish(&in);
		if (r < 0) {
			*ret_bad = i;
			return r;
		}
	}
	return 0;
}

int conn_make_session(struct conn *conn, struct refusal *refusal)
{
	struct server *server = conn->server;
	struct session *session;
	enum limit limit = session_room_for_another(server->sessions, conn->grant->sub);
	if (limit != LIMIT_NONE) {
		return refuse_limit(refusal, limit, TOO_MANY_SESSIONS);
	}
	int r = session_create(server->sessions, conn->session_id,
		&(struct session_wish){.title = conn->title, .sub = conn->grant->sub}, &session);
	if (r < 0) {
		return refuse_storage(refusal, conn_storage(conn), STORAGE_WRITE);
	}
	feed_announce(server, session);
	conn_hold_session(conn, session);
	return 0;
}

/** Finds the connection's session. Returns 0 with conn->session NULL if it is to be created. */
static int find_session(struct conn *conn, struct refusal *refusal)
{
	if (conn->session) {
		return 0;
	}
	struct session *session = session_table_get(
		conn->server->sessions, conn->session_id, strlen(conn->session_id));
	if (session) { /* intake refuses one that is being deleted, once that is durable */
		conn_hold_session(conn, session);
		return 0;
	}
	if (!conn->may_create) {
		return refuse(refusal, ERROR_not_found, NO_SESSION);
	}
	return 0;
}

/** Deletes a session created for events that were then refused. */
static void unmake_session(struct conn *conn)
{
	session_delete(conn->session);
	conn_drop_session(conn);
}

/**
 * The server determines whose a prompt or an answer is; a producer may only name itself. An
 * administrator may also import events unchanged.
 */
static int check_subs(struct conn *conn, const struct json_span *events, size_t count,
	size_t *ret_bad, struct refusal *refusal)
{
	if (conn_may(conn, RIGHT_ADMINISTER)) {
		return 0;
	}
	for (size_t i = 0; i < count; i++, events = json_span_next(events)) {
		const struct json_span *type = json_span_get(events, "type");
		const struct json_span *sub = json_span_get(json_span_get(events, "data"), "sub");
		bool tells_whose = json_span_says(type, "user_prompt") ||
				   json_span_says(type, "permission_resolved");
		if (sub && tells_whose && !json_span_says(sub, conn->grant->sub)) {
			*ret_bad = i;
			return refuse(refusal, ERROR_forbidden,
				"\"sub\" can only be the subject of your own token");
		}
	}
	return 0;
}

int conn_append(struct conn *conn, const struct json_span *events, size_t count,
	struct append_ack *acks, size_t *ret_bad, struct refusal *refusal)
{
	*ret_bad = 0;
	int r = conn_check_order(conn, refusal);
	r = r < 0 ? r : check_subs(conn, events, count, ret_bad, refusal);
	r = r < 0 ? r : find_session(conn, refusal);
	bool is_new = r == 0 && !conn->session;
	if (is_new) {
		r = check_events(conn, events, count, ret_bad, refusal);
		r = r < 0 ? r : conn_make_session(conn, refusal);
	}
	if (r < 0) {
		return r;
	}
	r = intake_append(
		conn->session, events, count, conn->server->limits, acks, ret_bad, refusal);
	if (r < 0 && is_new) {
		unmake_session(conn);
	}
	return r;
}

static bool knows_nothing(void *ctx, enum snapshot_id kind, const char *id)
{
	return false;
}

static const char *has_none(void *ctx, size_t n)
{
	return NULL;
}

/** The same for a snapshot. */
static int check_snapshot(
	struct conn *conn, const json_t *data, size_t *ret_bad, struct refusal *refusal)
{
	static const struct snapshot_log empty = {.known = knows_nothing, .nth = has_none};
	struct snapshot_match match;
	int r = snapshot_match(data, conn->server->limits, &empty, &match, ret_bad, refusal);
	if (r == 0) {
		json_decref(match.events);
	}
	return r;
}

int conn_append_snapshot(struct conn *conn, const json_t *data, struct snapshot_result *ret,
	size_t *ret_bad, struct refusal *refusal)
{
	*ret_bad = SNAPSHOT_NO_INDEX;
	int r = conn_check_order(conn, refusal);
	r = r < 0 ? r : find_session(conn, refusal);
	bool is_new = r == 0 && !conn->session;
	if (is_new) {
		r = check_snapshot(conn, data, ret_bad, refusal);
		r = r < 0 ? r : conn_make_session(conn, refusal);
	}
	if (r < 0) {
		return r;
	}
	r = intake_snapshot(conn->session, data, conn->server->limits, ret, ret_bad, refusal);
	if (r < 0 && is_new) {
		unmake_session(conn);
	}
	return r;
}

void conn_wait_take_snapshot(struct conn_wait *wait, const struct snapshot_result *result)
{
	wait->acks = result->acks;
	wait->ack_count = result->ack_count;
	wait->counts = xmalloc(sizeof(*wait->counts));
	*wait->counts = (struct snapshot_counts){.known = result->known, .added = result->added};
}
