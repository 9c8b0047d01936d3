#include "holdfast/json_text.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAP_MIN ((size_t)64)

struct number {
	json_t *node; /* holds a reference; NULL: a free slot */
	char *text;
};

struct json_numbers {
	struct number *places; /* an open hash table, at most half full */
	size_t cap; /* a power of two */
	size_t count;
	bool is_new; /* it may hold numbers; false: it is empty */
};

/* --- the table --- */

struct json_numbers *json_numbers_create(void)
{
	struct json_numbers *numbers = xcalloc(1, sizeof(*numbers));
	numbers->cap = CAP_MIN;
	numbers->places = xcalloc(numbers->cap, sizeof(*numbers->places));
	return numbers;
}

static struct number *place_of(const struct json_numbers *numbers, const json_t *node)
{
	size_t at = ((uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u;
	for (at ^= at >> 32;; at++) {
		struct number *place = &numbers->places[at & (numbers->cap - 1)];
		if (!place->node || place->node == node) {
			return place;
		}
	}
}

/** Moves the numbers to a table sized for `count` of them. */
static void resize(struct json_numbers *numbers, size_t count)
{
	struct json_numbers old = *numbers;
	for (numbers->cap = CAP_MIN; numbers->cap < 2 * count;) {
		numbers->cap *= 2;
	}
	numbers->places = xcalloc(numbers->cap, sizeof(*numbers->places));
	for (size_t i = 0; i < old.cap; i++) {
		if (old.places[i].node) {
			*place_of(numbers, old.places[i].node) = old.places[i];
		}
	}
	free(old.places);
}

static void drop(struct json_numbers *numbers, struct number *place)
{
	json_decref(place->node);
	free(place->text);
	*place = (struct number){0};
	numbers->count--;
}

static void put(struct json_numbers *numbers, json_t *node, const char *text, size_t len)
{
	if (2 * (numbers->count + 1) > numbers->cap) {
		resize(numbers, 2 * (numbers->count + 1));
	}
	*place_of(numbers, node) = (struct number){json_incref(node), xstrndup(text, len)};
	numbers->count++;
	numbers->is_new = true;
}

void json_numbers_sweep(struct json_numbers *numbers)
{
	if (!numbers->is_new) {
		return;
	}
	for (size_t i = 0; i < numbers->cap; i++) {
		if (numbers->places[i].node && numbers->places[i].node->refcount == 1) {
			drop(numbers, &numbers->places[i]);
		}
	}
	resize(numbers, numbers->count);
	numbers->is_new = numbers->count > 0;
}

void json_numbers_destroy(struct json_numbers *numbers)
{
	for (size_t i = 0; numbers && i < numbers->cap; i++) {
		if (numbers->places[i].node) {
			drop(numbers, &numbers->places[i]);
		}
	}
	free(numbers ? numbers->places : NULL);
	free(numbers);
}

/* --- writing --- */

/* A double needs at most 17 digits, a sign, a point and an exponent such as e-308. */
#define NUMBER_TEXT_MAX 40

/**
 * Writes the shortest of 15 to 17 digits that reads back as `value`, always with a point or an
 * exponent.
 */
static void real_text(double value, char text[NUMBER_TEXT_MAX])
{
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, NUMBER_TEXT_MAX, "%.*g", digits, value);
		if (strtod(text, NULL) == value) {
			break;
		}
	}
	if (!strpbrk(text, ".e")) {
		strcat(text, ".0");
	}
}

static void write_number(
	struct buffer *out, const json_t *value, const struct json_numbers *numbers)
{
	const struct number *number = numbers ? place_of(numbers, value) : NULL;
	char text[NUMBER_TEXT_MAX];
	if (number && number->node) {
		buffer_append_str(out, number->text);
	} else if (json_is_integer(value)) {
		buffer_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	} else {
		real_text(json_real_value(value), text);
		buffer_append_str(out, text);
	}
}

static void write_object(
	struct buffer *out, const json_t *object, const struct json_numbers *numbers)
{
	char before = '{';
	for (void *at = json_object_iter((json_t *)object); at;
		at = json_object_iter_next((json_t *)object, at)) {
		const char *key = json_object_iter_key(at);
		buffer_append_char(out, before);
		buffer_append_json(out, key, strlen(key));
		buffer_append_char(out, ':');
		json_write(out, json_object_iter_value(at), numbers);
		before = ',';
	}
	buffer_append_str(out, before == '{' ? "{}" : "}");
}

static void write_array(struct buffer *out, const json_t *array, const struct json_numbers *numbers)
{
	buffer_append_char(out, '[');
	for (size_t i = 0; i < json_array_size(array); i++) {
		buffer_append_str(out, i ? "," : "");
		json_write(out, json_array_get(array, i), numbers);
	}
	buffer_append_char(out, ']');
}

