/*
 * The arguments of a command of the program: its words, and its options as "--flag value" or
 * "--flag=value". What they leave open comes from the environment, then from a file, then from the
 * table's defaults; --help is answered from the same table.
 */
#ifndef HOLDFAST_OPTIONS_H
#define HOLDFAST_OPTIONS_H

#include <stddef.h>

struct option {
	const char *flag;
	const char *argument; /* NULL: it takes none */
	/* Where its value comes from if it is not given; NULL: from nowhere. */
	const char *env; /* a variable that is set and not empty */
	const char *fallback;
	const char *help;
};

struct command {
	const char *usage; /* behind "holdfast " */
	const char *help;
	const struct option *options; /* ended by one without a flag; NULL: none */
	size_t words_min;
	size_t words_max;
	/**
	 * NULL, or for options of which each value counts: whether it took this one, or a negative
	 * errno after saying what is wrong.
	 */
	int (*take)(void *owner, size_t option, const char *value);
	/**
	 * NULL, or what a file says of an option that neither the arguments nor the environment
	 * have; NULL: nothing. Borrowed for as long as the values are used.
	 */
	const char *(*lookup)(void *owner, size_t option);
};

/* Names that are longer are nobody's slip of the finger. */
#define OPTIONS_NAME_MAX 64

/** The name that somebody may have meant. */
struct options_guess {
	const char *wanted;
	const char *name; /* NULL: none is near */
	size_t distance;
};

/** Takes a name if it is near, and nearer than those before. */
void options_try_name(struct options_guess *guess, const char *name);
/** An option by its flag without the dashes; -1: there is none. */
long options_find(const struct option *options, const char *name);
/** The name of the option that is most like it, without the dashes; NULL: none is. */
const char *options_nearest(const struct option *options, const char *name);

/**
 * Sorts arguments into `words` (room for words_max, NULL where there is none) and `values` (one for
 * each option; of one without an argument its flag). Returns 0; 1 if --help has been answered; or
 * -EINVAL after saying what is wrong.
 */
int options_parse(const struct command *command, int argc, char **argv, const char *words[],
	const char *values[], void *owner);
/** Says that a value is not good, and why (NULL: the table tells); returns -EINVAL. */
int options_refuse(const struct option *option, const char *value, const char *why);

#endif
