/* The options of serve for addresses to listen on: for clients, for metrics and for other nodes. */
#include "config_internal.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
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

static void add(struct config *config, const struct listen_address *address)
{
	config->listen =
		xrealloc(config->listen, (config->listen_count + 1) * sizeof(*config->listen));
	config->listen[config->listen_count++] = *address;
}

int config_take_listen(struct config *config, const char *text)
{
	struct listen_address address = {0};
	const char *host = text;
	if (config->listen_count == LISTEN_MAX) {
		return options_refuse(&config_options[LISTEN], text, "too many addresses");
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
		return options_refuse(&config_options[LISTEN], text,
			"expected HOST:PORT, such as 127.0.0.1:8080, optionally after https://; or unix:PATH");
	}
	add(config, &address);
	return 0;
}

int config_take_metrics_listen(struct config *config, const char *text)
{
	struct listen_address address = {.scheme = LISTEN_HTTP, .is_metrics = true};
	if (!config_read_host_port(text, &address.host, &address.port)) {
		return options_refuse(&config_options[METRICS_LISTEN], text, "expected HOST:PORT");
	}
	add(config, &address);
	return 0;
}

/* --- nodes --- */

/** Whether an address stands for all of this machine's: other machines cannot connect to it. */
static bool is_wildcard(const char *host)
{
	return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 ||
	       strspn(host, "0:.") == strlen(host);
}

static int take_node_listen(struct config *config, const char *text)
{
	struct listen_address address = {.scheme = LISTEN_NODE};
	if (!config_read_host_port(text, &address.host, &address.port)) {
		return options_refuse(&config_options[NODE_LISTEN], text,
			"expected ADDRESS:PORT, such as 10.0.0.1:7000");
	}
	if (!address.port) {
		free(address.host);
		return options_refuse(&config_options[NODE_LISTEN], text,
			"name a port: other nodes have to find this one");
	}
	add(config, &address);
	return 0;
}

static int take_node_address(struct config *config, const char *text, int option)
{
	char *host;
	int port;
	if (!config_read_host_port(text, &host, &port) || !port) {
		return options_refuse(&config_options[option], text,
			"expected HOST:PORT, such as node1.internal:7000");
	}
	bool is_nowhere = is_wildcard(host);
	bool is_v6 = strchr(host, ':') != NULL;
	config->node_address = xprintf("%s%s%s:%d", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
	free(host);
	if (is_nowhere) {
		return options_refuse(&config_options[option], text,
			"other nodes cannot connect to this address: say with --node-address HOST:PORT where they reach this one");
	}
	return 0;
}

int config_take_node(struct config *config, const char *values[])
{
	const char *listen =
		values[NODE_LISTEN] && *values[NODE_LISTEN] ? values[NODE_LISTEN] : NULL;
	const char *address =
		values[NODE_ADDRESS] && *values[NODE_ADDRESS] ? values[NODE_ADDRESS] : NULL;
	if (!listen && !address) {
		return 0;
	}
	if (!listen) {
		return options_refuse(&config_options[NODE_ADDRESS], address,
			"it needs --node-listen, where other nodes connect to");
	}
	if (!config->store) {
		return options_refuse(&config_options[NODE_LISTEN], listen,
			"it needs --store: nodes share their sessions in a database");
	}
	int r = take_node_listen(config, listen);
	return r < 0 ? r
		     : take_node_address(config, address ? address : listen,
			       address ? NODE_ADDRESS : NODE_LISTEN);
}
