/* Parses and checks the query of a request. */
#include "server/http_internal.h"

#include "holdfast/sse.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Finds the next part of the query, `name=value`. Returns false at the end. */
static bool next_part(const struct conn *conn, size_t *at, const char **ret_part, size_t *ret_len)
{
	const struct http_span query = conn->http->head->query;
	const char *text = conn->http->head->text + query.at;
	if (*at >= query.len) {
		return false;
	}
	const char *end = memchr(text + *at, '&', query.len - *at);
	*ret_part = text + *at;
	*ret_len = (end ? (size_t)(end - text) : query.len) - *at;
	*at += *ret_len + 1;
	return true;
}

static bool has_name(const char *part, size_t len, const char *name)
{
	size_t n = strlen(name);
	return len > n && memcmp(part, name, n) == 0 && part[n] == '=';
}

/** The value of the n-th part (from 0) of this name, as sent. */
static const char *find_value(
	const struct conn *conn, const char *name, unsigned n, size_t *ret_len)
{
	const char *part;
	size_t len;
	for (size_t at = 0; next_part(conn, &at, &part, &len);) {
		if (has_name(part, len, name) && n-- == 0) {
			*ret_len = len - strlen(name) - 1;
			return part + strlen(name) + 1;
		}
	}
	return NULL;
}

static size_t value_max(const char *name)
{
	bool is_long = strcmp(name, "title") == 0 || strcmp(name, "prompt_id") == 0 ||
		       strcmp(name, "cursor") == 0 || strcmp(name, "q") == 0 ||
		       strcmp(name, "path") == 0 || strcmp(name, "prefix") == 0;
	return is_long ? QUERY_MAX : QUERY_VALUE_MAX;
}

const char *query_check(struct conn *conn, const char *const names[])
{
	const char *part;
	size_t len;
	for (size_t at = 0; next_part(conn, &at, &part, &len);) {
		const char *const *name = names;
		while (*name && !has_name(part, len, *name)) {
			name++;
		}
		if (!*name && len) {
			return "the query has a parameter that this address does not take (each must be name=value)";
		}
	}
	return query_check_known(conn, names);
}

const char *query_check_known(struct conn *conn, const char *const names[])
{
	char value[QUERY_MAX];
	for (const char *const *name = names; *name; name++) {
		size_t value_len;
		const char *text = find_value(conn, *name, 0, &value_len);
		if (text && http_decode(text, value_len, true, value, value_max(*name)) < 0) {
			return "a value of the query is too long, or has an invalid escape";
		}
		if (text && find_value(conn, *name, 1, &value_len)) {
			return "the query has the same parameter twice";
		}
	}
	return NULL;
}

const char *query_get(struct conn *conn, const char *name, char *buf, size_t size)
{
	size_t len;
	const char *text = find_value(conn, name, 0, &len);
	return text && http_decode(text, len, true, buf, size) >= 0 ? buf : NULL;
}

bool query_count(struct conn *conn, const char *name, size_t most, size_t *ret)
{
	char buf[QUERY_VALUE_MAX];
	const char *text = query_get(conn, name, buf, sizeof(buf));
	if (!text) {
		return true;
	}
	size_t len = strlen(text);
	bool is_number = len > 0 && len < 10 && strspn(text, "0123456789") == len;
	*ret = is_number ? strtoul(text, NULL, 10) : 0;
	return *ret >= 1 && *ret <= most;
}

int query_format(const char *text, enum event_format fallback, enum event_format *ret)
{
	*ret = fallback;
	if (!text) {
		return 0;
	}
	static const char *const names[FORMAT_COUNT] = {
		[FORMAT_MARKDOWN] = "markdown", [FORMAT_HTML] = "html", [FORMAT_BOTH] = "both"};
	for (int format = 0; format < FORMAT_COUNT; format++) {
		if (strcmp(names[format], text) == 0) {
			*ret = (enum event_format)format;
			return 0;
		}
	}
	return -1;
}

static const char *read_deltas(const char *text, enum deltas *ret)
{
	if (text && strcmp(text, "text") != 0 && strcmp(text, "html") != 0) {
		return "deltas must be text or html";
	}
	*ret = !text ? DELTAS_NONE : strcmp(text, "text") == 0 ? DELTAS_TEXT : DELTAS_HTML;
	return NULL;
}

const char *query_read_client_id(struct conn *conn)
{
	char buf[QUERY_VALUE_MAX];
	const char *client = query_get(conn, "client_id", buf, sizeof(buf));
	size_t len = client ? strlen(client) : 0;
	if (client && (!token_is_valid(client, len, 64) || strpbrk(client, ".:"))) {
		return "client_id must match [A-Za-z0-9_-]{1,64}";
	}
	if (client) {
		memcpy(conn->ws->client_id, client, len + 1);
	}
	return NULL;
}

