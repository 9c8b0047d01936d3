/*
 * The parts of the program that a build can leave out (meson_options.txt), in one table. What only a
 * part that is left out has is refused by its name, and with the build option that adds it.
 */
#ifndef HOLDFAST_PARTS_H
#define HOLDFAST_PARTS_H

#include <stdbool.h>

struct route;

struct part {
	const char *name; /* as --version has it */
	const char *build_option; /* as meson setup has it */
	bool is_in;
	/* What only this part has: names with a blank between; "": none. */
	const char *commands;
	const char *options; /* of serve, without their dashes */
	/* Its addresses while it is left out, ended by a row without a path; NULL: none. */
	const struct route *paths;
};

/** The table, ended by a part without a name. */
extern const struct part build_parts[];

/** Returns the part that is left out and has this command, or NULL. */
const struct part *parts_lack_command(const char *name);
/** The same for an option of serve, named without its dashes. */
const struct part *parts_lack_option(const char *name);
/**
 * Returns a sentence that refuses the first environment variable that sets an option of a part that
 * is left out, or NULL. The caller frees it.
 */
char *parts_refuse_environment(void);
/** Returns a sentence that refuses `what`, which is of a part that is left out. The caller frees it. */
char *part_refusal(const struct part *part, const char *what);

#endif
