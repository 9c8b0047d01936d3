/* Logins of browsers: exchanges a token for a cookie and a second half (proto/access.md). */
#include "server/http_internal.h"
#include "server/routes/routes.h"

#include <stdlib.h>
#include <string.h>

/* A year; browsers keep a cookie for at most 400 days. A login ends with its token in any case. */
#define COOKIE_S (365 * 24 * 3600)

static void append_grant(struct buffer *out, const struct grant *grant)
{
	buffer_printf(out, "\"role\":\"%s\",\"sub\":", role_name(grant->role));
	buffer_append_json(out, grant->sub, strlen(grant->sub));
	buffer_append_str(out, ",\"expires_at\":");
	append_expiry(out, grant);
	frames_append_hide(out, grant->hide);
	buffer_append_char(out, '}');
}

/** An answer that is sent once the login, or another change of access, is durable. */
struct login_answer {
	struct answer answer; /* its connection is NULL if nobody waits for it any more */
	struct grant *grant;
	struct login_halves halves;
	char cookie_name[LOGIN_NAME_SIZE];
	bool is_share; /* of a share link: exists beside other logins, and ends with the browser */
	char dropped[LOGIN_NAME_SIZE]; /* the cookie deleted to make room; "": none */
};

/** The attribute with which a browser sends a cookie only over TLS; "" without TLS. */
static const char *secure(const struct conn *conn)
{
	return conn->is_https ? "; Secure" : "";
}

static void append_cookie(const struct conn *conn, const char *name, const char *value, int age,
	struct buffer *headers)
{
	buffer_printf(headers, "set-cookie: %s=%s; HttpOnly; SameSite=Strict; Path=/", name, value);
	if (age >= 0) {
		buffer_printf(headers, "; Max-Age=%d", age);
	}
	buffer_printf(headers, "%s\r\n", secure(conn));
}

static void append_cookies(
	const struct conn *conn, struct login_answer *answer, struct buffer *headers)
{
	if (answer->is_share) {
		login_share_name(answer->cookie_name, answer->halves.header);
	}
	append_cookie(conn, answer->cookie_name, answer->halves.cookie,
		answer->is_share ? -1 : COOKIE_S, headers);
	if (answer->dropped[0]) {
		append_cookie(conn, answer->dropped, "", 0, headers);
	}
}

static void answer_login(void *arg, int status)
{
	struct login_answer *answer = arg;
	struct conn *conn = answer->answer.conn;
	struct buffer headers = {0};
	struct buffer body = {0};
	http_detach_answer(&answer->answer);
	if (conn && status < 0) {
		http_refuse_storage(conn);
	} else if (conn) {
		append_cookies(conn, answer, &headers);
		buffer_printf(&body, "{\"login\":\"%s\",", answer->halves.header);
		append_grant(&body, answer->grant);
		http_respond_with(conn, 200, buffer_cstr(&headers), body.data, body.len);
	}
	buffer_finish(&headers);
	buffer_finish(&body);
	grant_unref(answer->grant);
	free(answer);
}

/** The change goes on, and its callback frees the answer. */
static void login_drop(struct answer *answer)
{
	answer->conn = NULL;
}

static const struct answer_ops login_ops = {.drop = login_drop};

struct login_answer *http_await(struct conn *conn)
{
	struct login_answer *answer = xcalloc(1, sizeof(*answer));
	http_begin_answer(conn, &answer->answer, &login_ops);
	login_cookie_name(conn, conn->http->head, answer->cookie_name);
	return answer;
}

void http_await_nothing(struct login_answer *answer)
{
	http_detach_answer(&answer->answer);
	free(answer);
}

/** Reads {"token": string} and, for a share link, "share": true. Returns the token or NULL. */
static const char *read_login(const json_t *json, bool *ret_is_share)
{
	const json_t *share = json_object_get(json, "share");
	const char *token = json_string_value(json_object_get(json, "token"));
	size_t members = share ? 2 : 1;
	*ret_is_share = json_is_true(share);
	return json_object_size(json) == members && (!share || json_is_boolean(share)) ? token
										       : NULL;
}

static void make_login(struct conn *conn, struct grant *grant, bool is_share)
{
	struct login_answer *answer = http_await(conn);
	answer->grant = grant;
	answer->is_share = is_share;
	if (is_share) {
		struct login_cookies *cookies = login_cookies_of(conn, conn->http->head);
		if (!login_oldest_share(cookies, answer->dropped)) {
			answer->dropped[0] = '\0';
		}
		free(cookies);
	}
	access_login(conn->server->access, grant, &answer->halves, answer_login, answer);
}

