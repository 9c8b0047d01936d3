/* The cookies of logins: their names, and which of them belongs to a page. */
#ifndef HOLDFAST_LOGIN_COOKIE_H
#define HOLDFAST_LOGIN_COOKIE_H

#include "holdfast/access.h"
#include "holdfast/http_head.h"

#include <stdbool.h>

struct conn;
struct login_cookies;

/* Longer than the name of a cookie: "holdfast_PORT", and of a share link's "_TAG" behind it. */
#define LOGIN_NAME_SIZE 32
struct login_cookie {
	char name[LOGIN_NAME_SIZE];
	char value[LOGIN_HALF_SIZE];
};
/** The name of the login's cookie, which has the port that the browser asks. */
void login_cookie_name(
	const struct conn *conn, const struct http_head *head, char name[LOGIN_NAME_SIZE]);
/** Makes it that of a share link's login, whose page keeps this half. */
void login_share_name(char name[LOGIN_NAME_SIZE], const char *half);
/** Those of logins (to be freed); NULL: there are none. A page elsewhere has none. */
struct login_cookies *login_cookies_of(const struct conn *conn, const struct http_head *head);
/** The cookie that belongs to a page's half, if there is exactly one. `cookies` may be NULL. */
bool login_find_cookie(
	const struct login_cookies *cookies, const char *half, struct login_cookie *ret);
/** The browser's own one, without the page's half, if there is exactly one. `cookies` may be NULL. */
bool login_own_cookie(const struct login_cookies *cookies, struct login_cookie *ret);
/** If there are as many share links as may be: the name of the oldest one's. `cookies` may be NULL. */
bool login_oldest_share(const struct login_cookies *cookies, char name[LOGIN_NAME_SIZE]);

#endif
