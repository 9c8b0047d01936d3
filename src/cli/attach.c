/*
 * holdfast attach: makes a server an ACP agent on stdin and stdout, for editors (docs/editors.md).
 */
#include "attach_internal.h"
#include "remote.h"
#include "holdfast/command.h"
#include "ws_client.h"

#include "holdfast/clock.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The longest line accepted from the editor (bytes). */
#define LINE_MAX_SIZE ((size_t)64 << 20)
/* The pause before the next attempt to connect (ms): it doubles each time, up to the maximum. */
#define PAUSE_MS     100
#define PAUSE_MAX_MS 5000
/* A server that has been silent for this time gets a ping, and so much to answer it (ms). */
#define SILENT_MS 20000
#define ANSWER_MS 40000

enum {
	ATTACH_SESSION = REMOTE_OPTION_COUNT,
	ATTACH_NEW,
	ATTACH_READ_ONLY,
	ATTACH_COUNT,
};

static const struct option attach_options[] = {
	REMOTE_OPTIONS,
	[ATTACH_SESSION] = {"--session", "ID", NULL, NULL,
		"the session to open when the editor asks for a new one"},
	[ATTACH_NEW] = {"--new", NULL, NULL, NULL,
		"create a session on the server when the editor asks for a new one. This is the default"},
	[ATTACH_READ_ONLY] = {"--read-only", NULL, NULL, NULL,
		"the editor only watches: it is asked nothing, and can change nothing"},
	{0},
};

static const struct command attach_command = {
	.usage = "attach [--session ID | --new] [OPTIONS]",
	.help = "Makes the server an agent for an editor that speaks ACP, the Agent Client Protocol, on stdin and stdout. The\n"
		"editor lists, opens and creates sessions of the server, which others can use at the same time. attach reconnects\n"
		"by itself, and continues where it was.\n\n"
		"Exit codes: 0 the editor has ended it, 2 failed.\n",
	.options = attach_options,
};

struct link_state {
	struct attach attach;
	struct remote remote;
	struct ws_client *client; /* NULL while disconnected */
	struct buffer in; /* from the editor: lines, the last one without its end */
	size_t scanned; /* bytes of `in` that have been searched for a newline */
	struct buffer message; /* the part received so far of a message from the server */
	int64_t heard_ms; /* when something last came from the server */
	int64_t asked_ms; /* when the last ping was sent */
	int64_t again_ms; /* when to connect again */
	int64_t pause_ms;
	bool is_over; /* the editor is gone */
	bool has_failed; /* connecting again would not help */
};

/* --- the editor --- */

static void flush_editor(struct link_state *state)
{
	struct buffer *out = &state->attach.to_editor;
	size_t at = 0;
	while (at < out->len) {
		ssize_t n = write(STDOUT_FILENO, out->data + at, out->len - at);
		if (n < 0 && errno == EAGAIN) { /* others can have made it non-blocking */
			poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, -1);
		} else if (n < 0 && errno != EINTR) {
			state->is_over = true;
			break;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	buffer_clear(out);
}

static void take_lines(struct link_state *state)
{
	struct buffer *in = &state->in;
	size_t begin = 0;
	char *end;
	while ((end = memchr(in->data + state->scanned, '\n', in->len - state->scanned))) {
		size_t len = (size_t)(end - in->data) - begin;
		attach_take_line(&state->attach, in->data + begin, len);
		begin = state->scanned = (size_t)(end - in->data) + 1;
	}
	buffer_consume(in, begin);
	state->scanned = in->len;
}

static void read_editor(struct link_state *state)
{
	struct buffer *in = &state->in;
	buffer_reserve(in, 1 << 16);
	ssize_t n = read(STDIN_FILENO, in->data + in->len, 1 << 16);
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
		state->is_over = true;
		return;
	}
	in->len += n > 0 ? (size_t)n : 0;
	take_lines(state);
	if (in->len > LINE_MAX_SIZE) {
		diag(DIAG_ERROR, "the editor sent a line longer than 64 MiB");
		state->has_failed = true;
	}
}

/* --- the server --- */

static void lose(struct link_state *state, const char *why)
{
	diag(DIAG_INFO, "%s; trying again", why);
	ws_client_close(state->client);
	state->client = NULL;
	buffer_clear(&state->message);
	attach_lost(&state->attach);
	state->again_ms = clock_steady_ms() + state->pause_ms;
	state->pause_ms = state->pause_ms * 2 < PAUSE_MAX_MS ? state->pause_ms * 2 : PAUSE_MAX_MS;
}

