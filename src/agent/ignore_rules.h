/*
 * What the .gitignore files of a project leave out: their patterns, read from the outer directories to
 * the inner ones. Anybody may have written them, so there is a bound to how many there are, and none of
 * them costs more than its length times the path's.
 */
#ifndef HOLDFAST_IGNORE_RULES_H
#define HOLDFAST_IGNORE_RULES_H

#include <stdbool.h>
#include <stddef.h>

struct ignore_rule;

/* Zeroed: none. */
struct ignore_rules {
	struct ignore_rule *rules;
	size_t count;
};

/**
 * Takes the patterns in the text of a .gitignore, which lies in the directory `base` ("": the top). Those of
 * outer directories come first. What is too much is left out.
 */
void ignore_rules_read(struct ignore_rules *rules, const char *base, const char *text, size_t len);
/** Whether a path below the top is ignored; its directories are not. */
bool ignore_rules_match(const struct ignore_rules *rules, const char *path, bool is_dir);
void ignore_rules_finish(struct ignore_rules *rules);

#endif
