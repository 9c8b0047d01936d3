/*
 * The examples of a file in the format of the CommonMark specification's spec.txt: markdown, a line
 * with a dot, the HTML it becomes, all that in a fence of 32 backticks; an arrow stands for a tab.
 */
#ifndef HOLDFAST_TESTS_EXAMPLES_H
#define HOLDFAST_TESTS_EXAMPLES_H

#include <stddef.h>

struct example {
	size_t number; /* from 1, as the specification counts them */
	const char *markdown; /* both end with a newline, or are empty; no NUL follows */
	size_t len;
	const char *html;
	size_t html_len;
};

/** Returns how many examples there were; 0 if the file cannot be read. */
size_t examples_each(
	const char *path, void (*visit)(void *arg, const struct example *example), void *arg);
/** The same for the specification, which HOLDFAST_SPEC_TXT names; 0, with a line, without it. */
size_t spec_examples_each(void (*visit)(void *arg, const struct example *example), void *arg);

#endif
