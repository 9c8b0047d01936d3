#include "config_file.h"

#include "holdfast/beneath.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file with a longer line, or with more lines, is not a configuration file. */
#define LINE_SIZE 8192
#define LINES_MAX 10000

static int refuse(const char *path, unsigned number, const char *what, const char *which)
{
	diag(DIAG_ERROR, "%s:%u: %s%s", path, number, what, which);
	return -EINVAL;
}

static char *trim(char *text)
{
	text += strspn(text, " \t");
	size_t len = strlen(text);
	while (len && strchr(" \t\r\n", text[len - 1])) {
		text[--len] = '\0';
	}
	return text;
}

static int refuse_unknown(const struct config_file *file, const struct option *options,
	unsigned number, const char *name)
{
	const struct part *part = parts_lack_option(name);
	const char *near = options_nearest(options, name);
	if (part) {
		char *why = part_refusal(part, name);
		int r = refuse(file->path, number, why, "");
		free(why);
		return r;
	}
	diag(DIAG_ERROR, "%s:%u: unknown option %s%s%s%s; holdfast serve --help lists the options",
		file->path, number, name, near ? " (did you mean " : "", near ? near : "",
		near ? "?)" : "");
	return -EINVAL;
}

void config_file_add(struct config_file *file, size_t option, const char *value, unsigned number)
{
	file->lines = xrealloc(file->lines, (file->count + 1) * sizeof(*file->lines));
	file->lines[file->count++] =
		(struct config_line){.option = option, .value = xstrdup(value), .number = number};
}

static int add_line(
	struct config_file *file, const struct config_table *table, unsigned number, char *line)
{
	char *equals = strchr(line, '=');
	if (!equals) {
		return refuse(file->path, number, "expected NAME = VALUE: ", line);
	}
	*equals = '\0';
	const char *name = trim(line);
	const char *value = trim(equals + 1);
	long option = options_find(table->options, name);
	size_t at = 0;
	if (option < 0) {
		return refuse_unknown(file, table->options, number, name);
	}
	if (!(table->rows[option]->flags & OPTION_REPEATS) &&
		config_file_next(file, (size_t)option, &at)) {
		return refuse(file->path, number, "this option may be given only once: ", name);
	}
	config_file_add(file, (size_t)option, value, number);
	return 0;
}

static int read_lines(FILE *in, const struct config_table *table, struct config_file *file)
{
	char line[LINE_SIZE];
	int r = 0;
	for (unsigned number = 1; r == 0 && fgets(line, sizeof(line), in); number++) {
		size_t len = strlen(line);
		if (number > LINES_MAX || (len + 1 == sizeof(line) && line[len - 1] != '\n')) {
			return refuse(file->path, number, "this is not a configuration file", "");
		}
		char *text = trim(line);
		if (*text && *text != '#') {
			r = add_line(file, table, number, text);
		}
	}
	if (r == 0 && ferror(in)) {
		r = -errno;
		diag(DIAG_ERROR, "cannot read %s: %s", file->path, strerror(-r));
	}
	return r;
}

int config_file_read(const char *path, const struct config_table *table, struct config_file *ret)
{
	int fd = open_named(path, O_RDONLY, 0);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	*ret = (struct config_file){.path = xstrdup(path)};
	if (!in) {
		int r = -errno;
		diag(DIAG_ERROR, "--config: cannot read %s: %s", path, strerror(-r));
		return r;
	}
	int r = read_lines(in, table, ret);
	fclose(in);
	return r;
}

void config_file_finish(struct config_file *file)
{
	while (file->count) {
		free(file->lines[--file->count].value);
	}
	free(file->lines);
	free(file->path);
	*file = (struct config_file){0};
}

const struct config_line *config_file_next(
	const struct config_file *file, size_t option, size_t *at)
{
	while (*at < file->count) {
		const struct config_line *line = &file->lines[(*at)++];
		if (line->option == option) {
			return line;
		}
	}
	return NULL;
}

/* --- check-config --- */

static void append_value(struct buffer *out, bool is_secret, const char *value)
{
	const char *equals = is_secret ? strchr(value, '=') : NULL;
	buffer_append_str(out, out->len ? ", " : "");
	buffer_append(out, value, equals ? (size_t)(equals - value) : strlen(value));
	buffer_append_str(out, equals ? "=..." : "");
}

static void print(const struct option *option, const char *value, const char *source)
{
	diag_print("%-18s  %-40s  %s", option->flag + 2, value, source);
}

static bool print_env(const struct option *option, bool is_secret)
{
	const char *env = getenv(option->env);
	if (!env || !*env) {
		return false;
	}
	struct buffer value = {0};
	for (const char *at = env; is_secret && *at;) {
		size_t len = strcspn(at, ",");
		char *one = xstrndup(at, len);
		append_value(&value, true, one);
		free(one);
		at += len + (at[len] == ',');
	}
	print(option, is_secret ? buffer_cstr(&value) : env, option->env);
	buffer_finish(&value);
	return true;
}

static bool print_lines(
	const struct option *option, bool is_secret, const struct config_file *file, size_t number)
{
	const struct config_line *line;
	size_t at = 0;
	bool has_any = false;
	while ((line = config_file_next(file, number, &at))) {
		struct buffer value = {0};
		char *source = xprintf("%s:%u", file->path, line->number);
		append_value(&value, is_secret, line->value);
		print(option, buffer_cstr(&value), source);
		buffer_finish(&value);
		free(source);
		has_any = true;
	}
	return has_any;
}

/** Prints all values among the arguments as one. */
static bool print_given(
	const struct option *option, bool is_secret, const struct config_file *given, size_t number)
{
	struct buffer value = {0};
	const struct config_line *line;
	size_t at = 0;
	while ((line = config_file_next(given, number, &at))) {
		append_value(&value, is_secret, line->value);
	}
	if (value.len) {
		print(option, option->argument ? buffer_cstr(&value) : "on", "option");
	}
	bool is_given = value.len;
	buffer_finish(&value);
	return is_given;
}

void config_print_option(const struct config_table *table, size_t number,
	const struct config_file *given, const struct config_file *file)
{
	const struct option *option = &table->options[number];
	bool is_secret = table->rows[number]->flags & OPTION_IS_SECRET;
	bool adds_up = table->rows[number]->flags & OPTION_ADDS_UP;
	bool is_done = print_given(option, is_secret, given, number);
	if (!is_done || adds_up) {
		is_done = print_env(option, is_secret) || is_done;
	}
	if (!is_done || adds_up) {
		is_done = print_lines(option, is_secret, file, number) || is_done;
	}
	if (!is_done) {
		const char *none = option->argument ? "-" : "off";
		print(option, option->fallback ? option->fallback : none, "default");
	}
}
