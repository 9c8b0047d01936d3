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

/** KEY_SUM_DOUBLES: numbers as jansson writes them. */
static void append_with_doubles(const struct input_event *in, struct buffer *out)
{
	struct buffer text = {0};
	json_span_write(&text, in->span);
	json_t *object = json_read(text.data, text.len, 0, NULL, NULL);
	char *sorted = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
	buffer_append_str(out, sorted ? sorted : "");
	free(sorted);
	json_decref(object);
	buffer_finish(&text);
}

/* --- KEY_SUM_EXACT --- */

/* Longest exponent, in characters; numbers with longer ones are compared as text. */
#define EXPONENT_MAX 15

/**
 * Appends a canonical form of a number's exact value: its digits without leading and trailing
 * zeros, and its exponent.
 */
static void append_exact_number(const char *text, struct buffer *out)
{
	const char *at = text + (*text == '-');
	const char *end = at + strcspn(at, "eE");
	const char *exponent = *end ? end + 1 : "0";
	struct buffer digits = {0};
	long long point = 0; /* digits after the decimal point */
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

static void append_exact(const struct json_span *value, struct buffer *out);

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct json_span *const *)a)->text,
		(*(const struct json_span *const *)b)->text);
}

static void append_exact_object(const struct json_span *object, struct buffer *out)
{
	size_t count = 0;
	const struct json_span **names = xcalloc(object->size, sizeof(*names));
	json_span_each_name(name, object) {
		names[count++] = name;
	}
	qsort(names, count, sizeof(struct json_span *), compare_names);
	buffer_append_char(out, '{');
	for (size_t i = 0; i < count; i++) {
		json_span_write(out, names[i]);
		buffer_append_char(out, ':');
		append_exact(names[i] + 1, out);
		buffer_append_char(out, ',');
	}
	buffer_append_char(out, '}');
	free(names);
}

static void append_exact(const struct json_span *value, struct buffer *out)
{
	if (value->type == JSON_OBJECT) {
		append_exact_object(value, out);
	} else if (value->type == JSON_ARRAY) {
		buffer_append_char(out, '[');
		json_span_each(item, value) {
			append_exact(item, out);
			buffer_append_char(out, ',');
		}
		buffer_append_char(out, ']');
	} else if (value->type == JSON_INTEGER || value->type == JSON_REAL) {
		struct buffer text = {0};
		buffer_append(&text, value->text, value->len);
		append_exact_number(buffer_cstr(&text), out);
		buffer_finish(&text);
	} else {
		json_span_write(out, value);
	}
}

static void append_with_exact_numbers(const struct input_event *in, struct buffer *out)
{
	append_exact(in->span, out);
}

/** Serialises the data, by rule. */
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
