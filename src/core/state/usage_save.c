/* Saves a usage total as a JSON object, and loads it: a part of the session's saved state. */
#include "usage_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SAVE_OLDEST 1
#define HEX_DIGITS  16

/* --- save --- */

/** Appends an amount as two numbers: a double has no room for nine decimals beside 53 bits. */
static void put_amount(json_t *list, struct usage_amount amount)
{
	json_array_append_new(list, json_integer(amount.whole));
	json_array_append_new(list, json_integer(amount.nano));
}

static json_t *save_cells(const struct usage_cell *cells, size_t count)
{
	json_t *list = json_array();
	for (size_t c = 0; c < count; c++) {
		json_t *cell = json_array();
		put_amount(cell, cells[c].settled);
		put_amount(cell, cells[c].parts);
		put_amount(cell, cells[c].highest);
		put_amount(cell, cells[c].offset);
		put_amount(cell, cells[c].last);
		json_array_append_new(cell, json_boolean(cells[c].undecided));
		json_array_append_new(list, cell);
	}
	return list;
}

static json_t *save_models(const struct usage_total *total)
{
	json_t *list = json_array();
	for (size_t i = 0; i < total->model_count; i++) {
		const struct usage_model *model = total->models[i];
		json_array_append_new(
			list, json_pack("{s:s, s:o}", "name", model->name, "cells",
				      save_cells(model->cells, total->counter_count)));
	}
	return list;
}

static int model_index(const struct usage_total *total, const struct usage_model *model)
{
	for (size_t i = 0; i < total->model_count; i++) {
		if (total->models[i] == model) {
			return (int)i;
		}
	}
	return -1;
}

static json_t *save_messages(const struct usage_total *total)
{
	json_t *list = json_array();
	for (size_t i = 0; i < total->message_count; i++) {
		const struct usage_message *message = total->messages[i];
		json_t *parts = json_array();
		for (size_t c = 0; c < message->count; c++) {
			json_t *part = json_array();
			put_amount(part, message->parts[c].highest);
			put_amount(part, message->parts[c].added);
			json_array_append_new(parts, part);
		}
		json_array_append_new(
			list, json_pack("{s:s, s:i, s:o}", "id", message->id, "model",
				      model_index(total, message->model), "parts", parts));
	}
	return list;
}

static json_t *save_settled(const struct usage_total *total)
{
	struct buffer hex = {0};
	for (size_t i = 0; i < total->settled_count; i++) {
		buffer_printf(&hex, "%016llx", (unsigned long long)total->settled[i]);
	}
	json_t *text = json_stringn(hex.data ? hex.data : "", hex.len);
	buffer_finish(&hex);
	return text;
}

json_t *usage_total_save(const struct usage_total *total)
{
	json_t *counters = json_array();
	for (size_t c = 0; c < total->counter_count; c++) {
		json_array_append_new(counters, json_string(total->counters[c]));
	}
	json_t *gauges = json_array();
	put_amount(gauges, total->used);
	put_amount(gauges, total->size);
	return json_pack("{s:i, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "version", USAGE_SAVE_VERSION,
		"gauges", gauges, "partial", total->partial, "counters", counters, "whole",
		save_cells(total->whole, total->counter_count), "models", save_models(total),
		"messages", save_messages(total), "settled", save_settled(total));
}

/* --- load --- */

/** Reads the amount at index `index` of a list; false if it is missing or out of range. */
static bool get_amount(const json_t *list, size_t index, struct usage_amount *ret)
{
	const json_t *whole = json_array_get(list, 2 * index);
	const json_t *nano = json_array_get(list, 2 * index + 1);
	json_int_t w = json_integer_value(whole);
	json_int_t n = json_integer_value(nano);
	*ret = (struct usage_amount){.whole = w, .nano = (int32_t)n};
	return json_is_integer(whole) && json_is_integer(nano) && w >= 0 && w <= USAGE_FIGURE_MAX &&
	       n >= 0 && n < USAGE_NANO;
}

static bool is_list(const json_t *list, size_t size)
{
	return json_is_array(list) && json_array_size(list) == size;
}

static bool load_cell(const json_t *saved, struct usage_cell *cell)
{
	const json_t *undecided = json_array_get(saved, 10);
	cell->undecided = json_is_true(undecided);
	return is_list(saved, 11) && json_is_boolean(undecided) &&
	       get_amount(saved, 0, &cell->settled) && get_amount(saved, 1, &cell->parts) &&
	       get_amount(saved, 2, &cell->highest) && get_amount(saved, 3, &cell->offset) &&
	       get_amount(saved, 4, &cell->last);
}

static bool load_cells(const json_t *saved, struct usage_cell *cells, size_t count)
{
	bool good = is_list(saved, count);
	for (size_t c = 0; good && c < count; c++) {
		good = load_cell(json_array_get(saved, c), &cells[c]);
	}
	return good;
}

/** Gets a string of 1 to `max` bytes without NUL; else returns NULL. */
static const char *get_name(const json_t *saved, size_t max)
{
	const char *name = json_string_value(saved);
	size_t len = json_string_length(saved);
	return name && len && len <= max && strlen(name) == len ? name : NULL;
}

