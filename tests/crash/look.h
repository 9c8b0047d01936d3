/* The commands of the program on a directory: what `holdfast verify` finds, counted, and others without their output. */
#ifndef HOLDFAST_TESTS_LOOK_H
#define HOLDFAST_TESTS_LOOK_H

#include "holdfast/store_files.h"

#include <stddef.h>

struct found {
	size_t problems;
	size_t notes;
	char first[600]; /* place and text of the first problem, or else note */
};

/** Checks files that are open. */
struct found look_in(const struct store_files *files);
/** Checks a directory that no server is at work in. */
struct found look(const char *dir);
void assert_clean(const char *dir);
/** There may be notes. */
void assert_no_problem(const char *dir);

/**
 * Runs a command of the program on a directory, with an option (NULL: none), without its output;
 * returns its exit code.
 */
int run_quietly(int (*tool)(int argc, char **argv), const char *dir, const char *option);

#endif
