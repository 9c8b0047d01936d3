/*
 * What the tests of acp_agent share: a loop, a directory, an agent from acp_agent_cases.sh, and a
 * log of all that it tells.
 */
#ifndef HOLDFAST_ACP_AGENT_FIXTURE_H
#define HOLDFAST_ACP_AGENT_FIXTURE_H

#include "agents/acp/acp_agent.h"
#include "holdfast/agent_files.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LINE_MAX_BYTES 4096

struct fixture {
	uv_loop_t loop;
	struct spawner *spawner;
	bool lost_spawner;
	char cwd[PATH_MAX];
	struct acp_agent *agent;
	struct buffer log; /* what was told, one line a call */
	char request_id[64]; /* of the newest question */
	const char *answer_with; /* answers each question at once, from within the op */
	const char *pause_at; /* pauses at this text */
	const char *prompt_again; /* prompts with this from within turn_end or stopped, once */
	bool freed;
	const char *earlier; /* the session to go on with; NULL: none */
	const json_t *events; /* what the log has of it, [{type, data, message_id?}] */
};

/** Something was told: whoever runs the loop until then may look. */
static inline void told(struct fixture *f)
{
	uv_stop(&f->loop);
}

static inline void handle_started(void *owner, const json_t *info)
{
	struct fixture *f = owner;
	const char *name = json_string_value(json_object_get(info, "name"));
	const char *version = json_string_value(json_object_get(info, "version"));
	const json_t *resumed = json_object_get(info, "resumed");
	const char *why = json_string_value(json_object_get(info, "resume_error"));
	buffer_printf(&f->log, "started %s %s %d %s%s%s\n", name ? name : "-",
		version ? version : "-",
		(int)json_integer_value(json_object_get(info, "protocol_version")),
		json_string_value(json_object_get(info, "agent_session_id")),
		json_is_true(resumed) ? " resumed"
		: resumed             ? " not resumed, "
				      : "",
		why ? why : "");
	told(f);
}

static inline const char *earlier_session(void *owner)
{
	return ((struct fixture *)owner)->earlier;
}

static inline void handle_history(void *owner, bool state_only)
{
	struct fixture *f = owner;
	buffer_append_str(&f->log, state_only ? "state\n" : "history\n");
	for (size_t i = 0; i < json_array_size(f->events); i++) {
		const json_t *event = json_array_get(f->events, i);
		acp_agent_log_event(f->agent, json_string_value(json_object_get(event, "type")),
			json_object_get(event, "data"),
			json_string_value(json_object_get(event, "message_id")));
	}
	if (f->events) {
		acp_agent_log_end(f->agent, false);
	} else {
		acp_agent_log_failed(f->agent);
	}
	told(f);
}

static inline void handle_recovered(
	void *owner, const char *type, const json_t *data, const char *message_id)
{
	struct fixture *f = owner;
	char *json = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
	buffer_printf(&f->log, "recovered %s %s %s\n", type, json, message_id ? message_id : "-");
	free(json);
	told(f);
}

static inline void handle_text(
	void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	struct fixture *f = owner;
	buffer_printf(&f->log, "%s %.*s\n", thought ? "thought" : "text", (int)len, text);
	if (f->pause_at && strlen(f->pause_at) == len && memcmp(f->pause_at, text, len) == 0) {
		acp_agent_pause(f->agent, true);
	}
	told(f);
}

static inline void handle_event(void *owner, const char *type, const json_t *data)
{
	struct fixture *f = owner;
	char *json = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
	buffer_printf(&f->log, "%s %s\n", type, json);
	free(json);
	told(f);
}

static inline void handle_question(
	void *owner, const char *type, const char *request_id, const json_t *data)
{
	struct fixture *f = owner;
	assert_string_equal(json_string_value(json_object_get(data, "request_id")), request_id);
	assert_string_not_equal(request_id, f->request_id);
	snprintf(f->request_id, sizeof(f->request_id), "%s", request_id);
	const char *number = strchr(request_id, '-');
	assert_non_null(number);
	buffer_printf(&f->log, "question %s of %zu options\n", number + 1,
		json_array_size(json_object_get(data, "options")));
	if (f->answer_with) {
		assert_int_equal(acp_agent_answer(f->agent, request_id, f->answer_with), 0);
	}
	told(f);
}

static inline void handle_withdrawn(void *owner, const char *request_id)
{
	struct fixture *f = owner;
	assert_string_equal(request_id, f->request_id);
	buffer_append_str(&f->log, "withdrawn\n");
	told(f);
}

static inline void prompt(struct fixture *f, const char *message)
{
	assert_int_equal(acp_agent_prompt(f->agent, message, strlen(message)), 0);
}

static inline void told_end(struct fixture *f)
{
	const char *message = f->prompt_again;
	f->prompt_again = NULL;
	if (message) {
		prompt(f, message);
	}
	told(f);
}

static inline void handle_turn_end(void *owner, const char *stop_reason, const char *message)
{
	struct fixture *f = owner;
	buffer_printf(&f->log, "turn_end %s %s\n", stop_reason, message ? message : "-");
	told_end(f);
}

