/*
 * The identity that a node states for the sender of a request that it passes on, and its check by
 * the node that has the session. It is the only authentication on listeners for nodes.
 */
#include "node_internal.h"

#include "node_identity.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(NODE_IDENTITY_KEY == NODE_KEY_SIZE, "the store's key is the one that signs");

/* Signed in place of a method in the identity of a token frame. */
#define TOKEN_METHOD "TOKEN"

void node_warn(struct server *server, const char *address, const char *why)
{
	diag_limited(&nodes_of(server)->warned, DIAG_WARN, "the node at %s: %s", address, why);
}

void node_append_identity(
	const struct conn *conn, struct buffer *out, const char *method, const char *target)
{
	struct server *server = conn->server;
	const struct node_identity identity = {
		.grant = conn->grant, .client = conn->client, .is_https = conn->is_https};
	node_identity_append(out, session_table_node_key(server->sessions), &identity,
		method ? method : TOKEN_METHOD, target, clock_now_ms(server->clock));
}

/** Checks an identity and sets conn->grant from it. Returns NULL, or why it is rejected. */
static const char *take(struct conn *conn, const char *text, size_t len, const char *method,
	const char *target, struct node_identity *ret)
{
	const unsigned char *key = session_table_node_key(conn->server->sessions);
	if (!key) {
		return "this server does not share its store";
	}
	const char *why = node_identity_read(
		text, len, key, method, target, clock_now_ms(conn->server->clock), ret);
	if (!why) {
		grant_unref(conn->grant);
		conn->grant = ret->grant;
	}
	return why;
}

static const char *read_identity(struct conn *conn)
{
	const struct http_head *head = conn->http->head;
	const struct http_field *field = http_head_field(head, NODE_IDENTITY_FIELD);
	struct node_identity identity;
	if (http_count_fields(head, NODE_IDENTITY_FIELD) != 1) {
		return "the request has no identity, or several";
	}
	char *target = http_copy_target(head);
	const char *why = take(conn, head->text + field->value.at, field->value.len,
		http_method_name(conn->http->method), target, &identity);
	free(target);
	if (!why) {
		conn->client = identity.client; /* already made by address_household() */
		conn->is_https = identity.is_https;
	}
	return why;
}

bool node_admit(struct conn *conn)
{
	size_t len;
	const char *why = read_identity(conn);
	if (!why && !http_find_session(conn, &len)) {
		why = "the request is not about a session";
	}
	if (why) {
		diag_limited(&nodes_of(conn->server)->warned, DIAG_WARN,
			"a request on the listener for other nodes was refused: %s", why);
		conn->http->must_close = true;
		http_refuse_with(conn, STATUS_MISDIRECTED, "", ERROR_unauthorized,
			"this address is for other nodes of the same store");
	}
	return !why;
}

enum denial node_check_token(struct conn *conn, const char *token)
{
	struct node_identity identity;
	const char *why =
		token ? take(conn, token, strlen(token), TOKEN_METHOD, conn->session_id, &identity)
		      : "";
	return why ? DENIED_WRONG : DENIED_NOTHING;
}
