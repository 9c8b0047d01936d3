/*
 * Parses the arguments of a command: its words, and its options as "--flag value" or
 * "--flag=value". The value of an option that is not given comes from the environment, then from a
 * file, then from the default in the table; --help is answered from the same table.
 */
#ifndef HOLDFAST_OPTIONS_H
#define HOLDFAST_OPTIONS_H

#include <stddef.h>

struct option {
	const char *flag;
	const char *argument; /* NULL: a switch, without a value */
	/* Sources of the value if it is not given, in this order; NULL: not a source. */
	const char *env; /* a variable, used if set and not empty */
	const char *fallback;
	const char *help;
};

struct command {
	const char *usage; /* the text after "holdfast " */
	const char *help;
	const struct option *options; /* ends with one whose flag is NULL; may be NULL */
	size_t words_min;
	size_t words_max;
	/**
	 * For options that can be repeated; may be NULL. Called for each value given: returns 1 if
	 * it consumed it, 0 if not, or a negative errno after printing what is wrong.
	 */
	int (*take)(void *owner, size_t option, const char *value);
	/**
	 * Looks up an option that neither the arguments nor the environment set, in a file; may be
	 * NULL. Returns its value, borrowed for as long as `values` is used, or NULL.
	 */
	const char *(*lookup)(void *owner, size_t option);
	/**
	 * Says why an option that is not in the table, `name` without its dashes, is refused: the
	 * caller frees it. NULL: it is unknown. The function may be NULL.
	 */
	char *(*explain)(const char *name);
};

/* Longest word for which a similar name is suggested, in bytes. */
#define OPTIONS_NAME_MAX 64

/** The closest known name to a mistyped one. */
struct options_guess {
	const char *wanted;
	const char *name; /* NULL: no name is close */
	size_t distance;
};

/** Takes `name` as the guess if it is close to `wanted`, and closer than the previous ones. */
void options_try_name(struct options_guess *guess, const char *name);
/** Returns the index of the option whose flag without the dashes is `name`, or -1. */
long options_find(const struct option *options, const char *name);
/**
 * Returns the name of the option closest to `name`, without the dashes, or NULL if none is close.
 */
const char *options_nearest(const struct option *options, const char *name);

/**
 * Sorts arguments into `words` (room for words_max; unused entries stay as they are) and `values`
 * (one for each option; for a switch its flag, or NULL). Returns 0, 1 if --help was answered, or
 * -EINVAL after printing what is wrong.
 */
int options_parse(const struct command *command, int argc, char **argv, const char *words[],
	const char *values[], void *owner);
/** Prints that a value is invalid, and why (NULL: uses the option's help text). Returns -EINVAL. */
int options_refuse(const struct option *option, const char *value, const char *why);

#endif
