/*
 * The options of one part of the program, as rows: how each is called and described, and where its
 * value goes. The relay lists the groups of rows, and reads them from the arguments, the environment,
 * the file and the defaults (config.h).
 */
#ifndef HOLDFAST_OPTION_ROWS_H
#define HOLDFAST_OPTION_ROWS_H

#include "holdfast/options.h"

#include <stddef.h>

enum option_flag {
	/* May be given more than once. The values of the first source that has any are applied. */
	OPTION_REPEATS = 1 << 0,
	/* With OPTION_REPEATS: those of all sources are applied, the file's first, the arguments' last. */
	OPTION_ADDS_UP = 1 << 1,
	/* Values may contain blanks: only commas separate them in the variable. */
	OPTION_HAS_BLANKS = 1 << 2,
	/* Of NAME=VALUE only the name may be printed. */
	OPTION_IS_SECRET = 1 << 3,
};

struct option_row {
	struct option option;
	unsigned flags; /* enum option_flag */
	/**
	 * Stores a value at `place`, which is `offset` bytes into the state of the group. Strings
	 * outlive the state. Returns NULL, or what is wrong with the value (static text; "": the
	 * help text says it). NULL: the value is used elsewhere.
	 */
	const char *(*apply)(const struct option_row *row, void *place, const char *value);
	size_t offset;
	/* The limit that it sets (limits.h); "": those that the value names. Else NULL. */
	const char *limit;
};

struct option_group {
	const struct option_row *rows; /* ended by one without a flag */
	/**
	 * Called when the rows of all groups have been applied. Returns 0, or a negative errno after
	 * reporting the error. May be NULL.
	 */
	int (*check)(void *state);
	void (*finish)(void *state); /* accepts a state that is all zero; may be NULL */
};

/* For option_row.apply. */
const char *option_set_text(const struct option_row *row, void *place, const char *value);
/** The same, but an empty text is none. */
const char *option_set_name(const struct option_row *row, void *place, const char *value);
/** Sets a bool. */
const char *option_set_switch(const struct option_row *row, void *place, const char *value);
/** Of `on|off`, sets a bool that is true for off. */
const char *option_set_off(const struct option_row *row, void *place, const char *value);
/** Sets an int, or an enum, to the index of a word in the option's argument, such as `text|json`. */
const char *option_set_word(const struct option_row *row, void *place, const char *value);

/** Returns the row with this flag, which must be there. */
const struct option_row *option_row_find(const struct option_row *rows, const char *flag);

#endif
