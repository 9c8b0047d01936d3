/* An acp_agent against scripted agents (acp_agent_cases.sh), on a real loop, with real processes. */
#include "holdfast/acp_agent.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LINE_MAX_BYTES 4096

struct fixture {
	uv_loop_t loop;
	char cwd[PATH_MAX];
	struct acp_agent *agent;
	struct buffer log; /* what was told, one line a call */
	char request_id[64]; /* of the newest question */
	const char *answer_with; /* answers each question at once, from within the op */
	const char *pause_at; /* pauses at this text */
	const char *prompt_again; /* prompts with this from within turn_end or stopped, once */
	bool freed;
};

static void handle_started(void *owner, const json_t *info)
{
	struct fixture *f = owner;
	const char *name = json_string_value(json_object_get(info, "name"));
	const char *version = json_string_value(json_object_get(info, "version"));
	buffer_printf(&f->log, "started %s %s %d %s\n", name ? name : "-", version ? version : "-",
		(int)json_integer_value(json_object_get(info, "protocol_version")),
		json_string_value(json_object_get(info, "agent_session_id")));
}

static void handle_text(void *owner, bool thought, const char *text, size_t len, const char *message_id)
{
	struct fixture *f = owner;
	buffer_printf(&f->log, "%s %.*s\n", thought ? "thought" : "text", (int)len, text);
	if (f->pause_at && strlen(f->pause_at) == len && !memcmp(f->pause_at, text, len)) {
		acp_agent_pause(f->agent, true);
	}
}

static void handle_event(void *owner, const char *type, const json_t *data)
{
	struct fixture *f = owner;
	char *json = json_dumps(data, JSON_COMPACT | JSON_SORT_KEYS);
	buffer_printf(&f->log, "%s %s\n", type, json);
	free(json);
}

static void handle_question(void *owner, const char *request_id, const json_t *data)
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
}

static void handle_withdrawn(void *owner, const char *request_id)
{
	struct fixture *f = owner;
	assert_string_equal(request_id, f->request_id);
	buffer_append_str(&f->log, "withdrawn\n");
}

static void prompt(struct fixture *f, const char *message)
{
	assert_int_equal(acp_agent_prompt(f->agent, message, strlen(message)), 0);
}

static void prompt_again(struct fixture *f)
{
	const char *message = f->prompt_again;
	f->prompt_again = NULL;
	if (message) {
		prompt(f, message);
	}
}

static void handle_turn_end(void *owner, const char *stop_reason, const char *message)
{
	struct fixture *f = owner;
	buffer_printf(&f->log, "turn_end %s %s\n", stop_reason, message ? message : "-");
	prompt_again(f);
}

static void handle_stopped(void *owner, const char *reason, const char *detail)
{
	struct fixture *f = owner;
	assert_false(acp_agent_is_running(f->agent));
	buffer_printf(&f->log, "stopped %s %s\n", reason, detail);
	prompt_again(f);
}

static const struct acp_agent_ops ops = {
	.started = handle_started,
	.text = handle_text,
	.event = handle_event,
	.permission_request = handle_question,
	.permission_withdrawn = handle_withdrawn,
	.turn_end = handle_turn_end,
	.stopped = handle_stopped,
};

static struct acp_agent_config default_config(const struct fixture *f)
{
	return (struct acp_agent_config){
		.cwd = f->cwd,
		.session_id = "test",
		.line_max = LINE_MAX_BYTES,
		.file_max = 1000,
		.stop_grace_ms = 20,
	};
}

static void create_agent(struct fixture *f, const char *name, struct acp_agent_config config)
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

static void start(struct fixture *f, const char *name)
{
	create_agent(f, name, default_config(f));
	prompt(f, "go");
}

static bool log_has_line(struct fixture *f, const char *begin)
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
static void run_until(struct fixture *f, const char *begin)
{
	while (!log_has_line(f, begin)) {
		if (!uv_run(&f->loop, UV_RUN_ONCE) && !log_has_line(f, begin)) {
			fail_msg("nothing is left to wait for; the log is:\n%s", buffer_cstr(&f->log));
		}
	}
}

