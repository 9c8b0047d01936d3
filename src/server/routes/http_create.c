/*
 * Creates sessions, and lists the agents and directories that they can have
 * (proto/protocol.md#rest).
 */
#include "server/http_internal.h"
#include "server/placement_internal.h"
#include "routes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request that waits until directories have been checked or listed. */
struct directories_wait {
	struct answer answer;
	struct agent_dirs_job *job;
	json_t *json; /* the body, if the request creates a session; else NULL */
	struct session_request request; /* borrows from `json` */
	const struct agent_offer *offer;
};

static void end_wait(struct directories_wait *wait)
{
	http_detach_answer(&wait->answer);
	json_decref(wait->json);
	free(wait);
}

static void wait_drop(struct answer *answer)
{
	struct directories_wait *wait = list_entry(answer, struct directories_wait, answer);
	answer->conn->server->agents->ops->cancel_dirs(wait->job);
	answer->conn = NULL;
	end_wait(wait);
}

static const struct answer_ops wait_ops = {.drop = wait_drop};

static struct directories_wait *begin_wait(struct conn *conn)
{
	struct directories_wait *wait = xcalloc(1, sizeof(*wait));
	http_begin_answer(conn, &wait->answer, &wait_ops);
	return wait;
}

/** Waits for the job; refuses the request if too many jobs are waiting. */
static void await(
	struct directories_wait *wait, const struct agent_dirs_query *query, agent_dirs_done *done)
{
	struct conn *conn = wait->answer.conn;
	struct agent_host *agents = conn->server->agents;
	wait->job = agents->ops->query_dirs(agents, query, done, wait);
	if (!wait->job) {
		end_wait(wait);
		http_refuse(conn, ERROR_server_busy,
			"too many requests for directories at once; try again in a moment");
	}
}

/* --- creating a session --- */

static void answer_created(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	struct session *session =
		session_table_get(conn->server->sessions, wait->text, strlen(wait->text));
	if (status < 0 || !session) {
		http_refuse_failed(conn, status);
		return;
	}
	struct buffer object = {0};
	http_append_session(conn, &object, session);
	http_respond(conn, 201, object.data, object.len);
	buffer_finish(&object);
}

static void refuse_exists(struct conn *conn, const char *id)
{
	struct refusal refusal = {0};
	struct session *session =
		id ? session_table_get(conn->server->sessions, id, strlen(id)) : NULL;
	/* A session that is being deleted will be gone by the time a later refusal is sent. */
	bool stays = session && !session_is_deleted(session);
	refuse(&refusal, ERROR_session_exists, "a session with this id already exists");
	http_refuse_later(conn, stays ? session : NULL, &refusal);
}

/** Makes up an id that the token allows: its first pattern with a *, completed at random. */
static const char *make_id(const struct grant *grant, char id[129])
{
	char half[LOGIN_HALF_SIZE];
	for (char **at = grant->patterns; *at; at++) {
		size_t len = strlen(*at);
		if ((*at)[len - 1] == '*' && len <= 100 && access_random(half) == 0) {
			snprintf(id, 129, "%.*s%.16s", (int)len - 1, *at, half);
			return id;
		}
	}
	return "-"; /* no token allows this one */
}

/**
 * If the agents are named, a session stores its agent and directory, so that a later change of the
 * defaults does not affect it.
 */
static struct session_wish make_wish(const struct conn *conn, const struct session_request *request,
	const struct agent_offer *offer, const char *cwd)
{
	bool is_kept = offer && conn->server->agents->is_named;
	return (struct session_wish){
		.title = request->title,
		.sub = conn->grant->sub,
		.agent = is_kept || request->agent ? offer->name : NULL,
		.cwd = cwd       ? cwd
		       : is_kept ? offer->roots[0]
				 : NULL,
	};
}

int conn_create_session(struct conn *conn, const struct session_request *request,
	const struct agent_offer *offer, const char *cwd, struct session **ret_session,
	struct refusal *refusal)
{
	struct session_table *sessions = conn->server->sessions;
	char made[129];
	const char *id = request->id;
	if (!id && !conn_sees(conn, "")) {
		id = make_id(conn->grant, made);
	}
	if (id && !conn_sees(conn, id)) {
		return refuse(
			refusal, ERROR_forbidden, "the token is not for a session of this id");
	}
	if (id && conn_session_is_absent(conn, id, strlen(id), refusal) &&
		refusal->code == ERROR_session_damaged) {
		return -EINVAL;
	}
	enum limit limit = session_room_for_another(sessions, conn->grant->sub);
	if (limit != LIMIT_NONE) {
		return refuse_limit(refusal, limit, TOO_MANY_SESSIONS);
	}
	struct session_wish wish = make_wish(conn, request, offer, cwd);
	int r = session_create(sessions, id, &wish, ret_session);
	if (r < 0 && r != -EEXIST) {
		refuse_storage(refusal, conn_storage(conn), STORAGE_WRITE);
	} else if (r == 0) {
		feed_announce(conn->server, *ret_session);
	}
	return r;
}

/** `cwd` has been checked; NULL means the default. */
static void create(struct conn *conn, const struct session_request *request,
	const struct agent_offer *offer, const char *cwd)
{
	struct refusal refusal = {0};
	struct session *session;
	int r = conn_create_session(conn, request, offer, cwd, &session, &refusal);
	if (r == -EEXIST) {
		refuse_exists(conn, request->id);
	} else if (r < 0) {
		http_refuse_event(conn, &refusal);
	} else {
		struct conn_wait *wait = conn_wait_create(conn, session, answer_created);
		wait->text = xstrdup(session_id(session));
	}
}

