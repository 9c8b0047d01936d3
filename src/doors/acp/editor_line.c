/*
 * Sessions of other nodes that an editor has open (proto/nodes.md): each has a line, a WebSocket to
 * the session's node, which serves editors there. Messages about the session pass unchanged both
 * ways. An editor that opens a session whose node has just died waits until another node has it.
 */
#include "editor_internal.h"

#include "holdfast/placement.h"

#include "holdfast/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How often the node of a session is looked up again while it cannot be reached (ms). */
#define AGAIN_MS 200
/* How long after the end of a lease a new node has the session, at the latest (ms). */
#define GRACE_MS 2000

struct editor_line {
	struct list link; /* editor_door.lines */
	struct conn *conn;
	char *id; /* session id */
	char *address;
	struct node_socket *socket; /* NULL: it has ended, and the line is about to be destroyed */
	bool is_open;
	bool is_greeted; /* the answer to our `initialize` has been received */
	bool is_choked; /* reading from the editor stops until the other node takes more */
	struct buffer farewell; /* the answer that ends the line */
	struct buffer opening; /* how the answer to a load, resume or delete begins; empty: none is
				  awaited */
	bool is_used; /* the session is open there, or may be */
	bool is_refused; /* it is not: that was refused */
	bool is_quiet; /* no message has passed since the last sweep */
};

/** A line exists only where sessions can be at other nodes. */
static const struct placement_sockets *sockets_of(const struct conn *conn)
{
	return placement_sockets(conn);
}

static struct editor_line *find_line(const struct conn *conn, const char *id)
{
	list_for_each(link, &editor_of(conn)->lines) {
		struct editor_line *line = list_entry(link, struct editor_line, link);
		if (strcmp(line->id, id) == 0) {
			return line;
		}
	}
	return NULL;
}

static void destroy(struct editor_line *line)
{
	if (!line) {
		return;
	}
	sockets_of(line->conn)->leave(line->socket);
	list_remove(&line->link);
	editor_of(line->conn)->line_count--;
	buffer_finish(&line->farewell);
	buffer_finish(&line->opening);
	free(line->address);
	free(line->id);
	free(line);
}

/* --- lookup of the node --- */

static void seek(struct conn *conn);

/** Ends the lookup: the parked message is handled again; `code` is its refusal, if there is one. */
static void settle(struct conn *conn, enum error_code code)
{
	editor_of(conn)->is_placed = true;
	editor_of(conn)->unplaced = code;
	conn_unpark(conn);
}

static void handle_again(uv_timer_t *timer)
{
	struct conn *conn = timer->data;
	if (conn_is_closing(conn)) {
		settle(conn, ERROR_NONE); /* the result no longer matters */
	} else {
		seek(conn);
	}
}

/** Looks the node up again later: it cannot be reached, or the session is changing hands. */
static void try_again(struct conn *conn)
{
	struct editor_door *door = editor_of(conn);
	uv_loop_t *loop = conn_loop(conn);
	if (loop_now_ms(loop) >= door->until_ms) {
		settle(conn, ERROR_owner_unreachable);
		return;
	}
	door->again = door->again ? door->again : loop_timer(loop, conn);
	uv_timer_start(door->again, handle_again, AGAIN_MS, 0);
}

/* --- from the node --- */

static bool is_farewell(const struct editor_line *line, const char *text, size_t len)
{
	return line->farewell.len == len + 1 && memcmp(line->farewell.data, text, len) == 0;
}

/** Notes the answer to the request that opened the line. */
static void see_answer(struct editor_line *line, const char *text, size_t len)
{
	static const char result[] = "\"result\":";
	size_t before = line->opening.len;
	line->is_quiet = false;
	if (!before || len < before + sizeof(result) ||
		memcmp(text, line->opening.data, before) != 0) {
		return;
	}
	bool is_good = memcmp(text + before, result, sizeof(result) - 1) == 0;
	line->is_used = line->is_used || is_good;
	line->is_refused = !line->is_used;
	buffer_clear(&line->opening);
}

/** Expects the answer to a request that opens the line. Of two at once, neither is followed. */
static void expect_answer(struct editor_line *line, const char *id)
{
	line->is_used = line->is_used || line->opening.len;
	line->is_refused = false;
	buffer_clear(&line->opening);
	buffer_printf(&line->opening, "{\"jsonrpc\":\"2.0\",\"id\":%s,", id);
}

