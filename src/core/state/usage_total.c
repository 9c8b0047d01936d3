/* The arithmetic of usage totals: see usage_total.h for its rules. */
#include "usage_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* --- amounts --- */

static bool less(struct usage_amount a, struct usage_amount b)
{
	return a.whole < b.whole || (a.whole == b.whole && a.nano < b.nano);
}

static bool is_zero(struct usage_amount a)
{
	return !a.whole && !a.nano;
}

static struct usage_amount greater(struct usage_amount a, struct usage_amount b)
{
	return less(a, b) ? b : a;
}

static struct usage_amount sum(struct usage_amount a, struct usage_amount b)
{
	int32_t nano = a.nano + b.nano;
	return (struct usage_amount){
		.whole = a.whole + b.whole + nano / USAGE_NANO, .nano = nano % USAGE_NANO};
}

/** a - b, or 0 if b is greater. */
static struct usage_amount rest(struct usage_amount a, struct usage_amount b)
{
	if (less(a, b)) {
		return (struct usage_amount){0};
	}
	bool borrow = a.nano < b.nano;
	return (struct usage_amount){.whole = a.whole - b.whole - borrow,
		.nano = a.nano - b.nano + (borrow ? USAGE_NANO : 0)};
}

/* --- counters --- */

/** The amount that the current source used, given the sum of its parts. */
static struct usage_amount cell_used(const struct usage_cell *cell, struct usage_amount parts)
{
	return greater(rest(cell->highest, cell->offset), parts);
}

static struct usage_amount whole_used(const struct usage_total *total, size_t counter)
{
	struct usage_amount parts = total->whole[counter].parts;
	for (size_t i = 0; i < total->model_count; i++) {
		const struct usage_cell *cell = &total->models[i]->cells[counter];
		parts = sum(parts, cell_used(cell, cell->parts));
	}
	return cell_used(&total->whole[counter], parts);
}

struct usage_amount usage_counter_total(const struct usage_total *total, size_t counter)
{
	return sum(total->whole[counter].settled, whole_used(total, counter));
}

static struct usage_amount model_total(const struct usage_model *model, size_t counter)
{
	const struct usage_cell *cell = &model->cells[counter];
	return sum(cell->settled, cell_used(cell, cell->parts));
}

/** Takes a cumulative figure. A 0 has no effect: it does not tell how a resumed source counts. */
static void cell_report(struct usage_cell *cell, struct usage_amount figure)
{
	if (is_zero(figure)) {
		return;
	}
	if (cell->undecided && less(figure, cell->last)) {
		cell->offset = (struct usage_amount){0};
	}
	cell->undecided = false;
	cell->highest = greater(cell->highest, figure);
}

static void cell_new_source(struct usage_cell *cell, struct usage_amount used, bool resumed)
{
	struct usage_amount counted = sum(cell->offset, used);
	if (!resumed) {
		counted = (struct usage_amount){0};
		cell->last = counted;
	} else if (!cell->undecided) {
		cell->last = is_zero(cell->highest) ? counted : cell->highest;
	}
	cell->settled = sum(cell->settled, used);
	cell->offset = counted;
	cell->undecided = resumed;
	cell->parts = (struct usage_amount){0};
	cell->highest = (struct usage_amount){0};
}

void usage_total_new_source(struct usage_total *total, bool resumed)
{
	for (size_t c = 0; c < total->counter_count; c++) {
		cell_new_source(&total->whole[c], whole_used(total, c), resumed);
		for (size_t i = 0; i < total->model_count; i++) {
			struct usage_cell *cell = &total->models[i]->cells[c];
			cell_new_source(cell, cell_used(cell, cell->parts), resumed);
		}
	}
}

static size_t find_counter(const struct usage_total *total, const char *name)
{
	size_t c = 0;
	while (c < total->counter_count && strcmp(total->counters[c], name) != 0) {
		c++;
	}
	return c;
}

static size_t take_counter(struct usage_total *total, const char *name)
{
	size_t c = find_counter(total, name);
	if (c == total->counter_count) {
		total->counter_count++;
		memcpy(total->counters[c], name, strlen(name) + 1);
	}
	return c;
}

/* --- models and messages --- */

static struct usage_model *find_model(const struct usage_total *total, const char *name)
{
	for (size_t i = 0; i < total->model_count; i++) {
		if (strcmp(total->models[i]->name, name) == 0) {
			return total->models[i];
		}
	}
	return NULL;
}

