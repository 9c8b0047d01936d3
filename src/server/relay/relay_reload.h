/* Reloads on SIGHUP, besides TLS keys (server.h): the log level, and the secrets of webhooks. */
#ifndef HOLDFAST_RELAY_RELOAD_H
#define HOLDFAST_RELAY_RELOAD_H

#include "holdfast/config.h"
#include "holdfast/webhook.h"

#include <uv.h>

/** Must be all zero at first. */
struct reload {
	uv_work_t work; /* `data` is NULL unless a reload is running */
	const struct config *config;
	struct webhooks *webhooks; /* NULL: no webhooks */
	int level_status;
	enum diag_level level;
	struct webhook_secrets secrets;
	char *secrets_why; /* why the secrets could not be read; NULL: they could */
};

/**
 * Reads the files on the thread pool, then applies them on the loop. Does nothing while an earlier
 * reload is running.
 */
void relay_reload(struct reload *reload, uv_loop_t *loop, const struct config *config,
	struct webhooks *webhooks);

#endif
