/*
 * Who may talk to us. A server on loopback has no password, so it must not be reachable from a web
 * page of another site: neither by a page that opens a socket to it (Origin), nor through a
 * name that somebody points at 127.0.0.1 (Host, "DNS rebinding").
 */
#include "net_internal.h"

#include <string.h>
#include <strings.h>

/** Cuts ":port" off; [::1] keeps its brackets. */
static size_t host_len(const char *authority)
{
	const char *bracket = authority[0] == '[' ? strchr(authority, ']') : NULL;
	return bracket ? (size_t)(bracket - authority) + 1 : strcspn(authority, ":");
}

static bool is_loopback_name(const char *authority)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	size_t len = host_len(authority);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strlen(names[i]) == len && strncasecmp(names[i], authority, len) == 0) {
			return true;
		}
	}
	return false;
}

const char *auth_check(const struct server *server, struct lws *wsi)
{
	char host[256] = "";
	char origin[256] = "";
	int host_size = lws_hdr_copy(wsi, host, sizeof(host), WSI_TOKEN_HOST);
	int origin_size = lws_hdr_copy(wsi, origin, sizeof(origin), WSI_TOKEN_ORIGIN);
	if (host_size < 0 || (server->is_loopback && (host_size == 0 || !is_loopback_name(host)))) {
		return "forbidden_host";
	}
	if (origin_size == 0) {
		return NULL; /* not a browser, or a page of ours that only reads */
	}
	const char *authority = origin_size > 0 ? strstr(origin, "://") : NULL;
	if (!authority || strcasecmp(authority + 3, host) != 0) {
		return "forbidden_origin";
	}
	return NULL;
}