static struct usage_model *take_model(struct usage_total *total, const char *name)
{
	struct usage_model *model = name ? find_model(total, name) : NULL;
	if (name && !model) {
		model = xcalloc(1, sizeof(*model));
		model->name = xstrdup(name);
		total->models[total->model_count++] = model;
	}
	return model;
}

uint64_t usage_fingerprint(const char *id)
{
	return XXH3_64bits(id, strlen(id));
}

static void free_message(struct usage_message *message)
{
	free(message->id);
	free(message->parts);
	free(message);
}

static bool is_settled(const struct usage_total *total, uint64_t fingerprint)
{
	for (size_t i = 0; i < total->settled_count; i++) {
		if (total->settled[i] == fingerprint) {
			return true;
		}
	}
	return false;
}

/** Finds a message and marks it as the most recently reported one. */
static struct usage_message *find_message(struct usage_total *total, const char *id)
{
	uint64_t fingerprint = usage_fingerprint(id);
	for (size_t i = total->message_count; i-- > 0;) {
		struct usage_message *message = total->messages[i];
		if (message->fingerprint == fingerprint && strcmp(message->id, id) == 0) {
			memmove(&total->messages[i], &total->messages[i + 1],
				(total->message_count - 1 - i) * sizeof(message));
			total->messages[total->message_count - 1] = message;
			return message;
		}
	}
	return NULL;
}

static void settle_oldest(struct usage_total *total)
{
	if (total->settled_count == total->settled_room) {
		total->settled_room = total->settled_room ? 2 * total->settled_room : 64;
		total->settled =
			xrealloc(total->settled, total->settled_room * sizeof(*total->settled));
	}
	total->settled[total->settled_count++] = total->messages[0]->fingerprint;
	free_message(total->messages[0]);
	memmove(&total->messages[0], &total->messages[1],
		--total->message_count * sizeof(total->messages[0]));
}

/** Finds or adds a message. Returns NULL if it is settled, or if there is no room for another. */
static struct usage_message *take_message(
	struct usage_total *total, const char *id, bool *ret_settled)
{
	struct usage_message *message = find_message(total, id);
	*ret_settled = !message && is_settled(total, usage_fingerprint(id));
	if (message || *ret_settled) {
		return message;
	}
	if (total->message_count == USAGE_MESSAGES_MAX) {
		if (total->settled_count == USAGE_SETTLED_MAX) {
			return NULL;
		}
		settle_oldest(total);
	}
	message = xcalloc(1, sizeof(*message));
	message->id = xstrdup(id);
	message->fingerprint = usage_fingerprint(id);
	total->messages[total->message_count++] = message;
	return message;
}

static struct usage_part *take_part(struct usage_message *message, size_t counter)
{
	if (counter >= message->count) {
		message->parts = xrealloc(message->parts, (counter + 1) * sizeof(*message->parts));
		memset(&message->parts[message->count], 0,
			(counter + 1 - message->count) * sizeof(*message->parts));
		message->count = counter + 1;
	}
	return &message->parts[counter];
}

/** Takes a figure of a message. Returns by how much the message's amount has grown. */
static struct usage_amount part_report(
	struct usage_part *part, enum usage_mode mode, struct usage_amount figure)
{
	struct usage_amount before = greater(part->highest, part->added);
	if (mode == USAGE_DELTA) {
		part->added = sum(part->added, figure);
	} else {
		part->highest = greater(part->highest, figure);
	}
	return rest(greater(part->highest, part->added), before);
}

/* --- a report --- */

int usage_total_check(
	const struct usage_total *total, const struct usage_report *report, struct refusal *refusal)
{
	size_t counters = total->counter_count;
	for (size_t i = 0; i < report->count; i++) {
		const struct usage_figure *figure = &report->figures[i];
		size_t c = find_counter(total, figure->name);
		if (c == total->counter_count) {
			counters++;
		} else if (sum(usage_counter_total(total, c), figure->amount).whole >=
			   USAGE_FIGURE_MAX) {
			return refuse(refusal, ERROR_too_large,
				"the total of \"%s\" would pass 2^53 - 1", figure->name);
		}
	}
	if (counters > USAGE_COUNTERS_MAX) {
		return refuse(refusal, ERROR_too_large,
			"a session counts at most %d kinds of figures", USAGE_COUNTERS_MAX);
	}
	if (report->model && total->model_count == USAGE_MODELS_MAX &&
		!find_model(total, report->model)) {
		return refuse(refusal, ERROR_too_large,
			"a session counts at most %d models by name; leave \"model\" out",
			USAGE_MODELS_MAX);
	}
	return 0;
}