static void expect_log(struct fixture *f, const char *expected)
{
	assert_string_equal(buffer_cstr(&f->log), expected);
	buffer_clear(&f->log);
}

static void handle_freed(void *arg)
{
	*(bool *)arg = true;
}

static void destroy_agent(struct fixture *f)
{
	size_t told = f->log.len;
	acp_agent_destroy(f->agent, handle_freed, &f->freed);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_true(f->freed);
	assert_int_equal(f->log.len, told);
	f->agent = NULL;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	strcpy(f->cwd, "/tmp/holdfast-acp-XXXXXX");
	assert_non_null(mkdtemp(f->cwd));
	assert_int_equal(uv_loop_init(&f->loop), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	if (f->agent) {
		destroy_agent(f);
	}
	assert_int_equal(uv_loop_close(&f->loop), 0);
	char command[PATH_MAX + 16];
	snprintf(command, sizeof(command), "rm -rf '%s'", f->cwd);
	assert_int_equal(system(command), 0);
	buffer_finish(&f->log);
	free(f);
	return 0;
}

static void test_requests(void **state)
{
	struct fixture *f = *state;
	start(f, "requests");
	assert_int_equal(acp_agent_prompt(f->agent, "no", 2), -EBUSY);
	assert_int_equal(acp_agent_prompt(f->agent, "\xff", 1), -EBUSY);
	run_until(f, "turn_end");
	struct buffer expected = {0};
	buffer_printf(&expected,
		"started - - 1 s1\n"
		"text {'jsonrpc':'2.0','id':1,'method':'initialize','params':{'protocolVersion':1,"
		"'clientCapabilities':{'fs':{'readTextFile':true,'writeTextFile':true},'terminal':false},"
		"'clientInfo':{'name':'holdfast','title':'Holdfast','version':'" HOLDFAST_VERSION "'}}}\n"
		"text {'jsonrpc':'2.0','id':2,'method':'session/new','params':{'cwd':'%s','mcpServers':[]}}\n"
		"text {'jsonrpc':'2.0','id':3,'method':'session/prompt','params':{'sessionId':'s1',"
		"'prompt':[{'type':'text','text':'go'}]}}\n"
		"turn_end end_turn -\n",
		f->cwd);
	expect_log(f, buffer_cstr(&expected));
	buffer_finish(&expected);
	assert_int_equal(acp_agent_prompt(f->agent, "\xff", 1), -EINVAL);
	prompt(f, "\xe2\x80\xa8");
	run_until(f, "turn_end");
	expect_log(f, "text {'jsonrpc':'2.0','id':4,'method':'session/prompt','params':{'sessionId':'s1',"
		      "'prompt':[{'type':'text','text':'\xe2\x80\xa8'}]}}\nturn_end end_turn -\n");
}

static void test_turn(void **state)
{
	struct fixture *f = *state;
	create_agent(f, "turn", default_config(f));
	assert_false(acp_agent_is_running(f->agent));
	prompt(f, "go");
	assert_true(acp_agent_is_running(f->agent));
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "text one\n"
		      "tool_call {\"title\":\"T\",\"tool_call_id\":\"c\"}\n"
		      "usage {\"mode\":\"cumulative\",\"size\":2,\"used\":1}\n"
		      "usage {\"input_tokens\":2,\"mode\":\"cumulative\",\"output_tokens\":1,\"total_tokens\":3}\n"
		      "turn_end max_tokens -\n");
}

static void test_early_updates(void **state)
{
	struct fixture *f = *state;
	start(f, "early");
	run_until(f, "turn_end");
	/* The sender of an early one is not known, and "other" may not speak once there is a session. */
	expect_log(f, "started - - 1 s1\n"
		      "x-acp-current_mode_update {\"current_mode_id\":\"m\"}\n"
		      "turn_end end_turn -\n");
}

static void test_exit_and_restart(void **state)
{
	struct fixture *f = *state;
	f->prompt_again = "again";
	start(f, "exits");
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\ntext half a\nstopped exit exit status 3\n");
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\ntext half a\nstopped exit exit status 3\n");
	prompt(f, "a third time");
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\ntext half a\nstopped exit exit status 3\n");
}

