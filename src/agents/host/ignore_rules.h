/*
 * The .gitignore rules of a project, read from the outer directories to the inner ones. Anyone may
 * have written them, so their number is limited, and matching one costs at most its length times
 * the path's.
 */
#ifndef HOLDFAST_IGNORE_RULES_H
#define HOLDFAST_IGNORE_RULES_H

#include <stdbool.h>
#include <stddef.h>

struct ignore_rule;

/* Zeroed: no rules. */
struct ignore_rules {
	struct ignore_rule *rules;
	size_t count;
};

/**
 * Adds the patterns in the text of a .gitignore file in the directory `base` ("": the top). Outer
 * directories come first. Patterns beyond the limit are dropped.
 */
void ignore_rules_read(struct ignore_rules *rules, const char *base, const char *text, size_t len);
/** Whether a path below the top is ignored. Its parent directories are assumed not to be. */
bool ignore_rules_match(const struct ignore_rules *rules, const char *path, bool is_dir);
void ignore_rules_finish(struct ignore_rules *rules);

#endif
