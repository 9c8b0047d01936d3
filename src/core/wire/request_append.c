/* Parses the frame of an append; its events are passed on as they are. */
#include "requests_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** Whether the value is an integer of at most 64 bits. */
static bool is_integer(const struct json_span *value)
{
	char digits[24];
	if (value->type != JSON_INTEGER || value->len >= sizeof(digits)) {
		return false;
	}
	memcpy(digits, value->text, value->len);
	digits[value->len] = '\0';
	errno = 0;
	strtoll(digits, NULL, 10);
	return errno == 0;
}

int request_take_ref(const struct json_span *ref, char out[160], struct refusal *refusal)
{
	out[0] = '\0';
	if (!ref) {
		return 0;
	}
	if (!is_integer(ref) && !(ref->type == JSON_STRING && ref->len <= 64)) {
		return refuse(refusal, ERROR_bad_request,
			"ref must be a whole number or a string of at most 64 bytes");
	}
	struct buffer text = {0};
	json_span_write(&text, ref);
	bool fits = text.len < 160;
	memcpy(out, buffer_cstr(&text), fits ? text.len + 1 : 0);
	buffer_finish(&text);
	return fits ? 0 : refuse(refusal, ERROR_bad_request, "ref is too long");
}

/** Refuses members other than `a` and `b`. */
static int check_two(const struct json_span *object, const char *what, const char *a, const char *b,
	struct refusal *refusal)
{
	json_span_each_name(name, object) {
		if (!json_span_says(name, a) && !json_span_says(name, b)) {
			return refuse(refusal, ERROR_bad_request, "%s has no member \"%.40s\"",
				what, name->text);
		}
	}
	return 0;
}

static int parse(const struct json_span *frame, const struct limits *limits, struct request *ret,
	struct refusal *refusal)
{
	const struct json_span *data = json_span_get(frame, "data");
	const struct json_span *events = json_span_get(data, "events");
	if (!json_span_is(data, JSON_OBJECT)) {
		return refuse(refusal, ERROR_bad_request, NO_FRAME);
	}
	if (check_two(frame, "a frame", "type", "data", refusal) < 0 ||
		check_two(data, "append", "events", "ref", refusal) < 0) {
		return -EINVAL;
	}
	ret->append.count = json_span_array_size(events);
	if (!ret->append.count) {
		return refuse(refusal, ERROR_bad_request,
			"append needs \"events\", an array that is not empty");
	}
	if (ret->append.count > limits->batch_events) {
		return refuse_limit(refusal, LIMIT_batch_events,
			"an append takes at most %zu events", limits->batch_events);
	}
	ret->append.events = events + 1;
	return request_take_ref(json_span_get(data, "ref"), ret->append.ref, refusal);
}

int request_parse_append(const char *text, size_t len, const struct limits *limits,
	struct request *ret, struct refusal *refusal)
{
	struct json_spans spans;
	if (json_spans_read(text, len, &spans) < 0) {
		return 0;
	}
	if (!json_span_says(json_span_get(spans.all, "type"), "append")) {
		json_spans_finish(&spans);
		return 0;
	}
	strcpy(refusal->request, "append");
	ret->type = REQUEST_APPEND;
	ret->spans = spans;
	int r = parse(spans.all, limits, ret, refusal);
	if (r < 0) {
		json_spans_finish(&ret->spans);
	}
	return r < 0 ? r : 1;
}