static void test_signal(void **state)
{
	struct fixture *f = *state;
	start(f, "killed");
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\nstopped signal killed by signal 9 (SIGKILL)\n");
}

static void test_output_closed(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.stop_grace_ms = 60000; /* the end of its stdin must be enough */
	create_agent(f, "closes_output", config);
	prompt(f, "go");
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\nstopped exit exit status 4\n");
}

static void test_cannot_start(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.command = "exec /no/such/agent 2>/dev/null";
	create_agent(f, "", config);
	prompt(f, "go");
	run_until(f, "stopped");
	expect_log(f, "stopped exit exit status 127\n");
	destroy_agent(f);

	config.cwd = "/no/such/directory";
	create_agent(f, "silent", config);
	f->prompt_again = "go";
	prompt(f, "go");
	assert_int_equal(f->log.len, 0);
	run_until(f, "stopped spawn_failed no such file or directory\n"
		     "stopped spawn_failed no such file or directory\n");
}

static void expect_refused(struct fixture *f, const char *name, const char *detail)
{
	start(f, name);
	run_until(f, "stopped");
	char expected[256];
	snprintf(expected, sizeof(expected), "stopped protocol %s\n", detail);
	expect_log(f, expected);
	destroy_agent(f);
}

static void test_protocol(void **state)
{
	struct fixture *f = *state;
	expect_refused(f, "version", "the agent does not speak version 1 of the protocol");
	expect_refused(f, "auth", "session/new: Authentication required");
	expect_refused(f, "no_session", "the agent's answer to session/new names no session");
}

static void test_start_timeout(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.start_timeout_ms = 10;
	create_agent(f, "silent", config);
	prompt(f, "go");
	run_until(f, "stopped");
	expect_log(f, "stopped protocol did not answer initialize and session/new in time\n");
}

static void test_noise(void **state)
{
	struct fixture *f = *state;
	start(f, "noise");
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "text nul \xef\xbf\xbd lone \xef\xbf\xbd.\n"
		      "text after\n"
		      "turn_end end_turn -\n");
}

static void test_prompt_error(void **state)
{
	struct fixture *f = *state;
	start(f, "prompt_error");
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\nturn_end error Internal error: no quota\n");
	assert_true(acp_agent_is_running(f->agent));
}

static void test_questions(void **state)
{
	struct fixture *f = *state;
	start(f, "ask");
	run_until(f, "question 2");
	char first[64];
	snprintf(first, sizeof(first), "%.*s-1", (int)strcspn(f->request_id, "-"), f->request_id);
	assert_int_equal(acp_agent_answer(f->agent, "p0-1", "yes"), -ENOENT);
	assert_int_equal(acp_agent_answer(f->agent, f->request_id, "no"), 0);
	assert_int_equal(acp_agent_answer(f->agent, f->request_id, "no"), -ENOENT);
	assert_int_equal(acp_agent_answer(f->agent, first, NULL), 0);
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "question 1 of 2 options\n"
		      "question 2 of 2 options\n"
		      "text {'jsonrpc':'2.0','id':'0','result':{'outcome':{'outcome':'selected','optionId':'no'}}}\n"
		      "text {'jsonrpc':'2.0','id':0,'result':{'outcome':{'outcome':'cancelled'}}}\n"
		      "turn_end end_turn -\n");
}

static void test_question_answered_at_once(void **state)
{
	struct fixture *f = *state;
	f->answer_with = "yes";
	start(f, "ask");
	run_until(f, "turn_end");
	assert_non_null(strstr(buffer_cstr(&f->log), "'id':'0','result':{'outcome':{'outcome':'selected'"));
	assert_int_equal(acp_agent_answer(f->agent, f->request_id, "yes"), -ENOENT);
}

static void test_question_malformed(void **state)
{
	struct fixture *f = *state;
	start(f, "ask_badly");
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "text {'jsonrpc':'2.0','id':1,'error':{'code':-32602,'message':'a tool call without toolCallId'}}\n"
		      "turn_end end_turn -\n");
}

static void test_question_withdrawn(void **state)
{
	struct fixture *f = *state;
	start(f, "withdraw");
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "question 1 of 2 options\n"
		      "withdrawn\n"
		      "text {'jsonrpc':'2.0','id':'q','result':{'outcome':{'outcome':'cancelled'}}}\n"
		      "turn_end end_turn -\n");
	assert_int_equal(acp_agent_answer(f->agent, f->request_id, "yes"), -ENOENT);
}