/** The message and model that a report's figures are added to. */
struct place {
	struct usage_message *message; /* NULL: of no message */
	struct usage_model *model; /* NULL: of no model */
};

/**
 * Finds the place for a report. False if its message is not counted any more: ignore the figures.
 */
static bool find_place(
	struct usage_total *total, const struct usage_report *report, struct place *ret)
{
	*ret = (struct place){.model = take_model(total, report->model)};
	if (!report->message_id || report->mode == USAGE_CUMULATIVE) {
		return true;
	}
	bool settled;
	ret->message = take_message(total, report->message_id, &settled);
	if (!ret->message) {
		total->partial = total->partial || (!settled && report->mode != USAGE_DELTA);
		return report->mode == USAGE_DELTA;
	}
	if (!ret->message->model) {
		ret->message->model = ret->model;
	}
	ret->model = ret->message->model;
	return true;
}

/** Adds a figure. Returns whether the counter, or that of the model, has grown. */
static bool put_figure(struct usage_total *total, const struct place *place, size_t counter,
	enum usage_mode mode, struct usage_amount amount)
{
	struct usage_cell *cell =
		place->model ? &place->model->cells[counter] : &total->whole[counter];
	struct usage_amount before = usage_counter_total(total, counter);
	struct usage_amount model_before = {0};
	if (place->model) {
		model_before = model_total(place->model, counter);
	}
	if (mode == USAGE_CUMULATIVE) {
		cell_report(cell, amount);
	} else if (place->message) {
		struct usage_part *part = take_part(place->message, counter);
		cell->parts = sum(cell->parts, part_report(part, mode, amount));
	} else {
		cell->parts = sum(cell->parts, amount);
	}
	return less(before, usage_counter_total(total, counter)) ||
	       (place->model && less(model_before, model_total(place->model, counter)));
}

static bool put_gauge(struct usage_amount *gauge, struct usage_amount newest)
{
	if (is_zero(newest) || (!less(*gauge, newest) && !less(newest, *gauge))) {
		return false;
	}
	*gauge = newest;
	return true;
}

int usage_total_add(struct usage_total *total, const struct usage_report *report)
{
	struct refusal refusal;
	if (usage_total_check(total, report, &refusal) < 0) {
		return -ENOSPC;
	}
	bool changed = put_gauge(&total->used, report->used);
	changed |= put_gauge(&total->size, report->size);
	bool partial = total->partial;
	size_t counters = total->counter_count;
	struct place place;
	bool counts = find_place(total, report, &place);
	for (size_t i = 0; counts && i < report->count; i++) {
		size_t c = take_counter(total, report->figures[i].name);
		changed |= put_figure(total, &place, c, report->mode, report->figures[i].amount);
	}
	return changed || counters != total->counter_count || partial != total->partial;
}

/* --- life --- */

struct usage_total *usage_total_create(void)
{
	return xcalloc(1, sizeof(struct usage_total));
}

void usage_total_destroy(struct usage_total *total)
{
	if (!total) {
		return;
	}
	for (size_t i = 0; i < total->model_count; i++) {
		free(total->models[i]->name);
		free(total->models[i]);
	}
	for (size_t i = 0; i < total->message_count; i++) {
		free_message(total->messages[i]);
	}
	free(total->settled);
	free(total);
}

static struct usage_model *copy_model(const struct usage_model *model)
{
	struct usage_model *copy = xmalloc(sizeof(*copy));
	*copy = *model;
	copy->name = xstrdup(model->name);
	return copy;
}

static struct usage_model *same_model(const struct usage_total *copy,
	const struct usage_total *total, const struct usage_model *model)
{
	size_t i = 0;
	while (i < total->model_count && total->models[i] != model) {
		i++;
	}
	return i < total->model_count ? copy->models[i] : NULL;
}

