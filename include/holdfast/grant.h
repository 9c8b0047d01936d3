/*
 * A grant is what a token allows: a role, and a set of sessions. One table says which role has
 * which rights; all parts of the server use it (proto/access.md).
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
	RIGHT_WATCH, /* read events, usage, the queue, the list of sessions */
	RIGHT_CONTROL, /* send prompts and answers, cancel, set modes, edit its own queue entries */
	RIGHT_APPEND, /* append events, as an agent does */
	RIGHT_UPLOAD, /* upload images and files */
	RIGHT_CREATE, /* create sessions */
	RIGHT_LABEL, /* change a session's title, archive it, pin it */
	RIGHT_DELETE, /* delete sessions */
	RIGHT_ADMINISTER, /* edit everybody's queue entries, revoke tokens, read metrics */
	RIGHT_COUNT,
};

/* Most bytes of a `sub` and of a `jti`, and most patterns of a token. */
#define GRANT_NAME_MAX     128
#define GRANT_PATTERNS_MAX 64

/** Immutable except for `is_over`, and shared by reference, within one thread. */
struct grant {
	size_t refs;
	bool is_over; /* its login has ended */
	enum role role;
	char *sub; /* the subject of the token; "" for the access token of the data directory */
	char *jti; /* the id of the token; NULL: none */
	uint64_t key; /* identifies the key that signed the token */
	char **patterns; /* ids, or prefixes of ids followed by *; NULL-terminated */
	unsigned hide; /* HIDE_ bits of what it does not show, see hide.h */
	int64_t issued_ms; /* ms since 1970; 0: unknown */
	int64_t not_before_ms; /* ms since 1970; 0: valid at once */
	int64_t expires_ms; /* ms since 1970; 0: never */
};

/** The role's name, as in a token. */
const char *role_name(enum role role);
/** Returns the role of this name, or -1. */
int role_parse(const char *name);

/** Creates a grant for all sessions that never expires; copies `sub`. */
struct grant *grant_create(enum role role, const char *sub);
/**
 * Creates a grant from the claims of a token. Returns NULL if they are invalid, with a static
 * message in *ret_why. `is_kept`: the claims come from grant_write(), so that "exp" can be absent
 * and "sub" empty.
 */
struct grant *grant_read(const json_t *claims, bool is_kept, const char **ret_why);
/** Returns claims from which grant_read() makes the same grant. The caller drops the reference. */
json_t *grant_write(const struct grant *grant);
/** Whether the text is a valid pattern: the id of a session, or a prefix of one followed by *. */
bool grant_is_pattern(const char *pattern);
struct grant *grant_ref(struct grant *grant);
/** Accepts NULL. */
void grant_unref(struct grant *grant);

/** Whether the grant's role has this right, for the sessions that the grant covers. */
bool grant_has(const struct grant *grant, enum right right);
/** Whether the grant covers a session of this id. */
bool grant_sees(const struct grant *grant, const char *session_id, size_t len);
/** Whether the grant covers all sessions. */
bool grant_sees_all(const struct grant *grant);

#endif
