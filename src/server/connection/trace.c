/* The trace context of a request, and the line that logs the request. */
#include "server/http_internal.h"

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

/**
 * How much of a path is logged: up to its third slash or, if the request was refused, its second,
 * or only its first. Somebody may have put a secret in the rest.
 */
static size_t told_len(const char *path, unsigned status)
{
	const char *second = *path ? strchr(path + 1, '/') : NULL;
	const char *third = second ? strchr(second + 1, '/') : NULL;
	if (status < 400) {
		return third ? (size_t)(third + 1 - path) : strlen(path);
	}
	return second ? (size_t)(second + 1 - path) : 1;
}

void trace_log(const struct conn *conn, unsigned status)
{
	const struct http_exchange *http = conn->http;
	const char *trace = conn->trace;
	const char *method = http_method_name(http->method);
	const char *told = http->path ? http->path : "?";
	struct buffer path = {0};
	if (!diag_shows(DIAG_DEBUG)) {
		return;
	}
	diag_clean(&path, told, told_len(told, status));
	diag(DIAG_DEBUG, "request %s %s: %u%s%s%s", *method ? method : "?", buffer_cstr(&path),
		status, trace ? " (traceparent " : "", trace ? trace : "", trace ? ")" : "");
	buffer_finish(&path);
}
