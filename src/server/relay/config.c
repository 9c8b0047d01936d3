#include "holdfast/config.h"

#include "config_file.h"
#include "config_internal.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/** What is needed while the options are read. */
struct reading {
	struct config *config;
	struct config_table table;
	struct config_file given; /* the values among the arguments, in their order */
	/* Of the options that cannot be repeated, from whichever source; NULL: not given. */
	const char *values[CONFIG_OPTIONS_MAX];
};

/* --- one value --- */

/** Returns a copy of the next text of a list, between which there is any of `separators`, or NULL. */
static char *next_text(const char **list, const char *separators)
{
	const char *at = *list + strspn(*list, separators);
	size_t len = strcspn(at, separators);
	*list = at + len;
	return len ? xstrndup(at, len) : NULL;
}

/** Sets a limit. An error names the option and the value as they were given. */
static int set_limit(
	struct config *config, const struct option_row *row, const char *text, const char *given)
{
	char *why;
	int r = limits_set(&config->limits, text, &why);
	if (r < 0) {
		diag(DIAG_ERROR, "%s \"%s\": %s%s", row->option.flag, given, why,
			*row->limit ? "" : "; holdfast limits lists them all");
		free(why);
	}
	return r;
}

static int set_limits(struct config *config, const struct option_row *row, const char *value)
{
	char *text = *row->limit ? xprintf("%s=%s", row->limit, value) : next_text(&value, ",");
	int r = 0;
	while (text && r == 0) {
		r = set_limit(config, row, text, *row->limit ? value : text);
		free(text);
		text = *row->limit || r < 0 ? NULL : next_text(&value, ",");
	}
	return r;
}

static int apply(struct reading *reading, size_t option, const char *value)
{
	const struct option_row *row = reading->table.rows[option];
	char *place = (char *)reading->config + reading->table.states[option] + row->offset;
	const char *fault = row->apply ? row->apply(row, place, value) : NULL;
	if (fault) {
		return options_refuse(&row->option, value, *fault ? fault : NULL);
	}
	return row->limit ? set_limits(reading->config, row, value) : 0;
}

/** Applies the values of a list. */
static int apply_list(
	struct reading *reading, size_t option, const char *list, const char *separators)
{
	char *one;
	int r = 0;
	while (r == 0 && (one = next_text(&list, separators))) {
		r = apply(reading, option, one);
		free(one);
	}
	return r;
}

/* --- values of an option that can be repeated --- */

static bool has_lines(const struct config_file *file, size_t option)
{
	size_t at = 0;
	return config_file_next(file, option, &at);
}

static int apply_lines(struct reading *reading, size_t option, const struct config_file *file)
{
	const struct config_line *line;
	size_t at = 0;
	int r = 0;
	while (r == 0 && (line = config_file_next(file, option, &at))) {
		r = apply(reading, option, line->value);
	}
	return r;
}

static int apply_env(struct reading *reading, size_t option, const char *env)
{
	bool has_blanks = reading->table.rows[option]->flags & OPTION_HAS_BLANKS;
	return apply_list(reading, option, env, has_blanks ? "," : ", \t\n");
}

/** Of the same name, a later value wins: so the file comes first and the arguments last. */
static int apply_all_sources(struct reading *reading, size_t option, const char *env)
{
	int r = apply_lines(reading, option, reading->config->file);
	r = r < 0 ? r : apply_env(reading, option, env);
	return r < 0 ? r : apply_lines(reading, option, &reading->given);
}

static int apply_repeated(struct reading *reading, size_t option)
{
	const struct option_row *row = reading->table.rows[option];
	const char *env = getenv(row->option.env);
	env = env ? env : "";
	if (row->flags & OPTION_ADDS_UP) {
		return apply_all_sources(reading, option, env);
	}
	if (has_lines(&reading->given, option)) {
		return apply_lines(reading, option, &reading->given);
	}
	if (*env) {
		return apply_env(reading, option, env);
	}
	if (has_lines(reading->config->file, option)) {
		return apply_lines(reading, option, reading->config->file);
	}
	return apply_list(reading, option, row->option.fallback ? row->option.fallback : "", ",");
}

/* --- all options --- */

/** Applies the options that name many limits, or those that do not. */
static int apply_options(struct reading *reading, bool name_limits)
{
	const struct config_table *table = &reading->table;
	int r = 0;
	for (size_t i = 0; i < table->count && r == 0; i++) {
		const struct option_row *row = table->rows[i];
		const char *value = reading->values[i];
		if ((row->limit && !*row->limit) != name_limits) {
			continue;
		}
		r = row->flags & OPTION_REPEATS ? apply_repeated(reading, i)
		    : value                     ? apply(reading, i, value)
						: 0;
	}
	return r;
}

