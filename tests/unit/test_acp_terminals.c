/* terminal/… asked by an agent: real commands, their output and their end. */
#include "acp_agent_fixture.h"

#include "agents/workspace/workspace_internal.h"

#include <errno.h>

#define METHOD(name, params) "{'id':7,'method':'terminal/" name "','params':{" params "}}\n"
#define CREATE(params)       METHOD("create", params)
#define ASK(name)            METHOD(name, "'terminalId':'@'")

/**
 * The lines of the log that are events of terminals, or those that are not, with the start's time
 * taken out of the terminals' names. How the two lie to each other is chance.
 */
static void expect_lines(struct fixture *f, bool events, const char *expected)
{
	struct buffer lines = {0};
	for (const char *s = buffer_cstr(&f->log); *s; s += strcspn(s, "\n") + 1) {
		bool is_event = strncmp(s, "x-acp-terminal", strlen("x-acp-terminal")) == 0;
		for (size_t i = 0; is_event == events && s[i] != '\n'; i++) {
			size_t digits = s[i] == 't' ? strspn(s + i + 1, "0123456789abcdef") : 0;
			buffer_append_char(&lines, s[i]);
			i += digits > 8 && s[i + digits + 1] == '-' ? digits : 0;
		}
		buffer_append_str(&lines, is_event == events ? "\n" : "");
	}
	char *found = xstrdup(buffer_cstr(&lines));
	buffer_finish(&lines);
	assert_string_equal(found, expected);
	free(found);
}

static void run_requests(struct fixture *f, const char *requests)
{
	write_requests(f, requests);
	start(f, "terminal");
	run_until(f, "turn_end");
}

#define EVENT(members) \
	"x-acp-terminal {" members "\"status\":\"running\",\"terminal_id\":\"t-1\"}\n"
#define RESULT(members) "text {'jsonrpc':'2.0','id':7,'result':{" members "}}\n"
#define EXITED(code, bytes, signal)                                                            \
	"x-acp-terminal {\"exit_code\":" code ",\"output_bytes\":" bytes ",\"signal\":" signal \
	",\"status\":\"exited\",\"terminal_id\":\"t-1\"}\n"
#define STARTED "started sh 1 1 s1\n"
#define DONE    "turn_end end_turn -\n"

static void test_life(void **state)
{
	struct fixture *f = *state;
	run_requests(f, CREATE("'command':'echo one; echo two >&2; exit 3'") ASK("wait_for_exit")
				ASK("output") ASK("wait_for_exit") ASK("release") ASK("output"));
	expect_lines(f, false,
		STARTED RESULT("'terminalId':'t-1'") RESULT(
			"'exitCode':3,'signal':null") "text {'jsonrpc':'2.0','id':7,'result':{'output':'"
						      "one\n"
						      "two\n','truncated':false,'exitStatus':{'"
						      "exitCode':3,'signal':null}}}\n" RESULT(
							      "'exitCode':3,'signal':null")
							      RESULT("") "text {'jsonrpc':'2.0','id':7,'"
									 "error':{'code':-32002,'"
									 "message':'there is no such terminal'}}\n" DONE);
	expect_lines(f, true,
		EVENT("\"command\":\"echo one; echo two >&2; exit 3\",") EVENT(
			"\"offset\":0,\"output\":\"one\\ntwo\\n\",") EXITED("3", "8", "null"));
}

