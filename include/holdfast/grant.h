/*
 * What a token allows: a role, and the sessions that it is for. One table says which role may do
 * what; every door asks it (proto/access.md).
 */
#ifndef HOLDFAST_GRANT_H
#define HOLDFAST_GRANT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum role {
	ROLE_OBSERVER,
	ROLE_CONTROLLER,
	ROLE_PRODUCER,
	ROLE_ADMIN,
	ROLE_COUNT,
};

enum right {
	RIGHT_WATCH, /* events, usage, the queue, the list of sessions */
	RIGHT_CONTROL, /* prompts, answers, the cancel, modes, its own entries of the queue */
	RIGHT_APPEND, /* events of an agent */
	RIGHT_UPLOAD, /* images and files of a session */
	RIGHT_CREATE, /* a session */
	RIGHT_LABEL, /* a session: its title, the archive, the pin */
	RIGHT_DELETE, /* a session */
	RIGHT_ADMINISTER, /* everybody's entries of the queue, tokens, metrics */
	RIGHT_COUNT,
};

/* Bytes of a `sub` and of a `jti`, and how many patterns a token may have. */
#define GRANT_NAME_MAX     128
#define GRANT_PATTERNS_MAX 64

/** Immutable but for `is_over` once it is made, and shared by reference. Of one thread. */
struct grant {
	size_t refs;
	bool is_over; /* its login has ended */
	enum role role;
	char *sub; /* whose it is; "" for the access token of the data directory */
	char *jti; /* NULL: it has none */
	uint64_t key; /* names the key that signed its token */
	char **patterns; /* ids, or beginnings of ids with a * behind them; NULL-terminated */
	unsigned hide; /* what it does not show: see hide.h */
	int64_t issued_ms; /* ms since 1970; 0: not said */
	int64_t not_before_ms; /* 0: it counts at once */
	int64_t expires_ms; /* 0: never */
};

/** The role's name, as in a token. */
const char *role_name(enum role role);
/** -1 if there is no such role. */
int role_parse(const char *name);

/** A grant for all sessions that never expires; `sub` is copied. One reference. */
struct grant *grant_create(enum role role, const char *sub);
/**
 * Reads the claims of a token. NULL if they make no sense; then *ret_why says why (static text).
 * One reference. `is_kept`: they were made by grant_write(), and may say what a token may not: no
 * end, and an empty `sub`.
 */
struct grant *grant_read(const json_t *claims, bool is_kept, const char **ret_why);
/** The claims that grant_read() would read the same grant from. The caller frees them. */
json_t *grant_write(const struct grant *grant);
/** Whether it is a pattern for ids of sessions: an id, or the beginning of one and a *. */
bool grant_is_pattern(const char *pattern);
struct grant *grant_ref(struct grant *grant);
/** Accepts NULL. */
void grant_unref(struct grant *grant);

/** The table: whether the role has this right, for the sessions that it sees. */
bool grant_has(const struct grant *grant, enum right right);
/** Whether a session of this id is among those that the token is for. */
bool grant_sees(const struct grant *grant, const char *session_id, size_t len);
/** Whether it is for every session that there may be. */
bool grant_sees_all(const struct grant *grant);

#endif