static struct usage_message *copy_message(const struct usage_message *message)
{
	struct usage_message *copy = xmalloc(sizeof(*copy));
	*copy = *message;
	copy->id = xstrdup(message->id);
	copy->parts = xcalloc(message->count + 1, sizeof(*copy->parts));
	for (size_t i = 0; i < message->count; i++) {
		copy->parts[i] = message->parts[i];
	}
	return copy;
}

struct usage_total *usage_total_copy(const struct usage_total *total)
{
	struct usage_total *copy = xmalloc(sizeof(*copy));
	*copy = *total;
	for (size_t i = 0; i < total->model_count; i++) {
		copy->models[i] = copy_model(total->models[i]);
	}
	for (size_t i = 0; i < total->message_count; i++) {
		copy->messages[i] = copy_message(total->messages[i]);
		copy->messages[i]->model = same_model(copy, total, total->messages[i]->model);
	}
	copy->settled_room = total->settled_count + 1;
	copy->settled = xcalloc(copy->settled_room, sizeof(*copy->settled));
	for (size_t i = 0; i < total->settled_count; i++) {
		copy->settled[i] = total->settled[i];
	}
	return copy;
}

bool usage_total_is_empty(const struct usage_total *total)
{
	return !total->counter_count && !total->model_count && !total->message_count &&
	       is_zero(total->used) && is_zero(total->size);
}

bool usage_total_is_behind(const struct usage_total *total, const struct usage_total *other)
{
	for (size_t c = 0; c < other->counter_count; c++) {
		size_t own = find_counter(total, other->counters[c]);
		if (own == total->counter_count ||
			less(usage_counter_total(total, own), usage_counter_total(other, c))) {
			return true;
		}
	}
	return false;
}

/* --- the total as JSON --- */

static json_t *number(struct usage_amount amount)
{
	return amount.nano ? json_real((double)amount.whole + (double)amount.nano / USAGE_NANO)
			   : json_integer(amount.whole);
}

static bool is_cost(const struct usage_total *total, size_t counter)
{
	return strncmp(total->counters[counter], "cost:", 5) == 0;
}

/** `cost` has the currency that was reported first, in models, too; others are in `more_costs`. */
static void show_cost(
	json_t *out, const struct usage_total *total, size_t counter, struct usage_amount amount)
{
	json_t *cost = json_pack(
		"{s:o, s:s}", "amount", number(amount), "currency", total->counters[counter] + 5);
	size_t first = 0;
	while (!is_cost(total, first)) {
		first++;
	}
	json_t *more = json_object_get(out, "more_costs");
	if (counter == first) {
		json_object_set_new(out, "cost", cost);
	} else if (more) {
		json_array_append_new(more, cost);
	} else {
		json_object_set_new(out, "more_costs", json_pack("[o]", cost));
	}
}

static void show(
	json_t *out, const struct usage_total *total, size_t counter, struct usage_amount amount)
{
	if (is_cost(total, counter)) {
		show_cost(out, total, counter, amount);
	} else {
		json_object_set_new(out, total->counters[counter], number(amount));
	}
}

/** The totals of models; a model has only those counters that are not 0. */
static json_t *show_models(const struct usage_total *total)
{
	json_t *models = json_object();
	for (size_t i = 0; i < total->model_count; i++) {
		json_t *out = json_object();
		for (size_t c = 0; c < total->counter_count; c++) {
			struct usage_amount amount = model_total(total->models[i], c);
			if (!is_zero(amount)) {
				show(out, total, c, amount);
			}
		}
		if (json_object_size(out)) {
			json_object_set_new(models, total->models[i]->name, out);
		} else {
			json_decref(out);
		}
	}
	return models;
}

json_t *usage_total_json(const struct usage_total *total)
{
	json_t *out = json_object();
	if (!is_zero(total->used)) {
		json_object_set_new(out, "used", number(total->used));
	}
	if (!is_zero(total->size)) {
		json_object_set_new(out, "size", number(total->size));
	}
	for (size_t c = 0; c < total->counter_count; c++) {
		show(out, total, c, usage_counter_total(total, c));
	}
	json_t *models = show_models(total);
	if (json_object_size(models)) {
		json_object_set_new(out, "models", models);
	} else {
		json_decref(models);
	}
	if (total->partial) {
		json_object_set_new(out, "partial", json_true());
	}
	if (!json_object_size(out)) {
		json_decref(out);
		return json_null();
	}
	return out;
}
