/* The options of serve for webhooks. */
#include "config_internal.h"

int config_take_webhook(struct config *config, const char *text)
{
	const char *fault = webhook_take_url(&config->webhooks, text);
	return fault ? options_refuse(&config_options[WEBHOOK], text, fault) : 0;
}

int config_take_webhook_address(struct config *config, const char *text)
{
	const char *fault = webhook_take_address(&config->webhooks, text);
	return fault ? options_refuse(&config_options[WEBHOOK_ADDRESS], text, fault) : 0;
}

int config_take_webhooks(struct config *config, const char *values[],
	int (*take_outside)(struct config *config, int option, config_take_fn *take))
{
	struct webhook_rules *rules = &config->webhooks;
	int r = rules->urls[0] ? 0 : take_outside(config, WEBHOOK, config_take_webhook);
	if (r == 0 && !rules->address_count) {
		r = take_outside(config, WEBHOOK_ADDRESS, config_take_webhook_address);
	}
	rules->ca_file = values[WEBHOOK_CA];
	rules->secret_file = values[WEBHOOK_SECRET];
	rules->may_be_plain = values[WEBHOOK_HTTP] != NULL;
	for (char **url = rules->urls; r == 0 && *url; url++) {
		const char *fault =
			config->store
				? "webhooks do not work with --store yet: they would need their cursors in the database"
				: webhook_url_fault(rules, *url);
		r = fault ? options_refuse(&config_options[WEBHOOK], *url, fault) : 0;
	}
	return r;
}
