#include "ages.h"

#include "holdfast/sealed_line.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS ((int64_t)3600000)
#define FORMAT  1
/* Times beyond this are refused: adding to them could overflow. */
#define TIME_MAX (INT64_MAX / 8)

static void begin_boot(struct ages *ages, const struct clock *clock)
{
	clock_get_boot_id(clock, ages->boot_id);
	ages->offset = clock_now_ms(clock) - clock_elapsed_ms(clock);
	ages->told_from = ages->offset;
	for (size_t i = 0; i < ages->count; i++) {
		ages->steps[i].is_of_boot = false;
	}
}

void ages_init(struct ages *ages, const struct clock *clock)
{
	*ages = (struct ages){.agreed_at = clock_elapsed_ms(clock)};
	begin_boot(ages, clock);
}

bool ages_resume(struct ages *ages, const struct clock *clock)
{
	char boot_id[CLOCK_BOOT_ID_SIZE];
	clock_get_boot_id(clock, boot_id);
	ages->agreed_at = clock_elapsed_ms(clock);
	if (boot_id[0] && strcmp(boot_id, ages->boot_id) == 0) {
		return ages_see(ages, clock_now_ms(clock), ages->agreed_at) != 0;
	}
	begin_boot(ages, clock);
	return true;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/** Merges two steps into one by which no event is older than by either of them. */
static struct age_step merge(const struct age_step *a, const struct age_step *b)
{
	return (struct age_step){.from = a->from < b->from ? a->from : b->from,
		.to = larger(a->to, b->to),
		.shift = larger(a->shift, b->shift),
		.is_of_boot = a->is_of_boot && b->is_of_boot};
}

static void remove_step(struct ages *ages, size_t i)
{
	ages->count--;
	memmove(ages->steps + i, ages->steps + i + 1, (ages->count - i) * sizeof(*ages->steps));
}

static void add_step(struct ages *ages, const struct age_step *step)
{
	if (ages->count == AGES_STEPS_MAX) {
		ages->steps[0] = merge(&ages->steps[0], &ages->steps[1]);
		remove_step(ages, 1);
	}
	ages->steps[ages->count++] = *step;
}

int64_t ages_see(struct ages *ages, int64_t now, int64_t elapsed)
{
	int64_t shift = now - elapsed - ages->offset;
	if (llabs(shift) <= HOUR_MS) {
		return 0;
	}
	for (size_t i = ages->count; i-- > 0;) {
		struct age_step *step = &ages->steps[i];
		step->shift += step->is_of_boot ? shift : 0;
		if (llabs(step->shift) <= HOUR_MS) {
			remove_step(ages, i); /* the clock has been set back */
		}
	}
	/*
	 * The step ends now, not at the last time that the clock showed: ts never falls within a
	 * session, so one whose ts was ahead of the slow clock has given it to all inputs since.
	 */
	add_step(ages, &(struct age_step){.from = ages->told_from,
			       .to = shift > 0 ? now - 1 : now - shift,
			       .shift = shift,
			       .is_of_boot = true});
	ages->offset += shift;
	ages->told_from = now;
	ages->agreed_at = elapsed;
	return shift;
}

int64_t ages_true_ts(const struct ages *ages, int64_t ts, int64_t now)
{
	int64_t shift = 0;
	for (size_t i = 0; i < ages->count; i++) {
		const struct age_step *step = &ages->steps[i];
		/* A clock that was ahead shows the same times again later, rightly. */
		bool counts =
			ts >= step->from && ts <= step->to && (step->shift > 0 || now < step->from);
		if (counts && (!shift || step->shift > shift)) {
			shift = step->shift;
		}
	}
	return ts + shift;
}

/* --- clock.json --- */

void ages_append(const struct ages *ages, struct buffer *out)
{
	size_t start = out->len;
	buffer_printf(out,
		"{\"format\":%d,\"boot_id\":\"%s\",\"offset\":%lld,\"told_from\":%lld,\"steps\":[",
		FORMAT, ages->boot_id, (long long)ages->offset, (long long)ages->told_from);
	for (size_t i = 0; i < ages->count; i++) {
		const struct age_step *step = &ages->steps[i];
		buffer_printf(out, "%s{\"from\":%lld,\"to\":%lld,\"shift\":%lld,\"is_of_boot\":%s}",
			i ? "," : "", (long long)step->from, (long long)step->to,
			(long long)step->shift, step->is_of_boot ? "true" : "false");
	}
	buffer_append_char(out, ']');
	sealed_line_end(out, start);
}

static bool take_time(const json_t *json, const char *name, int64_t *ret)
{
	const json_t *value = json_object_get(json, name);
	*ret = json_integer_value(value);
	return json_is_integer(value) && *ret >= -TIME_MAX && *ret <= TIME_MAX;
}

static bool take_step(const json_t *json, struct age_step *ret)
{
	ret->is_of_boot = json_is_true(json_object_get(json, "is_of_boot"));
	return take_time(json, "from", &ret->from) && take_time(json, "to", &ret->to) &&
	       take_time(json, "shift", &ret->shift);
}

static int take_all(const json_t *json, struct ages *ret)
{
	int64_t format;
	const json_t *steps = json_object_get(json, "steps");
	const char *boot_id = json_string_value(json_object_get(json, "boot_id"));
	if (!take_time(json, "format", &format)) {
		return -EBADMSG;
	}
	if (format != FORMAT) {
		return -ENOTSUP;
	}
	if (!boot_id || strlen(boot_id) >= sizeof(ret->boot_id) ||
		!take_time(json, "offset", &ret->offset) ||
		!take_time(json, "told_from", &ret->told_from) || !json_is_array(steps) ||
		json_array_size(steps) > AGES_STEPS_MAX) {
		return -EBADMSG;
	}
	strcpy(ret->boot_id, boot_id);
	for (; ret->count < json_array_size(steps); ret->count++) {
		if (!take_step(json_array_get(steps, ret->count), &ret->steps[ret->count])) {
			return -EBADMSG;
		}
	}
	return 0;
}

int ages_parse(const char *line, size_t len, struct ages *ret)
{
	size_t body;
	*ret = (struct ages){0};
	if (!len || line[len - 1] != '\n' || !sealed_line_check(line, len - 1, &body)) {
		return -EBADMSG;
	}
	json_t *json = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	int r = take_all(json, ret);
	json_decref(json);
	return r;
}
