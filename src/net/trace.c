/* The trace that a request belongs to, and the line that tells of the request. */
#include "http_internal.h"

#include "holdfast/diag.h"
#include "holdfast/traceparent.h"

#include <stdlib.h>
#include <string.h>

void trace_take(struct conn *conn)
{
	char text[TRACEPARENT_SIZE];
	const struct http_head *head = conn->http->head;
	const struct http_field *field = http_head_field(head, "traceparent");
	free(conn->trace);
	conn->trace = NULL;
	if (field && http_count_fields(head, "traceparent") == 1 &&
		traceparent_read(head->text + field->value.at, field->value.len, text)) {
		conn->trace = xstrdup(text);
	}
}

void trace_log(const struct conn *conn, unsigned status)
{
	static const char *const methods[] = {[HTTP_GET] = "GET",
		[HTTP_HEAD] = "HEAD",
		[HTTP_POST] = "POST",
		[HTTP_PUT] = "PUT",
		[HTTP_PATCH] = "PATCH",
		[HTTP_DELETE] = "DELETE",
		[HTTP_OPTIONS] = "OPTIONS",
		[HTTP_OTHER] = "?"};
	const struct http_exchange *http = conn->http;
	const char *trace = conn->trace;
	struct buffer path = {0};
	if (!diag_shows(DIAG_DEBUG)) {
		return;
	}
	diag_clean(&path, http->path ? http->path : "?", http->path ? strlen(http->path) : 1);
	diag(DIAG_DEBUG, "request %s %s: %u%s%s%s", methods[http->method], buffer_cstr(&path),
		status, trace ? " (traceparent " : "", trace ? trace : "", trace ? ")" : "");
	buffer_finish(&path);
}
