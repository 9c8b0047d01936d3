/*
 * Finds the sender of a request: the peer of its connection or, if that is a proxy named with
 * --trust-proxy, the proxy's client.
 *
 * That is read from X-Forwarded-For: addresses of IPv4 and IPv6, alone or with a port, then in brackets if
 * they are of IPv6. `unknown` and names end the way. Forwarded (RFC 7239) is not read: who sends both could
 * say two things, and proxies that write it write the other too.
 */
#include "server/net_internal.h"

#include <string.h>
#include <strings.h>

static bool is_trusted(const struct server_trust *trust, const struct address *address)
{
	for (size_t i = 0; i < trust->proxy_count; i++) {
		if (address_is_in(address, &trust->proxies[i])) {
			return true;
		}
	}
	return false;
}

/** Removes the last entry from the list. Returns it without surrounding blanks. */
static struct http_span take_last(const char *text, struct http_span *list)
{
	struct http_span entry = {.at = list->at + list->len};
	while (list->len && text[list->at + list->len - 1] != ',') {
		list->len--;
		entry.at--;
		entry.len++;
	}
	list->len -= list->len > 0; /* the comma */
	while (entry.len && strchr(" \t", text[entry.at])) {
		entry.at++;
		entry.len--;
	}
	while (entry.len && strchr(" \t", text[entry.at + entry.len - 1])) {
		entry.len--;
	}
	return entry;
}

/**
 * Each proxy appends the peer that it was called by. We go through the entries from the right as
 * long as they are trusted proxies; the first other one is the client, since entries to its left
 * can be forged. Nothing to the left of an invalid address is believed.
 */
static void follow(
	const struct server_trust *trust, const struct http_head *head, struct address *client)
{
	for (unsigned i = head->field_count; i-- > 0;) {
		const struct http_field *field = &head->fields[i];
		struct http_span list = field->value;
		if (field->name.len != 15 ||
			strncasecmp(head->text + field->name.at, "x-forwarded-for", 15) != 0) {
			continue;
		}
		while (list.len) {
			struct address address;
			struct http_span entry = take_last(head->text, &list);
			if (!address_parse(head->text + entry.at, entry.len, &address)) {
				return;
			}
			*client = address;
			if (!is_trusted(trust, client)) {
				return;
			}
		}
	}
}

/** Whether the proxy says that its client used HTTPS; anything but one value counts as no. */
static bool is_forwarded_https(const struct http_head *head, bool fallback)
{
	char proto[8];
	if (!http_head_field(head, "x-forwarded-proto")) {
		return fallback;
	}
	return http_count_fields(head, "x-forwarded-proto") == 1 &&
	       http_head_copy(head, "x-forwarded-proto", proto, sizeof(proto)) &&
	       strcasecmp(proto, "https") == 0;
}

bool client_is_proxy(
	const struct server *server, const struct listen_kind *kind, const struct address *peer)
{
	const struct server_trust *trust = server->trust;
	if (kind->is_node) {
		return true; /* it names the sender of each request (node_peer.c) */
	}
	return trust && (kind->is_unix ? trust->trusts_unix : is_trusted(trust, peer));
}

void client_find(struct conn *conn, const struct http_head *head)
{
	const struct server_trust *trust = conn->server->trust;
	struct address client = conn->peer;
	bool is_proxy = client_is_proxy(conn->server, &conn->kind, &conn->peer);
	conn->is_https = conn->kind.is_tls;
	if (is_proxy) {
		follow(trust, head, &client);
		conn->is_https = is_forwarded_https(head, conn->is_https);
	}
	conn->client = address_household(&client);
}
