/* Grants: the table of rights, patterns, and reading and writing them as claims. */
#include "holdfast/grant.h"

#include "holdfast/hide.h"

#include <stdlib.h>
#include <string.h>

static const char *const role_names[ROLE_COUNT] = {
	[ROLE_OBSERVER] = "observer",
	[ROLE_CONTROLLER] = "controller",
	[ROLE_PRODUCER] = "producer",
	[ROLE_ADMIN] = "admin",
};

/* clang-format off */
static const bool rights[ROLE_COUNT][RIGHT_COUNT] = {
	/*                    watch control append upload create label  delete administer */
	[ROLE_OBSERVER]   = {  true, false,  false, false, false, false, false, false },
	[ROLE_CONTROLLER] = {  true, true,   false, true,  true,  true,  false, false },
	[ROLE_PRODUCER]   = {  true, false,  true,  true,  true,  false, false, false },
	[ROLE_ADMIN]      = {  true, true,   true,  true,  true,  true,  true,  true  },
};
/* clang-format on */

const char *role_name(enum role role)
{
	return role_names[role];
}

int role_parse(const char *name)
{
	for (int i = 0; i < ROLE_COUNT; i++) {
		if (strcmp(role_names[i], name) == 0) {
			return i;
		}
	}
	return -1;
}

bool grant_has(const struct grant *grant, enum right right)
{
	return rights[grant->role][right];
}

/* --- patterns --- */

bool grant_is_pattern(const char *pattern)
{
	static const char id[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t len = strspn(pattern, id);
	const char *rest = pattern + len;
	bool is_id = len > 0 && !*rest;
	return len <= 128 && (is_id || strcmp(rest, "*") == 0) && pattern[0] != '.';
}

static bool matches(const char *pattern, const char *id, size_t len)
{
	size_t n = strlen(pattern);
	if (n > 0 && pattern[n - 1] == '*') {
		return len >= n - 1 && memcmp(pattern, id, n - 1) == 0;
	}
	return len == n && memcmp(pattern, id, n) == 0;
}

bool grant_sees(const struct grant *grant, const char *session_id, size_t len)
{
	for (char **at = grant->patterns; *at; at++) {
		if (matches(*at, session_id, len)) {
			return true;
		}
	}
	return false;
}

bool grant_sees_all(const struct grant *grant)
{
	for (char **at = grant->patterns; *at; at++) {
		if (strcmp(*at, "*") == 0) {
			return true;
		}
	}
	return false;
}

/* --- life --- */

struct grant *grant_create(enum role role, const char *sub)
{
	struct grant *grant = xcalloc(1, sizeof(*grant));
	grant->refs = 1;
	grant->role = role;
	grant->sub = xstrdup(sub);
	grant->patterns = xcalloc(2, sizeof(*grant->patterns));
	grant->patterns[0] = xstrdup("*");
	return grant;
}

struct grant *grant_ref(struct grant *grant)
{
	grant->refs++;
	return grant;
}

void grant_unref(struct grant *grant)
{
	if (!grant || --grant->refs > 0) {
		return;
	}
	for (char **at = grant->patterns; at && *at; at++) {
		free(*at);
	}
	free(grant->patterns);
	free(grant->sub);
	free(grant->jti);
	free(grant);
}

/* --- claims --- */

/** Whether the value is a text of 1 to GRANT_NAME_MAX bytes without control characters. */
static bool is_name(const json_t *value)
{
	const char *text = json_string_value(value);
	size_t len = text ? json_string_length(value) : 0;
	if (!len || len > GRANT_NAME_MAX || strlen(text) != len) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
			return false;
		}
	}
	return true;
}

/** Reads seconds since 1970 (RFC 7519, section 2). Returns ms, or -1 if it is not a time. */
static int64_t read_time(const json_t *value)
{
	double seconds = json_number_value(value);
	bool is_time = json_is_number(value) && seconds >= 1 && seconds <= 253402300799.0;
	return is_time ? (int64_t)(seconds * 1000 + 0.5) : -1;
}