static int note_given(void *owner, size_t option, const char *value)
{
	struct reading *reading = owner;
	config_file_add(&reading->given, option, value, 0);
	return 1;
}

/** The values of options that can be repeated have been noted. */
static int skip_repeated(void *owner, size_t option, const char *value)
{
	const struct reading *reading = owner;
	return (reading->table.rows[option]->flags & OPTION_REPEATS) != 0;
}

static const char *look_up(void *owner, size_t option)
{
	const struct reading *reading = owner;
	size_t at = 0;
	const struct config_line *line =
		reading->table.rows[option]->flags & OPTION_REPEATS
			? NULL
			: config_file_next(reading->config->file, option, &at);
	return line ? line->value : NULL;
}

static char *explain(const char *name)
{
	const struct part *part = parts_lack_option(name);
	char *flag = xprintf("--%s", name);
	char *why = part ? part_refusal(part, flag) : NULL;
	free(flag);
	return why;
}

static int check_environment(void)
{
	char *why = parts_refuse_environment();
	if (!why) {
		return 0;
	}
	diag(DIAG_ERROR, "%s", why);
	free(why);
	return -EINVAL;
}

static int read_file(struct reading *reading)
{
	size_t option = config_table_find(&reading->table, "config");
	const struct config_line *line;
	const char *env = getenv(reading->table.options[option].env);
	const char *path = env && *env ? env : NULL;
	size_t at = 0;
	while ((line = config_file_next(&reading->given, option, &at))) {
		path = line->value;
	}
	return path ? config_file_read(path, &reading->table, reading->config->file) : 0;
}

/** Calls config_finish() after an error, and after --help. */
static int parse(struct reading *reading, struct command command, int argc, char **argv)
{
	struct config *config = reading->config;
	*config = (struct config){.limits = *limits_default()};
	config->file = xcalloc(1, sizeof(*config->file));
	config_table_make(&reading->table);
	command.options = reading->table.options;
	command.explain = explain;
	command.take = note_given;
	int r = options_parse(&command, argc, argv, NULL, reading->values, reading);
	memset(reading->values, 0, sizeof(reading->values));
	config->is_log_level_given =
		has_lines(&reading->given, config_table_find(&reading->table, "log-level"));
	r = r != 0 ? r : check_environment();
	r = r != 0 ? r : read_file(reading);
	if (r == 0) {
		command.take = skip_repeated;
		command.lookup = look_up;
		r = options_parse(&command, argc, argv, NULL, reading->values, reading);
	}
	r = r != 0 ? r
		   : apply_options(reading, true); /* the options for one limit win over --limit */
	r = r != 0 ? r : apply_options(reading, false);
	r = r != 0 ? r : config_check_groups(config);
	if (r != 0) {
		config_finish(config);
	}
	return r;
}

int config_parse(struct config *config, int argc, char **argv)
{
	struct reading reading = {.config = config};
	int r = parse(&reading,
		(struct command){
			.usage = "serve [OPTIONS]",
			.help = "Runs the relay. SIGTERM and SIGINT stop it cleanly.\n\n"
				"Exit codes: 0 stopped, 1 it could not start or has failed, 2 its options are invalid.\n",
		},
		argc, argv);
	config_file_finish(&reading.given);
	return r;
}

int config_check(int argc, char **argv)
{
	struct config config;
	struct reading reading = {.config = &config};
	int r = parse(&reading,
		(struct command){
			.usage = "check-config [OPTIONS of serve]",
			.help = "Reads the options, the environment and the file of --config as holdfast serve does, and prints each\n"
				"option with its value and its source.\n\n"
				"Exit codes: 0 serve would run with them, 2 it would refuse them.\n",
		},
		argc, argv);
	for (size_t i = 0; i < reading.table.count && r == 0; i++) {
		config_print_option(&reading.table, i, &reading.given, config.file);
	}
	if (r == 0) {
		config_finish(&config);
	}
	config_file_finish(&reading.given);
	return r < 0 ? 2 : 0;
}

void config_finish(struct config *config)
{
	if (config->file) {
		config_file_finish(config->file);
		free(config->file);
		config->file = NULL;
	}
	config_finish_groups(config);
}
