/* GET /api/sessions/{id}/files: the files of a session's directory, for those who type a path. */
#include "http_internal.h"

#include "holdfast/hide.h"
#include "holdfast/utf8.h"

#include <stdlib.h>
#include <string.h>

#define FILES_DEFAULT ((size_t)50)
#define PREFIX_MAX    ((size_t)1024) /* bytes */

struct completion {
	struct conn *conn;
	struct agent_dirs_job *job;
};

/** Whether the token is for names of files; if not, it has been refused. */
static bool may_complete(struct conn *conn)
{
	if (http_may(conn, RIGHT_CONTROL) && !(conn_hides(conn) & HIDE_TOOLS)) {
		return true;
	}
	if (conn_may(conn, RIGHT_CONTROL)) {
		http_refuse(conn, "forbidden",
			"the token hides tools, and with them the names of files");
	}
	return false;
}

static void handle_found(void *arg, const struct agent_dirs_found *found)
{
	struct completion *completion = arg;
	struct conn *conn = completion->conn;
	struct session_table *sessions = conn->server->sessions;
	struct session *session =
		session_table_get(sessions, conn->session_id, strlen(conn->session_id));
	const char *cwd = session ? agent_host_cwd(conn->server->agents, session) : NULL;
	conn->http->completion = NULL;
	free(completion);
	if (!may_complete(conn)) {
		return; /* its token has ended meanwhile */
	}
	if (!cwd || !session_is_there(session)) {
		http_refuse(conn, "not_found", "the session has been deleted");
		return;
	}
	struct buffer body = {0};
	buffer_append_char(&body, '{');
	if (!conn_hides(conn)) {
		buffer_append_member(&body, "cwd", cwd);
		buffer_append_char(&body, ',');
	}
	buffer_append_str(&body, "\"files\":[");
	for (size_t i = 0; found->paths[i]; i++) {
		buffer_append_str(&body, i ? "," : "");
		buffer_append_json(&body, found->paths[i], strlen(found->paths[i]));
	}
	buffer_printf(&body, "],\"has_more\":%s}", found->has_more ? "true" : "false");
	http_respond_page(conn, &body);
	buffer_finish(&body);
}

/** NULL, or what is wrong; `prefix` has QUERY_MAX bytes. */
static const char *read_query(struct conn *conn, char *prefix, size_t *ret_most)
{
	char buf[QUERY_VALUE_MAX];
	const char *bad = query_check(conn, (const char *const[]){"prefix", "limit", NULL});
	*prefix = '\0';
	*ret_most = FILES_DEFAULT;
	if (bad) {
		return bad;
	}
	query_get(conn, "prefix", prefix, QUERY_MAX);
	if (strlen(prefix) > PREFIX_MAX || !utf8_is_valid(prefix, strlen(prefix))) {
		return "prefix must be UTF-8, and have at most 1024 bytes";
	}
	const char *limit = query_get(conn, "limit", buf, sizeof(buf));
	if (limit) {
		size_t len = strlen(limit);
		bool is_number = len > 0 && len < 10 && strspn(limit, "0123456789") == len;
		*ret_most = is_number ? strtoul(limit, NULL, 10) : 0;
		if (*ret_most < 1 || *ret_most > AGENT_DIRS_MAX) {
			return "limit must be a whole number from 1 to 200";
		}
	}
	return NULL;
}

void http_complete_files(struct conn *conn, struct session *session)
{
	char prefix[QUERY_MAX];
	size_t most;
	struct agent_host *agents = conn->server->agents;
	const char *cwd = agent_host_cwd(agents, session);
	if (!may_complete(conn)) {
		return;
	}
	const char *bad = read_query(conn, prefix, &most);
	if (bad) {
		http_refuse(conn, "bad_request", bad);
		return;
	}
	if (!cwd) {
		http_refuse(conn, "no_agent", agent_host_lack(agents));
		return;
	}
	struct completion *completion = xcalloc(1, sizeof(*completion));
	completion->conn = conn;
	completion->job = agent_dirs_files(agent_host_dirs(agents), cwd,
		agent_host_private_dir(agents), prefix, most, handle_found, completion);
	if (!completion->job) {
		free(completion);
		http_refuse(conn, "server_busy",
			"too many ask for files at once; try again in a moment");
		return;
	}
	conn->http->completion = completion;
}

void http_forget_completion(struct conn *conn)
{
	struct completion *completion = conn->http->completion;
	if (completion) {
		conn->http->completion = NULL;
		agent_dirs_cancel(completion->job);
		free(completion);
	}
}
