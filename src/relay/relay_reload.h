/* What SIGHUP has read again, besides TLS keys (server.h): the log level, and the secrets of webhooks. */
#ifndef HOLDFAST_RELAY_RELOAD_H
#define HOLDFAST_RELAY_RELOAD_H

#include "holdfast/config.h"
#include "holdfast/webhook.h"

#include <uv.h>

/** All zero at first. */
struct reload {
	uv_work_t work; /* its data is NULL while it is not under way */
	const struct config *config;
	struct webhooks *webhooks; /* NULL: none */
	int level_status;
	enum diag_level level;
	struct webhook_secrets secrets;
	char *secrets_why; /* what is wrong with them; NULL: nothing */
};

/** Reads the files on the thread pool, and takes what they say on the loop; not while that is under way. */
void relay_reload(struct reload *reload, uv_loop_t *loop, const struct config *config,
	struct webhooks *webhooks);

#endif
