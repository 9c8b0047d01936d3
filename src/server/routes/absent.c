/*
 * Sessions that exist and are not served: those whose files cannot be read for now, and damaged ones.
 * What a client may not see it is not told of; the caller has checked that.
 */
#include "server/http_internal.h"

#include <errno.h>
#include <string.h>

bool conn_session_is_absent(
	const struct conn *conn, const char *id, size_t len, struct refusal *refusal)
{
	switch (session_table_absence(conn->server->sessions, id, len)) {
	case STORE_PRESENT:
		return false;
	case STORE_UNREADABLE:
		refuse(refusal, ERROR_storage_failed,
			"the session cannot be read from the server's %s; the server keeps trying, so come back later",
			storage_name(conn_storage(conn)));
		return true;
	case STORE_DAMAGED:
		refuse(refusal, ERROR_session_damaged,
			"the session is damaged, and is not served until the server's operator has repaired it");
		return true;
	}
	return false;
}

bool ws_refuse_absent(struct conn *conn)
{
	struct refusal refusal = {0};
	bool is_absent = !conn->ws->refused && conn_session_is_absent(conn, conn->session_id,
						       strlen(conn->session_id), &refusal);
	if (is_absent) {
		conn_send_error(conn, refusal.code, refusal.message);
		conn_close_refused(conn, refusal.code);
	}
	return is_absent;
}

static void handle_deleted(
	struct place_wait *wait, int status, enum session_place place, const char *address)
{
	struct conn *conn = list_entry(wait, struct conn, place_wait);
	if (conn->is_dead) {
		return;
	}
	conn->is_parked = false;
	if (status < 0) {
		http_refuse(conn, ERROR_storage_failed, "the session cannot be deleted now");
	} else {
		http_respond_with(conn, 204, "", NULL, 0);
	}
	conn_resume(conn);
}

bool http_delete_damaged(struct conn *conn)
{
	struct session_table *sessions = conn->server->sessions;
	if (session_table_absence(sessions, conn->session_id, strlen(conn->session_id)) !=
		STORE_DAMAGED) {
		return false;
	}
	if (!http_may(conn, RIGHT_DELETE)) {
		return true; /* which http_may() has refused */
	}
	conn->place_wait.done = handle_deleted;
	if (session_table_delete_damaged(sessions, conn->session_id, &conn->place_wait) < 0) {
		http_refuse(conn, ERROR_storage_failed, "the session is being deleted");
		return true;
	}
	conn_set_deadline(conn, DEADLINE_NONE, 0);
	conn_park(conn, NULL, 0);
	return true;
}