/** With --auth off everybody is logged in already. */
static void answer_open(struct conn *conn)
{
	struct buffer body = {0};
	buffer_append_str(&body, "{\"login\":null,");
	append_grant(&body, conn->server->everyone);
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

static void post_login(struct conn *conn)
{
	bool is_share;
	json_t *json = json_loadb(
		conn->rx.data ? conn->rx.data : "", conn->rx.len, JSON_REJECT_DUPLICATES, NULL);
	const char *token = read_login(json, &is_share);
	struct grant *grant = NULL;
	if (!http_head_field(conn->http->head, "origin") || conn->http->is_foreign) {
		http_refuse(conn, ERROR_forbidden_origin,
			"only the page of this server logs in; others send a token with each request");
	} else if (!token) {
		http_refuse(conn, ERROR_bad_request,
			"the body must be {\"token\": string}, with \"share\": true for a share link");
	} else if (!conn->server->access) {
		answer_open(conn);
	} else {
		enum token_verdict verdict = access_check(conn->server->access, token, &grant);
		if (verdict == TOKEN_GOOD) {
			make_login(conn, grant, is_share);
		} else {
			deny(conn, denial_of(verdict));
		}
	}
	json_decref(json);
}

static void get_login(struct conn *conn)
{
	struct buffer body = {0};
	enum denial denial = identify(conn, conn->http->head);
	if (denial != DENIED_NOTHING) {
		deny(conn, denial);
		return;
	}
	buffer_append_char(&body, '{');
	append_grant(&body, conn->grant);
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

static void answer_logout(void *arg, int status)
{
	struct login_answer *answer = arg;
	struct conn *conn = answer->answer.conn;
	struct buffer headers = {0};
	http_detach_answer(&answer->answer);
	if (conn && status < 0) {
		http_refuse_storage(conn);
	} else if (conn) {
		append_cookie(conn, answer->cookie_name, "", 0, &headers);
		http_respond_with(conn, 204, buffer_cstr(&headers), NULL, 0);
	}
	buffer_finish(&headers);
	free(answer);
}

/** http_login_halves(), with the name of the cookie. */
static bool find_login(struct conn *conn, struct login_cookie *cookie, char half[LOGIN_HALF_SIZE])
{
	bool has_half = http_head_copy(conn->http->head, "holdfast-login", half, LOGIN_HALF_SIZE);
	struct login_cookies *cookies = login_cookies_of(conn, conn->http->head);
	bool has_cookie = has_half && login_find_cookie(cookies, half, cookie);
	free(cookies);
	return conn->server->access && has_cookie;
}

bool http_login_halves(struct conn *conn, char cookie[LOGIN_HALF_SIZE], char half[LOGIN_HALF_SIZE])
{
	struct login_cookie found;
	if (!find_login(conn, &found, half)) {
		return false;
	}
	memcpy(cookie, found.value, LOGIN_HALF_SIZE);
	return true;
}

static void delete_login(struct conn *conn)
{
	struct login_cookie cookie;
	char half[LOGIN_HALF_SIZE] = "";
	if (!find_login(conn, &cookie, half)) {
		deny(conn, DENIED_NO_TOKEN);
		return;
	}
	struct login_answer *answer = http_await(conn);
	strcpy(answer->cookie_name, cookie.name);
	if (!access_logout(conn->server->access, cookie.value, half, answer_logout, answer)) {
		http_await_nothing(answer);
		deny(conn, DENIED_WRONG);
	}
}

void http_answer_kept(void *arg, int status)
{
	struct login_answer *answer = arg;
	struct conn *conn = answer->answer.conn;
	http_detach_answer(&answer->answer);
	if (conn && status < 0) {
		http_refuse_storage(conn);
	} else if (conn) {
		http_respond_with(conn, 204, "", NULL, 0);
	}
	free(answer);
}

static bool is_name(const char *text)
{
	return text && *text && strlen(text) <= GRANT_NAME_MAX;
}

/**
 * The server cannot know which sessions a token allows that was signed elsewhere. So a token that
 * does not allow all sessions can only revoke itself.
 */
static bool may_revoke(const struct grant *grant, const struct revocation *revocation)
{
	bool is_own = revocation->jti && grant->jti && strcmp(revocation->jti, grant->jti) == 0;
	return is_own || grant_sees_all(grant);
}

static void revoke_tokens(struct conn *conn)
{
	if (!http_may(conn, RIGHT_ADMINISTER)) {
		return;
	}
	json_t *json = json_loadb(
		conn->rx.data ? conn->rx.data : "", conn->rx.len, JSON_REJECT_DUPLICATES, NULL);
	struct revocation revocation = {
		.jti = json_string_value(json_object_get(json, "jti")),
		.sub = json_string_value(json_object_get(json, "sub")),
		.before_ms = json_integer_value(json_object_get(json, "before")),
	};
	bool is_sub = !revocation.jti && is_name(revocation.sub) && revocation.before_ms > 0 &&
		      json_object_size(json) == 2;
	bool is_jti = is_name(revocation.jti) && json_object_size(json) == 1;
	if (!conn->server->access) {
		http_refuse(conn, ERROR_bad_request,
			"this server runs with --auth off: there are no tokens");
	} else if (!is_sub && !is_jti) {
		http_refuse(conn, ERROR_bad_request,
			"the body must be {\"jti\": string} or {\"sub\": string, \"before\": ms since 1970}");
	} else if (!may_revoke(conn->grant, &revocation)) {
		http_refuse(conn, ERROR_forbidden,
			"a token that does not allow all sessions can only revoke itself");
	} else {
		access_revoke(
			conn->server->access, &revocation, http_answer_kept, http_await(conn));
	}
	json_decref(json);
}

static void serve_login(struct conn *conn)
{
	switch (conn->http->method) {
	case HTTP_POST:
		post_login(conn);
		break;
	case HTTP_GET:
	case HTTP_HEAD:
		get_login(conn);
		break;
	default:
		delete_login(conn);
	}
}

const struct route login_routes[] = {
	{"/api/login", "GET, POST, DELETE", .body = BODY_JSON, .flags = ROUTE_OPEN,
		.serve = serve_login},
	{"/api/tokens/revoke", "POST", .body = BODY_JSON, .serve = revoke_tokens},
	{0},
};
