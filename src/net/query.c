/* The query of a request: names that are known, values that make sense, or a refusal. */
#include "net_internal.h"

#include <stdio.h>
#include <string.h>

const char *query_check(struct conn *conn, const char *const names[])
{
	char part[256];
	for (int i = 0; lws_hdr_copy_fragment(
				conn->wsi, part, sizeof(part), WSI_TOKEN_HTTP_URI_ARGS, i) >= 0;
		i++) {
		size_t len = strcspn(part, "=");
		bool known = false;
		for (const char *const *name = names; *name; name++) {
			known = known || (strlen(*name) == len && memcmp(*name, part, len) == 0);
		}
		if (!known || part[len] != '=') {
			return "the query has a part that this address does not know; each is "
			       "name=value";
		}
	}
	return NULL;
}

const char *query_get(struct conn *conn, const char *name, char *buf, size_t size)
{
	char key[32];
	snprintf(key, sizeof(key), "%s=", name);
	return lws_get_urlarg_by_name(conn->wsi, key, buf, (int)size);
}

int query_format(const char *text, enum event_format fallback, enum event_format *ret)
{
	*ret = fallback;
	if (!text) {
		return 0;
	}
	static const char *const names[FORMAT_COUNT] = {
		[FORMAT_MARKDOWN] = "markdown", [FORMAT_HTML] = "html", [FORMAT_BOTH] = "both"};
	for (int format = 0; format < FORMAT_COUNT; format++) {
		if (strcmp(names[format], text) == 0) {
			*ret = (enum event_format)format;
			return 0;
		}
	}
	return -1;
}

/** `format`, `deltas` and `client_id` of an observer's socket; NULL, or what is wrong with them. */
static const char *read_observer(struct conn *conn)
{
	char buf[128];
	static const char *const names[] = {"format", "deltas", "client_id", NULL};
	const char *bad = query_check(conn, names);
	if (bad) {
		return bad;
	}
	if (query_format(query_get(conn, "format", buf, sizeof(buf)), FORMAT_HTML,
		    &conn->config.format) < 0) {
		return "format is html, markdown or both";
	}
	const char *deltas = query_get(conn, "deltas", buf, sizeof(buf));
	if (deltas && strcmp(deltas, "text") != 0 && strcmp(deltas, "html") != 0) {
		return "deltas is text or html";
	}
	conn->config.deltas = !deltas                       ? DELTAS_NONE
			      : strcmp(deltas, "text") == 0 ? DELTAS_TEXT
							    : DELTAS_HTML;
	const char *client = query_get(conn, "client_id", buf, sizeof(buf));
	size_t len = client ? strlen(client) : 0;
	if (client && (!token_is_valid(client, len, 64) || strpbrk(client, ".:"))) {
		return "client_id matches [A-Za-z0-9_-]{1,64}";
	}
	if (client) {
		memcpy(conn->client_id, client, len + 1);
	}
	return NULL;
}

void query_read_socket(struct conn *conn)
{
	if (conn->ops == &observer_conn_ops) {
		conn->refused = read_observer(conn);
	} else {
		conn->refused = query_check(conn, (const char *const[]){NULL});
	}
}
