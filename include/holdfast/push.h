/*
 * Web Push: tells browsers whose page is closed that a session waits for an answer, or has ended its turn
 * (proto/access.md#push-messages). What each message says is the session's id and one of these two.
 *
 * The functions run on the loop's thread and do not wait, but for push_create(). Requests to push services are made on a
 * few threads of their own.
 */
#ifndef HOLDFAST_PUSH_H
#define HOLDFAST_PUSH_H

#include "holdfast/access.h"
#include "holdfast/address.h"
#include "holdfast/clock.h"
#include "holdfast/limits.h"
#include "holdfast/metrics.h"

#include <uv.h>

/** Where messages may go. */
struct push_rules {
	char **hosts; /* NAME, *.NAME, NAME:PORT; NULL-terminated; NULL: nowhere */
	struct address_range *addresses; /* private ones that such a host may have */
	size_t address_count;
	const char *ca_file; /* certificates to trust besides the system's; NULL: none */
};
/** Adds what an option gives; the answer says what is wrong with it, or is NULL. */
const char *push_take_host(struct push_rules *rules, const char *text);
const char *push_take_address(struct push_rules *rules, const char *text);
void push_rules_finish(struct push_rules *rules);

struct push;

struct push_config {
	uv_loop_t *loop;
	const struct clock *clock;
	const struct limits *limits;
	struct metrics *metrics;
	struct access *access;
	const struct shelf *shelf; /* has the key that names the server; NULL: the data directory */
	const char *data_dir;
	const struct push_rules *rules; /* must outlive it */
	const char *contact; /* an https: URL that tells push services who sends; NULL: none */
};

/** Blocks. Returns a negative errno with *ret_why (caller frees). */
int push_create(const struct push_config *config, struct push **ret_push, char **ret_why);
/** Sends nothing any more; what is on its way ends, and the loop is to run until then. Accepts NULL. */
void push_stop(struct push *push);
/** After push_stop(), when the loop has come to its end. Accepts NULL. */
void push_destroy(struct push *push);

/** In base64url: what a browser subscribes with. */
const char *push_public_key_of(const struct push *push);
/** What is wrong with a subscription that a browser has sent; NULL: nothing. */
const char *push_fault(const struct push *push, const struct push_subscription *subscription);

/** A session's object has changed: tells those of whom it begins to wait, or has ended its turn. */
void push_session_changed(struct push *push, const char *session_id, const char *status);
void push_session_deleted(struct push *push, const char *session_id);
/** Sets the gauges of the metrics. */
void push_count(struct push *push);

#endif