static void handle_message(void *owner, const char *text, size_t len)
{
	struct editor_line *line = owner;
	struct conn *conn = line->conn;
	struct buffer out = {0};
	if (conn_is_dead(conn) || conn_is_closing(conn)) {
		return;
	}
	if (!line->is_greeted) {
		line->is_greeted = true;
		return;
	}
	see_answer(line, text, len);
	buffer_append(&out, text, len);
	buffer_append_char(&out, '\n');
	editor_send(conn, &out);
	sending_count(conn);
	if (is_farewell(line, text, len)) {
		destroy(line);
	} else if (conn_is_choked(conn)) {
		sockets_of(line->conn)->pause(line->socket, true);
		conn_want_writable(conn);
	}
}

static void greet(struct editor_line *line)
{
	const struct editor_door *door = editor_of(line->conn);
	struct buffer hello = {0};
	buffer_append_str(&hello,
		"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{\"elicitation\":{");
	buffer_append_str(&hello, door->takes_forms ? "\"form\":{}" : "");
	buffer_append_str(&hello, door->takes_forms && door->takes_urls ? "," : "");
	buffer_append_str(&hello, door->takes_urls ? "\"url\":{}" : "");
	buffer_printf(&hello, "}},\"_meta\":{\"holdfast\":{\"read_only\":%s}}}}",
		door->is_read_only ? "true" : "false");
	sockets_of(line->conn)->send(line->socket, hello.data, hello.len);
	buffer_finish(&hello);
}

static void handle_opened(void *owner)
{
	struct editor_line *line = owner;
	line->is_open = true;
	greet(line);
	settle(line->conn, ERROR_NONE);
}

static void handle_writable(void *owner)
{
	struct editor_line *line = owner;
	struct conn *conn = line->conn;
	if (line->is_choked && !conn_is_dead(conn)) {
		line->is_choked = false;
		conn_unhold(conn);
	}
}

/** The editor reconnects, and resumes at the node that has the session then. */
static void handle_closed(void *owner, unsigned code, const char *reason)
{
	struct editor_line *line = owner;
	struct conn *conn = line->conn;
	bool was_open = line->is_open;
	bool was_choked = line->is_choked;
	line->socket = NULL;
	destroy(line);
	if (conn_is_dead(conn)) {
		return;
	}
	if (!was_open) {
		try_again(conn);
		return;
	}
	sending_count(conn);
	conn_close(conn, code, reason);
	if (was_choked) {
		conn_unhold(conn);
	}
}

static const struct node_socket_ops socket_ops = {
	.opened = handle_opened,
	.message = handle_message,
	.writable = handle_writable,
	.closed = handle_closed,
};

/* --- creation --- */

static void connect_to(struct conn *conn, const char *id, const char *address)
{
	struct editor_line *line = xcalloc(1, sizeof(*line));
	line->conn = conn;
	line->id = xstrdup(id);
	line->address = xstrdup(address);
	list_append(&editor_of(conn)->lines, &line->link);
	editor_of(conn)->line_count++;
	char *target = xprintf("/api/sessions/%s/acp?client_id=%s", id, conn_client_id(conn));
	line->socket = sockets_of(conn)->open(conn, address, target, &socket_ops, line);
	free(target);
	if (!line->socket) {
		destroy(line);
		settle(conn, limit_code(LIMIT_node_sockets));
	}
}

static void handle_place(
	struct place_wait *wait, int status, enum session_place place, const char *address)
{
	struct editor_door *door = list_entry(wait, struct editor_door, place_wait);
	struct conn *conn = door->conn;
	const char *id = door->sought;
	struct editor_line *line = find_line(conn, id);
	if (conn_is_dead(conn)) {
		return;
	}
	bool is_there = line && place == PLACE_ELSEWHERE && strcmp(line->address, address) == 0;
	if (status == 0 && !is_there) {
		destroy(line);
	}
	if (conn_is_closing(conn) || (status == 0 && (is_there || place != PLACE_ELSEWHERE))) {
		settle(conn, ERROR_NONE);
	} else if (status == -EAGAIN) {
		try_again(conn);
	} else if (status < 0) {
		settle(conn, ERROR_storage_failed);
	} else {
		connect_to(conn, id, address);
	}
}

static void seek(struct conn *conn)
{
	struct editor_door *door = editor_of(conn);
	door->place_wait.done = handle_place;
	session_table_seek(conn_sessions(conn), door->sought, &door->place_wait);
}

