/* What is sent to other machines: push messages and webhooks. A build may be without them (parts.h). */
#ifndef HOLDFAST_RELAY_SENDERS_H
#define HOLDFAST_RELAY_SENDERS_H

#include "holdfast/config.h"
#include "holdfast/push.h"
#include "holdfast/webhook.h"

struct relay_senders {
	struct push *push; /* NULL: no push messages */
	struct webhooks *webhooks; /* NULL: no webhooks */
};

struct relay_senders_config {
	const struct config *config; /* must outlive the senders */
	const struct server_life *life; /* likewise, as all that follow */
	uv_loop_t *loop;
	const struct clock *clock;
	struct metrics *metrics;
	struct access *access; /* NULL: no push messages */
	struct session_table *sessions;
};

/** Blocks. Returns 0 or a negative errno, with a message in *ret_why that the caller frees. */
int relay_senders_open(
	const struct relay_senders_config *wanted, struct relay_senders *senders, char **ret_why);
void relay_senders_session_changed(const struct relay_senders *senders, struct session *session);
void relay_senders_session_deleted(const struct relay_senders *senders, const char *id);
/** Stops sending, and aborts requests in progress; the loop must run until they end. */
void relay_senders_stop(const struct relay_senders *senders);
/** To be called after relay_senders_stop(), when the loop has ended. Blocks. */
void relay_senders_destroy(const struct relay_senders *senders);

#endif
