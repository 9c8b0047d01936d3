#include "json_compare.h"

#include "holdfast/requests.h"

#include <stdlib.h>
#include <string.h>

static const char *compare_value(const json_t *want, const struct json_span *got);

static const char *compare_number(const json_t *want, const struct json_span *got)
{
	uint64_t count = 0;
	bool is_count = json_is_integer(want) && json_integer_value(want) >= 0 &&
			json_integer_value(want) <= 9007199254740991;
	if (json_span_count(got, &count) != is_count ||
		(is_count && count != (uint64_t)json_integer_value(want))) {
		return "a whole number is the same";
	}
	return json_is_real(want) || got->type == JSON_INTEGER ? NULL : "so is its type";
}

static const char *compare_object(const json_t *want, const struct json_span *got)
{
	const char *name;
	json_t *value;
	size_t count = 0;
	const char *wrong = NULL;
	json_object_foreach((json_t *)want, name, value) {
		const struct json_span *span = json_span_get(got, name);
		wrong = wrong   ? wrong
			: !span ? "every member is found"
				: compare_value(value, span);
		count++;
	}
	json_span_each_name(span, got) {
		count--;
	}
	return wrong || !count ? wrong : "there are no others";
}

static const char *compare_array(const json_t *want, const struct json_span *got)
{
	size_t i = 0;
	const char *wrong = NULL;
	if (json_span_array_size(got) != json_array_size(want)) {
		return "an array is as long";
	}
	json_span_each(span, got) {
		wrong = wrong ? wrong : compare_value(json_array_get(want, i), span);
		i++;
	}
	return wrong;
}

static const char *compare_value(const json_t *want, const struct json_span *got)
{
	if (json_is_number(want)) {
		return compare_number(want, got);
	}
	if (json_typeof(want) != got->type) {
		return "a value is of the same type";
	}
	if (json_is_string(want)) {
		bool same = got->len == json_string_length(want) && !got->text[got->len] &&
			    memcmp(got->text, json_string_value(want), got->len) == 0;
		return same ? NULL : "a string says the same";
	}
	return json_is_object(want)  ? compare_object(want, got)
	       : json_is_array(want) ? compare_array(want, got)
				     : NULL;
}

static const char *compare(const char *text, size_t len, struct json_numbers *numbers)
{
	struct refusal refusal = {0};
	struct json_spans spans;
	json_t *json = json_parse(text, len, numbers, &refusal);
	int r = json_spans_read(text, len, &spans);
	const char *wrong = NULL;
	if (r < 0 || !json) {
		wrong = r == 0  ? "what jansson refuses is refused"
			: !json ? NULL
				: "what jansson takes is taken";
	} else {
		char *want = json_text(json, numbers);
		struct buffer got = {0};
		json_span_write(&got, spans.all);
		wrong = strcmp(want, buffer_cstr(&got)) == 0 ? compare_value(json, spans.all)
							     : "it is written the same";
		wrong = spans.all->size == spans.count ? wrong : "all is in the first value";
		buffer_finish(&got);
		free(want);
	}
	if (r == 0) {
		json_spans_finish(&spans);
	}
	json_decref(json);
	return wrong;
}

const char *json_compare(const char *text, size_t len)
{
	struct json_numbers *numbers = json_numbers_create();
	char *exact = xmalloc(len); /* what reads beyond it is found */
	memcpy(exact, text, len);
	const char *wrong = compare(exact, len, numbers);
	free(exact);
	json_numbers_destroy(numbers);
	return wrong;
}
