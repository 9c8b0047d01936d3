/*
 * A server without the files for several nodes and without those for agents. That this program links
 * is the first test: it has every object of the core, of the server and of its doors, so nothing
 * there calls up to nodes or agents. Only the relay and its tables name them; these are left out here
 * too.
 */
#include "holdfast/door_acp.h"
#include "holdfast/door_ai.h"
#include "holdfast/door_streams.h"
#include "server/routes/routes.h"

#include "holdfast/access.h"
#include "holdfast/diag.h"
#include "holdfast/server.h"
#include "holdfast/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

struct rig {
	struct server_life life;
	uv_loop_t loop;
	struct clock clock;
	struct session_table *sessions;
	struct server *server;
	struct door doors[11];
	char dir[64];
};

static void ignore_prompt(void *owner, struct session *session, uint64_t seq, const char *message,
	size_t len, const struct json_t *content)
{
}

static void ignore_answered(
	void *owner, struct session *session, const char *request_id, const char *option_id)
{
}

static void handle_changed(void *owner, struct session *session)
{
	server_session_changed(((struct rig *)owner)->server, session);
}

static void handle_deleted(void *owner, struct session *session)
{
	server_session_deleted(((struct rig *)owner)->server, session);
}

static void ignore_failed(void *owner, int error)
{
}

static void ignore_revived(void *owner)
{
}

static void open_rig(struct rig *rig)
{
	static const struct session_ops ops = {.prompt_due = ignore_prompt,
		.answered = ignore_answered,
		.changed = handle_changed,
		.deleted = handle_deleted,
		.store_failed = ignore_failed,
		.store_revived = ignore_revived};
	static char host[] = "127.0.0.1";
	static const struct server_trust trust = {0};
	static const struct listen_address listen = {.host = host};
	char *why = NULL;
	*rig = (struct rig){.dir = "/tmp/holdfast-without-nodes-XXXXXX"};
	diag_set_level(DIAG_SILENT);
	uv_loop_init(&rig->loop);
	clock_init(&rig->clock);
	assert_non_null(mkdtemp(rig->dir));
	assert_int_equal(session_table_open(&(struct session_table_config){.loop = &rig->loop,
						    .limits = limits_default(),
						    .clock = &rig->clock,
						    .place = {.life = &rig->life,
							    .dir = rig->dir,
							    .durability = DURABILITY_WRITE},
						    .ops = &ops,
						    .owner = rig},
				 &rig->sessions, &why),
		0);
	memcpy(rig->doors,
		(struct door[11]){{.routes = session_routes}, {.routes = observer_routes},
			{.routes = producer_routes}, {.routes = feed_routes},
			{.routes = agent_routes}, {.routes = completion_routes}, door_ai, door_acp,
			door_ds, {.routes = file_routes}},
		sizeof(rig->doors));
	rig->server = server_create(&(struct server_config){.life = &rig->life,
					    .loop = &rig->loop,
					    .limits = limits_default(),
					    .clock = &rig->clock,
					    .listen = &listen,
					    .listen_count = 1,
					    .trust = &trust,
					    .doors = rig->doors,
					    .sessions = rig->sessions},
		&why);
	assert_non_null(rig->server);
	server_reach(&rig->life, SERVER_SERVING);
}

static void end_tick(struct rig *rig)
{
	session_table_end_tick(rig->sessions);
	server_end_tick(rig->server, false);
}

static void close_rig(struct rig *rig)
{
	char command[128];
	server_close(rig->server);
	assert_true(session_table_close(rig->sessions));
	uv_run(&rig->loop, UV_RUN_DEFAULT);
	server_destroy(rig->server);
	assert_int_equal(uv_loop_close(&rig->loop), 0);
	snprintf(command, sizeof(command), "rm -r %s", rig->dir);
	assert_int_equal(system(command), 0);
}

/** Sends a request on a new connection, and returns its answer up to its end; the caller frees it. */
static char *ask(struct rig *rig, const char *request)
{
	int fds[2];
	char bytes[4096];
	struct buffer answer = {0};
	ssize_t n;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(write(fds[0], request, strlen(request)), strlen(request));
	server_adopt(rig->server, fds[1]);
	while ((n = recv(fds[0], bytes, sizeof(bytes), MSG_DONTWAIT)) != 0) {
		if (n > 0) {
			buffer_append(&answer, bytes, (size_t)n);
			continue;
		}
		end_tick(rig);
		uv_run(&rig->loop, UV_RUN_ONCE);
		end_tick(rig);
	}
	close(fds[0]);
	buffer_cstr(&answer);
	return answer.data;
}

/** `words`: what the answer has in it; "": anything. */
static void check_answer(
	struct rig *rig, const char *request, const char *status, const char *words)
{
	char *answer = ask(rig, request);
	if (strncmp(answer, status, strlen(status)) != 0 || !strstr(answer, words)) {
		fail_msg("%s is answered with %s", request, answer);
	}
	free(answer);
}

static void check_get(struct rig *rig, const char *path, const char *status, const char *words)
{
	char request[200];
	snprintf(request, sizeof(request),
		"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
	check_answer(rig, request, status, words);
}

static void check_post(
	struct rig *rig, const char *path, const char *body, const char *status, const char *words)
{
	char request[500];
	snprintf(request, sizeof(request),
		"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
		path, strlen(body), body);
	check_answer(rig, request, status, words);
}

static void sessions_are_here_or_nowhere(void **state)
{
	struct rig rig;
	open_rig(&rig);
	check_post(&rig, "/api/sessions", "{\"id\":\"one\"}", "HTTP/1.1 201 ", "");
	check_get(&rig, "/api/sessions/one", "HTTP/1.1 200 ", "");
	check_get(&rig, "/api/sessions", "HTTP/1.1 200 ", "");
	check_get(&rig, "/api/sessions/two", "HTTP/1.1 404 ", "");
	close_rig(&rig);
}

static void agents_are_refused_with_the_build_option(void **state)
{
	static const char lacks[] = "-Dagents=true";
	struct rig rig;
	open_rig(&rig);
	check_get(&rig, "/api/agents", "HTTP/1.1 200 ", "{\"agents\":[]}");
	check_get(&rig, "/api/directories", "HTTP/1.1 400 ", "\"unknown_agent\"");
	check_get(&rig, "/api/files?prefix=a", "HTTP/1.1 400 ", "\"unknown_agent\"");
	check_post(&rig, "/api/sessions", "{\"agent\":\"claude\"}", "HTTP/1.1 400 ",
		"\"unknown_agent\"");
	check_post(
		&rig, "/api/sessions", "{\"cwd\":\"/tmp\"}", "HTTP/1.1 400 ", "\"bad_directory\"");
	check_post(&rig, "/api/sessions", "{\"id\":\"one\"}", "HTTP/1.1 201 ", "");
	check_get(&rig, "/api/sessions/one/files?prefix=a", "HTTP/1.1 409 ", lacks);
	close_rig(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sessions_are_here_or_nowhere),
		cmocka_unit_test(agents_are_refused_with_the_build_option),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
