/*
 * Turns a connection into a WebSocket (RFC 6455, section 4): the handshake, the kind of socket at a
 * path, and the session that it is for.
 */
#include "server/http_internal.h"
#include "server/placement_internal.h"

#include "holdfast/deflate.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

bool ws_is_asked_for(const struct http_head *head)
{
	return http_head_has_word(head, "upgrade", "websocket") &&
	       http_head_has_word(head, "connection", "upgrade");
}

/** Whether a Sec-WebSocket-Key is 16 bytes in base64. */
static bool is_key(const char *key, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	return len == 24 && strspn(key, digits) == 22 && memcmp(key + 22, "==", 2) == 0;
}

/** Computes Sec-WebSocket-Accept (section 4.2.2, step 5.4). */
static void accept_key(const char *key, char out[29])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[24 + sizeof(guid)];
	unsigned char digest[EVP_MAX_MD_SIZE];
	memcpy(text, key, 24);
	memcpy(text + 24, guid, sizeof(guid));
	EVP_Digest(text, 24 + sizeof(guid) - 1, digest, NULL, EVP_sha1(), NULL);
	EVP_EncodeBlock((unsigned char *)out, digest, 20);
}

void ws_prepare(void)
{
	char out[29];
	accept_key("AAAAAAAAAAAAAAAAAAAAAA==", out);
}

/** Checks the handshake, and refuses it if it is invalid (sections 4.2.1 and 4.4). */
static bool check_handshake(struct conn *conn, char key[25])
{
	char version[8];
	if (conn->http->method != HTTP_GET || conn->http->head->is_http_1_0 ||
		conn->http->framing.body != HTTP_NO_BODY) {
		http_refuse(conn, ERROR_bad_request,
			"a WebSocket is opened with GET, HTTP/1.1 and no body");
		return false;
	}
	if (!http_head_copy(conn->http->head, "sec-websocket-version", version, sizeof(version)) ||
		strcmp(version, "13") != 0) {
		http_refuse_with(conn, 426, "upgrade: websocket\r\nsec-websocket-version: 13\r\n",
			ERROR_bad_request,
			"this server speaks version 13 of the WebSocket protocol");
		return false;
	}
	if (!http_head_copy(conn->http->head, "sec-websocket-key", key, 25) ||
		!is_key(key, strlen(key))) {
		http_refuse(
			conn, ERROR_bad_request, "the Sec-WebSocket-Key is not 16 bytes in base64");
		return false;
	}
	return true;
}

/** Whether the client offers the subprotocol of those that send `token` as their first frame. */
static bool offers_protocol(const struct conn *conn)
{
	return http_head_has_word(conn->http->head, "sec-websocket-protocol", "holdfast.v1");
}

/** Returns the answer to the offers of compression; NULL: there is none that we accept. */
static const char *answer_deflate(const struct conn *conn)
{
	static const char wanted[] = "sec-websocket-extensions";
	const struct http_head *head = conn->http->head;
	const char *answer = NULL;
	for (unsigned i = 0; conn->server->deflater && !answer && i < head->field_count; i++) {
		struct http_span name = head->fields[i].name;
		struct http_span value = head->fields[i].value;
		if (name.len == sizeof(wanted) - 1 &&
			strncasecmp(head->text + name.at, wanted, name.len) == 0) {
			answer = deflate_answer(head->text + value.at, value.len);
		}
	}
	return answer;
}

/**
 * Authenticates the upgrade. Returns false if it was refused. A browser cannot read such an answer,
 * so its socket is opened first, and refused with a frame.
 */
static bool identify_socket(struct conn *conn, enum denial *ret_denial)
{
	bool is_patient = http_head_field(conn->http->head, "origin") || offers_protocol(conn);
	*ret_denial = identify(conn, conn->http->head);
	if (*ret_denial == DENIED_NOTHING || is_patient) {
		return true;
	}
	deny(conn, *ret_denial);
	return false;
}

void ws_make_client_id(struct conn *conn)
{
	unsigned char bytes[8];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		memcpy(bytes, &conn, sizeof(bytes));
	}
	for (size_t i = 0; i < sizeof(bytes); i++) {
		snprintf(conn->ws->client_id + 2 * i, 3, "%02x", bytes[i]);
	}
}

static void append_field(struct buffer *out, const char *name, const char *value)
{
	if (value) {
		buffer_printf(out, "%s: %s\r\n", name, value);
	}
}