static inline void handle_stopped(void *owner, const char *reason, const char *detail)
{
	struct fixture *f = owner;
	assert_false(acp_agent_is_running(f->agent));
	buffer_printf(&f->log, "stopped %s %s%s\n", reason, detail,
		acp_agent_is_cancelling(f->agent) ? " (cancelled)" : "");
	told_end(f);
}

static inline void handle_quiet(void *owner)
{
	struct fixture *f = owner;
	buffer_append_str(&f->log, "quiet\n");
	told(f);
}

static inline void handle_refused(void *owner, const struct acp_setting *setting, const char *why)
{
	struct fixture *f = owner;
	buffer_printf(&f->log, "refused %s %s: %s\n", setting->by, setting->id, why);
	told(f);
}

static const struct acp_agent_ops ops = {
	.earlier_session = earlier_session,
	.history = handle_history,
	.started = handle_started,
	.recovered = handle_recovered,
	.text = handle_text,
	.event = handle_event,
	.question = handle_question,
	.permission_withdrawn = handle_withdrawn,
	.turn_end = handle_turn_end,
	.quiet = handle_quiet,
	.refused = handle_refused,
	.stopped = handle_stopped,
};

/** The process for files of an agent under test is this program, and so is what starts both. */
__attribute__((constructor)) static void be_another_process(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], AGENT_FILES_COMMAND) == 0) {
		exit(agent_files_run(0, NULL));
	}
	if (argc > 2 && strcmp(argv[1], SPAWNER_COMMAND) == 0) {
		exit(spawner_run(argc - 2, argv + 2));
	}
}

static inline struct acp_agent_config default_config(const struct fixture *f)
{
	return (struct acp_agent_config){
		.cwd = f->cwd,
		.session_id = "test",
		.line_max = LINE_MAX_BYTES,
		.file_max = 1000,
		.spawner = f->spawner,
		.terminals_max = 2,
		.stop_grace_ms = 20,
		.restart_delay_ms = 1,
		.quiet_ms = 5,
	};
}

static inline void create_agent(struct fixture *f, const char *name, struct acp_agent_config config)
{
	char dir[PATH_MAX];
	char command[PATH_MAX + 128];
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__);
	char *real = realpath(dir, NULL);
	snprintf(command, sizeof(command), "exec /bin/sh '%s/acp_agent_cases.sh' %s", real, name);
	free(real);
	if (!config.command) {
		config.command = command;
	}
	f->agent = acp_agent_create(&f->loop, &config, &ops, f);
}

static inline void start(struct fixture *f, const char *name)
{
	create_agent(f, name, default_config(f));
	prompt(f, "go");
}

static inline bool log_has_line(struct fixture *f, const char *begin)
{
	struct buffer log = {0};
	struct buffer sought = {0};
	buffer_printf(&log, "\n%s", buffer_cstr(&f->log));
	buffer_printf(&sought, "\n%s", begin);
	bool found = strstr(buffer_cstr(&log), buffer_cstr(&sought));
	buffer_finish(&log);
	buffer_finish(&sought);
	return found;
}

/** Runs the loop until the log has a line that begins so; the test's own limit ends a hang. */
static inline void run_until(struct fixture *f, const char *begin)
{
	while (!log_has_line(f, begin)) {
		if (!uv_run(&f->loop, UV_RUN_DEFAULT) && !log_has_line(f, begin)) {
			fail_msg("nothing is left to wait for; the log is:\n%s",
				buffer_cstr(&f->log));
		}
	}
}

/** Writes the file that some agents read their requests from; "'" stands for a quote. */
static inline void write_requests(struct fixture *f, const char *text)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/requests", f->cwd);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (const char *s = text; *s; s++) {
		fputc(*s == '\'' ? '"' : *s, file);
	}
	assert_int_equal(fclose(file), 0);
}

static inline void expect_log(struct fixture *f, const char *expected)
{
	assert_string_equal(buffer_cstr(&f->log), expected);
	buffer_clear(&f->log);
}

static inline void handle_freed(void *arg)
{
	*(bool *)arg = true;
}

static inline void destroy_agent(struct fixture *f)
{
	size_t log_len = f->log.len;
	acp_agent_destroy(f->agent, handle_freed, &f->freed);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_true(f->freed);
	assert_int_equal(f->log.len, log_len);
	f->agent = NULL;
}

static inline void handle_spawner_lost(void *owner)
{
	((struct fixture *)owner)->lost_spawner = true;
}

/** With the spawner as this program, or as a copy of this process. */
static inline void open_spawner(struct fixture *f, bool is_program)
{
	const struct spawner_config config = {
		.is_program = is_program, .helper = AGENT_FILES_COMMAND};
	assert_int_equal(spawner_create(&f->loop, &config, handle_spawner_lost, f, &f->spawner), 0);
}

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	strcpy(f->cwd, "/tmp/holdfast-acp-XXXXXX");
	assert_non_null(mkdtemp(f->cwd));
	assert_int_equal(uv_loop_init(&f->loop), 0);
	open_spawner(f, true);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	if (f->agent) {
		destroy_agent(f);
	}
	spawner_close(f->spawner);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	char command[PATH_MAX + 16];
	snprintf(command, sizeof(command), "rm -rf '%s'", f->cwd);
	assert_int_equal(system(command), 0);
	buffer_finish(&f->log);
	free(f);
	return 0;
}

#define AGENT_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
