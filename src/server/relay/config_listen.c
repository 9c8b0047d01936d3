/* The options of serve for addresses to listen on: for clients and for metrics. */
#include "config_internal.h"

#include "holdfast/buffer.h"

#include <stdlib.h>
#include <string.h>

/* How many times --listen may be given. */
#define LISTEN_MAX 16

bool config_read_host_port(const char *text, char **ret_host, int *ret_port)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
	bool bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']';
	if (!len || len >= 256 || !digits || digits > 5 || colon[1 + digits] ||
		memchr(text, '/', len) || atoi(colon + 1) > 65535) {
		return false;
	}
	*ret_host = xstrndup(text + bracketed, len - (bracketed ? 2 : 0));
	*ret_port = atoi(colon + 1);
	return true;
}

void config_append_listen(struct config *config, const struct listen_address *address)
{
	config->listen =
		xrealloc(config->listen, (config->listen_count + 1) * sizeof(*config->listen));
	config->listen[config->listen_count++] = *address;
}

const char *config_add_listen(const struct option_row *row, void *place, const char *text)
{
	struct config *config = place;
	struct listen_address address = {0};
	const char *host = text;
	if (config->listen_count == LISTEN_MAX) {
		return "too many addresses";
	}
	if (strncmp(text, "unix:", 5) == 0 && text[5]) {
		address.scheme = LISTEN_UNIX;
		address.host = absolute_path(text + 5);
		host = NULL;
	} else if (strncmp(text, "https://", 8) == 0) {
		address.scheme = LISTEN_HTTPS;
		host += 8;
	} else if (strncmp(text, "http://", 7) == 0) {
		address.scheme = LISTEN_HTTP;
		host += 7;
	}
	if (host && !config_read_host_port(host, &address.host, &address.port)) {
		return "expected HOST:PORT, such as 127.0.0.1:8080, optionally after https://; or unix:PATH";
	}
	config_append_listen(config, &address);
	return NULL;
}

const char *config_add_metrics_listen(const struct option_row *row, void *place, const char *text)
{
	struct listen_address address = {.scheme = LISTEN_HTTP, .is_metrics = true};
	if (!config_read_host_port(text, &address.host, &address.port)) {
		return "expected HOST:PORT";
	}
	config_append_listen(place, &address);
	return NULL;
}
