/*
 * Authentication (proto/access.md): the token or login of a request or WebSocket, and the answers
 * to wrong ones. Host and Origin have been checked before (auth.c).
 */
#include "server/http_internal.h"
#include "server/placement_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Room for a header field with a token. */
#define FIELD_MAX 8192
/*
 * Delay before a wrong token is answered (ms), so that timing does not reveal how the check went.
 */
#define DENY_MS 100
/* Wrong tokens are counted per address within a window of this length (ms). */
#define WRONG_WINDOW_MS 60000
/* Addresses whose wrong tokens are counted. When there would be more, all counts are dropped. */
#define ADDRESSES_MAX 16384

static const struct {
	enum error_code code;
	const char *message;
} denials[] = {
	[DENIED_NO_TOKEN] = {ERROR_unauthorized,
		"a token is missing: send Authorization: Bearer TOKEN, or open the link that holdfast url prints"},
	[DENIED_WRONG] = {ERROR_unauthorized, "the token is not valid"},
	[DENIED_EXPIRED] = {ERROR_token_expired, "the token has expired; get a new one"},
	[DENIED_REVOKED] = {ERROR_token_revoked, "the token was revoked, or the login has ended"},
	[DENIED_TOO_MANY] = {ERROR_too_many_tokens,
		"too many wrong tokens came from this address; wait a minute"},
};

enum denial denial_of(enum token_verdict verdict)
{
	return verdict == TOKEN_EXPIRED   ? DENIED_EXPIRED
	       : verdict == TOKEN_REVOKED ? DENIED_REVOKED
					  : DENIED_WRONG;
}

/* --- credentials of a request --- */

/** The token in an Authorization field; NULL if it is not of the form "Bearer TOKEN". */
static char *bearer_of(char *value)
{
	if (strncasecmp(value, "bearer ", 7) != 0) {
		return NULL;
	}
	value += 7 + strspn(value + 7, " ");
	return *value && !strpbrk(value, " ,") ? value : NULL;
}

/** The token of the subprotocol `bearer.TOKEN`; NULL if there is none. Modifies `value`. */
static char *bearer_protocol(char *value)
{
	char *state;
	for (char *at = strtok_r(value, ", \t", &state); at; at = strtok_r(NULL, ", \t", &state)) {
		if (strncmp(at, "bearer.", 7) == 0) {
			return at + 7;
		}
	}
	return NULL;
}

static void take_grant(struct conn *conn, struct grant *grant)
{
	grant_unref(conn->grant);
	conn->grant = grant;
}

static enum denial take_token(struct conn *conn, const char *token)
{
	struct grant *grant;
	enum token_verdict verdict = access_check(conn->server->access, token, &grant);
	if (verdict != TOKEN_GOOD) {
		return denial_of(verdict);
	}
	take_grant(conn, grant);
	return DENIED_NOTHING;
}

static enum denial take_login(
	struct conn *conn, const struct login_cookies *cookies, const char *header)
{
	struct grant *grant;
	struct login_cookie cookie;
	if (!login_find_cookie(cookies, header, &cookie)) {
		return DENIED_WRONG;
	}
	enum token_verdict verdict =
		access_check_login(conn->server->access, cookie.value, header, &grant);
	if (verdict != TOKEN_GOOD) {
		return denial_of(verdict);
	}
	take_grant(conn, grant);
	return DENIED_NOTHING;
}

/** Whether the cookie alone is enough: for AI SDK chats on our own origin (--ai-sdk-cookie). */
static bool cookie_is_enough(const struct conn *conn)
{
	return conn->server->trust->ai_takes_cookie && (conn->http->route->flags & ROUTE_COOKIE);
}

static enum denial take_cookie(struct conn *conn, const struct http_head *head)
{
	struct grant *grant;
	struct login_cookie cookie;
	struct login_cookies *cookies = login_cookies_of(conn, head);
	bool has_one = login_own_cookie(cookies, &cookie);
	free(cookies);
	if (!has_one) {
		return DENIED_NO_TOKEN;
	}
	enum token_verdict verdict =
		access_check_cookie(conn->server->access, cookie.value, &grant);
	if (verdict != TOKEN_GOOD) {
		return denial_of(verdict);
	}
	take_grant(conn, grant);
	return DENIED_NOTHING;
}

