/* Admission of a request by its head: who sends it, and what is refused before its body arrives. */
#include "server/http_internal.h"
#include "server/placement_internal.h"

#include <string.h>
#include <strings.h>

bool http_is_refused(const struct conn *conn)
{
	return conn->http->response.len || conn->http->is_answered || conn->denial;
}

size_t http_body_max(const struct conn *conn)
{
	size_t most = conn->server->limits->body_size;
	return http_needs_token(conn) || most < WITHOUT_TOKEN_MAX ? most : WITHOUT_TOKEN_MAX;
}

/* --- the head --- */

const char *http_method_name(enum http_method method)
{
	static const char *const methods[] = {
		[HTTP_GET] = "GET",
		[HTTP_HEAD] = "HEAD",
		[HTTP_POST] = "POST",
		[HTTP_PUT] = "PUT",
		[HTTP_PATCH] = "PATCH",
		[HTTP_DELETE] = "DELETE",
		[HTTP_OPTIONS] = "OPTIONS",
		[HTTP_OTHER] = "",
	};
	return methods[method];
}

char *http_copy_target(const struct http_head *head)
{
	bool has_query = head->query.len > 0;
	return xprintf("%.*s%s%.*s", (int)head->path.len, head->text + head->path.at,
		has_query ? "?" : "", (int)head->query.len, head->text + head->query.at);
}

void http_refuse_size(struct conn *conn)
{
	struct refusal refusal = {0};
	refuse_limit(&refusal, LIMIT_body_size,
		"the body of this request may have at most %zu bytes%s", http_body_max(conn),
		http_needs_token(conn)
			? "; send more events as lines, with the content-type application/x-ndjson"
			: "");
	http_refuse_event(conn, &refusal);
}

/** A CORS preflight, which carries no token. */
static bool is_preflight(const struct conn *conn)
{
	return conn->http->is_foreign && conn->http->method == HTTP_OPTIONS &&
	       http_head_field(conn->http->head, "access-control-request-method");
}

void http_admit(struct conn *conn)
{
	const char *why = NULL;
	char expect[24];
	enum error_code code = ERROR_NONE;
	if (conn->kind.is_node && !placement_admit(conn)) {
		return;
	}
	if (!conn->kind.is_node) {
		client_find(conn, conn->http->head);
		code = auth_check(conn, conn->http->head, &why);
	}
	trace_take(conn);
	bool is_large = !http_is_stream(conn) && !http_is_upload(conn) &&
			conn->http->framing.length > http_body_max(conn);
	if (http_head_copy(conn->http->head, "expect", expect, sizeof(expect))) {
		conn->http->expects_continue = conn->http->framing.body != HTTP_NO_BODY &&
					       !conn->http->head->is_http_1_0 &&
					       strcasecmp(expect, "100-continue") == 0;
	}
	if (!room_for_client(conn)) {
		conn->http->must_close = true;
		http_refuse_limit(conn, LIMIT_address_connections,
			"too many connections of this address are open");
	} else if (code) {
		http_refuse(conn, code, why);
	} else if (!http_is_served_here(conn)) {
		http_refuse(conn, ERROR_not_found, "this address has the metrics and nothing else");
	} else if (is_preflight(conn)) {
		http_answer_preflight(conn);
	} else if (conn->http->method == HTTP_OTHER) {
		http_refuse_with(conn, 501, "", ERROR_not_implemented,
			"this server does not know the method of the request");
	} else if (auth_refuses_body(conn)) {
		http_refuse(conn, ERROR_unsupported_media_type,
			"from a page of another origin, or from a form, a body needs the content-type application/json");
	} else if (is_large) {
		http_refuse_size(conn);
	} else if (http_needs_token(conn) && !ws_is_asked_for(conn->http->head)) {
		enum denial denial = identify(conn, conn->http->head);
		if (denial != DENIED_NOTHING) {
			deny(conn, denial);
		}
	}
}
