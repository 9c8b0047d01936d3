/* What the files of the webhook room share. */
#ifndef HOLDFAST_WEBHOOK_INTERNAL_H
#define HOLDFAST_WEBHOOK_INTERNAL_H

#include "holdfast/webhook.h"

#include "holdfast/hash.h"
#include "holdfast/list.h"
#include "holdfast/post.h"
#include "holdfast/worker.h"

/* --- webhook_message.c --- */

enum webhook_kind { WEBHOOK_NONE, WEBHOOK_WAITING, WEBHOOK_TURN_ENDED, WEBHOOK_AGENT_FAILED };

/** What an event is to a webhook. */
enum webhook_kind webhook_kind_of(const struct event *event);
const char *webhook_kind_name(enum webhook_kind kind);

#define WEBHOOK_ID_SIZE 37
/** The same for the same event, at every URL and however often it is sent. */
void webhook_make_id(const char *session, uint64_t epoch, uint64_t seq, char ret[WEBHOOK_ID_SIZE]);
struct webhook_facts {
	const char *session;
	uint64_t epoch;
	uint64_t seq;
	enum webhook_kind kind;
	int64_t ts; /* of the event, ms since 1970 */
};
void webhook_append_body(struct buffer *out, const struct webhook_facts *facts);
/** The lines of a request, with its signatures as of `now_s`. */
void webhook_append_headers(struct buffer *out, const struct webhook_secrets *secrets,
	const char *id, int64_t now_s, const struct buffer *body);

/* --- webhook_rules.c --- */

/** A URL, apart, with the addresses that its host may have (caller frees). */
int webhook_url_read(const struct webhook_rules *rules, const char *text, struct post_url *ret,
	struct address_range **ret_addresses, size_t *ret_count);

/* --- webhook_cursors.c --- */

/* A URL's name in the file, which does not tell it. */
#define HOOK_NAME_SIZE 33
void webhook_name(const char *url, char ret[HOOK_NAME_SIZE]);

struct cursors;
/** What a line of the file says. */
struct cursor_line {
	const char *hook;
	const char *session; /* NULL: only that there is this hook */
	uint64_t epoch;
	uint64_t seq;
};
/**
 * Reads the file and gives what counts in it: first the hooks, then their cursors. Blocks. Lines that are damaged are
 * told of and left out. A negative errno with *ret_why (caller frees).
 */
int cursors_open(uv_loop_t *loop, const char *data_dir,
	void (*visit)(void *arg, const struct cursor_line *line), void *arg,
	struct cursors **ret_cursors, char **ret_why);
/** Appends a line to `out`, for cursors_begin(). */
void cursors_append(struct buffer *out, const struct cursor_line *line);
/** Puts these lines in the place of all that was there. Blocks. A negative errno; then the file stays as it was. */
int cursors_begin(struct cursors *cursors, const struct buffer *lines);
/** Soon on disk; one that cannot be written is tried again with the next ones. */
void cursors_note(struct cursors *cursors, const struct cursor_line *line);
/** The session is no more. */
void cursors_forget(struct cursors *cursors, const char *session);
/** Nothing is begun any more; the loop is to run until what is under way is over. */
void cursors_stop(struct cursors *cursors);
/** Writes what is left. Blocks. Accepts NULL. */
void cursors_destroy(struct cursors *cursors);

/* --- webhook_send.c --- */

#define HOOK_SENDERS 4

/** How far a hook has got with a session. */
struct track {
	struct list link; /* hook.due, by due_ms; self otherwise */
	struct hook *hook;
	char *session;
	uint64_t epoch;
	uint64_t seq; /* everything up to here is told, or was no news */
	uint64_t stored; /* the same, as the file has it */
	uint64_t head; /* the session's newest event */
	unsigned attempts; /* to send what comes next */
	bool is_failing; /* one of hook.failing */
	int64_t due_ms; /* on the loop's clock */
	bool is_busy; /* a sender is at it */
	bool is_gone; /* and it is freed behind that */
};

/** One message at a time. */
struct sender {
	struct hook *hook;
	struct worker *worker; /* NULL: it has ended */
	struct track *track; /* NULL: it has nothing to do */
	struct session *session; /* held while its log is read; NULL: it is not */
	struct log_read *read;
	bool was_cold; /* the log was read from disk for it */
	uint64_t seq; /* of the message */
	enum webhook_kind kind;
	int64_t ts;
	/* For the thread, and from it. */
	struct buffer headers;
	struct buffer body;
	int64_t now_s;
	int result;
	int64_t retry_s;
};

/** A URL. */
struct hook {
	struct webhooks *webhooks;
	char name[HOOK_NAME_SIZE];
	struct post_url url;
	struct address_range *addresses;
	size_t address_count;
	struct hash *tracks; /* by session */
	struct list due;
	size_t behind; /* tracks that are due, or busy */
	struct sender senders[HOOK_SENDERS];
	uv_timer_t timer;
	int64_t not_before_ms; /* it wants to hear nothing before */
	size_t failing; /* sessions whose message was not taken; that it fails has been told then */
	bool is_known; /* the file has it */
};

struct webhooks {
	struct webhooks_config config;
	struct webhook_secrets secrets;
	struct cursors *cursors;
	SSL_CTX *tls;
	int stop_fd; /* can be read when there is no more time */
	struct hook *hooks[WEBHOOK_URLS_MAX];
	size_t hook_count;
	bool is_stopping;
};

void hook_init(struct hook *hook, struct webhooks *webhooks);
void hook_stop(struct hook *hook);
void hook_finish(struct hook *hook);
struct track *hook_add_track(struct hook *hook, const char *session);
/** The session's newest event is this one. */
void hook_note_head(struct hook *hook, const char *session, uint64_t epoch, uint64_t head);
/** The session is no more. */
void hook_forget(struct hook *hook, const char *session);
/** Sends what is due, as far as there are senders. */
void hook_send_due(struct hook *hook);

#endif