static const char *read_times(struct grant *grant, const json_t *claims, bool is_kept)
{
	const json_t *exp = json_object_get(claims, "exp");
	const json_t *nbf = json_object_get(claims, "nbf");
	const json_t *iat = json_object_get(claims, "iat");
	grant->expires_ms = exp || !is_kept ? read_time(exp) : 0;
	grant->not_before_ms = nbf ? read_time(nbf) : 0;
	grant->issued_ms = iat ? read_time(iat) : 0;
	if (grant->expires_ms < 0) {
		return "a token needs \"exp\", in seconds since 1970";
	}
	if (grant->not_before_ms < 0 || grant->issued_ms < 0) {
		return "\"nbf\" and \"iat\" are seconds since 1970";
	}
	return NULL;
}

static const char *read_patterns(struct grant *grant, const json_t *list)
{
	size_t count = json_array_size(list);
	if (!json_is_array(list) || !count || count > GRANT_PATTERNS_MAX) {
		return "\"sessions\" is a list of 1 to 64 patterns";
	}
	grant->patterns = xcalloc(count + 1, sizeof(*grant->patterns));
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_array_get(list, i);
		const char *pattern = json_string_value(item);
		if (!pattern || strlen(pattern) != json_string_length(item) ||
			!grant_is_pattern(pattern)) {
			return "a pattern is the id of a session, or the beginning of one and a *";
		}
		grant->patterns[i] = xstrdup(pattern);
	}
	return NULL;
}

static const char *read_hide(struct grant *grant, const json_t *list)
{
	static const char why[] = "\"hide\" is a list of \"thoughts\" and \"tools\"";
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		unsigned bit = word ? hide_of(word) : HIDE_NOTHING;
		if (!bit) {
			return why;
		}
		grant->hide |= bit;
	}
	return !list || json_is_array(list) ? NULL : why;
}

static const char *read_claims(struct grant *grant, const json_t *claims, bool is_kept)
{
	const json_t *sub = json_object_get(claims, "sub");
	const json_t *jti = json_object_get(claims, "jti");
	const json_t *own = json_object_get(claims, "holdfast");
	const char *role = json_string_value(json_object_get(own, "role"));
	int r = role ? role_parse(role) : -1;
	bool is_ours = is_kept && json_is_string(sub) && json_string_length(sub) == 0;
	if ((!is_name(sub) && !is_ours) || (jti && !is_name(jti))) {
		return "a token needs \"sub\", and \"sub\" and \"jti\" have 1 to 128 bytes";
	}
	if (r < 0) {
		return "\"holdfast\" needs a \"role\": observer, controller, producer or admin";
	}
	grant->role = (enum role)r;
	grant->sub = xstrdup(json_string_value(sub));
	grant->jti = jti ? xstrdup(json_string_value(jti)) : NULL;
	const char *why = read_times(grant, claims, is_kept);
	if (!why) {
		why = read_patterns(grant, json_object_get(own, "sessions"));
	}
	return why ? why : read_hide(grant, json_object_get(own, "hide"));
}

struct grant *grant_read(const json_t *claims, bool is_kept, const char **ret_why)
{
	struct grant *grant = xcalloc(1, sizeof(*grant));
	grant->refs = 1;
	*ret_why = read_claims(grant, claims, is_kept);
	if (*ret_why) {
		grant_unref(grant);
		return NULL;
	}
	return grant;
}

static void set_time(json_t *claims, const char *name, int64_t ms)
{
	if (ms) {
		json_object_set_new(claims, name, json_real((double)ms / 1000));
	}
}

json_t *grant_write(const struct grant *grant)
{
	json_t *patterns = json_array();
	struct buffer hide = {0};
	for (char **at = grant->patterns; *at; at++) {
		json_array_append_new(patterns, json_string(*at));
	}
	hide_append(&hide, grant->hide);
	json_t *claims = json_pack("{s:s, s:{s:s, s:o, s:o}}", "sub", grant->sub, "holdfast",
		"role", role_name(grant->role), "sessions", patterns, "hide",
		json_loadb(hide.data, hide.len, 0, NULL));
	buffer_finish(&hide);
	if (grant->jti) {
		json_object_set_new(claims, "jti", json_string(grant->jti));
	}
	set_time(claims, "iat", grant->issued_ms);
	set_time(claims, "nbf", grant->not_before_ms);
	set_time(claims, "exp", grant->expires_ms);
	return claims;
}