void json_write(struct buffer *out, const json_t *value, const struct json_numbers *numbers)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		write_object(out, value, numbers);
		break;
	case JSON_ARRAY:
		write_array(out, value, numbers);
		break;
	case JSON_STRING:
		buffer_append_json(out, json_string_value(value), json_string_length(value));
		break;
	case JSON_INTEGER:
	case JSON_REAL:
		write_number(out, value, numbers);
		break;
	default:
		buffer_append_str(out, json_is_true(value)    ? "true"
				       : json_is_false(value) ? "false"
							      : "null");
	}
}

char *json_text(const json_t *value, const struct json_numbers *numbers)
{
	struct buffer out = {0};
	json_write(&out, value, numbers);
	buffer_cstr(&out);
	return out.data;
}

/* --- reading --- */

struct token {
	const char *text;
	size_t len; /* 0: no more */
};

/** Returns the quote that ends the string at `from`, or the last byte of the text. */
static const char *end_of_string(const char *from, const char *end)
{
	const char *quote = from;
	while ((quote = memchr(quote + 1, '"', (size_t)(end - quote - 1)))) {
		size_t backslashes = 0;
		while (quote[-1 - (ptrdiff_t)backslashes] == '\\') {
			backslashes++;
		}
		if (backslashes % 2 == 0) {
			return quote;
		}
	}
	return end - 1;
}

/** Finds the next number of a JSON text from *at on, and moves *at behind it. */
static struct token next_number(const char **at, const char *end)
{
	for (const char *c = *at; c < end; c++) {
		if (*c == '"') {
			c = end_of_string(c, end);
		} else if (*c == '-' || (*c >= '0' && *c <= '9')) {
			const char *from = c;
			while (c < end && *c && strchr("+-.eE0123456789", *c)) {
				c++;
			}
			*at = c;
			return (struct token){from, (size_t)(c - from)};
		}
	}
	*at = end;
	return (struct token){0};
}

static const char *skip_digits(const char *at, const char *end)
{
	while (at < end && *at >= '0' && *at <= '9') {
		at++;
	}
	return at;
}

/**
 * Whether the token is a valid JSON number. Only those are replaced, so that replacing one does not
 * make invalid text valid.
 */
static bool is_number(struct token token)
{
	const char *end = token.text + token.len;
	const char *whole = token.text + (*token.text == '-');
	const char *at = skip_digits(whole, end);
	bool good = at > whole && (*whole != '0' || at == whole + 1);
	if (at < end && *at == '.') {
		const char *fraction = at + 1;
		at = skip_digits(fraction, end);
		good = good && at > fraction;
	}
	if (at < end && (*at == 'e' || *at == 'E')) {
		const char *exponent = at + 1;
		exponent += exponent < end && (*exponent == '+' || *exponent == '-');
		at = skip_digits(exponent, end);
		good = good && at > exponent;
	}
	return good && at == end;
}

/** The value that jansson gives a number, or that of its replacement. */
struct value {
	bool is_integer;
	bool does_not_fit; /* out of jansson's range */
	json_int_t integer;
	double real;
};

static struct value value_of(struct token token)
{
	char small[64];
	char *text = token.len < sizeof(small) ? small : xmalloc(token.len + 1);
	memcpy(text, token.text, token.len);
	text[token.len] = '\0';
	struct value value = {.is_integer = !strpbrk(text, ".eE")};
	errno = 0;
	value.integer = value.is_integer ? strtoll(text, NULL, 10) : 0;
	if (!value.is_integer || errno == ERANGE) {
		value.real = strtod(text, NULL);
		value.does_not_fit = value.is_integer || isinf(value.real);
		value.is_integer = false;
	}
	if (isinf(value.real)) {
		value.real = value.real > 0 ? DBL_MAX : -DBL_MAX;
	}
	if (text != small) {
		free(text);
	}
	return value;
}

/** Whether json_write() would write the number's value with another text. */
static bool is_odd(struct token token, const struct value *value)
{
	char text[NUMBER_TEXT_MAX];
	if (value->does_not_fit) {
		return true;
	}
	if (value->is_integer) {
		return token.len == 2 && memcmp(token.text, "-0", 2) == 0;
	}
	real_text(value->real, text);
	return strlen(text) != token.len || memcmp(text, token.text, token.len) != 0;
}

/* DBL_MAX. */
#define LARGEST_TEXT "1.7976931348623157e308"

