/* Follows a session over a WebSocket, and connects again when that ends. */
#include "remote.h"
#include "ws_client.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_MAX_S 30
#define KEEPALIVE   "{\"type\":\"keepalive\",\"data\":{}}"

struct socket {
	struct follow *follow;
	struct ws_client *client;
	bool is_live; /* all existing events have arrived */
};

static void ask(struct socket *socket)
{
	const struct follow *follow = socket->follow;
	struct buffer text = {0};
	buffer_append_str(&text, "{\"type\":\"load_events\",\"data\":{\"gaps\":true");
	if (follow->has_position) {
		buffer_printf(&text, ",\"after_seq\":%" PRIu64 ",\"limit\":500,\"follow\":true",
			follow->last);
		if (follow->epoch[0]) {
			buffer_printf(&text, ",\"epoch\":\"%s\"", follow->epoch);
		}
	} else {
		buffer_printf(&text, ",\"limit\":%u", follow->limit);
	}
	buffer_append_str(&text, "}}");
	ws_client_send(socket->client, text.data, text.len);
	buffer_finish(&text);
}

static void take_events(struct follow *follow, const json_t *events)
{
	size_t i;
	json_t *event;
	json_array_foreach(events, i, event) {
		uint64_t seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));
		if (!follow->is_over && (seq > follow->last || !follow->has_position)) {
			follow->last = seq;
			follow->has_position = true;
			follow->is_over = !follow->see(follow->owner, event);
		}
	}
}

static void take_page(struct socket *socket, const json_t *data)
{
	struct follow *follow = socket->follow;
	const char *reason =
		json_string_value(json_object_get(json_object_get(data, "reset"), "reason"));
	const char *epoch = json_string_value(json_object_get(data, "epoch"));
	bool was_newest = !follow->has_position || reason;
	if (reason) {
		follow->has_position = false;
		follow->last = 0;
		follow->reset(follow->owner, reason);
	}
	snprintf(follow->epoch, sizeof(follow->epoch), "%s", epoch ? epoch : "");
	take_events(follow, json_object_get(data, "events"));
	follow->has_position = true;
	/* After the newest page the socket is live; its `has_more` is about older events. */
	if (was_newest || !json_is_true(json_object_get(data, "has_more"))) {
		socket->is_live = true;
	}
}

/** All existing events have arrived: ends if that is all, or sends the prompt. */
static void become_live(struct socket *socket)
{
	struct follow *follow = socket->follow;
	if (follow->is_once) {
		follow->is_over = true;
	}
	if (follow->prompt && !follow->is_over) {
		ws_client_send(socket->client, follow->prompt, strlen(follow->prompt));
	}
}

static void take_frame(struct socket *socket, const struct buffer *text)
{
	struct follow *follow = socket->follow;
	follow->numbers = json_numbers_create();
	json_t *frame =
		json_read(text->data ? text->data : "", text->len, 0, follow->numbers, NULL);
	const char *type = json_string_value(json_object_get(frame, "type"));
	const json_t *data = json_object_get(frame, "data");
	bool was_live = socket->is_live;
	type = type ? type : "";
	if (strcmp(type, "connected") == 0) {
		ask(socket);
	} else if (strcmp(type, "events_loaded") == 0) {
		take_page(socket, data);
	} else if (strcmp(type, "events") == 0) {
		take_events(follow, json_object_get(data, "events"));
	} else if (follow->see_frame && !follow->is_over) {
		follow->is_over = !follow->see_frame(follow->owner, type, data);
	}
	if (socket->is_live && !was_live) {
		become_live(socket);
	}
	json_decref(frame);
	json_numbers_destroy(follow->numbers);
	follow->numbers = NULL;
}

/** Returns 0 if connecting again makes sense, or a negative errno after reporting why not. */
static int judge_close(const struct follow *follow, unsigned code)
{
	static const struct {
		unsigned code;
		const char *what;
	} ends[] = {{4401, "the token is not accepted, or has ended"},
		{4403, "the token has been revoked"},
		{4404, "the session is gone, or is not for this token"}};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (ends[i].code == code) {
			diag(DIAG_ERROR, "session %s: %s", follow->id, ends[i].what);
			return -EPERM;
		}
	}
	return 0;
}

/** Reads until the connection ends. Returns 0 to connect again, or a negative errno. */
static int run_socket(struct socket *socket, bool *ret_worked)
{
	struct follow *follow = socket->follow;
	struct buffer text = {0};
	unsigned code = 1006;
	unsigned silent = 0;
	int r = 1;
	while (r > 0 && !follow->is_over) {
		r = ws_client_read(socket->client, &text, &code);
		if (r > 0) {
			silent = 0;
			*ret_worked = true;
			take_frame(socket, &text);
			buffer_clear(&text);
		} else if (r == -EAGAIN && !silent++) {
			ws_client_send(socket->client, KEEPALIVE, strlen(KEEPALIVE));
			r = 1;
		}
	}
	buffer_finish(&text);
	return follow->is_over ? 0 : judge_close(follow, code);
}

/** Follows over one connection. *ret_worked tells whether it delivered anything. */
static int follow_once(struct follow *follow, bool *ret_worked, char **ret_why)
{
	char path[320];
	int status;
	struct socket socket = {.follow = follow};
	*ret_worked = false;
	snprintf(path, sizeof(path), "/api/sessions/%s/ws?format=markdown", follow->id);
	int r = ws_client_open(&follow->remote->url, path, &socket.client, &status, ret_why);
	if (r < 0) {
		return ws_client_is_final(status) ? -EPERM : 0;
	}
	r = run_socket(&socket, ret_worked);
	ws_client_close(socket.client);
	return r;
}

int follow_run(struct follow *follow)
{
	unsigned pause_s = 1;
	int r = 0;
	while (r == 0 && !follow->is_over) {
		bool worked;
		char *why = NULL;
		r = follow_once(follow, &worked, &why);
		if (r < 0 && why) {
			diag(DIAG_ERROR, "session %s: %s", follow->id, why);
		} else if (!follow->is_over && r == 0) {
			pause_s = worked ? 1 : pause_s;
			diag(DIAG_INFO, "%s; trying again in %u s",
				why ? why : "the connection has ended", pause_s);
			sleep(pause_s);
			pause_s = pause_s * 2 < PAUSE_MAX_S ? pause_s * 2 : PAUSE_MAX_S;
		}
		free(why);
	}
	return r;
}
