#include "tools_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(const struct tool *tool)
{
	printf("Usage: holdfast %s\n\n%s", tool->usage, tool->help);
	printf("\nOptions:\n");
	for (const struct tool_option *option = tool->options; option->flag; option++) {
		printf("  %s%s%s\n      %s\n", option->flag, option->argument ? " " : "",
			option->argument ? option->argument : "", option->help);
	}
	printf("  --help\n      this text\n");
}

static int refuse(const struct tool *tool, const char *what, const char *which)
{
	diag(DIAG_ERROR, "%s%s; usage: holdfast %s", what, which, tool->usage);
	return -EINVAL;
}

/** Takes "--flag value", "--flag=value" and "--flag". Returns how many arguments were used. */
static int take_option(const struct tool *tool, char **argv, int left, const char *values[])
{
	for (size_t i = 0; tool->options[i].flag; i++) {
		const struct tool_option *option = &tool->options[i];
		size_t len = strlen(option->flag);
		if (strncmp(argv[0], option->flag, len) != 0) {
			continue;
		}
		if (argv[0][len] == '=' && option->argument) {
			values[i] = argv[0] + len + 1;
			return 1;
		}
		if (!argv[0][len] && !option->argument) {
			values[i] = option->flag;
			return 1;
		}
		if (!argv[0][len] && left > 1) {
			values[i] = argv[1];
			return 2;
		}
		if (!argv[0][len]) {
			return refuse(tool, argv[0], " needs a value");
		}
	}
	return refuse(tool, "there is no option ", argv[0]);
}

int tool_parse(
	const struct tool *tool, int argc, char **argv, const char *words[], const char *values[])
{
	size_t count = 0;
	for (int i = 0; i < argc;) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_help(tool);
			return 1;
		}
		int used = 1;
		if (argv[i][0] == '-' && argv[i][1]) {
			used = take_option(tool, argv + i, argc - i, values);
		} else if (count < tool->words_max) {
			words[count++] = argv[i];
		} else {
			return refuse(tool, "one argument too many: ", argv[i]);
		}
		if (used < 0) {
			return used;
		}
		i += used;
	}
	return count < tool->words_min ? refuse(tool, "an argument is missing", "") : 0;
}

int tool_bad_value(const struct tool_option *option, const char *value)
{
	diag(DIAG_ERROR, "%s \"%s\" is not %s: %s", option->flag, value, option->argument,
		option->help);
	return -EINVAL;
}

bool tool_parse_u64(const char *text, uint64_t *ret)
{
	char *end;
	size_t len = strspn(text, "0123456789");
	if (!len || text[len] || len > 18) {
		return false;
	}
	*ret = strtoull(text, &end, 10);
	return true;
}