/** Parses a text after replacing the numbers that jansson refuses. */
static json_t *read_large(const char *text, size_t len, size_t flags, json_error_t *error)
{
	struct buffer fitting = {0};
	const char *at = text;
	const char *from = text;
	struct token token;
	while ((token = next_number(&at, text + len)).len) {
		struct value value = value_of(token);
		if (value.does_not_fit && is_number(token)) {
			buffer_append(&fitting, from, (size_t)(token.text - from));
			if (fabs(value.real) < DBL_MAX) {
				buffer_printf(&fitting, "%.17e", value.real);
			} else { /* the usual case, and slow to print */
				buffer_append_str(
					&fitting, value.real > 0 ? LARGEST_TEXT : "-" LARGEST_TEXT);
			}
			from = at;
		}
	}
	buffer_append(&fitting, from, (size_t)(text + len - from));
	json_t *json = json_loadb(fitting.data, fitting.len, flags, error);
	buffer_finish(&fitting);
	return json;
}

/** Walks a tree and its text in parallel. */
struct walk {
	const char *at;
	const char *end;
	struct json_numbers *numbers; /* NULL: only compare */
};

static bool walk_number(struct walk *walk, json_t *node)
{
	struct token token = next_number(&walk->at, walk->end);
	struct value value = token.len ? value_of(token) : (struct value){0};
	bool agrees = token.len && value.is_integer == json_is_integer(node) &&
		      (value.is_integer ? value.integer == json_integer_value(node)
					: value.real == json_real_value(node));
	if (agrees && walk->numbers && is_odd(token, &value)) {
		put(walk->numbers, node, token.text, token.len);
	}
	return agrees;
}

static bool walk_value(struct walk *walk, json_t *node)
{
	bool agrees = true;
	if (json_is_object(node)) {
		for (void *at = json_object_iter(node); at && agrees;
			at = json_object_iter_next(node, at)) {
			agrees = walk_value(walk, json_object_iter_value(at));
		}
	} else if (json_is_array(node)) {
		for (size_t i = 0; i < json_array_size(node) && agrees; i++) {
			agrees = walk_value(walk, json_array_get(node, i));
		}
	} else if (json_is_number(node)) {
		agrees = walk_number(walk, node);
	}
	return agrees;
}

static bool has_odd(const char *text, size_t len)
{
	const char *at = text;
	struct token token;
	while ((token = next_number(&at, text + len)).len) {
		struct value value = value_of(token);
		if (is_odd(token, &value)) {
			return true;
		}
	}
	return false;
}

/**
 * Remembers the spelling of the odd numbers. If a member occurs twice, the tree's numbers do not
 * match the text, and nothing is remembered.
 */
static void note(json_t *json, const char *text, size_t len, struct json_numbers *numbers)
{
	struct walk look = {text, text + len, NULL};
	struct walk keep = {text, text + len, numbers};
	if (has_odd(text, len) && walk_value(&look, json) && !next_number(&look.at, look.end).len) {
		walk_value(&keep, json);
	}
}

json_t *json_read(const char *text, size_t len, size_t flags, struct json_numbers *numbers,
	json_error_t *error)
{
	json_error_t why;
	error = error ? error : &why;
	json_t *json = json_loadb(text, len, flags, error);
	if (!json && json_error_code(error) == json_error_numeric_overflow) {
		json = read_large(text, len, flags, error);
	}
	if (json && numbers) {
		note(json, text, len, numbers);
	}
	return json;
}

bool json_take_number(const json_t *json, const char *name, uint64_t *ret)
{
	const json_t *value = json_object_get(json, name);
	*ret = (uint64_t)json_integer_value(value);
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

bool json_whole(const json_t *value, json_int_t *ret)
{
	if (json_is_integer(value)) {
		*ret = json_integer_value(value);
		return true;
	}
	if (json_is_real(value)) {
		double real = json_real_value(value);
		*ret = fabs(real) <= (double)JSON_SAFE_MAX ? (json_int_t)real : 0;
		return (double)*ret == real;
	}
	if (!json_string_length(value) || !strchr("-0123456789", *json_string_value(value))) {
		return false;
	}
	json_t *number = json_read(
		json_string_value(value), json_string_length(value), JSON_DECODE_ANY, NULL, NULL);
	bool is_whole = json_is_number(number) && json_whole(number, ret);
	json_decref(number);
	return is_whole;
}

size_t json_nesting(const char *text, size_t len, int *ret_deepest)
{
	int depth = 0;
	bool in_string = false;
	*ret_deepest = 0;
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if (in_string) {
			i += c == '\\';
			in_string = c != '"';
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			depth++;
			*ret_deepest = depth > *ret_deepest ? depth : *ret_deepest;
		} else if ((c == '}' || c == ']') && --depth == 0) {
			return i + 1;
		}
	}
	return 0;
}

bool json_is_deep(const char *text, size_t len)
{
	int deepest;
	json_nesting(text, len, &deepest);
	return deepest > JSON_DEPTH_MAX;
}
