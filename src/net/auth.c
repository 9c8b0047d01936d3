/*
 * Who may talk to us. A server on loopback has no password, so it must not be reachable from a web
 * page of another site: neither by a page that opens a socket to it (Origin), nor through a
 * name that somebody points at 127.0.0.1 (Host, "DNS rebinding").
 */
#include "net_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Longer than any host with its port. */
#define AUTHORITY_MAX 300

/** Whether the text is a port with its colon, or nothing. */
static bool is_port(const char *text)
{
	size_t digits = text[0] == ':' ? strspn(text + 1, "0123456789") : 0;
	return !text[0] ||
	       (digits >= 1 && digits <= 5 && !text[1 + digits] && atoi(text + 1) <= 65535);
}

/** A loopback name, alone or with a port, and nothing else. */
static bool is_loopback_name(const char *authority)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);
		if (strncasecmp(names[i], authority, len) == 0 && is_port(authority + len)) {
			return true;
		}
	}
	return false;
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

/** Two authorities of http; port 80 may be left out. */
static bool is_same_authority(const char *a, const char *b)
{
	size_t a_len = strlen(a);
	size_t b_len = strlen(b);
	a_len -= a_len > 3 && strcmp(a + a_len - 3, ":80") == 0 ? 3 : 0;
	b_len -= b_len > 3 && strcmp(b + b_len - 3, ":80") == 0 ? 3 : 0;
	return a_len == b_len && strncasecmp(a, b, a_len) == 0;
}

/**
 * Whether a page of another site makes the browser send this (Fetch Metadata). It may have a link
 * to our page, and nothing else: not even what it cannot read, since it could measure that.
 */
static bool is_of_another_site(const struct http_head *head, bool is_api)
{
	char site[16] = "";
	char mode[16] = "";
	char dest[16] = "";
	http_head_copy(head, "sec-fetch-site", site, sizeof(site));
	http_head_copy(head, "sec-fetch-mode", mode, sizeof(mode));
	http_head_copy(head, "sec-fetch-dest", dest, sizeof(dest));
	bool is_foreign = strcmp(site, "cross-site") == 0 || strcmp(site, "same-site") == 0;
	bool is_link = strcmp(mode, "navigate") == 0 && strcmp(dest, "document") == 0 &&
		       head->method == HTTP_GET && !is_api;
	return is_foreign && !is_link;
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

const char *auth_check(
	const struct conn *conn, const struct http_head *head, bool is_api, const char **ret_why)
{
	char host[AUTHORITY_MAX];
	char origin[AUTHORITY_MAX];
	bool has_host = copy_host(head, host);
	if (!has_host || (conn->kind.is_loopback && !is_loopback_name(host))) {
		*ret_why = "this server answers to localhost, 127.0.0.1 and [::1] only";
		return "forbidden_host";
	}
	*ret_why = "a page of another site may not use this server";
	if (is_of_another_site(head, is_api)) {
		return "forbidden_origin";
	}
	if (!http_head_field(head, "origin")) {
		return NULL; /* not a browser, or a page of ours that only reads */
	}
	if (!http_head_copy(head, "origin", origin, sizeof(origin)) ||
		strncasecmp(origin, "http://", 7) != 0 || !is_same_authority(origin + 7, host)) {
		return "forbidden_origin";
	}
	return NULL;
}
