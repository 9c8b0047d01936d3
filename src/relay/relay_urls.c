#include "relay_urls.h"

#include "holdfast/access.h"
#include "holdfast/diag.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void relay_replace_wildcard(struct buffer *url)
{
	static const char *const names[][2] = {
		{"://0.0.0.0:", "://127.0.0.1:"}, {"://[::]:", "://[::1]:"}};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *at = strstr(buffer_cstr(url), names[i][0]);
		if (at) {
			char *port = xstrdup(at + strlen(names[i][0]));
			url->len = (size_t)(at - url->data);
			buffer_printf(url, "%s%s", names[i][1], port);
			free(port);
		}
	}
}

int relay_rank_url(const char *url)
{
	return strncmp(url, "unix:", 5) == 0 ? 2 : strncmp(url, "http:", 5) == 0 ? 1 : 0;
}

void relay_announce_login(const char *data_dir, const char *url)
{
	char *why = NULL;
	char *token = isatty(STDERR_FILENO) ? access_read_token(data_dir, &why) : NULL;
	if (token) {
		diag_say("open %s/#token=%s", url, token);
	} else {
		diag_say("holdfast url --data %s prints the link that logs in", data_dir);
	}
	free(token);
	free(why);
}
