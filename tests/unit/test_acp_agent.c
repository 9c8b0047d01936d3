/* An acp_agent against scripted agents, on a real loop, with real processes. */
#include "acp_agent_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/wait.h>

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
		"'clientCapabilities':{'fs':{'readTextFile':true,'writeTextFile':true},'terminal':"
		"true,'session':{'configOptions':{'boolean':{}}},'elicitation':{'form':{},'url':{}}},"
		"'clientInfo':{'name':'holdfast','title':'Holdfast','version':'" HOLDFAST_VERSION
		"'}}}\n"
		"text {'jsonrpc':'2.0','id':2,'method':'session/"
		"new','params':{'cwd':'%s','mcpServers':[]}}\n"
		"text {'jsonrpc':'2.0','id':3,'method':'session/prompt','params':{'sessionId':'s1',"
		"'prompt':[{'type':'text','text':'go'}]}}\n"
		"turn_end end_turn -\n",
		f->cwd);
	expect_log(f, buffer_cstr(&expected));
	buffer_finish(&expected);
	assert_int_equal(acp_agent_prompt(f->agent, "\xff", 1), -EINVAL);
	prompt(f, "\xe2\x80\xa8");
	run_until(f, "turn_end");
	expect_log(f,
		"text {'jsonrpc':'2.0','id':4,'method':'session/prompt','params':{'sessionId':'s1',"
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
		      "usage {\"input_tokens\":2,\"mode\":\"delta\",\"output_tokens\":1,\"total_"
		      "tokens\":3}\n"
		      "turn_end max_tokens -\n");
}

/** Two results with the same figures are two results. */
static void test_usage_again(void **state)
{
	static const char *const told[] = {"5", "3", "3", "5"};
	struct fixture *f = *state;
	create_agent(f, "usage_again", default_config(f));
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		struct buffer expected = {0};
		prompt(f, "go");
		run_until(f, "turn_end");
		if (!i) {
			buffer_append_str(&expected, "started sh 1 1 s1\n");
		}
		buffer_printf(
			&expected, "usage {\"input_tokens\":%s,\"mode\":\"delta\"}\n", told[i]);
		buffer_append_str(&expected, "turn_end end_turn -\n");
		expect_log(f, buffer_cstr(&expected));
		buffer_finish(&expected);
	}
}

static void test_early_updates(void **state)
{
	struct fixture *f = *state;
	start(f, "early");
	run_until(f, "turn_end");
	/*
	 * The sender of an early one is not known, and "other" may not speak once there is a
	 * session.
	 */
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
	assert_memory_equal(f->log.data, "started sh 1 1 s1\ntext half a\nstopped exit", 40);
}

static void test_signal(void **state)
{
	struct fixture *f = *state;
	start(f, "killed");
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\nstopped signal killed by signal 9 (SIGKILL)\n");
}

static void test_signal_below_a_shell(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.command = "sh -c 'kill -9 $$'; exit $?";
	create_agent(f, "", config);
	prompt(f, "go");
	run_until(f, "stopped");
	expect_log(f,
		"stopped exit exit status 137 (SIGKILL); it ended before it answered: check that its command speaks ACP on stdin and stdout\n");
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
	expect_log(f,
		"stopped exit exit status 127; its command cannot be run: is it installed, and in the PATH of the server?\n");
	destroy_agent(f);

	config.cwd = "/no/such/directory";
	create_agent(f, "silent", config);
	f->prompt_again = "go";
	prompt(f, "go");
	assert_int_equal(f->log.len, 0);
	run_until(f, "stopped spawn_failed no such file or directory\n"
		     "stopped spawn_failed no such file or directory; ");
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
	expect_refused(f, "auth",
		"session/new: Authentication required. If this is about a login: log in with the agent's own program, in a terminal, as the user that runs this server, and prompt again. It offers: Log in (run `agent login`); Key");
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
	expect_log(f,
		"stopped protocol did not answer initialize in time: check that its command speaks ACP on stdin and stdout\n");
}

#define UNREAD \
	"x-acp-line_unread {\"message\":\"the agent sent a line that cannot be read, which was skipped; the server's log has its beginning\""

static void test_noise(void **state)
{
	struct fixture *f = *state;
	start(f, "noise");
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n"
		"x-acp-notification {\"method\":\"_ext/notice\",\"params\":7}\n"
		"x-acp-line_too_long {\"message\":\"the agent sent a line of more than 4096 bytes (the limit agent_line_size), which was skipped\",\"method\":"
		"\"session/update\"}\n"
		"text nul \xef\xbf\xbd lone \xef\xbf\xbd.\n" UNREAD
		",\"method\":\"session/update\"}\n"
		"text after\n"
		"turn_end end_turn -\n");
}

static void test_ids(void **state)
{
	struct fixture *f = *state;
	start(f, "ids");
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n"
		"question 1 of 2 options\n"
		"withdrawn\n"
		"question 2 of 2 options\n"
		"question 3 of 2 options\n"
		"withdrawn\n"
		"text {'jsonrpc':'2.0','id':'7','result':{'outcome':{'outcome':'cancelled'}}}\n"
		"turn_end end_turn -\n");
	prompt(f, "again");
	run_until(f, "turn_end");
	expect_log(f, "turn_end end_turn -\n");
}

