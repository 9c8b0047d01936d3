/*
 * Webhooks: tells URLs of the operator that a session waits for an answer, has ended a turn, or
 * that its agent has failed (docs/webhooks.md). Each message is about one event of the log, which
 * it names. So a hook is a cursor into each session's log, like an observer, and unsent messages
 * take no memory. Each URL gets the messages of a session one at a time, the oldest first; the
 * cursor advances when the URL has accepted one, and is written to disk soon after.
 *
 *   DIR/webhooks.jsonl    the cursor of each URL in each session; one sealed line each
 *
 * The functions run on the loop's thread, and only those that say so block. Each URL has a few
 * threads of its own for requests, so that one that does not answer does not delay the others.
 */
#ifndef HOLDFAST_WEBHOOK_H
#define HOLDFAST_WEBHOOK_H

#include "holdfast/address.h"
#include "holdfast/clock.h"
#include "holdfast/limits.h"
#include "holdfast/metrics.h"
#include "holdfast/option_rows.h"
#include "holdfast/session.h"

#include <uv.h>

#define WEBHOOK_URLS_MAX    8
#define WEBHOOK_SECRETS_MAX 4
#define WEBHOOK_SECRET_MIN  24 /* bytes, as Standard Webhooks has it */
#define WEBHOOK_SECRET_MAX  64

/** Where messages are sent. */
struct webhook_rules {
	char *urls[WEBHOOK_URLS_MAX + 1]; /* NULL-terminated */
	struct address_range *addresses; /* private addresses that are allowed for host names */
	size_t address_count;
	const char *ca_file; /* certificates to trust besides the system's; NULL: none */
	const char *secret_file; /* NULL: none, then there are no URLs */
	bool may_be_plain; /* http to other machines is allowed */
};
/** Add the value of an option. Return NULL, or a static message that says what is wrong with it. */
const char *webhook_add_url(struct webhook_rules *rules, const char *text);
const char *webhook_add_address(struct webhook_rules *rules, const char *text);
/** Checks a URL once all options are known. Returns NULL, or a static message. */
const char *webhook_url_fault(const struct webhook_rules *rules, const char *text);
void webhook_rules_finish(struct webhook_rules *rules);
/** The options of serve; their state is struct webhook_rules. */
extern const struct option_group webhook_options;

/**
 * The secrets. Each message is signed with all of them, so that a receiver needs to know only one.
 */
struct webhook_secrets {
	struct {
		unsigned char bytes[WEBHOOK_SECRET_MAX];
		size_t len;
	} all[WEBHOOK_SECRETS_MAX];
	size_t count;
};
/**
 * Reads a file of lines `whsec_BASE64`. Blocks. Returns 0 or a negative errno, with a message in
 * *ret_why that the caller frees.
 */
int webhook_secrets_read(const char *path, struct webhook_secrets *ret, char **ret_why);

struct webhooks;

struct webhooks_config {
	const struct server_life *life; /* of the server; must outlive the webhooks */
	uv_loop_t *loop;
	const struct clock *clock;
	const struct limits *limits;
	struct metrics *metrics;
	struct session_table *sessions;
	const char *data_dir;
	const struct webhook_rules *rules; /* must outlive the webhooks */
};

/**
 * Reads the cursors, and begins to send what is due. A new URL is told only of events from now on.
 * Blocks. Returns 0 or a negative errno, with a message in *ret_why that the caller frees; even
 * then *ret_webhooks, if it was set, has to be stopped and destroyed.
 */
int webhooks_create(
	const struct webhooks_config *config, struct webhooks **ret_webhooks, char **ret_why);
/** Replaces the secrets. Accepts NULL. */
void webhooks_set_secrets(struct webhooks *webhooks, const struct webhook_secrets *secrets);
/**
 * Stops sending, and aborts requests in progress; the loop must run until they end. Accepts NULL.
 */
void webhooks_stop(struct webhooks *webhooks);
/** To be called after webhooks_stop(), when the loop has ended. Blocks. Accepts NULL. */
void webhooks_destroy(struct webhooks *webhooks);

/** To be called when a session has changed. Accepts NULL. */
void webhooks_session_changed(struct webhooks *webhooks, const struct session *session);
/** To be called when a session has been deleted. Accepts NULL. */
void webhooks_session_deleted(struct webhooks *webhooks, const char *session_id);

#endif
