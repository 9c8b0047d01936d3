#include "holdfast/options.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option none[] = {{0}};

static const struct option *options_of(const struct command *command)
{
	return command->options ? command->options : none;
}

static void print_help(const struct command *command)
{
	diag_print_text("Usage: holdfast %s\n\n%s\nOptions:\n", command->usage, command->help);
	for (const struct option *option = options_of(command); option->flag; option++) {
		diag_print_text("  %s%s%s\n      %s\n", option->flag, option->argument ? " " : "",
			option->argument ? option->argument : "", option->help);
		if (option->env) {
			diag_print_text("      %s, default: %s\n", option->env,
				option->fallback ? option->fallback : "none");
		}
	}
	diag_print_text("  --help\n      this text\n");
}

/**
 * Levenshtein distance: the number of letters to change, add or remove to turn one into the other.
 */
static size_t distance(const char *a, const char *b)
{
	size_t len = strlen(b);
	size_t *row = xcalloc(len + 1, sizeof(*row));
	for (size_t j = 0; j <= len; j++) {
		row[j] = j;
	}
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= len; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);
			best = row[j] + 1 < best ? row[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			diagonal = row[j];
			row[j] = best;
		}
	}
	size_t d = row[len];
	free(row);
	return d;
}

void options_try_name(struct options_guess *guess, const char *name)
{
	size_t d = strlen(guess->wanted) <= OPTIONS_NAME_MAX ? distance(guess->wanted, name)
							     : SIZE_MAX;
	if (d <= (strlen(guess->wanted) + 1) / 3 && (!guess->name || d < guess->distance)) {
		guess->name = name;
		guess->distance = d;
	}
}

static const char *bare(const char *flag)
{
	return flag + strspn(flag, "-");
}

long options_find(const struct option *options, const char *name)
{
	for (long i = 0; options[i].flag; i++) {
		if (strcmp(bare(options[i].flag), name) == 0) {
			return i;
		}
	}
	return -1;
}

const char *options_nearest(const struct option *options, const char *name)
{
	struct options_guess guess = {.wanted = name};
	for (size_t i = 0; options[i].flag; i++) {
		options_try_name(&guess, bare(options[i].flag));
	}
	return guess.name;
}

static int refuse(const struct command *command, const char *what, const char *which)
{
	diag(DIAG_ERROR, "%s%s; usage: holdfast %s", what, which, command->usage);
	return -EINVAL;
}

static int refuse_unknown(const struct command *command, const char *given)
{
	char *name = xstrndup(bare(given), strcspn(bare(given), "="));
	char *why = command->explain ? command->explain(name) : NULL;
	const char *near = options_nearest(options_of(command), name);
	if (why) {
		diag(DIAG_ERROR, "%s", why);
	} else {
		diag(DIAG_ERROR, "unknown option %s%s%s%s; usage: holdfast %s", given,
			near ? " (did you mean --" : "", near ? near : "", near ? "?)" : "",
			command->usage);
	}
	free(why);
	free(name);
	return -EINVAL;
}

/** Returns how many arguments were consumed, or a negative errno. */
static int take_option(
	const struct command *command, char **argv, int left, const char *values[], void *owner)
{
	size_t len = strcspn(argv[0], "=");
	const struct option *options = options_of(command);
	size_t i = 0;
	while (options[i].flag &&
		(strncmp(options[i].flag, argv[0], len) != 0 || options[i].flag[len])) {
		i++;
	}
	const struct option *option = &options[i];
	bool is_joined = argv[0][len] == '=';
	if (!option->flag) {
		return refuse_unknown(command, argv[0]);
	}
	if (is_joined && !option->argument) {
		return refuse(command, option->flag, " takes no value");
	}
	if (option->argument && !is_joined && left < 2) {
		return refuse(command, argv[0], " needs a value");
	}
	const char *value = !option->argument ? option->flag
			    : is_joined       ? argv[0] + len + 1
					      : argv[1];
	int taken = command->take ? command->take(owner, i, value) : 0;
	if (taken < 0) {
		return taken;
	}
	if (!taken) {
		values[i] = value;
	}
	return option->argument && !is_joined ? 2 : 1;
}

/** Reads a switch whose value comes from a variable or a file. */
static int take_switch(const struct option *option, const char *text, const char **ret_value)
{
	static const char *const words[] = {"1", "on", "true", "yes", "0", "off", "false", "no"};
	size_t i = 0;
	size_t count = sizeof(words) / sizeof(words[0]);
	while (i < count && strcmp(words[i], text) != 0) {
		i++;
	}
	*ret_value = i < count / 2 ? option->flag : NULL;
	return i < count ? 0 : options_refuse(option, text, "expected on or off");
}

static int take_rest(const struct command *command, const char *values[], void *owner)
{
	const struct option *options = options_of(command);
	int r = 0;
	for (size_t i = 0; options[i].flag && r == 0; i++) {
		const char *env = options[i].env ? getenv(options[i].env) : NULL;
		const char *text = env && *env       ? env
				   : command->lookup ? command->lookup(owner, i)
						     : NULL;
		if (values[i]) {
			continue;
		}
		values[i] = text ? text : options[i].fallback;
		if (text && !options[i].argument) {
			r = take_switch(&options[i], text, &values[i]);
		}
	}
	return r;
}

int options_parse(const struct command *command, int argc, char **argv, const char *words[],
	const char *values[], void *owner)
{
	size_t count = 0;
	for (int i = 0; i < argc;) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_help(command);
			return 1;
		}
		int used = 1;
		if (argv[i][0] == '-' && argv[i][1]) {
			used = take_option(command, argv + i, argc - i, values, owner);
		} else if (count < command->words_max) {
			words[count++] = argv[i];
		} else {
			return refuse(command, "unexpected argument ", argv[i]);
		}
		if (used < 0) {
			return used;
		}
		i += used;
	}
	if (count < command->words_min) {
		return refuse(command, "an argument is missing", "");
	}
	return take_rest(command, values, owner);
}

int options_refuse(const struct option *option, const char *value, const char *why)
{
	diag(DIAG_ERROR, "%s \"%s\"%s%s: %s", option->flag, value, why ? "" : " is not ",
		why ? "" : option->argument, why ? why : option->help);
	return -EINVAL;
}