static void test_arguments(void **state)
{
	struct fixture *f = *state;
	setenv("HF_KEPT", "kept", 1);
	setenv("HF_SET", "old", 1);
	run_requests(f, CREATE("'command':'printf','args':['%s|','a b','$HOME','']")
				ASK("wait_for_exit") ASK("release") CREATE(
					"'command':'echo $HF_KEPT $HF_SET $HF_NEW; pwd; cat',"
					"'cwd':'/','outputByteLimit':4,'args':[],"
					"'env':[{'name':'HF_SET','value':'new'},{'name':'HF_NEW','"
					"value':'='}]") ASK("wait_for_exit") ASK("output"));
	assert_non_null(strstr(buffer_cstr(&f->log), "\"output\":\"a b|$HOME||\""));
	assert_non_null(strstr(buffer_cstr(&f->log), "\"output\":\"kept new =\\n/\\n\""));
	assert_non_null(strstr(buffer_cstr(&f->log), "'output':'=\n/\n','truncated':true"));
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
#define REFUSED(code, why) \
	"text {'jsonrpc':'2.0','id':7,'error':{'code':" code ",'message':'" why "'}}\n"
	run_requests(f, CREATE("") CREATE("'command':''") CREATE("'command':'x','args':[1]") CREATE(
				"'command':'x','args':'y'")
				CREATE("'command':'x','env':[{'name':'a=b','value':''}]") CREATE(
					"'command':'x','cwd':'relative'")
					CREATE("'command':'x','outputByteLimit':-1") CREATE(
						"'command':'true','cwd':'/nonexistent'")
						CREATE("'command':'/nonexistent','args':['x']")
							METHOD("output", "") METHOD("resize", ""));
	expect_lines(f, false,
		STARTED REFUSED("-32602", "command must be a string that is not empty") REFUSED(
			"-32602", "command must be a string that is not empty") REFUSED("-32602",
			"args must be strings") REFUSED("-32602",
			"args must be strings") REFUSED("-32602",
			"env must be variables with a name and a value, strings")
			REFUSED("-32602", "cwd must be an absolute path") REFUSED("-32602",
				"outputByteLimit must be a number from 0") REFUSED("-32603",
				"the command cannot be started: no such file or directory")
				REFUSED("-32603",
					"the command cannot be started: no such file or directory")
					REFUSED("-32002", "there is no such terminal")
						REFUSED("-32601", "Method not found") DONE);
}

static void test_too_many(void **state)
{
	struct fixture *f = *state;
	run_requests(f,
		CREATE("'command':'true'") CREATE("'command':'true'") CREATE("'command':'true'")
			ASK("wait_for_exit") ASK("release") CREATE("'command':'true'"));
	struct buffer log = {0};
	buffer_append_str(&log, buffer_cstr(&f->log));
	const char *refused = strstr(buffer_cstr(&log), "too many terminals are open");
	assert_non_null(refused);
	assert_null(strstr(refused + 1, "too many terminals are open"));
	buffer_finish(&log);
}

static void test_kill(void **state)
{
	struct fixture *f = *state;
	run_requests(f, CREATE("'command':'exec sleep 1000'") ASK("kill") ASK("wait_for_exit")
				ASK("kill") ASK("output"));
	expect_lines(f, false,
		STARTED RESULT("'terminalId':'t-1'") RESULT("")
			RESULT("'exitCode':null,'signal':'SIGTERM'") RESULT("")
				RESULT("'output':'','truncated':false,'exitStatus':{'exitCode':"
				       "null,'signal':'SIGTERM'}") DONE);
	expect_lines(f, true,
		EVENT("\"command\":\"exec sleep 1000\",") EXITED("null", "0", "\"SIGTERM\""));
}

/** The number that the newest command has put out. */
static pid_t said_pid(struct fixture *f)
{
	run_until(f, "x-acp-terminal {\"offset\":0,\"output\":\"");
	const char *said = strstr(buffer_cstr(&f->log), "\"output\":\"");
	pid_t pid = atoi(said + strlen("\"output\":\""));
	assert_true(pid > 1);
	return pid;
}

