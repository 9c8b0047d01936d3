/*
 * Webhooks: tells URLs that the operator names that a session waits for an answer, has ended a turn, or that its agent
 * has failed (docs/webhooks.md). A message is made of one event of the log and says which; so a hook is a cursor into
 * each session's log, as an observer is, and what is to be sent takes no memory. Of a session one message at a time is
 * on its way to a URL, the oldest; the cursor goes on when the URL has taken it, and is on disk soon after.
 *
 *   DIR/webhooks.jsonl    how far each URL has been told of each session; one sealed line each
 *
 * The functions run on the loop's thread and do not wait, but for webhooks_create(). Requests are made on a few threads
 * of each URL's own, so that one that does not answer holds up no other.
 */
#ifndef HOLDFAST_WEBHOOK_H
#define HOLDFAST_WEBHOOK_H

#include "holdfast/address.h"
#include "holdfast/clock.h"
#include "holdfast/limits.h"
#include "holdfast/metrics.h"
#include "holdfast/session.h"

#include <uv.h>

#define WEBHOOK_URLS_MAX    8
#define WEBHOOK_SECRETS_MAX 4
#define WEBHOOK_SECRET_MIN  24 /* bytes, as Standard Webhooks has it */
#define WEBHOOK_SECRET_MAX  64

/** Where messages go. */
struct webhook_rules {
	char *urls[WEBHOOK_URLS_MAX + 1]; /* up to the first NULL */
	struct address_range *addresses; /* private ones that a name may have */
	size_t address_count;
	const char *ca_file; /* certificates to trust besides the system's; NULL: none */
	const char *secret_file; /* NULL: none, and no URLs */
	bool may_be_plain; /* http to other machines */
};
/** Adds what an option gives; the answer says what is wrong with it, or is NULL. */
const char *webhook_take_url(struct webhook_rules *rules, const char *text);
const char *webhook_take_address(struct webhook_rules *rules, const char *text);
/** What is wrong with a URL, now that all options are known; NULL: nothing. */
const char *webhook_url_fault(const struct webhook_rules *rules, const char *text);
void webhook_rules_finish(struct webhook_rules *rules);

/** What messages are signed with: each of them with all, so that a receiver may know any one. */
struct webhook_secrets {
	struct {
		unsigned char bytes[WEBHOOK_SECRET_MAX];
		size_t len;
	} all[WEBHOOK_SECRETS_MAX];
	size_t count;
};
/** Reads a file of lines `whsec_BASE64`. Blocks. A negative errno with *ret_why (caller frees). */
int webhook_secrets_read(const char *path, struct webhook_secrets *ret, char **ret_why);

struct webhooks;

struct webhooks_config {
	uv_loop_t *loop;
	const struct clock *clock;
	const struct limits *limits;
	struct metrics *metrics;
	struct session_table *sessions;
	const char *data_dir;
	const struct webhook_rules *rules; /* must outlive it */
};

/**
 * Reads the file, and begins to send what was left open. A URL that is new is told of what comes from now on. Blocks.
 * Returns a negative errno with *ret_why (caller frees).
 */
int webhooks_create(
	const struct webhooks_config *config, struct webhooks **ret_webhooks, char **ret_why);
/** Other secrets from now on. Accepts NULL. */
void webhooks_set_secrets(struct webhooks *webhooks, const struct webhook_secrets *secrets);
/** Sends nothing any more; what is on its way is broken off, and the loop is to run until then. Accepts NULL. */
void webhooks_stop(struct webhooks *webhooks);
/** After webhooks_stop(), when the loop has come to its end. Blocks. Accepts NULL. */
void webhooks_destroy(struct webhooks *webhooks);

/** A session's object has changed. Accepts NULL, and so does the next one. */
void webhooks_session_changed(struct webhooks *webhooks, const struct session *session);
void webhooks_session_deleted(struct webhooks *webhooks, const char *session_id);

#endif
