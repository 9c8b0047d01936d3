/*
 * Answers that wait until their input is durable, and the order of what a peer sends. Input that is
 * refused although the same may be taken later (the disk failed, or is full) must not be overtaken
 * by what the peer has sent behind it: all of that is refused with the same code, and the socket is
 * closed with 1013. The peer connects again and sends everything from the first refusal on.
 */
#include "server/net_internal.h"

#include "holdfast/error_codes.h"

#include <stdlib.h>
#include <string.h>

static bool is_broken(const struct conn *conn)
{
	return conn->ws && conn->ws->broken_by;
}

static void look_at_end_of_tick(struct conn *conn)
{
	conn_at_end_of_tick(conn->carrier ? conn->carrier : conn);
}

/* --- waits --- */

void conn_wait_free(struct conn_wait *wait)
{
	durable_wait_cancel(&wait->wait);
	list_remove(&wait->link);
	free(wait->text);
	free(wait->acks);
	free(wait->counts);
	free(wait->refusal);
	free(wait);
}

static void handle_durable(struct durable_wait *durable, int status)
{
	struct conn_wait *wait = (struct conn_wait *)durable;
	struct conn *conn = wait->conn;
	if (wait->is_append && status == 0) {
		metrics_observe(conn->server->metrics, HISTOGRAM_APPEND_SECONDS,
			(double)(uv_hrtime() - wait->begun_ns) / 1e9);
	}
	if (status < 0 && wait->is_ordered) {
		conn_break_order(conn, ERROR_storage_failed);
	}
	wait->answer(wait, status);
	conn_wait_free(wait);
	if (is_broken(conn)) {
		look_at_end_of_tick(conn);
	}
}

struct conn_wait *conn_wait_create(struct conn *conn, struct session *session,
	void (*answer)(struct conn_wait *wait, int status))
{
	struct conn_wait *wait = xcalloc(1, sizeof(*wait));
	wait->conn = conn;
	wait->answer = answer;
	wait->wait.done = handle_durable;
	list_append(&conn->waits, &wait->link);
	session_wait_durable(session, &wait->wait);
	return wait;
}

struct conn_wait *conn_wait_append(
	struct conn *conn, void (*answer)(struct conn_wait *wait, int status))
{
	struct conn_wait *wait = conn_wait_create(conn, conn->session, answer);
	wait->is_append = wait->is_ordered = true;
	wait->begun_ns = uv_hrtime();
	return wait;
}

/* --- order --- */

void conn_break_order(struct conn *conn, enum error_code code)
{
	if (conn->ws && !conn->sse && !conn->ws->broken_by && error_code_may_pass(code)) {
		conn->ws->broken_by = code;
		look_at_end_of_tick(conn);
	}
}

int conn_check_order(struct conn *conn, struct refusal *refusal)
{
	if (!is_broken(conn)) {
		return 0;
	}
	return refuse(refusal, conn->ws->broken_by,
		"what you sent before this was refused; connect again, and send everything from there on, in its order");
}

enum error_code conn_broken_order(const struct conn *conn)
{
	bool is_due = is_broken(conn) && !conn->is_closing && list_empty(&conn->waits);
	return is_due ? conn->ws->broken_by : ERROR_NONE;
}
