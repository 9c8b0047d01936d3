/*
 * Serves editors: ACP v1 over a WebSocket at /acp (docs/editors.md), one message in each text
 * frame, `initialize` first. To the editor the server is the agent; sessions, events and questions
 * are the server's, shared with everyone else who watches them.
 */
#include "editor_internal.h"

#include "holdfast/http_exchange.h"
#include "holdfast/door_acp.h"
#include "holdfast/websocket.h"

#include "holdfast/json_lines.h"
#include "holdfast/session_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- sending --- */

/**
 * Whether too much is kept for an editor that does not read; then it is disconnected, and resumes
 * later.
 */
static bool is_too_slow(const struct conn *conn)
{
	return conn_kept(conn) > conn_limits(conn)->outbox_size;
}

struct frame *editor_make_wire(struct buffer *out)
{
	struct buffer wire = {0};
	const char *at = out->data;
	const char *end = out->data + out->len;
	while (at < end) {
		unsigned char header[WS_HEADER_MAX];
		size_t len = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at);
		buffer_append(&wire, header, ws_header(WS_TEXT, len, header));
		buffer_append(&wire, at, len);
		at += len + 1;
	}
	struct frame *frame = frame_of_text(wire.len ? wire.data : "", wire.len);
	buffer_finish(&wire);
	buffer_finish(out);
	return frame;
}

static void handle_sent(void *frame)
{
	frame_unref(frame);
}

void editor_send_wire(struct conn *conn, struct frame *wire)
{
	if (!frame_len(wire) || conn_is_closing(conn)) {
		return;
	}
	conn_put_later(conn, frame_text(wire), frame_len(wire), handle_sent, frame_ref(wire));
	if (is_too_slow(conn)) {
		metrics_limit(conn_metrics(conn), LIMIT_outbox_size);
		conn_close(conn, WS_CLOSE_POLICY, "too many requests without reading the answers");
	}
}

void editor_send(struct conn *conn, struct buffer *out)
{
	struct frame *wire = editor_make_wire(out);
	editor_send_wire(conn, wire);
	frame_unref(wire);
}

void editor_result(struct conn *conn, const char *id, const char *result, size_t len)
{
	struct buffer out = {0};
	editor_put_result(&out, id, result, len);
	editor_send(conn, &out);
}

void editor_refuse(struct conn *conn, const char *id, bool must_tell, const struct refusal *refusal)
{
	struct buffer out = {0};
	metrics_refused(conn_metrics(conn), refusal->code, refusal->limit);
	if (id || must_tell) {
		editor_put_error(&out, id ? id : "null", refusal->code, refusal->message);
	}
	editor_send(conn, &out);
}

bool editor_may_control(const struct conn *conn, struct refusal *refusal)
{
	if (editor_of(conn)->is_read_only) {
		refuse(refusal, ERROR_forbidden, "this editor only watches");
		return false;
	}
	if (!conn_may(conn, RIGHT_CONTROL)) {
		refuse_role(conn, refusal);
		return false;
	}
	return true;
}

/* --- initialize --- */

static void take_initialize(struct conn *conn, const struct editor_request *request)
{
	struct editor_door *door = editor_of(conn);
	struct buffer out = {0};
	bool deletes = conn_may(conn, RIGHT_DELETE) && !request->initialize.is_read_only;
	door->is_initialized = true;
	door->is_read_only = request->initialize.is_read_only;
	door->takes_forms = request->initialize.takes_forms;
	door->takes_urls = request->initialize.takes_urls;
	buffer_printf(&out,
		"{\"protocolVersion\":1,\"agentInfo\":{\"name\":\"holdfast\",\"title\":\"Holdfast\",\"version\":\"" HOLDFAST_VERSION
		"\"},\"agentCapabilities\":{\"loadSession\":true,\"promptCapabilities\":{\"image\":false,\"audio\":false,\"embeddedContext\":false},"
		"\"mcpCapabilities\":{\"http\":false,\"sse\":false},\"sessionCapabilities\":{\"list\":{},\"resume\":{},\"close\":{}%s}},"
		"\"authMethods\":[],\"_meta\":{\"holdfast\":{\"role\":\"%s\"}}}",
		deletes ? ",\"delete\":{}" : "", role_name(conn_grant(conn)->role));
	editor_result(conn, request->id, out.data, out.len);
	buffer_finish(&out);
}

/* --- the list --- */

static void put_time(struct buffer *out, int64_t ms)
{
	char text[32];
	struct tm tm;
	time_t seconds = (time_t)(ms / 1000);
	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm)) {
		buffer_append_member(out, "updatedAt", text);
	}
}