static void test_cancel(void **state)
{
	struct fixture *f = *state;
	start(f, "cancel");
	run_until(f, "question 1");
	acp_agent_cancel(f->agent);
	acp_agent_cancel(f->agent);
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "question 1 of 2 options\n"
		      "text {'jsonrpc':'2.0','method':'session/cancel','params':{'sessionId':'s1'}}\n"
		      "text {'jsonrpc':'2.0','id':0,'result':{'outcome':{'outcome':'cancelled'}}}\n"
		      "text {'jsonrpc':'2.0','id':1,'result':{'outcome':{'outcome':'cancelled'}}}\n"
		      "turn_end cancelled -\n");
	assert_true(acp_agent_is_running(f->agent));
}

static void test_cancel_unanswered(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.cancel_grace_ms = 10;
	create_agent(f, "deaf_to_cancel", config);
	prompt(f, "go");
	run_until(f, "text working");
	acp_agent_cancel(f->agent);
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\ntext working\nturn_end cancelled -\n"
		      "stopped stopped did not answer session/cancel\n");
	prompt(f, "go");
	run_until(f, "text working");
	expect_log(f, "started sh 1 1 s1\ntext working\n");
}

static void test_cancel_before_start(void **state)
{
	struct fixture *f = *state;
	start(f, "turn");
	acp_agent_cancel(f->agent);
	assert_int_equal(f->log.len, 0);
	assert_int_equal(acp_agent_prompt(f->agent, "x", 1), -EBUSY);
	f->prompt_again = "go";
	run_until(f, "turn_end max_tokens");
	assert_memory_equal(f->log.data, "turn_end cancelled -\nstarted", 28);
}

static void test_unknown_requests(void **state)
{
	struct fixture *f = *state;
	start(f, "unknown");
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "text {'jsonrpc':'2.0','id':5,'error':{'code':-32601,'message':'Method not found'}}\n"
		      "text {'jsonrpc':'2.0','id':null,'error':{'code':-32601,'message':'Method not found'}}\n"
		      "turn_end end_turn -\n");
}

static void test_pause(void **state)
{
	struct fixture *f = *state;
	f->pause_at = "1";
	start(f, "burst");
	run_until(f, "text 1");
	/* All of the burst is in the pipe or read already: each turn of the loop could tell more. */
	for (int i = 0; i < 50; i++) {
		uv_run(&f->loop, UV_RUN_NOWAIT);
	}
	expect_log(f, "started sh 1 1 s1\ntext 1\n");
	acp_agent_pause(f->agent, false);
	assert_int_equal(f->log.len, 0);
	run_until(f, "turn_end");
	expect_log(f, "text 2\ntext 3\nturn_end end_turn -\n");
}

static void test_pause_before_exit(void **state)
{
	struct fixture *f = *state;
	f->pause_at = "half a";
	start(f, "exits");
	run_until(f, "text half a");
	for (int i = 0; i < 50; i++) {
		uv_run(&f->loop, UV_RUN_NOWAIT);
	}
	expect_log(f, "started sh 1 1 s1\ntext half a\n");
	acp_agent_pause(f->agent, false);
	run_until(f, "stopped");
	expect_log(f, "stopped exit exit status 3\n");
}

static void test_flood(void **state)
{
	struct fixture *f = *state;
	start(f, "floods");
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\nstopped protocol the agent does not read what it is sent\n");
}

static void test_destroy_kills_the_group(void **state)
{
	struct fixture *f = *state;
	/* The agent's child is handed to us when the agent dies, so that its end can be waited for. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	start(f, "stubborn");
	run_until(f, "turn_end");
	const char *said = strstr(buffer_cstr(&f->log), "text child ");
	assert_non_null(said);
	pid_t child = atoi(said + strlen("text child "));
	assert_int_equal(kill(child, 0), 0);
	destroy_agent(f);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void test_destroy_idle(void **state)
{
	struct fixture *f = *state;
	acp_agent_destroy(NULL, handle_freed, &f->freed);
	assert_true(f->freed);
	f->freed = false;
	create_agent(f, "silent", default_config(f));
	destroy_agent(f);
	/* While it starts, with a prompt that was not sent. */
	f->freed = false;
	start(f, "silent");
}