enum denial identify(struct conn *conn, const struct http_head *head)
{
	char field[FIELD_MAX];
	char half[LOGIN_HALF_SIZE];
	size_t bearers = http_count_fields(head, "authorization");
	size_t protocols = http_count_fields(head, "sec-websocket-protocol");
	size_t logins = http_count_fields(head, "holdfast-login");
	if (conn->kind.is_node) {
		return DENIED_NOTHING; /* placement_admit() has identified the sender */
	}
	take_grant(conn, NULL);
	if (!conn->server->access) {
		take_grant(conn, grant_ref(conn->server->everyone));
		return DENIED_NOTHING;
	}
	char *token = NULL;
	if (protocols == 1 &&
		http_head_copy(head, "sec-websocket-protocol", field, sizeof(field))) {
		token = bearer_protocol(field);
	}
	if (bearers + logins + (token != NULL) > 1) {
		return DENIED_WRONG;
	}
	if (token) {
		return take_token(conn, token);
	}
	if (bearers) {
		token = http_head_copy(head, "authorization", field, sizeof(field))
				? bearer_of(field)
				: NULL;
		return token ? take_token(conn, token) : DENIED_WRONG;
	}
	bool is_proxy = client_is_proxy(conn->server, &conn->kind, &conn->peer);
	if (!logins && conn->kind.is_unix && !is_proxy && !auth_is_passed_on(head)) {
		/* Whoever could open the unix socket's file needs no token. */
		take_grant(conn, grant_ref(conn->server->everyone));
		return DENIED_NOTHING;
	}
	if (!logins) {
		return cookie_is_enough(conn) ? take_cookie(conn, head) : DENIED_NO_TOKEN;
	}
	if (!http_head_copy(head, "holdfast-login", half, sizeof(half))) {
		return DENIED_WRONG;
	}
	struct login_cookies *cookies = login_cookies_of(conn, head);
	enum denial denial = take_login(conn, cookies, half);
	free(cookies);
	return denial;
}

/* --- wrong tokens --- */

struct wrong_tokens {
	int64_t since_ms;
	size_t count;
};

static void free_value(void *value, void *arg)
{
	free(value);
}

void identity_finish(struct server *server)
{
	hash_each(server->wrong, free_value, NULL);
	hash_destroy(server->wrong);
	server->wrong = NULL;
}

/** Counts a wrong token. Returns whether too many have come from the client's address. */
static bool is_too_many(struct conn *conn)
{
	struct server *server = conn->server;
	const char *address = (const char *)conn->client.bytes;
	size_t len = sizeof(conn->client.bytes);
	int64_t now = (int64_t)uv_now(server->loop);
	if (hash_count(server->wrong) >= ADDRESSES_MAX) {
		identity_finish(server);
		server->wrong = hash_create();
	}
	struct wrong_tokens *wrong = hash_get(server->wrong, address, len);
	if (!wrong) {
		wrong = xcalloc(1, sizeof(*wrong));
		hash_put(server->wrong, address, len, wrong);
	}
	if (!wrong->count || now - wrong->since_ms >= WRONG_WINDOW_MS) {
		*wrong = (struct wrong_tokens){.since_ms = now};
	}
	return ++wrong->count > server->limits->wrong_tokens;
}

static void refuse_http(struct conn *conn, enum denial denial)
{
	if (denial == DENIED_TOO_MANY) {
		metrics_limit(conn->server->metrics, LIMIT_wrong_tokens);
		http_refuse_with(conn, 429, "retry-after: 60\r\n", denials[denial].code,
			denials[denial].message);
	} else {
		http_refuse_with(
			conn, 401, WANTS_TOKEN, denials[denial].code, denials[denial].message);
	}
}

