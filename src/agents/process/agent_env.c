#include "holdfast/agent_env.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Names, or prefixes if they end with a star. */
static const char *const given[] = {
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TERM", "TMPDIR", NULL};
/* These are addressed to the server process itself. */
static const char *const never[] = {"HOLDFAST_*", "NOTIFY_SOCKET", "WATCHDOG_*", "LISTEN_*", NULL};

/** Shorter values occur in other words too often. */
#define SECRET_MIN 6

static size_t name_length(const char *variable)
{
	return strcspn(variable, "=");
}

static bool is_one_of(const char *variable, const char *const *patterns)
{
	size_t len = name_length(variable);
	for (; *patterns; patterns++) {
		size_t fixed = strcspn(*patterns, "*");
		bool fits = (*patterns)[fixed] ? len >= fixed : len == fixed;
		if (fits && strncmp(variable, *patterns, fixed) == 0) {
			return true;
		}
	}
	return false;
}

const char *agent_env_fault(const char *entry)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	size_t len = name_length(entry);
	if (strcmp(entry, "*") == 0) {
		return NULL;
	}
	bool is_prefix = len > 1 && entry[len - 1] == '*' && !entry[len];
	if (!len || strspn(entry, letters) < len - is_prefix || (*entry >= '0' && *entry <= '9')) {
		return "give NAME, NAME=VALUE, PREFIX_* for all that begin so, or * for the server's whole environment";
	}
	if (is_one_of(entry, never)) {
		return "agents never get this one: it is for the server alone";
	}
	return NULL;
}

/** Returns the place of the variable with this name, or the place for a new one. */
static char **find(char **env, const char *variable)
{
	size_t len = name_length(variable);
	while (*env && (name_length(*env) != len || memcmp(*env, variable, len) != 0)) {
		env++;
	}
	return env;
}

static void set(char **env, const char *variable)
{
	char **at = find(env, variable);
	free(*at);
	*at = xstrdup(variable);
}

static void set_from(char **env, char *const *from, const char *entry)
{
	const char *const patterns[] = {entry, NULL};
	for (; *from; from++) {
		if (is_one_of(*from, patterns) && strchr(*from, '=') && !is_one_of(*from, never)) {
			set(env, *from);
		}
	}
}

static size_t count_of(char *const *list)
{
	size_t count = 0;
	while (list && list[count]) {
		count++;
	}
	return count;
}

char **agent_env_make(char *const *from, char *const *entries)
{
	size_t room = count_of(from) + count_of(entries) + 1;
	char **env = xcalloc(room, sizeof(*env));
	for (char *const *variable = from; *variable; variable++) {
		if (strchr(*variable, '=') && is_one_of(*variable, given)) {
			set(env, *variable);
		}
	}
	for (; entries && *entries; entries++) {
		if (strchr(*entries, '=')) {
			set(env, *entries);
		} else {
			set_from(env, from, *entries);
		}
	}
	return env;
}

/**
 * Returns how many bytes at the beginning of the text are a secret value: the whole value, or a
 * part of it up to the end of a line. 0: none.
 */
static size_t secret_at(char *const *env, const char *text, size_t left)
{
	size_t longest = 0;
	for (; env && *env; env++) {
		const char *value = *env + name_length(*env);
		value += *value == '=';
		size_t len = 0;
		while (len < left && value[len] && text[len] == value[len]) {
			len++;
		}
		bool is_cut = len == left || text[len] == '\n';
		bool is_seen = len >= SECRET_MIN && (!value[len] || is_cut);
		if (is_seen && len > longest && !is_one_of(*env, given)) {
			longest = len;
		}
	}
	return longest;
}

void agent_env_hide(char *const *env, const char *text, size_t len, struct buffer *out)
{
	for (size_t i = 0; i < len;) {
		size_t secret = secret_at(env, text + i, len - i);
		buffer_append(out, secret ? "***" : text + i, secret ? 3 : 1);
		i += secret ? secret : 1;
	}
}

void agent_env_free(char **env)
{
	for (char **variable = env; variable && *variable; variable++) {
		free(*variable);
	}
	free(env);
}