/* Files */

static void write_requests(struct fixture *f, const char *text)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/requests", f->cwd);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (const char *s = text; *s; s++) {
		/* "@" stands for the agent's directory and "'" for a quote. */
		if (*s == '@') {
			fputs(f->cwd, file);
		} else {
			fputc(*s == '\'' ? '"' : *s, file);
		}
	}
	assert_int_equal(fclose(file), 0);
}

static void put_file(struct fixture *f, const char *name, const char *bytes, mode_t mode)
{
	char path[PATH_MAX + 64];
	snprintf(path, sizeof(path), "%s/%s", f->cwd, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
	close(fd);
}

static void expect_file(struct fixture *f, const char *name, const char *bytes, mode_t mode)
{
	char path[PATH_MAX + 64];
	char found[2048] = "";
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", f->cwd, name);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
	assert_int_equal(fstat(fileno(file), &st), 0);
	fclose(file);
	assert_string_equal(found, bytes);
	assert_int_equal(st.st_mode & 0777, mode);
}

/** Runs a turn of file requests; the directory's name in the log becomes "@". */
static void run_files(struct fixture *f, const char *requests, const char *expected)
{
	write_requests(f, requests);
	start(f, "files");
	run_until(f, "turn_end");
	struct buffer log = {0};
	const char *s = buffer_cstr(&f->log);
	for (const char *at = strstr(s, f->cwd); at; at = strstr(s, f->cwd)) {
		buffer_append(&log, s, (size_t)(at - s));
		buffer_append_char(&log, '@');
		s = at + strlen(f->cwd);
	}
	buffer_append_str(&log, s);
	assert_string_equal(buffer_cstr(&log), expected);
	buffer_finish(&log);
}

static void test_files_read(void **state)
{
	struct fixture *f = *state;
	put_file(f, "f", "one\ntwo\nthree", 0600);
	put_file(f, "latin1", "\xe9", 0600);
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/fifo", f->cwd);
	assert_int_equal(mkfifo(path, 0600), 0);
	snprintf(path, sizeof(path), "%s/out", f->cwd);
	assert_int_equal(symlink("/etc/hostname", path), 0);
	snprintf(path, sizeof(path), "%s/in", f->cwd);
	assert_int_equal(symlink("f", path), 0);
	snprintf(path, sizeof(path), "%s/large", f->cwd);
	put_file(f, "large", "", 0600);
	assert_int_equal(truncate(path, 1001), 0);
	run_files(f,
		"{'id':1,'method':'fs/read_text_file','params':{'path':'@/f'}}\n"
		"{'id':2,'method':'fs/read_text_file','params':{'path':'@/in','line':2,'limit':1}}\n"
		"{'id':3,'method':'fs/read_text_file','params':{'path':'@/f','line':3,'limit':null}}\n"
		"{'id':4,'method':'fs/read_text_file','params':{'path':'@/f','line':9}}\n"
		"{'id':5,'method':'fs/read_text_file','params':{'path':'@/none'}}\n"
		"{'id':6,'method':'fs/read_text_file','params':{'path':'@/out'}}\n"
		"{'id':7,'method':'fs/read_text_file','params':{'path':'@/../../etc/hostname'}}\n"
		"{'id':8,'method':'fs/read_text_file','params':{'path':'/etc/hostname'}}\n"
		"{'id':9,'method':'fs/read_text_file','params':{'path':'@f'}}\n"
		"{'id':10,'method':'fs/read_text_file','params':{'path':'f'}}\n"
		"{'id':11,'method':'fs/read_text_file','params':{'path':'@/fifo'}}\n"
		"{'id':12,'method':'fs/read_text_file','params':{'path':'@/large'}}\n"
		"{'id':13,'method':'fs/read_text_file','params':{'path':'@/latin1'}}\n"
		"{'id':14,'method':'fs/read_text_file','params':{'path':'@/f','line':-1}}\n"
		"{'id':15,'method':'fs/read_text_file','params':{}}\n",
		"started sh 1 1 s1\n"
		"file_read {\"path\":\"f\",\"size\":13}\n"
		"text {'jsonrpc':'2.0','id':1,'result':{'content':'one\ntwo\nthree'}}\n"
		"file_read {\"path\":\"in\",\"size\":4}\n"
		"text {'jsonrpc':'2.0','id':2,'result':{'content':'two\n'}}\n"
		"file_read {\"path\":\"f\",\"size\":5}\n"
		"text {'jsonrpc':'2.0','id':3,'result':{'content':'three'}}\n"
		"file_read {\"path\":\"f\",\"size\":0}\n"
		"text {'jsonrpc':'2.0','id':4,'result':{'content':''}}\n"
		"text {'jsonrpc':'2.0','id':5,'error':{'code':-32002,'message':'No such file or directory: @/none'}}\n"
		"text {'jsonrpc':'2.0','id':6,'error':{'code':-32602,'message':'the path leads out of the session's directory: @/out'}}\n"
		"text {'jsonrpc':'2.0','id':7,'error':{'code':-32602,'message':'the path leads out of the session's directory: @/../../etc/hostname'}}\n"
		"text {'jsonrpc':'2.0','id':8,'error':{'code':-32602,'message':'only absolute paths below the session's directory may be used: /etc/hostname'}}\n"
		"text {'jsonrpc':'2.0','id':9,'error':{'code':-32602,'message':'only absolute paths below the session's directory may be used: @f'}}\n"
		"text {'jsonrpc':'2.0','id':10,'error':{'code':-32602,'message':'only absolute paths below the session's directory may be used: f'}}\n"
		"text {'jsonrpc':'2.0','id':11,'error':{'code':-32602,'message':'not a regular file: @/fifo'}}\n"
		"text {'jsonrpc':'2.0','id':12,'error':{'code':-32602,'message':'the file is too large: @/large'}}\n"
		"text {'jsonrpc':'2.0','id':13,'error':{'code':-32603,'message':'the file is not UTF-8 text: @/latin1'}}\n"
		"text {'jsonrpc':'2.0','id':14,'error':{'code':-32602,'message':'line and limit must be numbers from 0'}}\n"
		"text {'jsonrpc':'2.0','id':15,'error':{'code':-32602,'message':'path must be a string of fewer than 4096 bytes'}}\n"
		"turn_end end_turn -\n");
}

static void test_files_write(void **state)
{
	struct fixture *f = *state;
	umask(022);
	put_file(f, "script", "old", 0755);
	put_file(f, "target", "kept", 0600);
	char path[PATH_MAX + 16];
	snprintf(path, sizeof(path), "%s/link", f->cwd);
	assert_int_equal(symlink("target", path), 0);
	snprintf(path, sizeof(path), "%s/outside", f->cwd);
	assert_int_equal(symlink("/tmp", path), 0);
	run_files(f,
		"{'id':1,'method':'fs/write_text_file','params':{'path':'@/new','content':'a\\u00e9'}}\n"
		"{'id':2,'method':'fs/write_text_file','params':{'path':'@/d/e//g/new','content':'b'}}\n"
		"{'id':3,'method':'fs/write_text_file','params':{'path':'@/script','content':'new'}}\n"
		"{'id':4,'method':'fs/write_text_file','params':{'path':'@/link','content':'own'}}\n"
		"{'id':5,'method':'fs/write_text_file','params':{'path':'@/outside/x','content':'b'}}\n"
		"{'id':6,'method':'fs/write_text_file','params':{'path':'@/../x','content':'b'}}\n"
		"{'id':7,'method':'fs/write_text_file','params':{'path':'@/d','content':'b'}}\n"
		"{'id':8,'method':'fs/write_text_file','params':{'path':'@/d/..','content':'b'}}\n"
		"{'id':9,'method':'fs/write_text_file','params':{'path':'@/target/x','content':'b'}}\n"
		"{'id':10,'method':'fs/write_text_file','params':{'path':'@/x','content':5}}\n",
		"started sh 1 1 s1\n"
		"file_write {\"path\":\"new\",\"size\":3}\n"
		"text {'jsonrpc':'2.0','id':1,'result':{}}\n"
		"file_write {\"path\":\"d/e//g/new\",\"size\":1}\n"
		"text {'jsonrpc':'2.0','id':2,'result':{}}\n"
		"file_write {\"path\":\"script\",\"size\":3}\n"
		"text {'jsonrpc':'2.0','id':3,'result':{}}\n"
		"file_write {\"path\":\"link\",\"size\":3}\n"
		"text {'jsonrpc':'2.0','id':4,'result':{}}\n"
		"text {'jsonrpc':'2.0','id':5,'error':{'code':-32602,'message':'the path leads out of the session's directory: @/outside/x'}}\n"
		"text {'jsonrpc':'2.0','id':6,'error':{'code':-32602,'message':'the path leads out of the session's directory: @/../x'}}\n"
		"text {'jsonrpc':'2.0','id':7,'error':{'code':-32602,'message':'not a regular file: @/d'}}\n"
		"text {'jsonrpc':'2.0','id':8,'error':{'code':-32602,'message':'not the name of a file: @/d/..'}}\n"
		"text {'jsonrpc':'2.0','id':9,'error':{'code':-32603,'message':'Not a directory: @/target/x'}}\n"
		"text {'jsonrpc':'2.0','id':10,'error':{'code':-32602,'message':'content must be a string'}}\n"
		"turn_end end_turn -\n");
	expect_file(f, "new", "a\xc3\xa9", 0644);
	expect_file(f, "d/e/g/new", "b", 0644);
	expect_file(f, "script", "new", 0755);
	expect_file(f, "link", "own", 0644);
	expect_file(f, "target", "kept", 0600);
}

static void test_file_order(void **state)
{
	struct fixture *f = *state;
	start(f, "file_order");
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\n"
		      "file_write {\"path\":\"f\",\"size\":3}\n"
		      "file_read {\"path\":\"f\",\"size\":3}\n"
		      "text after\n"
		      "text {'jsonrpc':'2.0','id':2,'result':{'content':'abc'}}\n"
		      "turn_end end_turn -\n");
}