static int begin_seeking(
	struct conn *conn, const char *id, const char *text, size_t len, struct refusal *refusal)
{
	struct editor_door *door = editor_of(conn);
	const struct limits *limits = conn_limits(conn);
	if (!find_line(conn, id) && door->line_count + door->count >= EDITOR_SESSIONS_MAX) {
		return refuse(refusal, ERROR_server_busy,
			"an editor can have at most %d sessions open", EDITOR_SESSIONS_MAX);
	}
	strcpy(door->sought, id);
	door->until_ms = loop_now_ms(conn_loop(conn)) + limits->node_lease_ms + GRACE_MS;
	conn_park(conn, text, len);
	seek(conn);
	return 1;
}

/* --- from the editor --- */

static void send_up(struct editor_line *line, const char *text, size_t len)
{
	line->is_quiet = false;
	sockets_of(line->conn)->send(line->socket, text, len);
	if (sockets_of(line->conn)->is_choked(line->socket)) {
		line->is_choked = true;
		conn_hold(line->conn);
	}
}

static int refuse_place(enum error_code code, struct refusal *refusal)
{
	if (code == limit_code(LIMIT_node_sockets)) {
		return refuse_limit(refusal, LIMIT_node_sockets,
			"too many WebSockets are passed on to other nodes; try again in a moment");
	}
	return refuse(refusal, code, "%s",
		code == ERROR_storage_failed
			? "the database does not say where the session is; try again in a moment"
			: OWNER_UNREACHABLE);
}

int editor_pass_on(struct conn *conn, const struct editor_request *request, const char *text,
	size_t len, struct refusal *refusal)
{
	struct editor_door *door = editor_of(conn);
	const char *id = request->session_id;
	bool opens = request->method == EDITOR_LOAD || request->method == EDITOR_RESUME ||
		     request->method == EDITOR_DELETE;
	bool is_placed = door->is_placed;
	enum error_code unplaced = door->unplaced;
	door->is_placed = false;
	door->unplaced = ERROR_NONE;
	if (unplaced) {
		return refuse_place(unplaced, refusal);
	}
	if (opens && conn_sees(conn, id) && placement_may_be_elsewhere(conn, id, strlen(id))) {
		if (conn_is_node(conn)) { /* do not forward in circles */
			conn_close(conn, WS_CLOSE_GOING_AWAY, "owner gone");
			return 1;
		}
		if (!is_placed) {
			return begin_seeking(conn, id, text, len, refusal);
		}
	}
	struct editor_line *line = find_line(conn, id);
	if (!line) {
		return 0;
	}
	buffer_clear(&line->farewell);
	if (request->method == EDITOR_CLOSE || request->method == EDITOR_DELETE) {
		editor_put_result(&line->farewell, request->id, "{}", 2);
	}
	if (opens && request->id) {
		expect_answer(line, request->id);
	}
	send_up(line, text, len);
	return 1;
}

void editor_pass_to_all(struct conn *conn, const char *text, size_t len)
{
	list_for_each(link, &editor_of(conn)->lines) {
		struct editor_line *line = list_entry(link, struct editor_line, link);
		if (line->is_open) {
			send_up(line, text, len);
		}
	}
}

/* --- lifecycle --- */

void editor_lines_writable(struct conn *conn)
{
	list_for_each(link, &editor_of(conn)->lines) {
		struct editor_line *line = list_entry(link, struct editor_line, link);
		if (line->is_open && !conn_is_choked(conn)) {
			sockets_of(line->conn)->pause(line->socket, false);
		}
	}
}

void editor_sweep(struct conn *conn)
{
	if (!editor_of(conn)) {
		return;
	}
	list_for_each_safe(link, tmp, &editor_of(conn)->lines) {
		struct editor_line *line = list_entry(link, struct editor_line, link);
		bool is_useless = line->is_refused && line->is_quiet && !line->is_choked;
		line->is_quiet = true;
		if ((conn_is_closing(conn) || is_useless) && line->is_open) {
			destroy(line);
		} else {
			sockets_of(line->conn)->sweep(line->socket);
		}
	}
}

size_t editor_lines_kept(const struct editor_door *door)
{
	size_t size = 0;
	list_for_each(link, &door->lines) {
		const struct editor_line *line = list_entry(link, struct editor_line, link);
		size += sockets_of(line->conn)->kept(line->socket);
	}
	return size;
}

void editor_lines_close(struct conn *conn)
{
	struct editor_door *door = editor_of(conn);
	place_wait_cancel(&door->place_wait);
	if (door->again) {
		loop_close(door->again);
		door->again = NULL;
	}
	while (!list_empty(&door->lines)) {
		destroy(list_entry(door->lines.next, struct editor_line, link));
	}
}
