/*
 * Who may get in: the tokens of a data directory, and the logins that browsers made with them.
 *
 *   DIR/access-token    what opens everything; made with the first start
 *   DIR/token-secret    signs the tokens that `holdfast token create` makes
 *   DIR/url             where people and commands reached the server when it started last
 *   DIR/push-key        names the server to push services
 *   DIR/access.jsonl    tokens that were made, revocations, logins and their push subscriptions; one
 *                       sealed line each
 *
 * With a shelf (shelf.h), it has the secrets, of which the files are copies, and the lines; access.jsonl
 * has then those of tokens that were made and of revocations.
 *
 * All of them are for their owner alone (mode 0600). Functions run on the loop's thread, and none of
 * them waits for the disk but access_open().
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
	const char *data_dir; /* is there */
	/*
	 * Where secrets, logins and revocations are that all servers on a store have in common; it
	 * is there until access_stop(). NULL: those of the data directory count.
	 */
	const struct shelf *shelf;
	/* Of an application that makes tokens itself; NULL: none. */
	const char *secret_file; /* HS256 */
	const char *public_key_file; /* RS256 or ES256, in PEM */
	const char *issuer; /* what its tokens must have as "iss"; NULL: anything */
	const char *audience; /* and as "aud", or in it */
	/** Of somebody's token or login there is no more: whoever came in with it has to go. */
	void (*revoked)(void *owner);
	void *owner;
};

/**
 * Reads the files, and makes those that are missing. Blocks. Returns a negative errno; then
 * *ret_why (caller frees) says what and what to do.
 */
int access_open(const struct access_config *config, struct access **ret_access, char **ret_why);
/** Looks no more for what other servers have done. What is on its way stays so. Accepts NULL. */
void access_stop(struct access *access);
/** Nothing may be on its way to the disk: the loop has come to its end. Accepts NULL. */
void access_close(struct access *access);

enum token_verdict {
	TOKEN_GOOD,
	TOKEN_WRONG, /* also: not yet valid, or for somebody else */
	TOKEN_EXPIRED,
	TOKEN_REVOKED,
};
/**
 * Looks at a token: *ret_grant (a reference) is what it allows. What is wrong with a wrong one is
 * not told: that would help only those who guess.
 */
enum token_verdict access_check(struct access *access, const char *token, struct grant **ret_grant);
/** The same again for a grant that was given out: whether it still counts. */
enum token_verdict access_check_grant(const struct access *access, const struct grant *grant);

/** A login's two halves, each a text of its own: neither is worth anything without the other. */
#define LOGIN_HALF_SIZE 44
struct login_halves {
	char cookie[LOGIN_HALF_SIZE];
	char header[LOGIN_HALF_SIZE];
};
/* A short name for a half, which does not tell it. */
#define LOGIN_TAG_SIZE 9
void access_tag(const char *half, char ret_tag[LOGIN_TAG_SIZE]);
/**
 * Logs in with a token that was checked: makes a login that ends with it. `done` is called once,
 * when that is on disk (0) or cannot be (a negative errno).
 */
void access_login(struct access *access, struct grant *grant, struct login_halves *ret_halves,
	void (*done)(void *arg, int status), void *arg);
/** What a login allows (a reference), as access_check(). */
enum token_verdict access_check_login(
	struct access *access, const char *cookie, const char *header, struct grant **ret_grant);
/** The same of one half alone, where that is enough (--ai-sdk-cookie). */
enum token_verdict access_check_cookie(
	struct access *access, const char *cookie, struct grant **ret_grant);
/** Ends a login. Those that came in with it have to go. False if there is none. */
bool access_logout(struct access *access, const char *cookie, const char *header,
	void (*done)(void *arg, int status), void *arg);

/** Takes tokens back: the one of this `jti`, or those of `sub` that were made before `before_ms`. */
struct revocation {
	const char *jti; /* NULL: by `sub` */
	const char *sub;
	int64_t before_ms;
};
void access_revoke(struct access *access, const struct revocation *revocation,
	void (*done)(void *arg, int status), void *arg);

/** Where messages to a browser go whose page is closed. All of it is secret. */
struct push_subscription {
	char *endpoint;
	char *p256dh;
	char *auth;
};
/**
 * Gives a login a subscription in place of any other; NULL: none. `done` as above. Nothing is done, and -ENOENT or
 * -ENOSPC returned, if there is no such login, or if there are `most` subscriptions.
 */
int access_subscribe(struct access *access, const char *cookie, const char *header,
	const struct push_subscription *push, size_t most, void (*done)(void *arg, int status),
	void *arg);
bool access_is_subscribed(const struct access *access, const char *cookie, const char *header);
/** How many there are. */
size_t access_subscriptions(const struct access *access);
/** Visits each login that has one and still counts. The subscriptions of the others end. */
void access_each_subscription(struct access *access,
	void (*visit)(void *arg, const char *login_id, const struct grant *grant), void *arg);
/** That of a login that still counts, and what that allows; NULL: none. Good until the next call. */
const struct push_subscription *access_subscription(
	struct access *access, const char *login_id, const struct grant **ret_grant);
/** The push service says that it has ended. */
void access_unsubscribe(struct access *access, const char *login_id);
/**
 * The text of a secret file in the data directory, which is made if it is missing, with 256 random bits. Blocks.
 * Returns a negative errno.
 */
int access_read_secret(const char *data_dir, const char *name, struct buffer *ret);
/**
 * The file of that name gets the text that the shelf has; the first server's is put there. Blocks.
 * Returns a negative errno.
 */
int access_share_secret(const char *data_dir, const char *name, const struct shelf *shelf);

/** 256 random bits in base64url; 43 characters and a NUL. Returns a negative errno if there are none. */
int access_random(char ret_text[LOGIN_HALF_SIZE]);

/* Without a server, by the commands. They block. */
/**
 * Signs a token with the data directory's secret and notes that it was made. `claims` needs sub, jti
 * and holdfast; exp and iat are set here. The caller frees *ret_token.
 */
int access_make_token(
	const char *data_dir, json_t *claims, int64_t now_ms, char **ret_token, char **ret_why);
/** Writes a revocation into the file of a data directory; -EBUSY if a server uses it. */
int access_note_revocation(
	const char *data_dir, const struct revocation *revocation, int64_t now_ms, char **ret_why);
/**
 * Calls `visit` for each line of access.jsonl: {"created": …}, {"revoked": …} and others.
 */
int access_each_line(const char *data_dir, void (*visit)(void *arg, const json_t *line), void *arg,
	char **ret_why);
/** Notes where people ("": nowhere) and commands of this machine reach the server. */
int access_write_url(const char *data_dir, const char *people, const char *commands);
/** What access_write_url() noted last for people (caller frees); NULL: nothing. */
char *access_read_url(const char *data_dir);
/** The same for commands. NULL too if no server uses the directory now. */
char *access_read_command_url(const char *data_dir);
/**
 * Copies the secrets of a data directory, with what is known of tokens and logins, into another
 * directory. `drops_push`: without push subscriptions. Returns -ENOENT if there is no access token.
 */
int access_copy(const char *from_dir, const char *to_dir, bool drops_push, char **ret_why);
/** A token or key in a file (caller frees), or NULL and *ret_why as above. */
char *access_read_file(const char *path, char **ret_why);
/** The access token of a data directory (caller frees), or NULL and *ret_why as above. */
char *access_read_token(const char *data_dir, char **ret_why);

#endif
