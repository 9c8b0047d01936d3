#include "holdfast/key_sum.h"

#include "holdfast/buffer.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/** KEY_SUM_DOUBLES: as jansson writes numbers. */
static void append_with_doubles(const struct input_event *in, struct buffer *out)
{
	char *sorted = json_dumps(in->object, JSON_COMPACT | JSON_SORT_KEYS);
	buffer_append_str(out, sorted ? sorted : "");
	free(sorted);
}

/* --- KEY_SUM_EXACT --- */

/* Digits of an exponent beyond which numbers are compared as they are written. */
#define EXPONENT_MAX 15

/** A number's exact value: its digits without zeros at either end, and where the point is. */
static void append_exact_number(const char *text, struct buffer *out)
{
	const char *at = text + (*text == '-');
	const char *end = at + strcspn(at, "eE");
	const char *exponent = *end ? end + 1 : "0";
	struct buffer digits = {0};
	long long point = 0; /* digits behind it, less the zeros that are left out at the end */
	size_t zeros = 0;
	for (bool is_behind = false; at < end; at++) {
		if (*at == '.') {
			is_behind = true;
			continue;
		}
		point += is_behind;
		if (*at != '0' || digits.len) {
			buffer_append_char(&digits, *at);
			zeros = *at == '0' ? zeros + 1 : 0;
		}
	}
	size_t len = digits.len - zeros;
	if (!len) {
		buffer_append_char(out, '0');
	} else if (strlen(exponent) > EXPONENT_MAX) {
		buffer_append_str(out, text);
	} else {
		buffer_append(out, "-", *text == '-');
		buffer_append(out, digits.data, len);
		buffer_printf(out, "e%lld", strtoll(exponent, NULL, 10) - point + (long long)zeros);
	}
	buffer_finish(&digits);
}

static void append_exact(
	const json_t *value, const struct json_numbers *numbers, struct buffer *out);

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void append_exact_object(
	const json_t *object, const struct json_numbers *numbers, struct buffer *out)
{
	size_t count = 0;
	const char **names = xcalloc(json_object_size(object) + 1, sizeof(*names));
	void *iter = json_object_iter((json_t *)object);
	for (; iter; iter = json_object_iter_next((json_t *)object, iter)) {
		names[count++] = json_object_iter_key(iter);
	}
	qsort(names, count, sizeof(*names), compare_names);
	buffer_append_char(out, '{');
	for (size_t i = 0; i < count; i++) {
		buffer_append_json(out, names[i], strlen(names[i]));
		buffer_append_char(out, ':');
		append_exact(json_object_get(object, names[i]), numbers, out);
		buffer_append_char(out, ',');
	}
	buffer_append_char(out, '}');
	free(names);
}

static void append_exact(
	const json_t *value, const struct json_numbers *numbers, struct buffer *out)
{
	size_t i;
	json_t *item;
	if (json_is_object(value)) {
		append_exact_object(value, numbers, out);
	} else if (json_is_array(value)) {
		buffer_append_char(out, '[');
		json_array_foreach(value, i, item) {
			append_exact(item, numbers, out);
			buffer_append_char(out, ',');
		}
		buffer_append_char(out, ']');
	} else if (json_is_number(value)) {
		struct buffer text = {0};
		json_write(&text, value, numbers);
		append_exact_number(buffer_cstr(&text), out);
		buffer_finish(&text);
	} else {
		json_write(out, value, NULL);
	}
}

static void append_with_exact_numbers(const struct input_event *in, struct buffer *out)
{
	append_exact(in->object, in->numbers, out);
}

/** How each rule writes the data. */
static void (*const append_data[KEY_SUM_RULES])(
	const struct input_event *in, struct buffer *out) = {
	[KEY_SUM_DOUBLES] = append_with_doubles,
	[KEY_SUM_EXACT] = append_with_exact_numbers,
};

int key_sum_make(const struct input_event *in, unsigned rule, struct key_sum *ret)
{
	struct buffer content = {0};
	if (rule >= KEY_SUM_RULES) {
		return -ENOTSUP;
	}
	if (in->type == EVENT_CUSTOM) {
		buffer_append(&content, in->type_name, in->type_len);
	} else {
		buffer_append_str(&content, event_type_name(in->type));
	}
	buffer_append_char(&content, '\0');
	buffer_append(&content, in->message_id ? in->message_id : "", in->message_id_len);
	buffer_append_char(&content, '\0');
	append_data[rule](in, &content);
	*ret = (struct key_sum){.value = XXH3_64bits(content.data, content.len), .rule = rule};
	buffer_finish(&content);
	return 0;
}
