/*
 * Reads the file of `--config`: a line `name = value` for each option, named as its flag without
 * the dashes. Blank lines and lines that begin with # are ignored. A value is the rest of its line,
 * without the blanks around it. An option that may be repeated has a line for each value.
 */
#ifndef HOLDFAST_CONFIG_FILE_H
#define HOLDFAST_CONFIG_FILE_H

#include "config_table.h"

#include <stddef.h>

struct config_line {
	size_t option;
	char *value;
	unsigned number; /* from 1 */
};

struct config_file {
	char *path;
	struct config_line *lines;
	size_t count;
};

/**
 * Reads a file. An option that cannot be repeated must occur at most once. Returns 0, or a negative
 * errno after reporting the error with its line. Call config_file_finish() in either case.
 */
int config_file_read(const char *path, const struct config_table *table, struct config_file *ret);
/** Adds a value as if it stood in the file. */
void config_file_add(struct config_file *file, size_t option, const char *value, unsigned number);
/** Accepts a file that is all zero. */
void config_file_finish(struct config_file *file);
/** Returns the first line of an option from index `*at` on, and moves `*at` past it; or NULL. */
const struct config_line *config_file_next(
	const struct config_file *file, size_t option, size_t *at);

/**
 * Prints an option with its value and source: the first of its arguments (`given`), its variable,
 * its lines in the file and its default. If its values add up, each source is printed.
 */
void config_print_option(const struct config_table *table, size_t number,
	const struct config_file *given, const struct config_file *file);

#endif
