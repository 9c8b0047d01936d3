/* The cookies of logins: their names, and finding the one that belongs to a page. */
#ifndef HOLDFAST_LOGIN_COOKIE_H
#define HOLDFAST_LOGIN_COOKIE_H

#include "holdfast/access.h"
#include "holdfast/http_head.h"

#include <stdbool.h>

struct conn;
struct login_cookies;

/* Room for the name of a cookie: "holdfast_PORT", or "holdfast_PORT_TAG" for a share link. */
#define LOGIN_NAME_SIZE 32
struct login_cookie {
	char name[LOGIN_NAME_SIZE];
	char value[LOGIN_HALF_SIZE];
};
/** Writes the name of the login's cookie, which contains the port that the browser connects to. */
void login_cookie_name(
	const struct conn *conn, const struct http_head *head, char name[LOGIN_NAME_SIZE]);
/** Turns such a name into that of a share link's login, whose page keeps this half. */
void login_share_name(char name[LOGIN_NAME_SIZE], const char *half);
/**
 * Returns the login cookies of a request, for the caller to free(), or NULL if there are none. They
 * are ignored if the request comes from a page of another origin.
 */
struct login_cookies *login_cookies_of(const struct conn *conn, const struct http_head *head);
/**
 * Finds the cookie that belongs to a page's half, if there is exactly one. `cookies` may be NULL.
 */
bool login_find_cookie(
	const struct login_cookies *cookies, const char *half, struct login_cookie *ret);
/** Finds the cookie of the browser's own login, if there is exactly one. `cookies` may be NULL. */
bool login_own_cookie(const struct login_cookies *cookies, struct login_cookie *ret);
/**
 * Returns true if the browser has as many logins of share links as are allowed; `name` is then the
 * cookie of the oldest. `cookies` may be NULL.
 */
bool login_oldest_share(const struct login_cookies *cookies, char name[LOGIN_NAME_SIZE]);

#endif