void ws_upgrade(struct conn *conn)
{
	char key[25];
	char accept[29];
	struct buffer answer = {0};
	const struct conn_ops *ops = http_find_socket(conn);
	const struct route *route = conn->http->route;
	conn->http->must_close = true; /* after a refusal, what follows are not requests */
	conn->session_id[0] = '\0';
	if (route->flags & ROUTE_LEFT_OUT) {
		route->serve(conn);
		return;
	}
	if (!ops) {
		http_refuse(conn, ERROR_not_found, "there is no WebSocket at this address");
		return;
	}
	if (!server_may(conn->server->life, MAY_SERVE)) {
		http_refuse(conn, ERROR_shutting_down, SHUTTING_DOWN);
		return;
	}
	if (route->flags & ROUTE_SESSION) {
		http_copy_session_id(conn);
	}
	enum denial denial;
	if (!check_handshake(conn, key) || !identify_socket(conn, &denial)) {
		return;
	}
	conn->ws = xcalloc(1, sizeof(*conn->ws));
	list_init(&conn->ws->outbox);
	conn->ws->config.encoder = &websocket_encoder;
	conn->ws->cookies = conn->grant ? NULL : login_cookies_of(conn, conn->http->head);
	ws_make_client_id(conn);
	const char *deflate = answer_deflate(conn);
	conn->ws->deflates = conn->ws->reader.may_deflate = deflate != NULL;
	conn->ops = ops;
	conn->ws->refused = ops->read_query ? ops->read_query(conn)
					    : query_check(conn, (const char *const[]){NULL});
	if (conn->session_id[0] && conn->server->placement) {
		conn->ws->target = http_copy_target(conn->http->head);
	}
	accept_key(key, accept);
	buffer_printf(&answer,
		"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
		"connection: Upgrade\r\nsec-websocket-accept: %s\r\n",
		accept);
	append_field(&answer, "sec-websocket-protocol",
		route->protocol         ? route->protocol
		: offers_protocol(conn) ? "holdfast.v1"
					: NULL);
	append_field(&answer, "sec-websocket-extensions", deflate);
	buffer_append_str(&answer, "\r\n");
	conn_put(conn, answer.data, answer.len);
	buffer_finish(&answer);
	trace_log(conn, 101);
	http_finish(conn);
	conn->phase = PHASE_SOCKET;
	conn_set_deadline(conn, DEADLINE_NONE, 0);
	if (conn->grant) {
		ws_begin(conn);
	} else if (denial == DENIED_NO_TOKEN) {
		conn_set_deadline(conn, DEADLINE_TOKEN, conn->server->limits->token_ms);
		room_note_half_open(conn);
	} else {
		deny(conn, denial);
	}
}

void ws_say_not_found(struct conn *conn)
{
	conn_send_frame(
		conn, frame_session_gone(conn->session_id, error_code_text(ERROR_not_found)));
	conn_close_refused(conn, ERROR_not_found);
}

void ws_begin(struct conn *conn)
{
	room_note_known(conn);
	if (!conn_sees_session(conn)) {
		ws_say_not_found(conn);
	} else if (!placement_seek_socket(conn)) {
		conn->ops->open(conn);
	}
}

bool conn_check_query(struct conn *conn)
{
	if (conn->ws->refused) {
		conn_send_error(conn, ERROR_bad_request, conn->ws->refused);
		conn_close_refused(conn, ERROR_bad_request);
	}
	return !conn->ws->refused;
}

struct session *conn_find_session(struct conn *conn)
{
	struct session *session = session_table_get(
		conn->server->sessions, conn->session_id, strlen(conn->session_id));
	if (!conn_check_query(conn)) {
		return NULL;
	}
	if (session && !session_is_there(session)) { /* its creation is not durable yet */
		conn_send_error(conn, ERROR_storage_failed,
			"the session is not stored yet; try again in a moment");
		conn_close_refused(conn, ERROR_storage_failed);
		return NULL;
	}
	bool is_nowhere = conn->ws->is_nowhere ||
			  (server_may(conn->server->life, MAY_JUDGE) && !conn->server->placement);
	if (!session && is_nowhere) {
		ws_say_not_found(conn);
	} else if (!session) {
		conn_close(conn, WS_CLOSE_GOING_AWAY, "owner gone"); /* it has just moved away */
	}
	return session;
}
