#include "relay_reload.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>

static void read_files(uv_work_t *work)
{
	struct reload *reload = work->data;
	reload->level_status = config_read_log_level(reload->config, &reload->level);
	if (HOLDFAST_HAS_NOTIFY && reload->webhooks) {
		webhook_secrets_read(reload->config->webhooks.secret_file, &reload->secrets,
			&reload->secrets_why);
	}
}

static void take_secrets(struct reload *reload)
{
	if (reload->secrets_why) {
		diag(DIAG_ERROR, "SIGHUP: %s; the old secrets remain in use", reload->secrets_why);
		free(reload->secrets_why);
		reload->secrets_why = NULL;
	} else if (HOLDFAST_HAS_NOTIFY) {
		webhooks_set_secrets(reload->webhooks, &reload->secrets);
		diag_say("SIGHUP: the secrets of webhooks have been reloaded");
	}
	OPENSSL_cleanse(&reload->secrets, sizeof(reload->secrets));
}

static void handle_read(uv_work_t *work, int status)
{
	struct reload *reload = work->data;
	work->data = NULL;
	if (reload->webhooks) {
		take_secrets(reload);
	}
	if (reload->level_status == 0) {
		diag_set_level(reload->level);
		diag_say("SIGHUP: the log level has been reloaded");
	} else if (reload->level_status == -ENOENT && !reload->config->tls_cert &&
		   !reload->webhooks) {
		diag_say("SIGHUP: there is nothing to reload");
	}
}

void relay_reload(struct reload *reload, uv_loop_t *loop, const struct config *config,
	struct webhooks *webhooks)
{
	if (reload->work.data) {
		return;
	}
	reload->config = config;
	reload->webhooks = webhooks;
	reload->work.data = reload;
	uv_queue_work(loop, &reload->work, read_files, handle_read);
}
