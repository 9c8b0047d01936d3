/*
 * Access control: the tokens of a data directory, revocations, and the logins of browsers.
 *
 *   DIR/access-token    the token that allows everything; created at the first start
 *   DIR/token-secret    signs the tokens of `holdfast token create`
 *   DIR/url             the addresses at which people and commands reach the server
 *   DIR/push-key        identifies the server to push services
 *   DIR/access.jsonl    created tokens, revocations, logins and their push subscriptions, one
 *                       sealed line each
 *
 * With a shelf (shelf.h), which several servers share, the secrets and all lines are on the shelf.
 * The files of secrets are then copies, and access.jsonl has only created tokens and revocations.
 *
 * All files have mode 0600. The functions run on the loop's thread, and only those that say so
 * block. `done` callbacks are called once, on the loop, with 0 when the change is durable or with a
 * negative errno.
 */
#ifndef HOLDFAST_ACCESS_H
#define HOLDFAST_ACCESS_H

#include "holdfast/buffer.h"
#include "holdfast/clock.h"
#include "holdfast/grant.h"

#include <stdbool.h>
#include <uv.h>

struct access;
struct shelf;

struct access_config {
	uv_loop_t *loop;
	const struct clock *clock;
	const char *data_dir; /* exists */
	/*
	 * Where all servers on a store keep their secrets, logins and revocations; must stay valid
	 * until access_stop(). NULL: they are in the data directory.
	 */
	const struct shelf *shelf;
	/* Keys of an application that makes tokens itself; NULL: none. */
	const char *secret_file; /* HS256 */
	const char *public_key_file; /* RS256 or ES256, in PEM */
	const char *issuer; /* what "iss" of its tokens must be; NULL: anything */
	const char *audience; /* what "aud" of its tokens must be or contain; NULL: anything */
	/**
	 * Called when a token was revoked or a login has ended: all grants must be checked again.
	 */
	void (*revoked)(void *owner);
	void *owner;
};

/**
 * Reads the files, and creates those that are missing. Blocks. Returns 0 or a negative errno, with
 * a message in *ret_why that the caller frees.
 */
int access_open(const struct access_config *config, struct access **ret_access, char **ret_why);
/** Stops looking for changes by other servers. Work in progress goes on. Accepts NULL. */
void access_stop(struct access *access);
/** Frees the access. No write may be in progress: the loop must have ended. Accepts NULL. */
void access_close(struct access *access);

enum token_verdict {
	TOKEN_GOOD,
	TOKEN_WRONG, /* also if it is not valid yet, or has another issuer or audience */
	TOKEN_EXPIRED,
	TOKEN_REVOKED,
};
/**
 * Checks a token. If it is good, *ret_grant is a reference to what it allows, else NULL. Why a
 * token is wrong is not revealed, as that would help attackers.
 */
enum token_verdict access_check(struct access *access, const char *token, struct grant **ret_grant);
/** Checks again a grant that was given out: it may have expired or been revoked. */
enum token_verdict access_check_grant(const struct access *access, const struct grant *grant);

/** The two halves of a login, both secret; normally neither is of use without the other. */
#define LOGIN_HALF_SIZE 44
struct login_halves {
	char cookie[LOGIN_HALF_SIZE];
	char header[LOGIN_HALF_SIZE];
};
/* Writes a short tag, derived from a half without revealing it. */
#define LOGIN_TAG_SIZE 9
void access_tag(const char *half, char ret_tag[LOGIN_TAG_SIZE]);
/**
 * Creates a login from the grant of a token that was checked, with which it also expires. If there
 * are no random numbers, `done` is called before this returns.
 */
void access_login(struct access *access, struct grant *grant, struct login_halves *ret_halves,
	void (*done)(void *arg, int status), void *arg);
/** Checks a login, like access_check(). */
enum token_verdict access_check_login(
	struct access *access, const char *cookie, const char *header, struct grant **ret_grant);
/** Checks a login by its cookie alone, where that is enough (--ai-sdk-cookie). */
enum token_verdict access_check_cookie(
	struct access *access, const char *cookie, struct grant **ret_grant);
/** Ends a login, and calls revoked(). Returns false, without calling `done`, if there is none. */
bool access_logout(struct access *access, const char *cookie, const char *header,
	void (*done)(void *arg, int status), void *arg);

/**
 * Revokes the token with this `jti`, or the tokens of `sub` that were issued before `before_ms`.
 */
