#include "ignore_rules.h"

#include "holdfast/beneath.h"
#include "holdfast/buffer.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define RULES_MAX   ((size_t)2000)
#define PATTERN_MAX ((size_t)256) /* bytes */

struct ignore_rule {
	char *base;
	char *pattern;
	bool is_negated; /* the rule re-includes what it matches */
	bool is_for_dirs;
	bool is_path; /* matches the whole path below `base`, not a name */
};

/* --- patterns --- */

/** Matches one element of the pattern against `c`; *at moves behind the element. */
static bool match_one(const char **at, const char *end, char c)
{
	const char *p = (*at)++;
	if (*p == '?') {
		return true;
	}
	if (*p == '\\' && p + 1 < end) {
		return *(*at)++ == c;
	}
	if (*p != '[') {
		return *p == c;
	}
	const char *close = p + 1 + (p + 1 < end && (p[1] == '!' || p[1] == '^'));
	close += close < end && *close == ']';
	while (close < end && *close != ']') {
		bool is_class = *close == '[' && close + 1 < end && close[1] == ':';
		const char *last = is_class ? memmem(close, (size_t)(end - close), ":]", 2) : NULL;
		close = last ? last + 2 : close + 1;
	}
	if (close >= end) {
		return false;
	}
	char set[PATTERN_MAX + 1];
	memcpy(set, p, (size_t)(close + 1 - p));
	set[close + 1 - p] = '\0';
	*at = close + 1;
	return fnmatch(set, (const char[]){c, '\0'}, 0) == 0;
}

/**
 * Matches a name against a pattern without slashes. Backtracks to the last star only, so it is
 * never slow.
 */
static bool match_name(const char *p, size_t p_len, const char *s, size_t s_len)
{
	const char *p_end = p + p_len;
	const char *s_end = s + s_len;
	const char *star = NULL;
	const char *star_s = NULL;
	while (s < s_end) {
		const char *next = p;
		if (p < p_end && *p == '*') {
			star = ++p;
			star_s = s;
		} else if (p < p_end && match_one(&next, p_end, *s)) {
			p = next;
			s++;
		} else if (star) {
			p = star;
			s = ++star_s;
		} else {
			return false;
		}
	}
	while (p < p_end && *p == '*') {
		p++;
	}
	return p == p_end;
}

static const char *next_name(const char *at)
{
	at += strcspn(at, "/");
	return at + (*at == '/');
}

/** Matches a path against a pattern, name by name; "**" matches any number of names. */
static bool match_path(const char *p, const char *s)
{
	const char *star = NULL;
	const char *star_s = NULL;
	while (*s) {
		size_t len = strcspn(p, "/");
		if (len == 2 && memcmp(p, "**", 2) == 0) {
			p = star = next_name(p);
			star_s = s;
			if (!*p) {
				return true; /* matches everything inside */
			}
		} else if (*p && match_name(p, len, s, strcspn(s, "/"))) {
			p = next_name(p);
			s = next_name(s);
		} else if (star) {
			p = star;
			s = star_s = next_name(star_s);
		} else {
			return false;
		}
	}
	return !*p;
}

/* --- rules --- */

/** Returns the length of a line without trailing spaces and CR; an escaped space is kept. */
static size_t trim(const char *line, size_t len)
{
	len -= len > 0 && line[len - 1] == '\r';
	while (len > 0 && line[len - 1] == ' ' && !(len > 1 && line[len - 2] == '\\')) {
		len--;
	}
	return len;
}

static void take_line(struct ignore_rules *rules, const char *base, const char *line, size_t len)
{
	struct ignore_rule rule = {0};
	len = trim(line, len);
	if (!len || *line == '#' || rules->count == RULES_MAX) {
		return;
	}
	rule.is_negated = *line == '!';
	line += rule.is_negated;
	len -= rule.is_negated;
	rule.is_for_dirs = len > 0 && line[len - 1] == '/';
	len -= rule.is_for_dirs;
	rule.is_path = memchr(line, '/', len) != NULL;
	if (len > 0 && *line == '/') {
		line++;
		len--;
	}
	if (!len || len > PATTERN_MAX || memchr(line, '\0', len)) {
		return;
	}
	rule.base = xstrdup(base);
	rule.pattern = xstrndup(line, len);
	if (rules->count % 64 == 0) {
		rules->rules = xrealloc(rules->rules, (rules->count + 64) * sizeof(*rules->rules));
	}
	rules->rules[rules->count++] = rule;
}

void ignore_rules_read(struct ignore_rules *rules, const char *base, const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t line_len = end ? (size_t)(end - text) - at : len - at;
		take_line(rules, base, text + at, line_len);
		at += line_len + 1;
	}
}

static bool matches(const struct ignore_rule *rule, const char *path, bool is_dir)
{
	if ((rule->is_for_dirs && !is_dir) || (*rule->base && !path_is_within(path, rule->base))) {
		return false;
	}
	const char *rest = path + strlen(rule->base);
	rest += *rest == '/';
	const char *slash = strrchr(rest, '/');
	const char *name = slash ? slash + 1 : rest;
	return rule->is_path ? match_path(rule->pattern, rest)
			     : match_name(rule->pattern, strlen(rule->pattern), name, strlen(name));
}

bool ignore_rules_match(const struct ignore_rules *rules, const char *path, bool is_dir)
{
	for (size_t i = rules->count; i-- > 0;) {
		if (matches(&rules->rules[i], path, is_dir)) {
			return !rules->rules[i].is_negated;
		}
	}
	return false;
}

void ignore_rules_finish(struct ignore_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		free(rules->rules[i].base);
		free(rules->rules[i].pattern);
	}
	free(rules->rules);
	*rules = (struct ignore_rules){0};
}