static size_t count_fds(void)
{
	size_t count = 0;
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while (readdir(dir)) {
		count++;
	}
	closedir(dir);
	return count;
}

static void test_no_fd_is_left(void **state)
{
	struct fixture *f = *state;
	static const char *const cases[] = {"file_order", "exits", "auth"};
	size_t before = 0;
	/* The first round opens what the loop keeps. */
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			start(f, cases[i]);
			run_until(f, i == 0 ? "turn_end" : "stopped");
			buffer_clear(&f->log);
			destroy_agent(f);
		}
		if (round == 0) {
			before = count_fds();
		}
	}
	assert_int_equal(count_fds(), before);
}

#define AGENT_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(test_requests),
		AGENT_TEST(test_turn),
		AGENT_TEST(test_early_updates),
		AGENT_TEST(test_exit_and_restart),
		AGENT_TEST(test_signal),
		AGENT_TEST(test_output_closed),
		AGENT_TEST(test_cannot_start),
		AGENT_TEST(test_protocol),
		AGENT_TEST(test_start_timeout),
		AGENT_TEST(test_noise),
		AGENT_TEST(test_prompt_error),
		AGENT_TEST(test_questions),
		AGENT_TEST(test_question_answered_at_once),
		AGENT_TEST(test_question_malformed),
		AGENT_TEST(test_question_withdrawn),
		AGENT_TEST(test_cancel),
		AGENT_TEST(test_cancel_unanswered),
		AGENT_TEST(test_cancel_before_start),
		AGENT_TEST(test_unknown_requests),
		AGENT_TEST(test_pause),
		AGENT_TEST(test_pause_before_exit),
		AGENT_TEST(test_flood),
		AGENT_TEST(test_destroy_kills_the_group),
		AGENT_TEST(test_destroy_idle),
		AGENT_TEST(test_files_read),
		AGENT_TEST(test_files_write),
		AGENT_TEST(test_file_order),
		AGENT_TEST(test_no_fd_is_left),
	};
	signal(SIGPIPE, SIG_IGN);
	diag_set_level(DIAG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
