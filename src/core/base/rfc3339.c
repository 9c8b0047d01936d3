#include "holdfast/rfc3339.h"

#include <stddef.h>
#include <string.h>

#define MINUTES_A_DAY 1440

/** Reads exactly `len` digits. */
static bool read_digits(const char *text, size_t len, unsigned *ret)
{
	*ret = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9') {
			return false;
		}
		*ret = *ret * 10 + (unsigned)(text[i] - '0');
	}
	return true;
}

/** Reads one character of `before` and a two-digit number. */
static bool take_two(const char **at, const char *before, unsigned most, unsigned *ret)
{
	unsigned value;
	if (!**at || !strchr(before, **at)) {
		return false;
	}
	(*at)++;
	if (strlen(*at) < 2 || !read_digits(*at, 2, &value) || value > most) {
		return false;
	}
	*ret = value;
	*at += 2;
	return true;
}

/** Returns the number of days from 1970-01-01 to a Gregorian date. */
static int64_t days_of(int64_t year, unsigned month, unsigned day)
{
	year -= month <= 2;
	int64_t era = (year < 0 ? year - 399 : year) / 400; /* rounded down */
	int64_t in_era = year - era * 400;
	int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

static unsigned days_in(unsigned year, unsigned month)
{
	static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leaps = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	return days[month - 1] + (month == 2 && leaps ? 1U : 0U);
}

/** Reads an optional fraction of a second. Returns it in ms. */
static unsigned take_fraction(const char **at)
{
	unsigned ms = 0;
	if (**at != '.' || (*at)[1] < '0' || (*at)[1] > '9') {
		return 0;
	}
	(*at)++;
	for (unsigned unit = 100; **at >= '0' && **at <= '9'; (*at)++, unit /= 10) {
		ms += unit * (unsigned)(**at - '0');
	}
	return ms;
}

/** Reads Z or the offset from UTC, in minutes. */
static bool take_zone(const char **at, int *ret)
{
	unsigned hours;
	unsigned minutes;
	int sign = **at == '-' ? -1 : 1;
	*ret = 0;
	if (**at == 'Z' || **at == 'z') {
		(*at)++;
		return true;
	}
	if ((**at != '+' && **at != '-') || !take_two(at, "+-", 23, &hours) ||
		!take_two(at, ":", 59, &minutes)) {
		return false;
	}
	*ret = sign * (int)(hours * 60 + minutes);
	return true;
}

bool rfc3339_read(const char *text, int64_t *ret)
{
	unsigned year;
	unsigned month;
	unsigned day;
	unsigned hour;
	unsigned minute;
	unsigned second;
	int zone;
	if (strlen(text) < 20 || !read_digits(text, 4, &year)) {
		return false;
	}
	const char *at = text + 4;
	if (!take_two(&at, "-", 12, &month) || !month || !take_two(&at, "-", 31, &day) || !day ||
		day > days_in(year, month) || !take_two(&at, "Tt", 23, &hour) ||
		!take_two(&at, ":", 59, &minute) || !take_two(&at, ":", 60, &second)) {
		return false;
	}
	unsigned ms = take_fraction(&at);
	if (!take_zone(&at, &zone) || *at) {
		return false;
	}
	int64_t minutes = (days_of(year, month, day) * 24 + hour) * 60 + minute - zone;
	if (second == 60 && (minutes + 1) % MINUTES_A_DAY != 0) {
		return false;
	}
	*ret = minutes * 60000 + second * 1000 + ms;
	return true;
}