static void expect_gone(struct fixture *f, pid_t pid)
{
	destroy_agent(f);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

/* A command that ignores SIGTERM says its id, and then runs for ever. */
#define STUBBORN "'command':'trap \\\"\\\" TERM; echo $$; while :; do sleep 1000; done'"

static void test_release_ends_it(void **state)
{
	struct fixture *f = *state;
	write_requests(f, CREATE(STUBBORN) "\n" ASK("release"));
	start(f, "terminal");
	pid_t pid = said_pid(f);
	run_until(f, "turn_end");
	assert_int_equal(kill(pid, 0), 0);
	prompt(f, "go on");
	run_until(f, "x-acp-terminal {\"status\":\"released\"");
	run_until(f, "text {'jsonrpc':'2.0','id':7,'result':{}}");
	expect_gone(f, pid);
}

/** What was released and has not ended counts, or there could be any number of them. */
static void test_released_ones_count(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.terminals_max = 1;
	config.stop_grace_ms = 600000;
	write_requests(f, CREATE(STUBBORN) "\n" ASK("release") CREATE("'command':'true'"));
	create_agent(f, "terminal", config);
	prompt(f, "go");
	pid_t pid = said_pid(f);
	run_until(f, "turn_end");
	prompt(f, "go on");
	run_until(f, "text {'jsonrpc':'2.0','id':7,'result':{}}");
	run_until(f, "text {'jsonrpc':'2.0','id':7,'error':{'code':-32603,'message':"
		     "'too many commands are running");
	kill(-pid, SIGKILL);
	expect_gone(f, pid);
}

static void test_agent_gone_ends_it(void **state)
{
	struct fixture *f = *state;
	write_requests(f, CREATE(STUBBORN));
	start(f, "terminal");
	expect_gone(f, said_pid(f));
}

static void test_waits_beside_other_requests(void **state)
{
	struct fixture *f = *state;
	/* The terminal's end is waited for while the agent goes on. */
	start(f, "terminal_waits");
	run_until(f, "turn_end");
	expect_lines(f, false,
		STARTED
		"text {'jsonrpc':'2.0','id':'w','error':{'code':-32800,'message':'cancelled'}}\n"
		"text meanwhile\n" RESULT("'exitCode':0,'signal':null") DONE);
	expect_lines(f, true,
		EVENT("\"command\":\"read x <fifo; echo $x\",")
			EVENT("\"offset\":0,\"output\":\"go\\n\",") EXITED("0", "3", "null"));
}

/* Output, without a process. */

static void expect_text(json_t *text, const char *expected)
{
	assert_non_null(text);
	assert_string_equal(json_string_value(text), expected);
	json_decref(text);
}

static void test_output_characters(void **state)
{
	struct output o;
	uint64_t offset;
	output_init(&o, 5);
	output_push(&o, "a\xe2\x82", 3);
	expect_text(output_tell(&o, false, &offset), "a");
	assert_null(output_tell(&o, false, &offset));
	output_push(&o, "\xac\xff\0\xe2", 4);
	expect_text(output_tell(&o, false, &offset), "\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd");
	assert_int_equal(offset, 1);
	expect_text(output_tell(&o, true, &offset), "\xef\xbf\xbd");
	assert_int_equal(offset, 6);
	assert_null(output_tail(&o, &offset));
	/* The last five bytes begin in the middle of the euro sign. */
	expect_text(output_kept(&o), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	assert_true(o.truncated);
	output_finish(&o);
}

static void test_output_bounds(void **state)
{
	struct output o;
	uint64_t offset;
	size_t told = 0;
	char block[1000];
	output_init(&o, 10000);
	for (int i = 0; i < 3000; i++) {
		memset(block, 'a' + i % 26, sizeof(block));
		output_push(&o, block, sizeof(block));
		assert_true(o.kept.len <= 30000);
		json_t *text = output_tell(&o, false, &offset);
		assert_true(!text || offset == told);
		told += json_string_length(text);
		json_decref(text);
	}
	assert_int_equal(told, 256 * 1024);
	assert_int_equal(o.untold.cap, 0);
	json_t *tail = output_tail(&o, &offset);
	assert_int_equal(json_string_length(tail), 4096);
	assert_int_equal(offset, 3000 * 1000 - 4096);
	assert_int_equal(json_string_value(tail)[4095], 'a' + 2999 % 26);
	json_decref(tail);
	json_t *kept = output_kept(&o);
	assert_int_equal(json_string_length(kept), 10000);
	json_decref(kept);
	output_finish(&o);
	/* Nothing is kept for an agent that wants nothing. */
	output_init(&o, 0);
	output_push(&o, "abc", 3);
	expect_text(output_kept(&o), "");
	assert_true(o.truncated);
	output_finish(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(test_life),
		AGENT_TEST(test_arguments),
		AGENT_TEST(test_refused),
		AGENT_TEST(test_too_many),
		AGENT_TEST(test_kill),
		AGENT_TEST(test_release_ends_it),
		AGENT_TEST(test_released_ones_count),
		AGENT_TEST(test_agent_gone_ends_it),
		AGENT_TEST(test_waits_beside_other_requests),
		cmocka_unit_test(test_output_characters),
		cmocka_unit_test(test_output_bounds),
	};
	signal(SIGPIPE, SIG_IGN);
	diag_set_level(DIAG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
