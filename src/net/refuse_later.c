/*
 * Refusals that rest on what the session has become: they are told when that is on disk. A client
 * takes them for the truth, and many are final; if a write fails, what they rest on is taken back.
 */
#include "net_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep(struct conn_wait *wait, const struct refusal *refusal, const char *extra)
{
	wait->refusal = xmalloc(sizeof(*refusal));
	*wait->refusal = *refusal;
	wait->more = extra && *extra ? xstrdup(extra) : NULL;
}

/** Members that belong to a failed write, "" or `"name":value`. */
static const char *explain(struct refusal *refusal, int status)
{
	bool is_known = status != DURABLE_IN_DOUBT;
	refuse_storage(refusal, is_known ? STORAGE_WRITE : STORAGE_IN_DOUBT);
	return is_known ? "" : "\"outcome\":\"unknown\"";
}

void conn_refuse_storage(struct conn *conn, const char *request, const char *names, int status)
{
	struct refusal refusal = {0};
	struct buffer extra = {0};
	const char *outcome = explain(&refusal, status);
	strcpy(refusal.request, request);
	buffer_append_str(&extra, names ? names : "");
	buffer_append_str(&extra, extra.len && *outcome ? "," : "");
	buffer_append_str(&extra, outcome);
	conn_send_refusal(conn, &refusal, extra.len ? buffer_cstr(&extra) : NULL);
	buffer_finish(&extra);
}

void http_refuse_failed(struct conn *conn, int status)
{
	struct refusal refusal = {0};
	char extra[40] = "";
	const char *outcome = explain(&refusal, status);
	if (*outcome) {
		snprintf(extra, sizeof(extra), ",%s", outcome);
	}
	http_refuse_event(conn, &refusal, extra);
}

static void answer_socket(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	if (!conn->session) {
		return; /* deleted meanwhile: session_gone has said so */
	}
	if (status < 0) {
		conn_refuse_storage(conn, wait->refusal->request, wait->text, -EIO);
	} else {
		conn_send_refusal(conn, wait->refusal, wait->more);
	}
}

void conn_refuse_later(
	struct conn *conn, const struct refusal *refusal, const char *names, const char *why)
{
	struct buffer extra = {0};
	buffer_append_str(&extra, names ? names : "");
	buffer_append_str(&extra, extra.len && why && *why ? "," : "");
	buffer_append_str(&extra, why ? why : "");
	if (!conn->session || strcmp(refusal->code, "storage_failed") == 0) {
		conn_send_refusal(conn, refusal, extra.len ? buffer_cstr(&extra) : NULL);
	} else {
		struct conn_wait *wait = conn_wait_create(conn, conn->session, answer_socket);
		keep(wait, refusal, buffer_cstr(&extra));
		wait->text = names && *names ? xstrdup(names) : NULL;
	}
	buffer_finish(&extra);
}

static void answer_http(struct conn_wait *wait, int status)
{
	if (status < 0) {
		http_refuse_failed(wait->conn, -EIO);
	} else {
		http_refuse_event(wait->conn, wait->refusal, wait->more ? wait->more : "");
	}
}

void http_refuse_later(struct conn *conn, struct session *session, const struct refusal *refusal,
	const char *extra)
{
	if (!session || strcmp(refusal->code, "storage_failed") == 0) {
		http_refuse_event(conn, refusal, extra);
	} else {
		keep(conn_wait_create(conn, session, answer_http), refusal, extra);
	}
}
