#include "holdfast/option_rows.h"

#include <stdbool.h>
#include <string.h>

const char *option_set_text(const struct option_row *row, void *place, const char *value)
{
	*(const char **)place = value;
	return NULL;
}

const char *option_set_name(const struct option_row *row, void *place, const char *value)
{
	*(const char **)place = *value ? value : NULL;
	return NULL;
}

const char *option_set_switch(const struct option_row *row, void *place, const char *value)
{
	*(bool *)place = true;
	return NULL;
}

const char *option_set_word(const struct option_row *row, void *place, const char *value)
{
	const char *words = row->option.argument;
	size_t len = strlen(value);
	for (int i = 0; *words; i++) {
		size_t word = strcspn(words, "|");
		if (word == len && memcmp(words, value, len) == 0) {
			*(int *)place = i;
			return NULL;
		}
		words += word + (words[word] == '|');
	}
	return "";
}

const char *option_set_off(const struct option_row *row, void *place, const char *value)
{
	int word = 0;
	const char *fault = option_set_word(row, &word, value);
	*(bool *)place = word == 1;
	return fault;
}

const struct option_row *option_row_find(const struct option_row *rows, const char *flag)
{
	while (strcmp(rows->option.flag, flag) != 0) {
		rows++;
	}
	return rows;
}
