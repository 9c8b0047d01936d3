/*
 * Checks the images and files of a prompt before it is accepted: they must be blobs of the session,
 * of the type that the prompt says, not too large, and of a kind that the agent accepts. Meanwhile
 * the connection is parked, as it is while names are loaded.
 */
#include "server/ws_internal.h"

#include "holdfast/blobs.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct content_check {
	struct conn *conn;
	struct blob_opening *opening; /* NULL: all are checked */
	json_t *content;
	size_t at; /* the block being checked */
	uint64_t size; /* of the blobs before it */
	bool is_over;
	struct refusal refusal; /* code ERROR_NONE: nothing wrong so far */
};

void ws_content_drop(struct conn *conn)
{
	struct content_check *check = conn->ws->check;
	if (check) {
		conn->ws->check = NULL;
		if (check->opening) {
			blob_open_cancel(check->opening);
		}
		json_decref(check->content);
		free(check);
	}
}

static const char *type_of(const json_t *block)
{
	return json_string_value(json_object_get(block, "type"));
}

/** Checks the blob of a block, and adds its type and size to the prompt. */
static void take(struct content_check *check, const struct blob *blob)
{
	json_t *block = json_array_get(check->content, check->at);
	const char *type = type_of(block);
	size_t most = check->conn->server->limits->prompt_blobs;
	size_t len = strlen(type);
	check->size += blob->size;
	if (strcmp(type, "resource") != 0 &&
		(strncmp(blob->mime_type, type, len) != 0 || blob->mime_type[len] != '/')) {
		refuse(&check->refusal, ERROR_bad_request,
			"block %zu of content is not of the type %s, but %s", check->at + 1, type,
			blob->mime_type);
	} else if (check->size > most) {
		refuse_limit(&check->refusal, LIMIT_prompt_blobs,
			"the images and files of a prompt can have at most %zu bytes in total",
			most);
	}
	bool is_told = strcmp(type, "resource") == 0 && json_object_get(block, "mime_type");
	if (!is_told) {
		json_object_set_new(block, "mime_type", json_string(blob->mime_type));
	}
	json_object_set_new(block, "size", json_integer((json_int_t)blob->size));
}

static void look_on(struct content_check *check);

static void handle_opened(void *arg, int fd, const struct blob *blob)
{
	struct content_check *check = arg;
	check->opening = NULL;
	if (fd >= 0) {
		loop_close_file(check->conn->server->loop, fd);
		take(check, blob);
	} else if (fd == -ENOENT) {
		refuse(&check->refusal, ERROR_unknown_blob,
			"the session has no image or file %.64s; send it first", blob->name);
	} else if (fd == -EBADMSG) {
		refuse(&check->refusal, ERROR_blob_damaged, BLOB_DAMAGED);
	} else {
		refuse_storage(&check->refusal, conn_storage(check->conn), STORAGE_BLOB);
	}
	check->at++;
	look_on(check);
}

static void look_on(struct content_check *check)
{
	struct conn *conn = check->conn;
	while (!check->refusal.code && conn->session &&
		check->at < json_array_size(check->content)) {
		const char *name = json_string_value(
			json_object_get(json_array_get(check->content, check->at), "blob"));
		if (name) {
			check->opening = blob_open(session_channel(conn->session)->log, name,
				conn_hides(conn), handle_opened, check);
			return;
		}
		check->at++;
	}
	check->is_over = true;
	conn_unpark(conn);
}

/** Whether the agent is known not to accept some block. */
static bool agent_refuses(struct conn *conn, const json_t *content, struct refusal *refusal)
{
	const struct agent_host *agents = conn->server->agents;
	for (size_t i = 0; agents && i < json_array_size(content); i++) {
		const char *type = type_of(json_array_get(content, i));
		if (!agents->ops->accepts(agents, conn->session, type)) {
			refuse(refusal, ERROR_unsupported_content,
				"the agent of this session does not take content of the type %s",
				type);
			return true;
		}
	}
	return false;
}

static bool has_blobs(const json_t *content)
{
	bool any = false;
	for (size_t i = 0; i < json_array_size(content); i++) {
		any = any || json_object_get(json_array_get(content, i), "blob");
	}
	return any;
}

bool ws_waits_for_content(
	struct conn *conn, const struct request *request, const char *text, size_t len)
{
	json_t *content = request->type == REQUEST_PROMPT ? request->prompt.content : NULL;
	if (!has_blobs(content) || (conn->ws->check && conn->ws->check->is_over)) {
		return false;
	}
	struct content_check *check = xcalloc(1, sizeof(*check));
	check->conn = conn;
	check->content = json_incref(content);
	conn->ws->check = check;
	conn_park(conn, text, len);
	look_on(check);
	return true;
}

int ws_take_content(struct conn *conn, struct request *request, struct refusal *refusal)
{
	struct content_check *check = conn->ws->check;
	if (!request->prompt.content) {
		return 0;
	}
	if (agent_refuses(conn, request->prompt.content, refusal)) {
		return -EINVAL;
	}
	if (!check) {
		return 0; /* only links */
	}
	if (check->refusal.code) {
		refuse(refusal, check->refusal.code, "%s", check->refusal.message);
		refusal->limit = check->refusal.limit;
		return -EINVAL;
	}
	request->prompt.content = check->content; /* with types and sizes */
	return 0;
}
