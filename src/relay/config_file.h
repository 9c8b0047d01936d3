/*
 * The file of `--config`: a line `name = value` for each option, named as its flag without the
 * dashes. Blank lines and lines that begin with # count for nothing; a value ends with its line,
 * without the blanks around it. An option that may be repeated has a line for each value.
 */
#ifndef HOLDFAST_CONFIG_FILE_H
#define HOLDFAST_CONFIG_FILE_H

#include "holdfast/buffer.h"
#include "holdfast/options.h"

#include <stdbool.h>
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
 * Reads a file. `may_repeat` tells of which options each value counts; another one may be there
 * once. Returns 0, or a negative errno after saying what is wrong, and where.
 */
int config_file_read(const char *path, const struct option *options,
	bool (*may_repeat)(size_t option), struct config_file *ret);
/** Accepts one that is all zero. */
void config_file_finish(struct config_file *file);
/** The first line of an option from `*at` on, which moves behind it; NULL: there is none. */
const struct config_line *config_file_next(
	const struct config_file *file, size_t option, size_t *at);

/** Appends a value behind those before it; of a NAME=VALUE that may be a secret only the name. */
void config_append_value(struct buffer *out, bool is_secret, const char *value);
/**
 * Prints an option, its value and where that is from, a line for each source that counts: its
 * arguments (`given`, empty: none), its variable, its lines of the file, its default. `adds_up`: all
 * of them count, not only the first.
 */
void config_print_option(const struct option *option, bool is_secret, bool adds_up,
	const struct buffer *given, const struct config_file *file, size_t number);

#endif