static void connect_again(struct link_state *state)
{
	char path[96];
	int status;
	char *why = NULL;
	snprintf(path, sizeof(path), "/acp?client_id=%s", state->attach.client_id);
	if (ws_client_open(&state->remote.url, path, &state->client, &status, &why) < 0) {
		bool is_final = ws_client_is_final(status);
		state->has_failed = is_final;
		if (is_final) {
			diag(DIAG_ERROR, "%s", why);
		}
		lose(state, why ? why : "no connection");
	} else {
		state->heard_ms = state->asked_ms = clock_steady_ms();
		attach_connected(&state->attach);
	}
	free(why);
}

static void flush_server(struct link_state *state)
{
	list_for_each_safe(link, tmp, &state->attach.to_server) {
		struct attach_message *message = list_entry(link, struct attach_message, link);
		if (state->client) {
			ws_client_send(state->client, message->text.data, message->text.len);
		}
		list_remove(&message->link);
		buffer_finish(&message->text);
		free(message);
	}
}

static void end_connection(struct link_state *state, int r, unsigned code)
{
	bool is_denied = r == 0 && (code == 4401 || code == 4403);
	if (is_denied) {
		diag(DIAG_ERROR, "the token is not accepted, or has ended");
		state->has_failed = true;
	}
	lose(state, "the connection has ended");
}

static void read_server(struct link_state *state)
{
	unsigned code;
	int r;
	bool is_readable = true;
	state->heard_ms = clock_steady_ms();
	while ((r = ws_client_take(state->client, is_readable, &state->message, &code)) > 0) {
		is_readable = false;
		state->pause_ms = PAUSE_MS;
		attach_take_message(&state->attach, state->message.data, state->message.len);
		buffer_clear(&state->message);
	}
	if (r != -EAGAIN) {
		end_connection(state, r, code);
	}
}

static void look_for_silence(struct link_state *state)
{
	int64_t now = clock_steady_ms();
	if (!state->client) {
		return;
	}
	bool is_asked = state->asked_ms > state->heard_ms;
	/* Silence before the question says nothing: this process may have been stopped. */
	if (is_asked && now - state->asked_ms > ANSWER_MS) {
		lose(state, "the server is silent");
	} else if (!is_asked && now - state->heard_ms > SILENT_MS) {
		state->asked_ms = now;
		ws_client_ping(state->client);
	}
}

/* --- the loop --- */

static void wait_for_news(struct link_state *state)
{
	struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = state->client ? ws_client_fd(state->client) : -1, .events = POLLIN}};
	int64_t left = state->client ? SILENT_MS / 2 : state->again_ms - clock_steady_ms();
	if (poll(fds, 2, left > 0 ? (int)left : 0) < 0) {
		return;
	}
	if (fds[0].revents) {
		read_editor(state);
	}
	if (fds[1].revents) {
		read_server(state);
	}
}

static int run(struct link_state *state)
{
	state->pause_ms = PAUSE_MS;
	while (!state->is_over && !state->has_failed) {
		if (!state->client && clock_steady_ms() >= state->again_ms) {
			connect_again(state);
		}
		flush_server(state);
		flush_editor(state);
		if (!state->has_failed) {
			wait_for_news(state);
			look_for_silence(state);
		}
	}
	flush_server(state);
	flush_editor(state);
	return state->has_failed ? TOOL_FAILED : 0;
}

int tool_attach(int argc, char **argv)
{
	const char *values[ATTACH_COUNT] = {0};
	struct link_state state = {0};
	int r = options_parse(&attach_command, argc, argv, NULL, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	if (values[ATTACH_SESSION] && values[ATTACH_NEW]) {
		diag(DIAG_ERROR, "--session and --new exclude each other");
		return TOOL_FAILED;
	}
	if (values[ATTACH_SESSION] && !remote_check_id(values[ATTACH_SESSION])) {
		return TOOL_FAILED;
	}
	signal(SIGPIPE, SIG_IGN);
	attach_init(&state.attach);
	state.attach.session = values[ATTACH_SESSION];
	state.attach.is_read_only = values[ATTACH_READ_ONLY] != NULL;
	r = remote_open(&state.remote, values) < 0 ? TOOL_FAILED : run(&state);
	ws_client_close(state.client);
	attach_finish(&state.attach);
	buffer_finish(&state.in);
	buffer_finish(&state.message);
	remote_finish(&state.remote);
	return r;
}
