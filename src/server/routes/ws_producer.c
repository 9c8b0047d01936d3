/* The producer's WebSocket: append, answered with `appended` once durable, and keepalive. */
#include "server/http_internal.h"
#include "routes.h"
#include "server/ws_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void answer_append(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	if (!conn->session) {
		return; /* deleted meanwhile: session_gone has told the peer */
	}
	if (status < 0) {
		conn_refuse_storage(conn, wait->counts ? "append_snapshot" : "append", ABOUT_APPEND,
			wait->text, status);
		return;
	}
	const struct channel *channel = session_channel(conn->session);
	conn_send(conn, frame_appended(wait->text, wait->acks, wait->ack_count, wait->counts,
				session_log_epoch(channel->log), channel->max_seq));
}

static void refuse_append(struct conn *conn, struct refusal *refusal, size_t index, const char *ref)
{
	refusal->detail = (struct error_detail){.about = ABOUT_APPEND,
		.id = ref,
		.has_index = index != SNAPSHOT_NO_INDEX,
		.index = index};
	conn_break_order(conn, refusal->code);
	conn_refuse_later(conn, refusal);
	refusal->code = ERROR_NONE; /* already sent */
}

static void handle_append(struct conn *conn, const struct request *request, struct refusal *refusal)
{
	size_t count = request->append.count;
	struct append_ack *acks = xcalloc(count, sizeof(*acks));
	const char *ref = request->append.ref[0] ? request->append.ref : NULL;
	size_t bad = 0;
	if (conn_append(conn, request->append.events, count, acks, &bad, refusal) < 0) {
		refuse_append(conn, refusal, bad, ref);
		free(acks);
		return;
	}
	struct conn_wait *wait = conn_wait_append(conn, answer_append);
	wait->text = ref ? xstrdup(ref) : NULL;
	wait->acks = acks;
	wait->ack_count = count;
}

static void handle_snapshot(
	struct conn *conn, const struct request *request, struct refusal *refusal)
{
	const char *ref = request->snapshot.ref[0] ? request->snapshot.ref : NULL;
	struct snapshot_result result;
	size_t bad;
	if (conn_append_snapshot(conn, request->snapshot.data, &result, &bad, refusal) < 0) {
		refuse_append(conn, refusal, bad, ref);
		return;
	}
	struct conn_wait *wait = conn_wait_append(conn, answer_append);
	wait->text = ref ? xstrdup(ref) : NULL;
	conn_wait_take_snapshot(wait, &result);
}

/** The session to append to, or NULL if it does not exist yet. */
static struct session *session_of(const struct conn *conn)
{
	return conn->session ? conn->session
			     : session_table_get(conn->server->sessions, conn->session_id,
				       strlen(conn->session_id));
}

static void producer_message(struct conn *conn, const char *text, size_t len)
{
	struct refusal refusal;
	struct request request;
	if (!conn->session && !conn->may_create) {
		return;
	}
	if (request_parse(text, len, conn->server->limits, SIDE_PRODUCER,
		    session_table_numbers(conn->server->sessions), &request, &refusal) == 0) {
		bool needs_names =
			request.type != REQUEST_KEEPALIVE && request.type != REQUEST_TOKEN;
		if (needs_names && conn_waits_for_names(conn, session_of(conn), text, len)) {
			/* It will be handled again. */
		} else if (request.type == REQUEST_TOKEN) {
			ws_take_token(conn, &request);
		} else if (needs_names && !conn_may(conn, RIGHT_APPEND)) {
			refuse_role(conn, &refusal);
		} else if (request.type == REQUEST_APPEND) {
			handle_append(conn, &request, &refusal);
		} else if (request.type == REQUEST_APPEND_SNAPSHOT) {
			handle_snapshot(conn, &request, &refusal);
		} else {
			conn_send(conn, conn_keepalive_ack(conn, &request));
		}
		request_finish(&request);
	}
	if (refusal.code) {
		conn_send_refusal(conn, &refusal);
	}
}

static void send_connected(struct conn *conn)
{
	struct buffer data = {0};
	buffer_append_str(&data, "{\"protocol\":1");
	buffer_append_member(&data, "session_id", conn->session_id);
	if (conn->session) {
		const struct channel *channel = session_channel(conn->session);
		buffer_printf(&data, ",\"epoch\":\"%016llx\",\"max_seq\":%llu}",
			(unsigned long long)session_log_epoch(channel->log),
			(unsigned long long)channel->max_seq);
	} else {
		buffer_append_str(&data, ",\"epoch\":null,\"max_seq\":0}");
	}
	conn_send(conn, frame_make("connected", data.data, data.len));
	buffer_finish(&data);
}

static void producer_open(struct conn *conn)
{
	if (!conn_may(conn, RIGHT_APPEND)) {
		struct refusal refusal = {0};
		refuse_role(conn, &refusal);
		conn_send_refusal(conn, &refusal);
		conn_close_refused(conn, ERROR_forbidden);
		return;
	}
	if (ws_refuse_absent(conn)) {
		return;
	}
	const struct session *had = session_table_get(
		conn->server->sessions, conn->session_id, strlen(conn->session_id));
	bool is_there = had && session_is_there(had);
	if (conn->ws->refused || is_there || !conn->may_create) {
		struct session *session = conn_find_session(conn);
		if (!session || !ws_room_in_session(conn, session)) {
			return;
		}
		conn_hold_session(conn, session);
	}
	list_append(&conn->server->producers, &conn->kind_link);
	send_connected(conn);
	conn_update_flow(conn);
}

/** A session that could not be created may still be: the next append tries again. */
static void producer_session_lost(struct conn *conn, const struct session *session, bool is_deleted)
{
	bool is_its = conn->session == session && is_deleted;
	if (is_its && (session_is_there(session) || !conn->may_create)) {
		conn_send(conn, frame_session_gone(session_id(session), "deleted"));
		conn_close(conn, 4404, "deleted");
	}
}

const struct conn_ops producer_conn_ops = {
	.read_query = query_append,
	.open = producer_open,
	.message = producer_message,
	.writable = conn_flush,
	.session_lost = producer_session_lost,
	.renewed = ws_confirm_token,
	.is_producer = true,
	.is_stored_here = true,
};

const struct route producer_routes[] = {
	{"/api/sessions/{id}/produce", "", .flags = ROUTE_SESSION | ROUTE_CHECKED,
		.socket = &producer_conn_ops},
	{0},
};