const char *query_read_observer(struct conn *conn)
{
	char buf[QUERY_VALUE_MAX];
	static const char *const names[] = {"format", "deltas", "client_id", NULL};
	const char *bad = query_check(conn, names);
	if (bad) {
		return bad;
	}
	if (query_format(query_get(conn, "format", buf, sizeof(buf)), FORMAT_HTML,
		    &conn->ws->config.format) < 0) {
		return "format must be html, markdown or both";
	}
	bad = read_deltas(query_get(conn, "deltas", buf, sizeof(buf)), &conn->ws->config.deltas);
	if (bad) {
		return bad;
	}
	return query_read_client_id(conn);
}

/**
 * Reads the limit of an event stream; 0 means to begin with new events. Returns false if invalid.
 */
static bool read_limit(const struct conn *conn, const char *text, size_t *ret)
{
	size_t len = strlen(text);
	*ret = len && len < 10 ? strtoul(text, NULL, 10) : SIZE_MAX;
	return strspn(text, "0123456789") == len && *ret <= conn->server->limits->load_max;
}

/**
 * Reads the position of an event stream: Last-Event-ID, which a browser sends when it reconnects (WHATWG
 * HTML, 9.2.3), else `lastEventId` of the query, which event-source-polyfill appends in its place, else
 * `after`, which was in the URL from the beginning. An empty id is none. Returns NULL, or a message.
 */
static const char *read_position(struct conn *conn, struct load_request *load)
{
	char noted[QUERY_VALUE_MAX] = "";
	char buf[QUERY_VALUE_MAX];
	struct sse_position position;
	const struct http_head *head = conn->http->head;
	size_t fields = http_count_fields(head, "last-event-id");
	bool is_told = fields == 1 && http_head_copy(head, "last-event-id", noted, sizeof(noted));
	if (fields && !is_told) {
		return "Last-Event-ID must be the id of an event, once";
	}
	if (!noted[0] && !query_get(conn, "lastEventId", noted, sizeof(noted))) {
		noted[0] = '\0';
	}
	const char *after = noted[0] ? noted : query_get(conn, "after", buf, sizeof(buf));
	if (!after) {
		return NULL;
	}
	if (!sse_position_read(after, strlen(after), &position)) {
		return noted[0] ? "Last-Event-ID must be the id of an event: EPOCH-SEQ"
				: "after must be a seq, or the id of an event: EPOCH-SEQ";
	}
	load->from = LOAD_AFTER;
	load->seq = position.seq;
	load->has_epoch = position.has_epoch;
	load->epoch = position.epoch;
	return NULL;
}

const char *query_read_stream(
	struct conn *conn, struct observer_config *ret_config, struct load_request *ret_load)
{
	char buf[QUERY_VALUE_MAX];
	static const char *const names[] = {
		"format", "deltas", "after", "lastEventId", "limit", NULL};
	const char *bad = query_check(conn, names);
	if (bad) {
		return bad;
	}
	if (query_format(query_get(conn, "format", buf, sizeof(buf)), FORMAT_HTML,
		    &ret_config->format) < 0) {
		return "format must be html, markdown or both";
	}
	*ret_load = (struct load_request){
		.from = LOAD_NEWEST, .limit = conn->server->limits->load_default, .follow = true};
	const char *limit = query_get(conn, "limit", buf, sizeof(buf));
	if (limit && !read_limit(conn, limit, &ret_load->limit)) {
		return "limit must be a whole number, at most load_max (see holdfast limits)";
	}
	bad = read_deltas(query_get(conn, "deltas", buf, sizeof(buf)), &ret_config->deltas);
	return bad ? bad : read_position(conn, ret_load);
}

const char *query_append(struct conn *conn)
{
	char buf[QUERY_MAX];
	size_t most = conn->server->limits->title_size;
	const char *bad = query_check(conn, (const char *const[]){"create", "title", NULL});
	const char *create = query_get(conn, "create", buf, sizeof(buf));
	if (bad) {
		return bad;
	}
	if (create && strcmp(create, "1") != 0) {
		return "create must be 1, or be left out";
	}
	conn->may_create = create != NULL;
	const char *title = query_get(conn, "title", buf, sizeof(buf));
	if (!title) {
		return NULL;
	}
	json_t *utf8 = json_string(title);
	json_decref(utf8);
	if (!conn->may_create || !utf8 || strlen(title) > most) {
		return !utf8              ? "the title is not valid UTF-8"
		       : conn->may_create ? "the title is too long (see holdfast limits)"
					  : "title needs create=1";
	}
	free(conn->title);
	conn->title = xstrdup(title);
	return NULL;
}