/** The directory of a session's agent; / for a session without an agent. */
static const char *cwd_of(const struct conn *conn, const struct session_object *object)
{
	const struct agent_offer *offer = agent_host_find(conn_agents(conn), object->agent);
	return object->cwd ? object->cwd : offer ? offer->roots[0] : "/";
}

static void put_session(
	const struct conn *conn, struct buffer *out, const struct session_object *object)
{
	buffer_append_char(out, '{');
	buffer_append_member(out, "sessionId", object->id);
	buffer_append_member(out, "cwd", cwd_of(conn, object));
	if (object->labels.title && object->labels.title[0]) {
		buffer_append_member(out, "title", object->labels.title);
	}
	put_time(out, object->updated_at);
	buffer_append_str(out, ",\"_meta\":{\"holdfast\":{\"epoch\":\"");
	buffer_append_hex(out, object->epoch);
	buffer_printf(out, "\",\"seq\":%llu", (unsigned long long)object->max_seq);
	bool hides = !conn_sees_questions(conn) && strcmp(object->status, "waiting") == 0;
	buffer_append_member(out, "status", hides ? "running" : object->status);
	buffer_append_str(out, "}}}");
}

static int take_list(
	struct conn *conn, const struct editor_request *request, struct refusal *refusal)
{
	const struct limits *limits = conn_limits(conn);
	struct session_cursor cursor = {0};
	struct session_filter filter = conn_filter(conn);
	struct session_page page;
	struct buffer out = {0};
	size_t i;
	if (request->list.cursor && !session_cursor_read(request->list.cursor, &cursor)) {
		return refuse(refusal, ERROR_bad_request,
			"cursor must be the nextCursor of an earlier answer");
	}
	session_list_page(
		conn_sessions(conn), SESSIONS_BY_CHANGE, &cursor, &filter, limits->list_max, &page);
	buffer_append_str(&out, "{\"sessions\":[");
	for (i = 0; i < page.count && out.len < limits->page_size; i++) {
		const struct session_object *object = &page.objects[i];
		session_cursor_move(&cursor, SESSIONS_BY_CHANGE, object);
		if (!request->list.cwd || strcmp(request->list.cwd, cwd_of(conn, object)) == 0) {
			buffer_append_str(&out, out.data[out.len - 1] == '[' ? "" : ",");
			put_session(conn, &out, object);
		}
	}
	buffer_append_char(&out, ']');
	if (i < page.count || page.has_more) {
		struct buffer text = {0};
		session_cursor_write(&cursor, &text);
		buffer_append_member(&out, "nextCursor", buffer_cstr(&text));
		buffer_finish(&text);
	}
	buffer_append_char(&out, '}');
	session_page_finish(&page);
	editor_result(conn, request->id, out.data, out.len);
	buffer_finish(&out);
	return 0;
}

/* --- a new session --- */

static void handle_made(struct conn_wait *wait, int status)
{
	struct conn *conn = wait->conn;
	size_t len = strcspn(wait->text, " ");
	struct editor_request request = {.method = EDITOR_NEW, .id = wait->text + len + 1};
	struct refusal refusal = {0};
	struct session *session = session_table_get(conn_sessions(conn), wait->text, len);
	if (!editor_of(conn) || conn_is_closing(conn)) {
		return;
	}
	if (status < 0 || !session) {
		refuse_storage(&refusal, conn_storage(wait->conn), STORAGE_WRITE);
	} else {
		editor_open(conn, &request, session, &refusal);
	}
	if (refusal.code) {
		editor_refuse(conn, request.id, true, &refusal);
	}
}

static void handle_looked(void *arg, const struct agent_dirs_found *found)
{
	struct conn *conn = arg;
	struct editor_door *door = editor_of(conn);
	door->looking = NULL;
	door->has_looked = true;
	door->found = found->path ? xstrdup(found->path) : NULL;
	conn_unpark(conn);
}

/**
 * Only the operator names directories: an editor can only ask for those that the agent has anyway.
 */
static int check_additional(
	const struct agent_offer *offer, const json_t *additional, struct refusal *refusal)
{
	for (size_t i = 0; i < json_array_size(additional); i++) {
		const char *path = json_string_value(json_array_get(additional, i));
		bool is_root = false;
		for (char *const *root = offer ? offer->roots : NULL; root && *root; root++) {
			is_root = is_root || strcmp(*root, path) == 0;
		}
		if (!is_root) {
			return refuse(refusal, ERROR_bad_request,
				"additionalDirectories can only be directories that the server's operator has named (docs/agents.md)");
		}
	}
	return 0;
}

/**
 * Creates a session. The editor's directory often is one of another machine: then the agent's own
 * is used.
 */
