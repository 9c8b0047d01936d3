/* The options of serve for push messages; their state is struct push_rules. */
#include "holdfast/push.h"

static const char *add_host(const struct option_row *row, void *place, const char *value)
{
	return push_add_host(place, value);
}

static const char *add_address(const struct option_row *row, void *place, const char *value)
{
	return push_add_address(place, value);
}

static const struct option_row rows[] = {
	{{"--push-host", "NAME|*.NAME|NAME:PORT|off", "HOLDFAST_PUSH_HOST",
		 "fcm.googleapis.com,updates.push.services.mozilla.com,*.push.apple.com,*.notify.windows.com",
		 "a host of push services: push messages, which browsers ask for, go to these hosts only. May be repeated;\n"
		 "      separate names in HOLDFAST_PUSH_HOST with blanks. By default the hosts of Chrome, Edge, Firefox and Safari;\n"
		 "      off: no push messages"},
		.apply = add_host, .flags = OPTION_REPEATS},
	{{"--push-address", "ADDRESS[/BITS]", "HOLDFAST_PUSH_ADDRESS", NULL,
		 "let such a host have this private address; otherwise the server connects only to public addresses. May be\n"
		 "      repeated, in the same way"},
		.apply = add_address, .flags = OPTION_REPEATS},
	{{"--push-ca", "FILE", "HOLDFAST_PUSH_CA", NULL,
		 "certificates (PEM) to trust for push services, besides the system's"},
		.apply = option_set_text, .offset = offsetof(struct push_rules, ca_file)},
	{.apply = NULL},
};

static void finish(void *state)
{
	push_rules_finish(state);
}

const struct option_group push_options = {.rows = rows, .finish = finish};
