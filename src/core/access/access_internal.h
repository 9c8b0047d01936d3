/* Shared by the files of the access room. */
#ifndef HOLDFAST_ACCESS_INTERNAL_H
#define HOLDFAST_ACCESS_INTERNAL_H

#include "holdfast/access.h"
#include "holdfast/shelf.h"

#include "holdfast/buffer.h"
#include "holdfast/hash.h"
#include "holdfast/list.h"
#include "token_key.h"

/* SHA-256 in hexadecimal, with a NUL. */
#define SUM_SIZE 65
/* Most bytes of a file with a key. */
#define KEY_FILE_MAX ((size_t)64 * 1024)

/** A key whose tokens are accepted. */
struct signer {
	struct token_key *key;
	uint64_t id; /* grant.key of its tokens */
	bool is_ours; /* "iss" and "aud" of its tokens are not checked */
};

struct login {
	struct list link; /* access.login_list */
	char cookie_sum[SUM_SIZE];
	char header_sum[SUM_SIZE];
	struct grant *grant;
	struct push_subscription *push; /* NULL: none */
};

/** Polls the shelf for lines of other servers. */
struct access_look {
	uv_work_t work;
	uv_timer_t *timer; /* NULL: there is no shelf */
	uint64_t at; /* the number of the last line that was read */
	struct buffer lines; /* as shelf.read() returns them */
	int status;
	bool is_working;
	bool is_anew; /* this poll reads all lines again */
	int64_t seen_ms; /* when the last successful poll began, ms of CLOCK_BOOTTIME */
	int64_t begun_ms; /* when the current one began */
};

struct access {
	struct access_config config;
	struct access_look look;
	char *path; /* of access.jsonl */
	char token_sum[SUM_SIZE]; /* of the access token */
	struct grant *token_grant;
	struct signer signers[3];
	size_t signer_count;
	struct hash *logins; /* struct login, by cookie_sum */
	struct list login_list; /* the same, the oldest first */
	size_t push_count; /* number of logins with a push subscription */
	struct hash *verified; /* struct grant of tokens that were checked, by the tokens' sums */
	struct hash *revoked; /* set of jti */
	struct hash *revoked_subs; /* int64_t ms, by sub: tokens issued before are revoked */
	struct list waiting; /* struct access_write: for the next write */
	struct list writing; /* struct access_write: in the write in progress */
	uv_work_t work;
	struct buffer lines; /* the lines of `writing` */
	int status; /* result of the write */
	int64_t now_ms; /* when the write began */
	size_t anew_size; /* access.jsonl is rewritten when it is larger (bytes) */
	bool is_working; /* a write is in progress */
};

/** A line that waits to be written, or is being written. */
struct access_write {
	struct list link;
	struct buffer line;
	void (*done)(void *arg, int status); /* as in access.h; may be NULL */
	void *arg;
};

/* What the server says at its start, and holdfast verify. */
#define ACCESS_DAMAGED \
	"revocations may be lost. Remove the line if you can tell what it was, or move the file away: then all logins end, and revoked tokens become valid again"
#define ACCESS_TORN \
	"its last line is incomplete, and is ignored. If that is not of a crash, a revocation, login or logout may be lost"
#define TOKEN_SHORT \
	"a token has at least 32 characters; remove the file, and the next start makes another"
#define SECRET_SHORT \
	"a secret has at least 32 characters; remove the file, and the next start makes another: what was made with it is no longer valid"

/* secrets.c */
/** SHA-256 of a text. */
void sum_text(const char *text, size_t len, char ret_sum[SUM_SIZE]);
/** Compares two sums in constant time. */
bool sums_equal(const char a[SUM_SIZE], const char b[SUM_SIZE]);
/* The next three block, and return 0 or a negative errno. */
/** Reads a file; -EFBIG if it has more than KEY_FILE_MAX bytes. */
int secret_read(const char *path, struct buffer *ret);
/** The same for a file that the operator named: it may be a link or a pipe. */
int secret_read_named(const char *path, struct buffer *ret);
/** Replaces a file by one with this text and a newline, durably, with mode 0600. */
int secret_write(const char *dir, const char *name, const char *text, size_t len);
/** Reads a file without its last newline; if it is missing, creates it durably with random text. */
int secret_read_or_make(const char *dir, const char *name, struct buffer *ret);

/* access_file.c */
/** Loads access.jsonl. Blocks. Returns a negative errno with *ret_why, which the caller frees. */
int access_file_load(struct access *access, char **ret_why);
/** Queues a line to be written. `object` is taken over; its closing brace is still missing. */
void access_file_append(struct access *access, struct buffer *object,
	void (*done)(void *arg, int status), void *arg);

/** The number of the first damaged line, from 1 on; 0: none. */
size_t access_damaged_line(const struct buffer *bytes);
/** Parses a line; NULL if it is damaged. */
json_t *access_line_read(const char *line, size_t len);
/** Applies lines. Returns -EBADMSG at the first damaged one, whose number is *ret_line. */
int access_take_lines(struct access *access, const char *at, size_t len, size_t *ret_line);
/**
 * Appends the lines that are still needed to `kept`, and the others to `rest` unless it is NULL.
 */
void access_sort_lines(const struct access *access, const struct buffer *bytes, struct buffer *kept,
	struct buffer *rest);

/* access_shared.c */
/** Merges the lines of the file into the shelf and loads them all. Blocks. *ret_why as above. */
int access_shared_load(struct access *access, char **ret_why);

/* access.c, subscriptions.c: applying lines */
/** Whether the key that has signed a login's token is still in use. May run on any thread. */
bool access_knows_key(const struct access *access, const json_t *key);
void access_take_login(struct access *access, const json_t *login);
void access_take_logout(struct access *access, const char *cookie_sum);
void access_take_push(struct access *access, const json_t *push);
/** Finds the login with these two halves; NULL: none. */
struct login *login_find(const struct access *access, const char *cookie, const char *header);
/** Drops the push subscription of a login, only in memory. */
void login_forget_push(struct access *access, struct login *login);
void access_take_revocation(struct access *access, const json_t *revoked);
/** Appends `{"login":{…}` and `{"revoked":{…}` without the last brace. */
void login_write(const struct login *login, struct buffer *out);
void revocation_write(const struct revocation *revocation, int64_t now_ms, struct buffer *out);

#endif