static int take_new(struct conn *conn, const struct editor_request *request, const char *text,
	size_t len, struct refusal *refusal)
{
	struct editor_door *door = editor_of(conn);
	struct agent_host *agents = conn_agents(conn);
	const struct agent_offer *offer = agent_host_find(agents, request->make.agent);
	struct session *session;
	if (!conn_may(conn, RIGHT_CREATE) || door->is_read_only) {
		return refuse_role(conn, refusal);
	}
	if (request->make.agent && !offer) {
		return refuse(
			refusal, ERROR_unknown_agent, "this server has no agent of this name");
	}
	if (check_additional(offer, request->make.additional, refusal) < 0) {
		return -EINVAL;
	}
	if (offer && !door->has_looked) {
		door->looking = agents->ops->query_dirs(agents,
			&(struct agent_dirs_query){
				AGENT_DIRS_CHECK, offer->roots, request->make.cwd, 0},
			handle_looked, conn);
		if (!door->looking) {
			return refuse(refusal, ERROR_server_busy,
				"too many requests for directories at once; try again in a moment");
		}
		conn_park(conn, text, len);
		return 0;
	}
	struct session_request wish = {.agent = request->make.agent};
	char *cwd = door->found;
	door->found = NULL;
	door->has_looked = false;
	int r = conn_create_session(conn, &wish, offer, cwd, &session, refusal);
	free(cwd);
	if (r < 0) {
		return r == -EEXIST ? refuse(refusal, ERROR_session_exists, "try again") : -EINVAL;
	}
	struct conn_wait *wait = conn_wait_create(conn, session, handle_made);
	wait->text = xprintf("%s %s", session_id(session), request->id);
	return 0;
}

/* --- existing sessions --- */

/** Finds a session; those that the token may not see do not exist. */
static struct session *find_session(struct conn *conn, const char *id, struct refusal *refusal)
{
	struct session_table *sessions = conn_sessions(conn);
	struct session *session =
		conn_sees(conn, id) ? session_table_get(sessions, id, strlen(id)) : NULL;
	if (conn_sees(conn, id) && conn_session_is_absent(conn, id, strlen(id), refusal)) {
		return NULL;
	}
	if (!session && conn_sees(conn, id) && !server_may(conn_life(conn), MAY_JUDGE)) {
		refuse(refusal, ERROR_shutting_down, SHUTTING_DOWN);
		return NULL;
	}
	if (!session || !session_is_there(session)) {
		refuse(refusal, ERROR_not_found, "there is no such session here");
		return NULL;
	}
	return session;
}

static int take_load(
	struct conn *conn, const struct editor_request *request, struct refusal *refusal)
{
	struct session *session = find_session(conn, request->session_id, refusal);
	if (!session) {
		return -EINVAL;
	}
	const struct agent_offer *offer = agent_host_agent(conn_agents(conn), session);
	if (check_additional(offer, request->make.additional, refusal) < 0) {
		return -EINVAL;
	}
	return editor_open(conn, request, session, refusal);
}

static void handle_deleted(struct conn_wait *wait, int status)
{
	struct refusal refusal = {0};
	if (!editor_of(wait->conn) || conn_is_closing(wait->conn)) {
		return;
	}
	if (status < 0) {
		refuse_storage(&refusal, conn_storage(wait->conn), STORAGE_WRITE);
		editor_refuse(wait->conn, wait->text, true, &refusal);
	} else {
		editor_result(wait->conn, wait->text, "{}", 2);
	}
}

static int take_delete(
	struct conn *conn, const struct editor_request *request, struct refusal *refusal)
{
	struct session *session = find_session(conn, request->session_id, refusal);
	if (!session) {
		return -EINVAL;
	}
	if (!conn_may(conn, RIGHT_DELETE) || editor_of(conn)->is_read_only) {
		return refuse_role(conn, refusal);
	}
	int r = session_delete(session);
	if (r < 0 && r != -EALREADY) {
		return refuse_storage(refusal, conn_storage(conn), STORAGE_WRITE);
	}
	struct conn_wait *wait = conn_wait_create(conn, session, handle_deleted);
	wait->text = xstrdup(request->id);
	return 0;
}

/* --- open sessions --- */

static int take_controlled(struct conn *conn, struct editor_session *at,
	struct editor_request *request, const char *text, size_t len, struct refusal *refusal)
{
	struct session *session = editor_session_of(at);
	if (!editor_may_control(conn, refusal)) {
		return -EINVAL;
	}
	if (conn_waits_for_names(conn, session, text, len)) {
		return 0;
	}
	conn_hold_session(conn, session);
	if (request->method == EDITOR_CANCEL) {
		editor_cancel(conn, at);
		return 0;
	}
	return request->method == EDITOR_SET ? editor_set(conn, at, request, refusal)
					     : editor_prompt(conn, at, request, refusal);
}

