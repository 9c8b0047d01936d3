/*
 * The cookies of logins (proto/access.md#the-login-of-a-browser). A browser's own login always has
 * the same name, so that a new one replaces it. Each login of a share link has its own name, so
 * that it exists beside the others: the name ends with a tag derived from the half that the page
 * keeps.
 */
#include "server/net_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a Cookie header. No more cookies are kept once those that are have this many bytes. */
#define FIELD_MAX 8192
#define KEPT_MAX  2048
/* Most logins of share links in a browser; a further one replaces the oldest. */
#define SHARES_MAX 8

struct login_cookies {
	char name[LOGIN_NAME_SIZE]; /* of the browser's own login */
	char pairs[]; /* "name=value;name=value;" */
};

void login_cookie_name(
	const struct conn *conn, const struct http_head *head, char name[LOGIN_NAME_SIZE])
{
	const char *host = head->text + head->host.at;
	const char *colon = memrchr(host, ':', head->host.len);
	size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
	bool has_port = colon && digits && colon + 1 + digits == host + head->host.len;
	snprintf(name, LOGIN_NAME_SIZE, "holdfast_%.*s",
		has_port ? (int)(digits < 5 ? digits : 5) : 3,
		has_port         ? colon + 1
		: conn->is_https ? "443"
				 : "80");
}

void login_share_name(char name[LOGIN_NAME_SIZE], const char *half)
{
	char tag[LOGIN_TAG_SIZE];
	size_t len = strlen(name);
	access_tag(half, tag);
	snprintf(name + len, LOGIN_NAME_SIZE - len, "_%s", tag);
}

struct login_cookies *login_cookies_of(const struct conn *conn, const struct http_head *head)
{
	char text[FIELD_MAX];
	char *state;
	struct buffer pairs = {0};
	struct login_cookies *cookies = NULL;
	char name[LOGIN_NAME_SIZE];
	login_cookie_name(conn, head, name);
	if (conn->http->is_foreign || !http_head_copy(head, "cookie", text, sizeof(text))) {
		return NULL;
	}
	for (char *at = strtok_r(text, "; ", &state); at; at = strtok_r(NULL, "; ", &state)) {
		if (strncmp(at, name, strlen(name)) == 0 && pairs.len < KEPT_MAX) {
			buffer_append_str(&pairs, at);
			buffer_append_char(&pairs, ';');
		}
	}
	if (pairs.len) {
		cookies = xcalloc(1, sizeof(*cookies) + pairs.len + 1);
		strcpy(cookies->name, name);
		memcpy(cookies->pairs, pairs.data, pairs.len);
	}
	buffer_finish(&pairs);
	return cookies;
}

/** Copies the value of the cookie of this name. Returns false if there is none, or several. */
static bool find(const struct login_cookies *cookies, const char *name, char value[LOGIN_HALF_SIZE])
{
	size_t len = strlen(name);
	bool found = false;
	for (const char *at = cookies->pairs; *at; at += strcspn(at, ";") + 1) {
		size_t size = strcspn(at, ";") - len - 1;
		if (strncmp(at, name, len) != 0 || at[len] != '=' || size >= LOGIN_HALF_SIZE) {
			continue;
		}
		if (found) {
			return false; /* two: one of them is not ours */
		}
		memcpy(value, at + len + 1, size);
		value[size] = '\0';
		found = true;
	}
	return found;
}

bool login_find_cookie(
	const struct login_cookies *cookies, const char *half, struct login_cookie *ret)
{
	if (!cookies) {
		return false;
	}
	strcpy(ret->name, cookies->name);
	login_share_name(ret->name, half);
	if (find(cookies, ret->name, ret->value)) {
		return true;
	}
	strcpy(ret->name, cookies->name);
	return find(cookies, ret->name, ret->value);
}

bool login_own_cookie(const struct login_cookies *cookies, struct login_cookie *ret)
{
	if (!cookies) {
		return false;
	}
	strcpy(ret->name, cookies->name);
	return find(cookies, ret->name, ret->value);
}

bool login_oldest_share(const struct login_cookies *cookies, char name[LOGIN_NAME_SIZE])
{
	size_t count = 0;
	size_t prefix = cookies ? strlen(cookies->name) : 0;
	for (const char *at = cookies ? cookies->pairs : ""; *at; at += strcspn(at, ";") + 1) {
		size_t len = strcspn(at, "=;");
		bool is_share = at[prefix] == '_' && len == prefix + LOGIN_TAG_SIZE;
		if (is_share && count++ == 0) { /* browsers send the oldest one first */
			memcpy(name, at, len);
			name[len] = '\0';
		}
	}
	return count >= SHARES_MAX;
}
