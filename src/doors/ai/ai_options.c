#include "holdfast/ai_options.h"

#include "holdfast/server.h"

static const struct option_row rows[] = {
	{{"--ai-sdk-cookie", NULL, "HOLDFAST_AI_SDK_COOKIE", NULL,
		 "let the cookie of a login alone open /api/ai/, for pages on this origin that do not know the login's other half.\n"
		 "      Browsers send cookies to every port of a host: anything else that listens on this host can use them to log in"},
		.apply = option_set_switch,
		.offset = offsetof(struct server_trust, ai_takes_cookie)},
	{.apply = NULL},
};

const struct option_group ai_options = {.rows = rows};
