/* Shared by the files of the webhook room. */
#ifndef HOLDFAST_WEBHOOK_INTERNAL_H
#define HOLDFAST_WEBHOOK_INTERNAL_H

#include "holdfast/webhook.h"

#include "holdfast/hash.h"
#include "holdfast/list.h"
#include "holdfast/sender.h"

/* --- webhook_message.c --- */

enum webhook_kind { WEBHOOK_NONE, WEBHOOK_WAITING, WEBHOOK_TURN_ENDED, WEBHOOK_AGENT_FAILED };

/** The kind of message that an event causes; WEBHOOK_NONE: none. */
enum webhook_kind webhook_kind_of(const struct event *event);
const char *webhook_kind_name(enum webhook_kind kind);

#define WEBHOOK_ID_SIZE 37
/** Makes the id of a message, the same for every URL and every attempt. */
void webhook_make_id(const char *session, uint64_t epoch, uint64_t seq, char ret[WEBHOOK_ID_SIZE]);
struct webhook_facts {
	const char *session;
	uint64_t epoch;
	uint64_t seq;
	enum webhook_kind kind;
	int64_t ts; /* of the event, ms since 1970 */
};
void webhook_append_body(struct buffer *out, const struct webhook_facts *facts);
/** Appends the header lines of a request, with its signatures as of `now_s`. */
void webhook_append_headers(struct buffer *out, const struct webhook_secrets *secrets,
	const char *id, int64_t now_s, const struct buffer *body);

/* --- webhook_rules.c --- */

/**
 * Parses a URL, and returns the private addresses that are allowed for its host, which the caller
 * frees. Returns 0 or -EINVAL.
 */
int webhook_url_read(const struct webhook_rules *rules, const char *text, struct post_url *ret,
	struct address_range **ret_addresses, size_t *ret_count);

/* --- webhook_cursors.c --- */

/* Makes a URL's name in the file, a hash: the URL can contain a secret. */
#define HOOK_NAME_SIZE 33
void webhook_name(const char *url, char ret[HOOK_NAME_SIZE]);

struct cursors;
/** A line of the file. */
struct cursor_line {
	const char *hook;
	const char *session; /* NULL: the line only says that the hook is known */
	uint64_t epoch;
	uint64_t seq;
};
/**
 * Reads the file, and visits the newest lines: first the hooks, then their cursors. Damaged lines
 * are logged and ignored. Blocks. Returns 0 or a negative errno, with *ret_why that the caller
 * frees.
 */
int cursors_open(const struct server_life *life, uv_loop_t *loop, const char *data_dir,
	void (*visit)(void *arg, const struct cursor_line *line), void *arg,
	struct cursors **ret_cursors, char **ret_why);
/** Appends a line to `out`, for cursors_begin(). */
void cursors_append(struct buffer *out, const struct cursor_line *line);
/** Replaces all lines of the file. Blocks. On failure, a negative errno, the file is unchanged. */
int cursors_begin(struct cursors *cursors, const struct buffer *lines);
/** Writes a line soon; if that fails, tries again, together with the next ones. */
void cursors_note(struct cursors *cursors, const struct cursor_line *line);
/** Removes a deleted session from all hooks. */
void cursors_forget(struct cursors *cursors, const char *session);
/** To be called once the server is closed: starts no more writes. The loop must run until the one in progress has ended. */
void cursors_stop(struct cursors *cursors);
/** Writes the remaining lines. Blocks. Accepts NULL. */
void cursors_destroy(struct cursors *cursors);

/* --- webhook_send.c --- */

/** A hook's cursor in a session. */
struct track {
	struct list link; /* hook.due, by due_ms; self otherwise */
	struct hook *hook;
	char *session;
	uint64_t epoch;
	uint64_t seq; /* the cursor: events up to here were delivered, or cause no message */
	uint64_t stored; /* the cursor that was last given to the file */
	uint64_t head; /* the session's newest event */
	unsigned attempts; /* to send the next message */
	bool is_failing; /* counted in hook.failing */
	int64_t due_ms; /* on the loop's clock */
	bool is_busy; /* a sender works on it */
	bool is_gone; /* the session is deleted: the track is freed when the sender is done */
};

/** What a sender does for a session: it searches the next message, and sends it. */
struct delivery {
	struct track *track;
	struct session *session; /* held while its log is read; NULL: none */
	struct log_read *read;
	bool was_cold; /* the log was read from disk */
	uint64_t seq; /* of the message */
	enum webhook_kind kind;
	int64_t ts;
	struct buffer headers;
	struct buffer body;
};

/** A URL. */
struct hook {
	struct webhooks *webhooks;
	char name[HOOK_NAME_SIZE];
	struct post_url url;
	struct address_range *addresses;
	size_t address_count;
	struct hash *tracks; /* by session */
	struct list due; /* struct track, by due_ms */
	size_t behind; /* number of tracks that are due or busy */
	struct senders senders;
	int64_t not_before_ms; /* nothing is sent before, as its Retry-After asked */
	size_t failing; /* number of sessions whose message failed */
	bool is_known; /* it is in the file */
};

struct webhooks {
	struct webhooks_config config;
	struct webhook_secrets secrets;
	struct cursors *cursors;
	SSL_CTX *tls;
	int stop_fd; /* an eventfd that aborts requests when it becomes readable */
	struct hook *hooks[WEBHOOK_URLS_MAX];
	size_t hook_count;
};

/** Must be called once hook.url and hook.addresses are known. */
void hook_init(struct hook *hook, struct webhooks *webhooks);
void hook_stop(struct hook *hook);
void hook_finish(struct hook *hook);
struct track *hook_add_track(struct hook *hook, const char *session);
/** Records a session's newest event, and queues the session if the cursor is behind. */
void hook_note_head(struct hook *hook, const char *session, uint64_t epoch, uint64_t head);
/** Removes a deleted session. */
void hook_forget(struct hook *hook, const char *session);
/** Starts free senders on the sessions that are due. */
void hook_send_due(struct hook *hook);

#endif
