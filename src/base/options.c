#include "holdfast/options.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdbool.h>
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
	printf("Usage: holdfast %s\n\n%s\nOptions:\n", command->usage, command->help);
	for (const struct option *option = options_of(command); option->flag; option++) {
		printf("  %s%s%s\n      %s\n", option->flag, option->argument ? " " : "",
			option->argument ? option->argument : "", option->help);
		if (option->env) {
			printf("      %s, default: %s\n", option->env,
				option->fallback ? option->fallback : "none");
		}
	}
	printf("  --help\n      this text\n");
}

static int refuse(const struct command *command, const char *what, const char *which)
{
	diag(DIAG_ERROR, "%s%s; usage: holdfast %s", what, which, command->usage);
	return -EINVAL;
}

/** Returns how many arguments were used. */
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
	if (!option->flag || (is_joined && !option->argument)) {
		return refuse(command, "there is no option ", argv[0]);
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

static void take_rest(const struct command *command, const char *values[])
{
	const struct option *options = options_of(command);
	for (size_t i = 0; options[i].flag; i++) {
		const char *env = options[i].env ? getenv(options[i].env) : NULL;
		if (!values[i]) {
			values[i] = env && *env ? env : options[i].fallback;
		}
	}
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
	take_rest(command, values);
	return 0;
}

int options_refuse(const struct option *option, const char *value, const char *why)
{
	diag(DIAG_ERROR, "%s \"%s\"%s%s: %s", option->flag, value, why ? "" : " is not ",
		why ? "" : option->argument, why ? why : option->help);
	return -EINVAL;
}