static void refuse_directory(struct conn *conn, const struct agent_offer *offer)
{
	struct buffer words = {0};
	buffer_append_str(&words,
		offer ? "\"cwd\" is not a directory below the roots of this agent, which are:"
		      : "this server has no agent, so there are no directories");
	for (char *const *root = offer ? offer->roots : NULL; root && *root && words.len < 2000;
		root++) {
		buffer_printf(&words, " %s", *root);
	}
	http_refuse(conn, ERROR_bad_directory, buffer_cstr(&words));
	buffer_finish(&words);
}

static void handle_checked(void *arg, const struct agent_dirs_found *found)
{
	struct directories_wait *wait = arg;
	struct conn *conn = wait->answer.conn;
	if (!http_may(conn, RIGHT_CREATE)) {
		/* http_may() has refused. */
	} else if (found->path) {
		create(conn, &wait->request, wait->offer, found->path);
	} else {
		refuse_directory(conn, wait->offer);
	}
	end_wait(wait);
}

void http_create_session(struct conn *conn)
{
	struct refusal refusal = {0};
	json_t *json;
	struct session_request request;
	if (session_request_parse(conn->rx.data, conn->rx.len, conn->server->limits, &json,
		    &request, &refusal) < 0) {
		http_refuse_event(conn, &refusal);
		return;
	}
	const struct agent_offer *offer = agent_host_find(conn->server->agents, request.agent);
	if (!http_may(conn, RIGHT_CREATE)) {
		/* http_may() has refused. */
	} else if (request.id && conn_sees(conn, request.id) &&
		   placement_seek_new(conn, request.id)) {
		/* It is routed again when it is known whether another node has this session. */
	} else if (conn->http->is_elsewhere) {
		refuse_exists(conn, NULL);
	} else if (request.agent && !offer) {
		http_refuse(conn, ERROR_unknown_agent,
			"this server has no agent of this name; GET /api/agents lists its agents");
	} else if (request.cwd && !offer) {
		refuse_directory(conn, NULL);
	} else if (request.cwd) {
		struct directories_wait *wait = begin_wait(conn);
		wait->json = json_incref(json);
		wait->request = request;
		wait->offer = offer;
		await(wait,
			&(struct agent_dirs_query){AGENT_DIRS_CHECK, offer->roots, request.cwd, 0},
			handle_checked);
	} else {
		create(conn, &request, offer, NULL);
	}
	json_decref(json);
}

/* --- lists of agents and directories --- */

static void append_list(struct buffer *out, const char *name, char *const *texts)
{
	buffer_printf(out, "\"%s\":[", name);
	for (size_t i = 0; texts[i]; i++) {
		buffer_append_str(out, i ? "," : "");
		buffer_append_json(out, texts[i], strlen(texts[i]));
	}
	buffer_append_char(out, ']');
}

static void get_agents(struct conn *conn)
{
	const struct agent_host *agents = conn->server->agents;
	struct buffer body = {0};
	buffer_append_str(&body, "{\"agents\":[");
	for (size_t i = 0; agents && i < agents->offer_count; i++) {
		const struct agent_offer *offer = &agents->offers[i];
		buffer_append_str(&body, i ? ",{" : "{");
		buffer_append_member(&body, "name", offer->name);
		buffer_append_member(&body, "title", offer->title);
		buffer_printf(&body, ",\"is_demo\":%s", offer->is_demo ? "true" : "false");
		if (conn_may(conn, RIGHT_CREATE)) {
			buffer_append_char(&body, ',');
			append_list(&body, "roots", offer->roots);
		}
		if (conn_may(conn, RIGHT_CREATE) && offer->fault) {
			buffer_append_member(&body, "fault", offer->fault);
		}
		buffer_append_char(&body, '}');
	}
	buffer_append_str(&body, "]}");
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

static void handle_listed(void *arg, const struct agent_dirs_found *found)
{
	struct directories_wait *wait = arg;
	struct conn *conn = wait->answer.conn;
	struct buffer body = {0};
	end_wait(wait);
	if (!http_may(conn, RIGHT_CREATE)) {
		return;
	}
	buffer_append_char(&body, '{');
	append_list(&body, "directories", found->paths);
	buffer_printf(&body, ",\"has_more\":%s}", found->has_more ? "true" : "false");
	http_respond(conn, 200, body.data, body.len);
	buffer_finish(&body);
}

static void get_directories(struct conn *conn)
{
	char name[QUERY_VALUE_MAX];
	char path[QUERY_MAX];
	if (!http_may(conn, RIGHT_CREATE)) {
		return;
	}
	const char *bad = query_check(conn, (const char *const[]){"agent", "path", NULL});
	if (bad) {
		http_refuse(conn, ERROR_bad_request, bad);
		return;
	}
	const char *agent = query_get(conn, "agent", name, sizeof(name));
	const char *prefix = query_get(conn, "path", path, sizeof(path));
	const struct agent_offer *offer = agent_host_find(conn->server->agents, agent);
	if (!offer) {
		http_refuse(conn, ERROR_unknown_agent,
			"this server has no agent of this name; GET /api/agents lists its agents");
		return;
	}
	struct directories_wait *wait = begin_wait(conn);
	await(wait,
		&(struct agent_dirs_query){AGENT_DIRS_LIST, offer->roots, prefix ? prefix : "", 0},
		handle_listed);
}

const struct route agent_routes[] = {
	{"/api/agents", "GET", .serve = get_agents},
	{"/api/directories", "GET", .serve = get_directories},
	{0},
};
