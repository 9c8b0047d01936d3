/* The options --store, which keeps sessions in a database instead of the data directory, and --node-*. */
#include "config_internal.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/store_kind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row rows[] = {
	{{"--store", "ADDRESS", "HOLDFAST_STORE", NULL,
		 "keep sessions in this PostgreSQL database (15 or newer), such as postgresql://holdfast@localhost/holdfast,\n"
		 "      instead of in --data, which then contains only this server's secrets and logins. Passwords belong in\n"
		 "      ~/.pgpass or PGPASSWORD. One server at a time, or several with --node-listen; see docs/postgresql.md"},
		.apply = option_set_name, .offset = offsetof(struct config, store)},
	{{"--node-listen", "ADDRESS:PORT", "HOLDFAST_NODE_LISTEN", NULL,
		 "with --store, share the database with other servers (nodes), each with its own --data: every node serves\n"
		 "      every session. Nodes reach this one at this address, unencrypted: use a private network"},
		.apply = option_set_name, .offset = offsetof(struct config, node_listen)},
	{{"--node-address", "HOST:PORT", "HOLDFAST_NODE_ADDRESS", NULL,
		 "the address at which other nodes reach this one, if that is not the one of --node-listen"},
		.apply = option_set_name, .offset = offsetof(struct config, node_reached_at)},
	{.apply = NULL},
};

static int refuse_value(const char *flag, const char *value, const char *why)
{
	return options_refuse(&option_row_find(rows, flag)->option, value, why);
}

static int refuse_beside(const char *flag, const char *why)
{
	diag(DIAG_ERROR, "%s cannot be used with --store: %s", flag, why);
	return -EINVAL;
}

static int check_store(struct config *config)
{
	char *why = NULL;
	if (!config->store) {
		return 0;
	}
	const struct store_kind *kind;
	if (store_kind_find(config->store, &kind, &why) < 0 || !kind->check(config->store, &why)) {
		diag(DIAG_ERROR, "--store: %s", why);
		free(why);
		return -EINVAL;
	}
	config->engine = kind->engine;
	if (config->durability != DURABILITY_FSYNC) {
		return refuse_beside(
			"--durability", "the database decides when a commit is on disk");
	}
	if (config->max_disk) {
		return refuse_beside("--max-disk", "the database manages its own disk space");
	}
	if (config->webhooks.urls[0]) {
		return refuse_beside("--webhook",
			"webhooks do not work with it yet: they would need their cursors in the database");
	}
	return 0;
}

/* --- nodes --- */

/** Whether an address stands for all of this machine's: other machines cannot connect to it. */
static bool is_wildcard(const char *host)
{
	return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 ||
	       strspn(host, "0:.") == strlen(host);
}

static int add_node_listen(struct config *config, const char *text)
{
	struct listen_address address = {.scheme = LISTEN_NODE};
	if (!config_read_host_port(text, &address.host, &address.port)) {
		return refuse_value(
			"--node-listen", text, "expected ADDRESS:PORT, such as 10.0.0.1:7000");
	}
	if (!address.port) {
		free(address.host);
		return refuse_value(
			"--node-listen", text, "name a port: other nodes have to find this one");
	}
	config_append_listen(config, &address);
	return 0;
}

static int set_node_address(struct config *config, const char *flag, const char *text)
{
	char *host;
	int port;
	if (!config_read_host_port(text, &host, &port) || !port) {
		return refuse_value(flag, text, "expected HOST:PORT, such as node1.internal:7000");
	}
	bool is_nowhere = is_wildcard(host);
	bool is_v6 = strchr(host, ':') != NULL;
	config->node_address = xprintf("%s%s%s:%d", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
	free(host);
	return !is_nowhere
		       ? 0
		       : refuse_value(flag, text,
				 "other nodes cannot connect to this address: say with --node-address HOST:PORT where they reach this one");
}

static int check_node(struct config *config)
{
	const char *listen = config->node_listen;
	const char *address = config->node_reached_at;
	if (!listen && !address) {
		return 0;
	}
	if (!listen) {
		return refuse_value("--node-address", address,
			"it needs --node-listen, where other nodes connect to");
	}
	if (!config->store) {
		return refuse_value("--node-listen", listen,
			"it needs --store: nodes share their sessions in a database");
	}
	int r = add_node_listen(config, listen);
	return r < 0     ? r
	       : address ? set_node_address(config, "--node-address", address)
			 : set_node_address(config, "--node-listen", listen);
}

static int check(void *state)
{
	int r = check_store(state);
	return r < 0 ? r : check_node(state);
}

static void finish(void *state)
{
	struct config *config = state;
	free(config->node_address);
	config->node_address = NULL;
}

const struct option_group database_options = {.rows = rows, .check = check, .finish = finish};