void ws_deny(struct conn *conn, enum denial denial)
{
	if (denial == DENIED_TOO_MANY) {
		metrics_limit(conn->server->metrics, LIMIT_wrong_tokens);
	}
	conn_send_error(conn, denials[denial].code, denials[denial].message);
	conn_close_refused(conn, denials[denial].code);
}

static void tell(struct conn *conn)
{
	enum denial denial = conn->denial;
	conn->denial = DENIED_NOTHING;
	list_remove(&conn->denied_link);
	if (conn->is_dead || conn->is_closing) {
		return;
	}
	if (conn->ws) {
		ws_deny(conn, denial);
	} else {
		refuse_http(conn, denial);
	}
}

static void arm(struct server *server)
{
	if (!list_empty(&server->denied)) {
		struct conn *first = list_entry(server->denied.next, struct conn, denied_link);
		int64_t left = first->denied_ms + DENY_MS - (int64_t)uv_now(server->loop);
		uv_timer_start(server->deny_timer, identity_handle_timer,
			left > 0 ? (uint64_t)left : 0, 0);
	}
}

void identity_handle_timer(uv_timer_t *timer)
{
	struct server *server = timer->data;
	while (!list_empty(&server->denied)) {
		struct conn *conn = list_entry(server->denied.next, struct conn, denied_link);
		if (conn->denied_ms + DENY_MS > (int64_t)uv_now(server->loop)) {
			break;
		}
		tell(conn);
	}
	arm(server);
}

void deny(struct conn *conn, enum denial denial)
{
	bool is_guess = denial == DENIED_WRONG;
	if (is_guess && is_too_many(conn)) {
		denial = DENIED_TOO_MANY;
	}
	if (!is_guess) {
		if (conn->ws) {
			ws_deny(conn, denial);
		} else {
			refuse_http(conn, denial);
		}
		return;
	}
	conn->denial = denial;
	conn->denied_ms = (int64_t)uv_now(conn->server->loop);
	list_append(&conn->server->denied, &conn->denied_link);
	arm(conn->server);
}

/* --- token frames: the first frame of a WebSocket, or a renewal --- */

/** Takes a new token, which must have the same `sub` as the one before; its rights may differ. */
static enum denial renew(struct conn *conn, const struct request *request)
{
	struct grant *before = conn->grant ? grant_ref(conn->grant) : NULL;
	enum denial denial;
	if (!conn->server->access && !conn->kind.is_node) {
		grant_unref(before);
		take_grant(conn, grant_ref(conn->server->everyone));
		return DENIED_NOTHING;
	}
	if (conn->kind.is_node) {
		denial = placement_check_token(conn, request->token.token);
	} else if (request->token.token) {
		denial = take_token(conn, request->token.token);
	} else {
		denial = take_login(conn, conn->ws->cookies, request->token.login);
	}
	if (denial == DENIED_NOTHING && before && strcmp(before->sub, conn->grant->sub) != 0) {
		denial = DENIED_WRONG;
	}
	grant_unref(before);
	return denial;
}

void ws_confirm_token(struct conn *conn)
{
	struct buffer data = {0};
	buffer_printf(&data, "{\"role\":\"%s\",\"expires_at\":", role_name(conn->grant->role));
	append_expiry(&data, conn->grant);
	frames_append_hide(&data, conn_hides(conn));
	buffer_append_char(&data, '}');
	conn_send_frame(conn, frame_make("token_renewed", data.data, data.len));
	buffer_finish(&data);
}

void ws_take_token(struct conn *conn, const struct request *request)
{
	bool is_first = !conn->grant;
	enum denial denial = renew(conn, request);
	if (denial != DENIED_NOTHING) {
		deny(conn, denial);
	} else if (is_first) {
		conn_set_deadline(conn, DEADLINE_NONE, 0);
		ws_begin(conn);
	} else if (!conn_sees_session(conn)) {
		ws_say_not_found(conn);
	} else if (conn->ops->renewed) {
		conn->ops->renewed(conn);
	}
}

