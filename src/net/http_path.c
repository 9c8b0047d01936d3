/* Classifies the path of a request: of the API or a file, with a token or without. */
#include "http_internal.h"

#include "holdfast/raw_wire.h"

#include <string.h>

/** Whether the path has an escaped slash, which is not a separator and occurs in no name. */
static bool has_escaped_slash(const struct http_head *head)
{
	const char *text = head->text + head->path.at;
	for (uint32_t i = 0; i + 2 < head->path.len; i++) {
		if (text[i] == '%' && text[i + 1] == '2' && (text[i + 2] | 0x20) == 'f') {
			return true;
		}
	}
	return false;
}

bool http_is_api(const char *path)
{
	return strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0 ||
	       strcmp(path, "/metrics") == 0 || strcmp(path, "/api") == 0 ||
	       strcmp(path, "/acp") == 0 || strncmp(path, "/api/", 5) == 0 ||
	       strncmp(path, "/ds/", 4) == 0 || raw_is_path(path);
}

bool http_path_fits(const char *path, const char *pattern)
{
	size_t all = strcspn(pattern, "{");
	if (strstr(pattern + all, "...}")) {
		return strncmp(path, pattern, all - 1) == 0 &&
		       (!path[all - 1] || path[all - 1] == '/');
	}
	for (; *pattern; path++, pattern++) {
		if (*pattern == '{') {
			size_t len = strcspn(path, "/");
			if (!len) {
				return false;
			}
			path += len - 1;
			pattern += strcspn(pattern, "}");
		} else if (*path != *pattern) {
			return false;
		}
	}
	return !*path;
}

/** Whether a part of the path is "." or "..". */
static bool has_dots(const char *path)
{
	for (const char *at = path; at; at = strchr(at, '/')) {
		at++;
		size_t len = strcspn(at, "/");
		if ((len == 1 || len == 2) && strncmp(at, "..", len) == 0) {
			return true;
		}
	}
	return false;
}

bool http_leads_nowhere(const struct conn *conn)
{
	return has_dots(conn->http->path) || has_escaped_slash(conn->http->head);
}

bool http_needs_token(const struct conn *conn)
{
	return !conn->kind.is_metrics && http_is_api(conn->http->path) &&
	       !http_leads_nowhere(conn) && strcmp(conn->http->path, "/healthz") != 0 &&
	       strcmp(conn->http->path, "/readyz") != 0 &&
	       strcmp(conn->http->path, "/api/login") != 0;
}

bool http_is_served_here(const struct conn *conn)
{
	const char *path = conn->http->path;
	return !conn->kind.is_metrics || strcmp(path, "/metrics") == 0 ||
	       strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0;
}