static bool load_counters(const json_t *saved, struct usage_total *total)
{
	if (!json_is_array(saved) || json_array_size(saved) > USAGE_COUNTERS_MAX) {
		return false;
	}
	size_t count = json_array_size(saved);
	for (size_t c = 0; c < count; c++) {
		const char *name = get_name(json_array_get(saved, c), USAGE_NAME_MAX);
		for (size_t i = 0; name && i < c; i++) {
			name = strcmp(total->counters[i], name) == 0 ? NULL : name;
		}
		if (!name) {
			return false;
		}
		memcpy(total->counters[c], name, strlen(name) + 1);
		total->counter_count = c + 1;
	}
	return true;
}

static bool load_models(const json_t *saved, struct usage_total *total)
{
	if (!json_is_array(saved) || json_array_size(saved) > USAGE_MODELS_MAX) {
		return false;
	}
	size_t i;
	json_t *item;
	json_array_foreach(saved, i, item) {
		const char *name = get_name(json_object_get(item, "name"), USAGE_MODEL_MAX);
		for (size_t k = 0; name && k < i; k++) {
			name = strcmp(total->models[k]->name, name) == 0 ? NULL : name;
		}
		if (!name) {
			return false;
		}
		struct usage_model *model = xcalloc(1, sizeof(*model));
		model->name = xstrdup(name);
		total->models[total->model_count++] = model;
		if (!load_cells(
			    json_object_get(item, "cells"), model->cells, total->counter_count)) {
			return false;
		}
	}
	return true;
}

static bool load_parts(const json_t *saved, size_t count_max, struct usage_message *message)
{
	size_t count = json_array_size(saved);
	if (!json_is_array(saved) || count > count_max) {
		return false;
	}
	message->parts = xcalloc(count + 1, sizeof(*message->parts));
	message->count = count;
	for (size_t c = 0; c < count; c++) {
		const json_t *part = json_array_get(saved, c);
		if (!is_list(part, 4) || !get_amount(part, 0, &message->parts[c].highest) ||
			!get_amount(part, 1, &message->parts[c].added)) {
			return false;
		}
	}
	return true;
}

static bool load_message(const json_t *item, struct usage_total *total)
{
	const char *id = get_name(json_object_get(item, "id"), MESSAGE_ID_MAX);
	const json_t *index = json_object_get(item, "model");
	json_int_t at = json_integer_value(index);
	if (!id || !json_is_integer(index) || at < -1 || at >= (json_int_t)total->model_count) {
		return false;
	}
	struct usage_message *message = xcalloc(1, sizeof(*message));
	message->id = xstrdup(id);
	message->fingerprint = usage_fingerprint(id);
	message->model = at < 0 ? NULL : total->models[at];
	total->messages[total->message_count++] = message;
	for (size_t i = 0; i + 1 < total->message_count; i++) {
		if (strcmp(total->messages[i]->id, id) == 0) {
			return false;
		}
	}
	return load_parts(json_object_get(item, "parts"), total->counter_count, message);
}

static bool load_messages(const json_t *saved, struct usage_total *total)
{
	if (!json_is_array(saved) || json_array_size(saved) > USAGE_MESSAGES_MAX) {
		return false;
	}
	size_t i;
	json_t *item;
	json_array_foreach(saved, i, item) {
		if (!load_message(item, total)) {
			return false;
		}
	}
	return true;
}

static bool load_settled(const json_t *saved, struct usage_total *total)
{
	const char *hex = json_string_value(saved);
	size_t len = json_string_length(saved);
	if (!hex || len % HEX_DIGITS || len / HEX_DIGITS > USAGE_SETTLED_MAX ||
		strspn(hex, "0123456789abcdef") != len) {
		return false;
	}
	size_t count = len / HEX_DIGITS;
	total->settled = xcalloc(count + 1, sizeof(*total->settled));
	total->settled_room = count + 1;
	total->settled_count = count;
	for (size_t i = 0; i < count; i++) {
		char digits[HEX_DIGITS + 1] = {0};
		memcpy(digits, hex + i * HEX_DIGITS, HEX_DIGITS);
		total->settled[i] = strtoull(digits, NULL, 16);
	}
	return true;
}

/** Whether no loaded total exceeds the limit, so that later sums cannot overflow. */
static bool is_in_range(const struct usage_total *total)
{
	for (size_t c = 0; c < total->counter_count; c++) {
		if (usage_counter_total(total, c).whole > USAGE_FIGURE_MAX) {
			return false;
		}
	}
	return true;
}

int usage_total_load(const json_t *saved, struct usage_total **ret_total)
{
	struct usage_total *total = usage_total_create();
	const json_t *version = json_object_get(saved, "version");
	const json_t *gauges = json_object_get(saved, "gauges");
	const json_t *partial = json_object_get(saved, "partial");
	total->partial = json_is_true(partial);
	bool good =
		json_is_integer(version) && json_integer_value(version) >= SAVE_OLDEST &&
		json_integer_value(version) <= USAGE_SAVE_VERSION && is_list(gauges, 4) &&
		get_amount(gauges, 0, &total->used) && get_amount(gauges, 1, &total->size) &&
		json_is_boolean(partial) &&
		load_counters(json_object_get(saved, "counters"), total) &&
		load_cells(json_object_get(saved, "whole"), total->whole, total->counter_count) &&
		load_models(json_object_get(saved, "models"), total) &&
		load_messages(json_object_get(saved, "messages"), total) &&
		load_settled(json_object_get(saved, "settled"), total) && is_in_range(total);
	if (!good) {
		usage_total_destroy(total);
		return -EBADMSG;
	}
	*ret_total = total;
	return 0;
}