static int take_open(struct conn *conn, struct editor_request *request, const char *text,
	size_t len, struct refusal *refusal)
{
	struct editor_session *at = editor_find(conn, request->session_id);
	if (!at) {
		return refuse(refusal,
			conn_sees(conn, request->session_id) ? ERROR_bad_request : ERROR_not_found,
			"this session is not open here: session/new, session/load or session/resume opens one");
	}
	if (request->method != EDITOR_CLOSE) {
		return take_controlled(conn, at, request, text, len, refusal);
	}
	editor_close(at);
	editor_result(conn, request->id, "{}", 2);
	return 0;
}

/* --- requests --- */

static int take_request(struct conn *conn, struct editor_request *request, const char *text,
	size_t len, struct refusal *refusal)
{
	if (request->method == EDITOR_NOTHING) {
		return 0;
	}
	if (request->method == EDITOR_INITIALIZE) {
		take_initialize(conn, request);
		return 0;
	}
	if (!editor_of(conn)->is_initialized) {
		return refuse(refusal, ERROR_bad_message, "the first message must be initialize");
	}
	int passed = request->session_id ? editor_pass_on(conn, request, text, len, refusal) : 0;
	if (passed) {
		return passed;
	}
	switch (request->method) {
	case EDITOR_LIST:
		return take_list(conn, request, refusal);
	case EDITOR_NEW:
		return take_new(conn, request, text, len, refusal);
	case EDITOR_LOAD:
	case EDITOR_RESUME:
		return take_load(conn, request, refusal);
	case EDITOR_DELETE:
		return take_delete(conn, request, refusal);
	case EDITOR_TAKE_BACK:
		editor_pass_to_all(conn, text, len);
		if (editor_may_control(conn, refusal)) {
			editor_take_back(conn, request->of);
		}
		return 0;
	case EDITOR_ANSWER:
		editor_pass_to_all(conn, text, len);
		editor_take_answer(conn, request);
		return 0;
	default:
		return take_open(conn, request, text, len, refusal);
	}
}

static void editor_message(struct conn *conn, const char *text, size_t len)
{
	struct editor_request request;
	struct refusal refusal = {0};
	if (!editor_of(conn)) {
		return;
	}
	json_unwrap(&text, &len);
	int r = editor_request_parse(text, len, conn_limits(conn), &request, &refusal);
	r = r < 0 ? r : take_request(conn, &request, text, len, &refusal);
	if (r < 0) {
		bool is_unread = !request.json || (refusal.code == ERROR_bad_message);
		editor_refuse(conn, request.id, is_unread, &refusal);
	}
	editor_request_finish(&request);
	if (!conn_is_parked(conn)) {
		ws_content_drop(conn);
		conn_drop_session(conn);
	}
}

/* --- lifecycle --- */

static const char *editor_read_query(struct conn *conn)
{
	const char *bad = query_check(conn, (const char *const[]){"client_id", NULL});
	return bad ? bad : query_read_client_id(conn);
}

static void editor_opened(struct conn *conn)
{
	if (conn_check_query(conn)) {
		struct editor_door *door = xcalloc(1, sizeof(*door));
		door->conn = conn;
		list_init(&door->sessions);
		list_init(&door->lines);
		conn_set_state(conn, door);
	}
}

static void editor_writable(struct conn *conn)
{
	if (editor_of(conn)) {
		editor_pump(conn);
		editor_lines_writable(conn);
	}
}

static void editor_closed(struct conn *conn)
{
	struct editor_door *door = editor_of(conn);
	ws_content_drop(conn);
	if (!door) {
		return;
	}
	if (door->looking) {
		conn_agents(conn)->ops->cancel_dirs(door->looking);
	}
	editor_close_all(conn);
	editor_lines_close(conn);
	free(door->found);
	free(door);
	conn_set_state(conn, NULL);
}

/** Drops frames that the server sends to all sockets, which ACP does not have; a close follows. */
static void editor_tell(struct conn *conn, struct frame *frame)
{
	frame_unref(frame);
}

static const struct conn_ops editor_conn_ops = {
	.read_query = editor_read_query,
	.open = editor_opened,
	.message = editor_message,
	.writable = editor_writable,
	.closed = editor_closed,
	.end_tick = editor_end_tick,
	.sweep = editor_sweep,
	.kept = editor_kept,
	.session_lost = editor_session_lost,
	.tell = editor_tell,
	.takes_bodies = true,
	.is_about_all = true,
};

static const struct route routes[] = {
	{"/acp", "GET", .socket = &editor_conn_ops},
	/* A session that an editor has open at another node. */
	{"/api/sessions/{id}/acp", "", .flags = ROUTE_NODES | ROUTE_SESSION | ROUTE_CHECKED,
		.socket = &editor_conn_ops},
	{0},
};

const struct door door_acp = {.routes = routes};