struct revocation {
	const char *jti; /* NULL: by `sub` */
	const char *sub;
	int64_t before_ms;
};
void access_revoke(struct access *access, const struct revocation *revocation,
	void (*done)(void *arg, int status), void *arg);

/** A push subscription: where messages for a browser are sent. All members are secret. */
struct push_subscription {
	char *endpoint;
	char *p256dh;
	char *auth;
};
/**
 * Sets the subscription of a login, or removes it if `push` is NULL. Returns -ENOENT if there is no
 * such login, or -ENOSPC if there are `most` subscriptions already; `done` is not called then.
 */
int access_subscribe(struct access *access, const char *cookie, const char *header,
	const struct push_subscription *push, size_t most, void (*done)(void *arg, int status),
	void *arg);
bool access_is_subscribed(const struct access *access, const char *cookie, const char *header);
/** The number of subscriptions. */
size_t access_subscriptions(const struct access *access);
/** Visits each subscribed login that is still good, and removes the subscriptions of the others. */
void access_each_subscription(struct access *access,
	void (*visit)(void *arg, const char *login_id, const struct grant *grant), void *arg);
/**
 * Returns the subscription of a login that is still good, with the login's grant, or NULL. Both are
 * borrowed, until the next call.
 */
const struct push_subscription *access_subscription(
	struct access *access, const char *login_id, const struct grant **ret_grant);
/** Removes the subscription of a login, because the push service says that it has ended. */
void access_unsubscribe(struct access *access, const char *login_id);
/**
 * Reads the text of a secret file in the data directory; if it is missing, creates it with 256
 * random bits. Blocks. Returns 0 or a negative errno.
 */
int access_read_secret(const char *data_dir, const char *name, struct buffer *ret);
/**
 * Makes the secret file of that name equal to the secret on the shelf; the first server puts its
 * own there. Blocks. Returns 0 or a negative errno.
 */
int access_share_secret(const char *data_dir, const char *name, const struct shelf *shelf);

/** Writes 256 random bits in base64url: 43 characters and a NUL. Returns 0 or a negative errno. */
int access_random(char ret_text[LOGIN_HALF_SIZE]);

/*
 * For commands, without a server. All block. Those that return an int return 0 or a negative errno;
 * *ret_why is then a message that the caller frees.
 */
/**
 * Signs a token with the data directory's secret and records in access.jsonl that it was created.
 * `claims` needs sub, jti, holdfast, exp and iat. The caller frees *ret_token.
 */
int access_make_token(
	const char *data_dir, json_t *claims, int64_t now_ms, char **ret_token, char **ret_why);
/** Appends a revocation to access.jsonl. Returns -EBUSY if a server uses the data directory. */
int access_note_revocation(
	const char *data_dir, const struct revocation *revocation, int64_t now_ms, char **ret_why);
/**
 * Calls `visit` for each undamaged line of access.jsonl: {"created": …}, {"revoked": …} and others.
 */
int access_each_line(const char *data_dir, void (*visit)(void *arg, const json_t *line), void *arg,
	char **ret_why);
/** Records where people ("": nowhere) and commands on this machine reach the server. */
int access_write_url(const char *data_dir, const char *people, const char *commands);
/** The recorded URL for people, which the caller frees; NULL: none. */
char *access_read_url(const char *data_dir);
/**
 * The recorded URL for commands, which the caller frees; NULL if no server uses the directory now.
 */
char *access_read_command_url(const char *data_dir);
/** Hears what is wrong with a file: a problem, or a note of what the next start puts in order. */
typedef void access_tell(void *arg, bool is_problem, const char *file, const char *what);
/** Checks the secrets and access.jsonl of a data directory as the start of a server does. Blocks. */
void access_check_files(const char *data_dir, access_tell *tell, void *arg);
/**
 * Copies the secrets and access.jsonl of a data directory into another directory, without push
 * subscriptions if `drops_push`. Returns -ENOENT if there is no access token.
 */
int access_copy(const char *from_dir, const char *to_dir, bool drops_push, char **ret_why);
/** Reads a token or key from a file; the caller frees it. NULL on error, with *ret_why. */
char *access_read_file(const char *path, char **ret_why);
/** Reads the access token of a data directory, creating it if necessary; otherwise as above. */
char *access_read_token(const char *data_dir, char **ret_why);

#endif