void ws_take_first(struct conn *conn, const char *text, size_t len)
{
	struct refusal refusal;
	struct request request;
	if (conn->denial != DENIED_NOTHING) {
		return;
	}
	if (request_parse(text, len, conn->server->limits, SIDE_FEED, NULL, &request, &refusal) <
		0) {
		ws_deny(conn, DENIED_NO_TOKEN);
		return;
	}
	if (request.type == REQUEST_TOKEN) {
		ws_take_token(conn, &request);
	} else {
		ws_deny(conn, DENIED_NO_TOKEN);
	}
	request_finish(&request);
}

void append_expiry(struct buffer *out, const struct grant *grant)
{
	if (grant->expires_ms) {
		buffer_printf(out, "%lld", (long long)grant->expires_ms);
	} else {
		buffer_append_str(out, "null");
	}
}

/* --- rights --- */

struct author conn_author(const struct conn *conn)
{
	return (struct author){.client_id = conn->ws->client_id,
		.sub = conn->grant->sub,
		.name = conn->ws->observer ? observer_name(conn->ws->observer) : NULL};
}

bool conn_may(const struct conn *conn, enum right right)
{
	return grant_has(conn->grant, right);
}

bool conn_sees(const struct conn *conn, const char *id)
{
	return grant_sees(conn->grant, id, strlen(id));
}

static bool filter_sees(const void *arg, const char *id)
{
	return conn_sees(arg, id);
}

struct session_filter conn_filter(const struct conn *conn)
{
	return (struct session_filter){.sees = filter_sees, .arg = conn};
}

unsigned conn_hides(const struct conn *conn)
{
	return conn->grant->hide;
}

bool conn_sees_questions(const struct conn *conn)
{
	return !(conn_hides(conn) & HIDE_TOOLS);
}

bool conn_sees_session(const struct conn *conn)
{
	return conn->ops->is_about_all || conn_sees(conn, conn->session_id);
}

int refuse_role(const struct conn *conn, struct refusal *refusal)
{
	return refuse(refusal, ERROR_forbidden, "the token's role, %s, may not do this",
		role_name(conn->grant->role));
}

bool http_may(struct conn *conn, enum right right)
{
	struct refusal refusal = {0};
	if (conn_may(conn, right)) {
		return true;
	}
	refuse_role(conn, &refusal);
	http_refuse_event(conn, &refusal);
	return false;
}

/* --- expiry and revocation --- */

static void end(struct conn *conn, enum denial denial)
{
	struct refusal refusal = {0};
	if (conn->ws && !conn->is_closing) {
		ws_deny(conn, denial);
	} else if (conn->http) {
		refuse(&refusal, denials[denial].code, "%s", denials[denial].message);
		http_refuse_answer(conn, ANSWER_DENIED, &refusal);
	}
}

/**
 * Checks the grant again. The grant of a request that another node forwarded is checked by that
 * node, except for its expiry.
 */
static enum token_verdict check_grant(const struct conn *conn)
{
	if (!conn->kind.is_node) {
		return access_check_grant(conn->server->access, conn->grant);
	}
	int64_t expires_ms = conn->grant->expires_ms;
	bool is_over = expires_ms && expires_ms <= clock_now_ms(conn->server->clock);
	return is_over ? TOKEN_EXPIRED : TOKEN_GOOD;
}

bool http_still_may(struct conn *conn)
{
	bool has_one = conn->grant && http_needs_token(conn) &&
		       (conn->server->access || conn->kind.is_node);
	enum token_verdict verdict = has_one ? check_grant(conn) : TOKEN_GOOD;
	if (verdict != TOKEN_GOOD) {
		refuse_http(conn, denial_of(verdict));
	}
	return verdict == TOKEN_GOOD;
}

void conn_check_grant(struct conn *conn)
{
	if (!conn->grant || (!conn->server->access && !conn->kind.is_node)) {
		return;
	}
	enum token_verdict verdict = check_grant(conn);
	if (verdict != TOKEN_GOOD) {
		end(conn, denial_of(verdict));
	}
}

void server_grants_changed(struct server *server)
{
	list_for_each_safe(link, tmp, &server->conns) {
		conn_check_grant(list_entry(link, struct conn, link));
	}
}
