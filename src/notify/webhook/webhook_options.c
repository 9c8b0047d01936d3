/* The options of serve for webhooks; their state is struct webhook_rules. */
#include "holdfast/webhook.h"

static const char *add_url(const struct option_row *row, void *place, const char *value)
{
	return webhook_add_url(place, value);
}

static const char *add_address(const struct option_row *row, void *place, const char *value)
{
	return webhook_add_address(place, value);
}

static const struct option_row rows[] = {
	{{"--webhook", "URL", "HOLDFAST_WEBHOOK", NULL,
		 "send a signed message to this https URL when a session begins to wait for an answer, ends a turn, or its agent\n"
		 "      fails; docs/webhooks.md. May be repeated; separate URLs in HOLDFAST_WEBHOOK with blanks"},
		.apply = add_url, .flags = OPTION_REPEATS},
	{{"--webhook-secret", "FILE", "HOLDFAST_WEBHOOK_SECRET", NULL,
		 "the secrets that sign the messages, one per line: whsec_ and 24 to 64 bytes in base64. Each message is signed\n"
		 "      with all of them, so that receivers can change to a new one. SIGHUP reads the file again"},
		.apply = option_set_text, .offset = offsetof(struct webhook_rules, secret_file)},
	{{"--webhook-address", "ADDRESS[/BITS]", "HOLDFAST_WEBHOOK_ADDRESS", NULL,
		 "let the name in a webhook's URL have this private address; otherwise the server connects only to public\n"
		 "      addresses, and to those written in a URL itself. May be repeated, in the same way"},
		.apply = add_address, .flags = OPTION_REPEATS},
	{{"--webhook-ca", "FILE", "HOLDFAST_WEBHOOK_CA", NULL,
		 "certificates (PEM) to trust for webhooks, besides the system's"},
		.apply = option_set_text, .offset = offsetof(struct webhook_rules, ca_file)},
	{{"--webhook-http", NULL, "HOLDFAST_WEBHOOK_HTTP", NULL,
		 "let webhooks on other machines have http URLs; anyone in between can then read and withhold messages"},
		.apply = option_set_switch, .offset = offsetof(struct webhook_rules, may_be_plain)},
	{.apply = NULL},
};

static int check(void *state)
{
	const struct webhook_rules *rules = state;
	int r = 0;
	for (char *const *url = rules->urls; *url && r == 0; url++) {
		const char *fault = webhook_url_fault(rules, *url);
		r = fault ? options_refuse(&rows[0].option, *url, fault) : 0;
	}
	return r;
}

static void finish(void *state)
{
	webhook_rules_finish(state);
}

const struct option_group webhook_options = {.rows = rows, .check = check, .finish = finish};
