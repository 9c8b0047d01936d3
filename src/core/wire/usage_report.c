/* Parses the data of a usage event: its mode, message and model, and its figures. */
#include "holdfast/usage_report.h"

#include <stdio.h>
#include <string.h>

#define NANO 1000000000

static bool read_amount(const json_t *value, struct usage_amount *ret)
{
	if (json_is_integer(value)) {
		*ret = (struct usage_amount){.whole = json_integer_value(value)};
		return ret->whole >= 0 && ret->whole <= USAGE_FIGURE_MAX;
	}
	double number = json_number_value(value);
	if (!(number >= 0 && number <= (double)USAGE_FIGURE_MAX)) {
		return false;
	}
	int64_t whole = (int64_t)number;
	int64_t nano = (int64_t)((number - (double)whole) * NANO + 0.5);
	*ret = (struct usage_amount){.whole = whole + nano / NANO, .nano = (int32_t)(nano % NANO)};
	return ret->whole <= USAGE_FIGURE_MAX;
}

static int read_mode(const json_t *data, struct usage_report *ret, struct refusal *refusal)
{
	static const char *const names[] = {
		[USAGE_DELTA] = "delta",
		[USAGE_CUMULATIVE] = "cumulative",
		[USAGE_CUMULATIVE_IN_MESSAGE] = "cumulative_in_message",
	};
	const json_t *mode = json_object_get(data, "mode");
	ret->mode = USAGE_CUMULATIVE;
	if (!mode) {
		return 0;
	}
	for (size_t i = 0; json_is_string(mode) && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(json_string_value(mode), names[i]) == 0) {
			ret->mode = (enum usage_mode)i;
			return 0;
		}
	}
	return refuse(refusal, ERROR_bad_request,
		"the mode of usage must be \"delta\", \"cumulative\" or \"cumulative_in_message\"");
}

/** Reads an optional string of 1 to `max` bytes. */
static int read_name(const json_t *data, const char *member, size_t max, const char **ret,
	struct refusal *refusal)
{
	const json_t *value = json_object_get(data, member);
	size_t len = json_string_length(value);
	if (json_is_null(value)) {
		return 0;
	}
	if (value && (!json_is_string(value) || !len || len > max)) {
		return refuse(refusal, ERROR_bad_request,
			"data of usage has \"%s\": it must be a string of 1 to %zu bytes", member,
			max);
	}
	*ret = value ? json_string_value(value) : *ret;
	return 0;
}

static int add_figure(
	struct usage_report *ret, const char *name, const json_t *value, struct refusal *refusal)
{
	struct usage_amount amount;
	if (!read_amount(value, &amount)) {
		return refuse(refusal, ERROR_bad_request,
			"data of usage has \"%.64s\": it must be a number from 0 to 2^53 - 1",
			name);
	}
	if (strcmp(name, "used") == 0 || strcmp(name, "size") == 0) {
		*(name[0] == 'u' ? &ret->used : &ret->size) = amount;
		return 0;
	}
	if (ret->count == USAGE_COUNTERS_MAX) {
		return refuse(refusal, ERROR_too_large, "one usage report has at most %d figures",
			USAGE_COUNTERS_MAX);
	}
	struct usage_figure *figure = &ret->figures[ret->count++];
	snprintf(figure->name, sizeof(figure->name), "%s", name);
	figure->amount = amount;
	return 0;
}

static int add_cost(struct usage_report *ret, const json_t *cost, struct refusal *refusal)
{
	const json_t *currency = json_object_get(cost, "currency");
	const char *code = json_string_value(currency);
	const json_t *amount = json_object_get(cost, "amount");
	if (!json_is_number(amount) || !code || strchr(code, ':') ||
		!token_is_valid(code, json_string_length(currency), 16)) {
		return refuse(refusal, ERROR_bad_request,
			"the cost of usage must be {\"amount\": number, \"currency\": a code such as \"USD\"}");
	}
	char name[USAGE_NAME_MAX + 1];
	snprintf(name, sizeof(name), "cost:%s", code);
	return add_figure(ret, name, amount, refusal);
}

/** Members of the usage total that are not figures, so no figure can have these names. */
static bool is_reserved(const char *name)
{
	return strcmp(name, "models") == 0 || strcmp(name, "more_costs") == 0 ||
	       strcmp(name, "partial") == 0;
}

static int read_member(
	struct usage_report *ret, const char *name, const json_t *value, struct refusal *refusal)
{
	if (strcmp(name, "total") == 0) {
		return refuse(refusal, ERROR_bad_request,
			"the \"total\" of usage is set by the server; leave it out");
	}
	if (strcmp(name, "cost") == 0 && !json_is_null(value)) {
		return add_cost(ret, value, refusal);
	}
	if (!json_is_number(value)) {
		return 0; /* other data of an agent; it stays in the event */
	}
	if (!token_is_valid(name, strlen(name), USAGE_NAME_MAX) || strchr(name, ':') ||
		is_reserved(name)) {
		return refuse(refusal, ERROR_bad_request,
			"a figure of usage may not be named \"%.64s\"; names match [A-Za-z0-9._-]{1,%d}",
			name, USAGE_NAME_MAX);
	}
	return add_figure(ret, name, value, refusal);
}

int usage_report_parse(const json_t *data, const char *message_id, struct usage_report *ret,
	struct refusal *refusal)
{
	*ret = (struct usage_report){.message_id = message_id};
	if (!json_is_object(data)) {
		return refuse(refusal, ERROR_bad_request, "an event needs \"data\", an object");
	}
	int r = read_mode(data, ret, refusal);
	r = r < 0 ? r : read_name(data, "message_id", MESSAGE_ID_MAX, &ret->message_id, refusal);
	r = r < 0 ? r : read_name(data, "model", USAGE_MODEL_MAX, &ret->model, refusal);
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)data, name, value) {
		r = r < 0 ? r : read_member(ret, name, value, refusal);
	}
	if (r < 0) {
		return r;
	}
	if (ret->count && !json_object_get(data, "mode")) {
		return refuse(refusal, ERROR_bad_request,
			"usage needs a \"mode\": \"delta\", \"cumulative\" or \"cumulative_in_message\"");
	}
	if (ret->mode == USAGE_CUMULATIVE_IN_MESSAGE && !ret->message_id) {
		return refuse(refusal, ERROR_bad_request,
			"usage that is cumulative_in_message needs the \"message_id\" of the message");
	}
	return 0;
}
