#include "relay_senders.h"

#include "holdfast/session.h"

#include <string.h>

static int open_push(const struct relay_senders_config *wanted, struct push **ret, char **ret_why)
{
	const struct config *config = wanted->config;
	bool is_public = config->url && strncmp(config->url, "https:", 6) == 0;
	if (!wanted->access || !config->push.hosts) {
		return 0;
	}
	return push_create(&(struct push_config){.life = wanted->life,
				   .loop = wanted->loop,
				   .clock = wanted->clock,
				   .limits = &config->limits,
				   .metrics = wanted->metrics,
				   .access = wanted->access,
				   .data_dir = config->data_dir,
				   .shelf = session_table_shelf(wanted->sessions),
				   .rules = &config->push,
				   .contact = is_public ? config->url : NULL},
		ret, ret_why);
}

static int open_webhooks(
	const struct relay_senders_config *wanted, struct webhooks **ret, char **ret_why)
{
	const struct config *config = wanted->config;
	if (!config->webhooks.urls[0]) {
		return 0;
	}
	return webhooks_create(&(struct webhooks_config){.life = wanted->life,
				       .loop = wanted->loop,
				       .clock = wanted->clock,
				       .limits = &config->limits,
				       .metrics = wanted->metrics,
				       .sessions = wanted->sessions,
				       .data_dir = config->data_dir,
				       .rules = &config->webhooks},
		ret, ret_why);
}

int relay_senders_open(
	const struct relay_senders_config *wanted, struct relay_senders *senders, char **ret_why)
{
	int r = open_push(wanted, &senders->push, ret_why);
	return r < 0 ? r : open_webhooks(wanted, &senders->webhooks, ret_why);
}

void relay_senders_session_changed(const struct relay_senders *senders, struct session *session)
{
	if (senders->push) {
		struct session_object object;
		session_get_object(session, &object);
		push_session_changed(senders->push, object.id, object.status,
			&(struct push_questions){object.questions, object.waiting_for});
	}
	webhooks_session_changed(senders->webhooks, session);
}

void relay_senders_session_deleted(const struct relay_senders *senders, const char *id)
{
	if (senders->push) {
		push_session_deleted(senders->push, id);
	}
	webhooks_session_deleted(senders->webhooks, id);
}

void relay_senders_stop(const struct relay_senders *senders)
{
	push_stop(senders->push);
	webhooks_stop(senders->webhooks);
}

void relay_senders_destroy(const struct relay_senders *senders)
{
	push_destroy(senders->push);
	webhooks_destroy(senders->webhooks);
}
