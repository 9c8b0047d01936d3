/* What the files of the access room share. */
#ifndef HOLDFAST_ACCESS_INTERNAL_H
#define HOLDFAST_ACCESS_INTERNAL_H

#include "holdfast/access.h"
#include "holdfast/shelf.h"

#include "holdfast/buffer.h"
#include "holdfast/hash.h"
#include "holdfast/list.h"
#include "holdfast/token_key.h"

/* SHA-256 as a text, with a NUL. */
#define SUM_SIZE 65
/* Bytes of a file with a key. */
#define KEY_FILE_MAX ((size_t)64 * 1024)

/** A key that may sign tokens, and what its tokens must say. */
struct signer {
	struct token_key *key;
	uint64_t id; /* of the key: see struct grant */
	bool is_ours; /* then "iss" and "aud" are nobody's affair */
};

struct login {
	struct list link; /* access.login_list */
	char cookie_sum[SUM_SIZE];
	char header_sum[SUM_SIZE];
	struct grant *grant;
	struct push_subscription *push; /* NULL: none */
};

/** A look for what other servers have put on the shelf. */
struct access_look {
	uv_work_t work;
	uv_timer_t *timer; /* NULL: there is no shelf */
	uint64_t at; /* the number of the last line that is known */
	struct buffer lines; /* as shelf.read() gives them */
	int status;
	bool is_working;
	bool is_anew; /* all lines are read again */
	int64_t seen_ms; /* when the last one began that came through: ms of CLOCK_BOOTTIME */
	int64_t begun_ms;
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
	size_t push_count; /* of them, those with a push subscription */
	struct hash *verified; /* struct grant of tokens that were checked, by their sums */
	struct hash *revoked; /* jti: any value that is not NULL */
	struct hash *revoked_subs; /* int64_t: tokens made before this time count no more */
	struct list waiting; /* struct access_write: for the next write */
	struct list writing; /* they are on their way to the disk */
	uv_work_t work;
	struct buffer lines; /* of `writing` */
	int status; /* of the write */
	int64_t now_ms; /* when it began */
	size_t anew_size; /* access.jsonl is written anew when it is larger */
	bool is_working;
};

/** A line on its way to the disk. */
struct access_write {
	struct list link;
	struct buffer line;
	/** Of access.h; may be NULL. */
	void (*done)(void *arg, int status);
	void *arg;
};

/* secrets.c */
/** SHA-256 of a text. */
void sum_text(const char *text, size_t len, char ret_sum[SUM_SIZE]);
/** Whether two sums are the same, in a time that does not tell where they differ. */
bool sums_equal(const char a[SUM_SIZE], const char b[SUM_SIZE]);
/** Reads a file of at most KEY_FILE_MAX bytes. */
int secret_read(const char *path, struct buffer *ret);
/** Puts a text into a file in place of what is there, durably, with mode 0600. */
int secret_write(const char *dir, const char *name, const char *text, size_t len);
/** The same, of a file of random text that is made if it is missing, durably, with mode 0600. */
int secret_read_or_make(const char *dir, const char *name, struct buffer *ret);

/* access_file.c */
/** Reads access.jsonl into the access. *ret_why (caller frees) says what is wrong with it. */
int access_file_load(struct access *access, char **ret_why);
/** Puts a line on its way; its object has no closing brace yet. */
void access_file_append(struct access *access, struct buffer *object,
	void (*done)(void *arg, int status), void *arg);

/** A line as JSON; NULL if it is damaged. */
json_t *access_line_read(const char *line, size_t len);
/** Takes what the lines say; -EBADMSG: one is damaged, whose number is *ret_line. */
int access_take_lines(struct access *access, const char *at, size_t len, size_t *ret_line);
/** Appends to `kept` those of the lines that still say something, to `rest` (may be NULL) the others. */
void access_sort_lines(const struct access *access, const struct buffer *bytes, struct buffer *kept,
	struct buffer *rest);

/* access_shared.c */
/** The shelf's and the file's lines become one, and are read. *ret_why as above. Blocks. */
int access_shared_load(struct access *access, char **ret_why);

/* access.c: what lines tell */
/** Whether the key is still there that has signed a login's token. On any thread. */
bool access_knows_key(const struct access *access, const json_t *key);
void access_take_login(struct access *access, const json_t *login);
void access_take_logout(struct access *access, const char *cookie_sum);
void access_take_push(struct access *access, const json_t *push);
/** The login of two halves; NULL: none. */
struct login *login_find(const struct access *access, const char *cookie, const char *header);
/** Only in memory. */
void login_forget_push(struct access *access, struct login *login);
void access_take_revocation(struct access *access, const json_t *revoked);
/** Appends `{"login":{…}` and `{"revoked":{…}` without the last brace. */
void login_write(const struct login *login, struct buffer *out);
void revocation_write(const struct revocation *revocation, int64_t now_ms, struct buffer *out);

#endif