static void test_unread(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.cancel_grace_ms = 50;
	create_agent(f, "unread", config);
	prompt(f, "go");
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n" UNREAD "}\n"
		"turn_end error the agent has been silent since it sent a line that cannot be read, and which may have been its answer; the server's log has its beginning\n");
	prompt(f, "again");
	run_until(f, "question");
	assert_int_equal(acp_agent_answer(f->agent, f->request_id, "yes"), 0);
	run_until(f, "turn_end");
	expect_log(f, UNREAD
		",\"method\":\"session/request_permission\"}\n"
		"question 1 of 2 options\n" UNREAD ",\"method\":\"fs/read_text_file\"}\n"
		"text {'jsonrpc':'2.0','id':8,'error':{'code':-32600,'message':'this request came on a line that cannot be read'}}\n" UNREAD
		"}\n"
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
		      "text {'jsonrpc':'2.0','id':'0','result':{'outcome':{'outcome':'selected','"
		      "optionId':'no'}}}\n"
		      "text {'jsonrpc':'2.0','id':0,'result':{'outcome':{'outcome':'cancelled'}}}\n"
		      "turn_end end_turn -\n");
}

static void test_question_answered_at_once(void **state)
{
	struct fixture *f = *state;
	f->answer_with = "yes";
	start(f, "ask");
	run_until(f, "turn_end");
	assert_non_null(
		strstr(buffer_cstr(&f->log), "'id':'0','result':{'outcome':{'outcome':'selected'"));
	assert_int_equal(acp_agent_answer(f->agent, f->request_id, "yes"), -ENOENT);
}

static void test_question_malformed(void **state)
{
	struct fixture *f = *state;
	start(f, "ask_badly");
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n"
		"text {'jsonrpc':'2.0','id':1,'error':{'code':-32602,'message':'a tool call without toolCallId'}}\n"
		"turn_end end_turn -\n");
}

static void test_question_withdrawn(void **state)
{
	struct fixture *f = *state;
	start(f, "withdraw");
	run_until(f, "withdrawn");
	assert_int_equal(acp_agent_answer(f->agent, f->request_id, "yes"), -ENOENT);
	char first[64];
	snprintf(first, sizeof(first), "%.*s-1", (int)strcspn(f->request_id, "-"), f->request_id);
	assert_int_equal(acp_agent_answer(f->agent, first, "yes"), 0);
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n"
		"question 1 of 2 options\n"
		"question 2 of 2 options\n"
		"withdrawn\n"
		"text {'jsonrpc':'2.0','id':'r','result':{'outcome':{'outcome':'cancelled'}}}\n"
		"text {'jsonrpc':'2.0','id':'q','result':{'outcome':{'outcome':'selected',"
		"'optionId':'yes'}}}\n"
		"turn_end end_turn -\n");
}

static void test_cancel(void **state)
{
	struct fixture *f = *state;
	start(f, "cancel");
	run_until(f, "question 1");
	acp_agent_cancel(f->agent);
	acp_agent_cancel(f->agent);
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n"
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
	config.stop_grace_ms = 60000; /* the next one waits until this one is gone */
	create_agent(f, "deaf_to_cancel", config);
	prompt(f, "go");
	run_until(f, "text working");
	acp_agent_cancel(f->agent);
	run_until(f, "stopped");
	expect_log(f, "started sh 1 1 s1\ntext working\n"
		      "stopped stopped did not answer session/cancel (cancelled)\n");
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
	struct acp_agent_config config = default_config(f);
	config.terminals_max = 0;
	create_agent(f, "unknown", config);
	prompt(f, "go");
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n"
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
	/*
	 * All of the burst is in the pipe or read already: each tick of the loop could tell more.
	 */
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
	expect_log(f, "started sh 1 1 s1\nstopped protocol the agent does not read its input\n");
}

static void test_destroy_kills_the_group(void **state)
{
	struct fixture *f = *state;
	/*
	 * The agent's child is handed to us when the agent dies, so that its end can be waited for.
	 */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(test_requests),
		AGENT_TEST(test_turn),
		AGENT_TEST(test_usage_again),
		AGENT_TEST(test_early_updates),
		AGENT_TEST(test_exit_and_restart),
		AGENT_TEST(test_signal),
		AGENT_TEST(test_signal_below_a_shell),
		AGENT_TEST(test_output_closed),
		AGENT_TEST(test_cannot_start),
		AGENT_TEST(test_protocol),
		AGENT_TEST(test_start_timeout),
		AGENT_TEST(test_noise),
		AGENT_TEST(test_ids),
		AGENT_TEST(test_unread),
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
		AGENT_TEST(test_no_fd_is_left),
	};
	signal(SIGPIPE, SIG_IGN);
	diag_set_level(DIAG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
