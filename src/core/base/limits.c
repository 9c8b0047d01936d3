#include "holdfast/limits.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum unit { MS, BYTES, COUNT };

static const struct limit_row {
	const char *name;
	enum unit unit;
	size_t offset;
	size_t width;
	int64_t least;
	int64_t most;
	const char *code;
	const char *help;
} rows[] = {
#define LIMIT_ROW(type, name, unit, fallback, least, most, code, help) \
	{#name, unit, offsetof(struct limits, name), sizeof(type), least, most, code, help},
	LIMITS_TABLE(LIMIT_ROW)
#undef LIMIT_ROW
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

const char *limit_name(enum limit limit)
{
	return rows[limit - 1].name;
}

const char *limit_outcome(enum limit limit)
{
	return rows[limit - 1].code;
}

enum error_code limit_code(enum limit limit)
{
	const char *outcome = limit_outcome(limit);
	return outcome ? error_code_parse(outcome) : ERROR_NONE;
}

const struct limits *limits_default(void)
{
#define LIMIT_VALUE(type, name, unit, fallback, least, most, code, help) .name = (type)(fallback),
	static const struct limits defaults = {LIMITS_TABLE(LIMIT_VALUE)};
#undef LIMIT_VALUE
	return &defaults;
}

static void put(struct limits *limits, const struct limit_row *row, int64_t value)
{
	char *field = (char *)limits + row->offset;
	if (row->width == sizeof(int)) {
		int narrow = (int)value;
		memcpy(field, &narrow, sizeof(narrow));
	} else {
		memcpy(field, &value, sizeof(value));
	}
}

static int64_t get(const struct limits *limits, const struct limit_row *row)
{
	const char *field = (const char *)limits + row->offset;
	int narrow;
	int64_t value;
	if (row->width == sizeof(int)) {
		memcpy(&narrow, field, sizeof(narrow));
		return narrow;
	}
	memcpy(&value, field, sizeof(value));
	return value;
}

/**
 * Reads a whole number with a suffix that its unit allows. Returns -1 if it is invalid or too
 * large.
 */
static int64_t read_value(const char *text, enum unit unit)
{
	char *end;
	errno = 0;
	long long value = strtoll(text, &end, 10);
	if (end == text || errno || value < 0 || *text < '0' || *text > '9') {
		return -1;
	}
	int64_t factor = 1;
	if (unit == BYTES && *end && strchr("KMG", *end)) {
		factor = *end == 'K' ? LIMIT_KIB : *end == 'M' ? LIMIT_MIB : 1024 * LIMIT_MIB;
		end++;
	} else if (unit == MS && *end == 's') {
		factor = 1000;
		end++;
	}
	return *end || value > INT64_MAX / factor ? -1 : value * factor;
}

static int refuse(char **ret_why, int error, const char *what)
{
	*ret_why = xstrdup(what);
	return error;
}

int limits_set(struct limits *limits, const char *text, char **ret_why)
{
	const char *equals = strchr(text, '=');
	if (!equals) {
		return refuse(ret_why, -EINVAL, "expected NAME=VALUE");
	}
	for (size_t i = 0; i < ROW_COUNT; i++) {
		const struct limit_row *row = &rows[i];
		if (strncmp(row->name, text, (size_t)(equals - text)) != 0 ||
			row->name[equals - text]) {
			continue;
		}
		int64_t value = read_value(equals + 1, row->unit);
		if (value < 0) {
			static const char *const forms[] = {
				[MS] = "expected milliseconds, such as 500, or seconds, such as 2s",
				[BYTES] = "expected a size in bytes, such as 4096, 64K, 1M or 2G",
				[COUNT] = "expected a whole number",
			};
			return refuse(ret_why, -EINVAL, forms[row->unit]);
		}
		if (value < row->least || value > row->most) {
			char range[80];
			snprintf(range, sizeof(range), "it must be from %" PRId64 " to %" PRId64,
				row->least, row->most);
			return refuse(ret_why, -ERANGE, range);
		}
		put(limits, row, value);
		return 0;
	}
	return refuse(ret_why, -ENOENT, "there is no such limit");
}

static void write_value(char *out, size_t size, int64_t value, enum unit unit)
{
	if (unit == BYTES && value % LIMIT_MIB == 0) {
		snprintf(out, size, "%" PRId64 "M", value / LIMIT_MIB);
	} else if (unit == BYTES && value % LIMIT_KIB == 0) {
		snprintf(out, size, "%" PRId64 "K", value / LIMIT_KIB);
	} else {
		snprintf(out, size, "%" PRId64 "%s", value, unit == MS ? " ms" : "");
	}
}

/* The columns of limits_print() before the last one, which is text of any length. */
enum { PRINT_COLUMNS = 4 };

static void write_row(
	const struct limits *limits, const struct limit_row *row, char cells[PRINT_COLUMNS][80])
{
	char least[32];
	char most[32];
	write_value(least, sizeof(least), row->least, row->unit);
	write_value(most, sizeof(most), row->most, row->unit);
	snprintf(cells[0], 80, "%s", row->name);
	write_value(cells[1], 80, get(limits, row), row->unit);
	snprintf(cells[2], 80, "%s to %s", least, most);
	snprintf(cells[3], 80, "%s", row->code ? row->code : "-");
}

static void print_row(
	char cells[PRINT_COLUMNS][80], const int widths[PRINT_COLUMNS], const char *meaning)
{
	for (size_t c = 0; c < PRINT_COLUMNS; c++) {
		diag_print_text("%-*s  ", widths[c], cells[c]);
	}
	diag_print_text("%s\n", meaning);
}

void limits_print(const struct limits *limits)
{
	char heading[PRINT_COLUMNS][80] = {"NAME", "DEFAULT", "RANGE", "CODE"};
	char cells[PRINT_COLUMNS][80];
	int widths[PRINT_COLUMNS] = {4, 7, 5, 4};
	for (size_t i = 0; i < ROW_COUNT; i++) {
		write_row(limits, &rows[i], cells);
		for (size_t c = 0; c < PRINT_COLUMNS; c++) {
			int width = (int)strlen(cells[c]);
			widths[c] = width > widths[c] ? width : widths[c];
		}
	}
	print_row(heading, widths, "MEANING");
	for (size_t i = 0; i < ROW_COUNT; i++) {
		write_row(limits, &rows[i], cells);
		print_row(cells, widths, rows[i].help);
	}
}
