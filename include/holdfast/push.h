/*
 * Web Push: tells browsers whose page is closed that a session waits for an answer, or has ended
 * its turn (proto/access.md#push-messages). A message contains the session's id, the kind, and the
 * id of the question.
 *
 * The functions run on the loop's thread, and only push_create() blocks. A few threads send the
 * requests to push services.
 */
#ifndef HOLDFAST_PUSH_H
#define HOLDFAST_PUSH_H

#include "holdfast/access.h"
#include "holdfast/address.h"
#include "holdfast/clock.h"
#include "holdfast/limits.h"
#include "holdfast/metrics.h"
#include "holdfast/option_rows.h"
#include "holdfast/server_life.h"

#include <uv.h>

/** Where messages may be sent. */
struct push_rules {
	char **hosts; /* NAME, *.NAME, NAME:PORT; NULL-terminated; NULL: nowhere */
	struct address_range *addresses; /* private addresses that are allowed for these hosts */
	size_t address_count;
	const char *ca_file; /* certificates to trust besides the system's; NULL: none */
};
/** Add the value of an option. Return NULL, or a static message that says what is wrong with it. */
const char *push_add_host(struct push_rules *rules, const char *text);
const char *push_add_address(struct push_rules *rules, const char *text);
void push_rules_finish(struct push_rules *rules);
/** The options of serve; their state is struct push_rules. */
extern const struct option_group push_options;

struct push;

struct push_config {
	const struct server_life *life; /* of the server; must outlive the push */
	uv_loop_t *loop;
	const struct clock *clock;
	const struct limits *limits;
	struct metrics *metrics;
	struct access *access;
	const struct shelf *shelf; /* where servers share their key; NULL: in the data directory */
	const char *data_dir;
	const struct push_rules *rules; /* must outlive the push */
	const char *contact; /* an https: URL of the sender, for push services; NULL: none */
};

/** Blocks. Returns 0 or a negative errno, with a message in *ret_why that the caller frees. */
int push_create(const struct push_config *config, struct push **ret_push, char **ret_why);
/**
 * Stops sending, and aborts requests in progress; the loop must run until they end. Accepts NULL.
 */
void push_stop(struct push *push);
/** To be called after push_stop(), when the loop has ended. Accepts NULL. */
void push_destroy(struct push *push);

/** The server's public key in base64url, with which browsers subscribe. */
const char *push_public_key_of(const struct push *push);
/** Says what is wrong with a subscription that a browser has sent; NULL: nothing. Static text. */
const char *push_fault(const struct push *push, const struct push_subscription *subscription);

/** What a session waits for. */
struct push_questions {
	size_t count; /* open requests */
	const char *newest; /* the id of the one that was asked last, or NULL; borrowed */
};
/**
 * A session has changed: queues messages if it has begun to wait, is asked another question, or has
 * ended its turn; and takes back that it waits where that was told and is over.
 */
void push_session_changed(struct push *push, const char *session_id, const char *status,
	const struct push_questions *questions);
/** A session was deleted: its messages in the queue are dropped, and that it waits is taken back. */
void push_session_deleted(struct push *push, const char *session_id);
/** Sets the gauges about push messages. */
void push_count(struct push *push);

#endif
