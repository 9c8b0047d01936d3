/*
 * Decides which web pages may use the server. A page of another site must not, unless the operator
 * allows its origin: neither by connecting to us (checked by Origin), nor through a name that an
 * attacker resolves to 127.0.0.1 (checked by Host; "DNS rebinding").
 *
 * Origin is one origin as browsers write it (RFC 6454, section 6.2): an empty one, `null` and several are
 * nobody's, and are refused. Our own may have the default port or capitals; one of --allow-origin may not.
 */
#include "server/http_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Longer than any host and port. */
#define AUTHORITY_MAX 300

/** Whether the text is empty, or a colon and a port. */
static bool is_port(const char *text)
{
	size_t digits = text[0] == ':' ? strspn(text + 1, "0123456789") : 0;
	return !text[0] ||
	       (digits >= 1 && digits <= 5 && !text[1 + digits] && atoi(text + 1) <= 65535);
}

/** Whether the authority is one of these names, alone or with a port. */
static bool is_among(const char *authority, const char *const *names)
{
	for (; names && *names; names++) {
		size_t len = strlen(*names);
		if (strncasecmp(*names, authority, len) == 0 && is_port(authority + len)) {
			return true;
		}
	}
	return false;
}

/**
 * On a loopback listener, the name must be loopback's or be allowed. Elsewhere any name is good,
 * unless the operator named some.
 */
static bool is_our_name(const struct conn *conn, const char *host)
{
	static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]", NULL};
	const char *const *names = (const char *const *)conn->server->trust->hosts;
	bool is_local = conn->kind.is_loopback;
	return is_among(host, names) || (is_local ? is_among(host, loopback) : !names);
}

static bool copy_host(const struct http_head *head, char host[AUTHORITY_MAX])
{
	if (head->host.len >= AUTHORITY_MAX) {
		return false;
	}
	memcpy(host, head->text + head->host.at, head->host.len);
	host[head->host.len] = '\0';
	return true;
}

/** The length of an authority without the default port of its scheme. */
static size_t authority_len(const char *authority, bool is_https)
{
	const char *port = is_https ? ":443" : ":80";
	size_t len = strlen(authority);
	size_t port_len = strlen(port);
	bool has_port = len > port_len && strcmp(authority + len - port_len, port) == 0;
	return has_port ? len - port_len : len;
}

/** Whether the origin is the host of the request, under the scheme that the client used. */
static bool is_own_origin(const struct conn *conn, const char *origin, const char *host)
{
	const char *scheme = conn->is_https ? "https://" : "http://";
	size_t scheme_len = strlen(scheme);
	if (strncasecmp(origin, scheme, scheme_len) != 0) {
		return false;
	}
	origin += scheme_len;
	size_t len = authority_len(host, conn->is_https);
	return authority_len(origin, conn->is_https) == len && strncasecmp(origin, host, len) == 0;
}

static bool is_allowed_origin(const struct server_trust *trust, const char *origin)
{
	for (char **at = trust->origins; at && *at; at++) {
		if (strcmp(*at, origin) == 0) {
			return true;
		}
	}
	return false;
}

/**
 * Whether the browser sends this for a page of another site (Fetch Metadata). Such a page may link
 * to our page, and nothing else: not even to responses that it cannot read, since it could measure
 * them.
 */
static bool is_of_another_site(const struct http_head *head, bool may_link)
{
	char site[16] = "";
	char mode[16] = "";
	char dest[16] = "";
	http_head_copy(head, "sec-fetch-site", site, sizeof(site));
	http_head_copy(head, "sec-fetch-mode", mode, sizeof(mode));
	http_head_copy(head, "sec-fetch-dest", dest, sizeof(dest));
	bool is_foreign = strcmp(site, "cross-site") == 0 || strcmp(site, "same-site") == 0;
	bool is_link = strcmp(mode, "navigate") == 0 && strcmp(dest, "document") == 0 &&
		       head->method == HTTP_GET && may_link;
	return is_foreign && !is_link;
}

/** Whether a browser sends this for a page of another origin, or for a form. */
static bool is_of_page(const struct conn *conn)
{
	char site[16] = "";
	char mode[16] = "";
	http_head_copy(conn->http->head, "sec-fetch-site", site, sizeof(site));
	http_head_copy(conn->http->head, "sec-fetch-mode", mode, sizeof(mode));
	return conn->http->is_foreign || strcmp(site, "cross-site") == 0 ||
	       strcmp(site, "same-site") == 0 || strcmp(mode, "navigate") == 0;
}

bool auth_refuses_body(const struct conn *conn)
{
	bool is_bytes = http_is_upload(conn) || conn->http->route->body == BODY_BYTES;
	if (conn->http->framing.body == HTTP_NO_BODY || http_is_stream(conn) || is_bytes ||
		!is_of_page(conn)) {
		return false;
	}
	return !http_head_is_type(conn->http->head, "content-type", "application/json");
}

bool auth_is_passed_on(const struct http_head *head)
{
	static const char *const names[] = {"origin", "sec-fetch-site", "forwarded", "via",
		"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (http_head_field(head, names[i])) {
			return true;
		}
	}
	return false;
}

bool auth_is_for_all(const struct conn *conn)
{
	char **origins = conn->server->trust->origins;
	for (; conn->http->route->cors && origins && *origins; origins++) {
		if (strcmp(*origins, "*") == 0) {
			return true;
		}
	}
	return false;
}

enum error_code auth_check(struct conn *conn, const struct http_head *head, const char **ret_why)
{
	char host[AUTHORITY_MAX];
	char origin[AUTHORITY_MAX];
	bool has_origin = http_head_field(head, "origin");
	if (!copy_host(head, host) || !is_our_name(conn, host)) {
		*ret_why =
			"this server does not answer to this host name; serve --allow-host adds names to localhost, 127.0.0.1 and [::1]";
		return ERROR_forbidden_host;
	}
	*ret_why =
		"a page of another site may not use this server; serve --allow-origin allows its origin";
	if (has_origin && !http_head_copy(head, "origin", origin, sizeof(origin))) {
		return ERROR_forbidden_origin;
	}
	if (has_origin && !is_own_origin(conn, origin, host)) {
		conn->http->is_foreign =
			is_allowed_origin(conn->server->trust, origin) || auth_is_for_all(conn);
		return conn->http->is_foreign ? ERROR_NONE : ERROR_forbidden_origin;
	}
	/* Without Origin, the client is not a browser, or a page of ours sends a GET. */
	if (auth_is_for_all(conn)) {
		return ERROR_NONE;
	}
	bool may_link = conn->http->route->flags & ROUTE_LINKED;
	return is_of_another_site(head, may_link) ? ERROR_forbidden_origin : ERROR_NONE;
}
