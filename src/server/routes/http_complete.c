/*
 * Path completion: GET /api/sessions/{id}/files looks in the working directory of a session, GET
 * /api/files in a directory that a new session can have.
 */
#include "server/http_internal.h"
#include "routes.h"

#include "holdfast/hide.h"
#include "holdfast/utf8.h"

#include <stdlib.h>
#include <string.h>

#define FILES_DEFAULT ((size_t)50)
#define PREFIX_MAX    ((size_t)1024) /* bytes */

struct completion {
	struct answer answer;
	struct agent_dirs_job *job;
	char *cwd; /* of a new session, once it has been checked; NULL: of an existing session */
	char *prefix;
	size_t most;
};

static void completion_free(struct completion *completion)
{
	http_detach_answer(&completion->answer);
	free(completion->cwd);
	free(completion->prefix);
	free(completion);
}

static void completion_drop(struct answer *answer)
{
	struct completion *completion = list_entry(answer, struct completion, answer);
	answer->conn->server->agents->ops->cancel_dirs(completion->job);
	answer->conn = NULL;
	completion_free(completion);
}

static const struct answer_ops completion_ops = {.drop = completion_drop};

/** Waits for the job; refuses the request if too many jobs are waiting. */
static void await(
	struct completion *completion, const struct agent_dirs_query *query, agent_dirs_done *done)
{
	struct conn *conn = completion->answer.conn;
	struct agent_host *agents = conn->server->agents;
	completion->job = agents->ops->query_dirs(agents, query, done, completion);
	if (!completion->job) {
		completion_free(completion);
		http_refuse(conn, ERROR_server_busy,
			"too many requests for files at once; try again in a moment");
	}
}

/** Whether the token may see file names; refuses the request if not. */
static bool may_complete(struct conn *conn)
{
	if (http_may(conn, RIGHT_CONTROL) && !(conn_hides(conn) & HIDE_TOOLS)) {
		return true;
	}
	if (conn_may(conn, RIGHT_CONTROL)) {
		http_refuse(conn, ERROR_forbidden,
			"the token hides tools, and with them the names of files");
	}
	return false;
}

static void respond(struct conn *conn, const char *cwd, const struct agent_dirs_found *found)
{
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

static void handle_found(void *arg, const struct agent_dirs_found *found)
{
	struct completion *completion = arg;
	struct conn *conn = completion->answer.conn;
	struct session_table *sessions = conn->server->sessions;
	struct session *session = completion->cwd ? NULL
						  : session_table_get(sessions, conn->session_id,
							    strlen(conn->session_id));
	char *cwd = completion->cwd;
	const char *of_session = session ? agent_host_cwd(conn->server->agents, session) : NULL;
	completion->cwd = NULL;
	completion_free(completion);
	if (!may_complete(conn)) {
		/* may_complete() has refused. */
	} else if (cwd || (of_session && session_is_there(session))) {
		respond(conn, cwd ? cwd : of_session, found);
	} else {
		http_refuse_lost(conn);
	}
	free(cwd);
}

/** Reads `prefix`, a buffer of QUERY_MAX bytes, and `limit`. Returns NULL, or a message. */
static const char *read_query(struct conn *conn, char *prefix, size_t *ret_most)
{
	*prefix = '\0';
	*ret_most = FILES_DEFAULT;
	query_get(conn, "prefix", prefix, QUERY_MAX);
	if (strlen(prefix) > PREFIX_MAX || !utf8_is_valid(prefix, strlen(prefix))) {
		return "prefix must be UTF-8, and have at most 1024 bytes";
	}
	if (!query_count(conn, "limit", AGENT_DIRS_MAX, ret_most)) {
		return "limit must be a whole number from 1 to 200";
	}
	return NULL;
}

/** Whether the token allows some session that does not exist yet; refuses the request if not. */
static bool may_make_one(struct conn *conn)
{
	bool may = conn_sees(conn, "");
	for (char **at = conn->grant->patterns; !may && *at; at++) {
		may = (*at)[strlen(*at) - 1] == '*';
	}
	if (!may) {
		http_refuse(conn, ERROR_forbidden, "the token does not allow new sessions");
	}
	return may;
}

/** Returns NULL if the request has been refused. */
static struct completion *begin(struct conn *conn, const char *const *names)
{
	char prefix[QUERY_MAX];
	size_t most;
	if (!may_complete(conn)) {
		return NULL;
	}
	const char *bad = query_check(conn, names);
	bad = bad ? bad : read_query(conn, prefix, &most);
	if (bad) {
		http_refuse(conn, ERROR_bad_request, bad);
		return NULL;
	}
	struct completion *completion = xcalloc(1, sizeof(*completion));
	completion->prefix = xstrdup(prefix);
	completion->most = most;
	http_begin_answer(conn, &completion->answer, &completion_ops);
	return completion;
}

static void look(struct completion *completion, const char *cwd)
{
	await(completion,
		&(struct agent_dirs_query){AGENT_DIRS_FILES, (char *const[]){(char *)cwd, NULL},
			completion->prefix, completion->most},
		handle_found);
}

static void complete_files(struct conn *conn, struct session *session)
{
	struct refusal refusal = {0};
	if (!http_has_session(conn, session)) {
		return;
	}
	struct completion *completion = begin(conn, (const char *const[]){"prefix", "limit", NULL});
	if (completion && conn_check_agent(conn, session, &refusal) < 0) {
		completion_free(completion);
		http_refuse(conn, refusal.code, refusal.message);
	} else if (completion) {
		look(completion, agent_host_cwd(conn->server->agents, session));
	}
}

static void handle_checked(void *arg, const struct agent_dirs_found *found)
{
	struct completion *completion = arg;
	struct conn *conn = completion->answer.conn;
	if (found->path) {
		completion->cwd = xstrdup(found->path);
		look(completion, completion->cwd);
		return;
	}
	completion_free(completion);
	if (!may_complete(conn)) {
		return;
	}
	http_refuse(conn, ERROR_bad_directory,
		"\"cwd\" is not a directory below the roots of this agent; GET /api/agents lists them");
}

static void complete_new(struct conn *conn)
{
	char name[QUERY_VALUE_MAX];
	char path[QUERY_MAX];
	struct completion *completion =
		begin(conn, (const char *const[]){"agent", "cwd", "prefix", "limit", NULL});
	if (!completion) {
		return;
	}
	const char *agent = query_get(conn, "agent", name, sizeof(name));
	const char *cwd = query_get(conn, "cwd", path, sizeof(path));
	const struct agent_offer *offer = agent_host_find(conn->server->agents, agent);
	if (!may_make_one(conn)) {
		completion_free(completion);
		return;
	}
	if (!offer) {
		completion_free(completion);
		http_refuse(conn, ERROR_unknown_agent,
			"this server has no agent of this name; GET /api/agents lists its agents");
		return;
	}
	await(completion,
		&(struct agent_dirs_query){
			AGENT_DIRS_CHECK, offer->roots, cwd ? cwd : offer->roots[0], 0},
		handle_checked);
}

const struct route completion_routes[] = {
	{"/api/sessions/{id}/files", "GET", .flags = ROUTE_SESSION | ROUTE_CHECKED,
		.serve_session = complete_files},
	{"/api/files", "GET", .serve = complete_new},
	{0},
};
