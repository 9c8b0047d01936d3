/*
 * An acp_agent over its life: how often it starts, when it ends, and what it tells beside the talk.
 */
#include "acp_agent_fixture.h"

#include <errno.h>

#include <sys/stat.h>

#define EXITED                         \
	"stopped exit exit status 7; " \
	"it ended before it answered: check that its command speaks ACP on stdin and stdout"
#define FAILED(times, delay) \
	EXITED "; it has failed " times " times in a row, the next start waits " delay " s\n"
#define DELAYED(times, delay) \
	"x-acp-start_delayed {\"delay_ms\":" delay ",\"failures\":" times "}\n"

static void test_failing_again_and_again(void **state)
{
	struct fixture *f = *state;
	start(f, "fails_thrice");
	run_until(f, "stopped");
	prompt(f, "2");
	run_until(f, EXITED "; ");
	expect_log(f, EXITED "\n" FAILED("2", "0.001"));
	prompt(f, "3");
	assert_int_equal(f->log.len, 0);
	run_until(f, "stopped");
	expect_log(f, DELAYED("2", "1") FAILED("3", "0.002"));
	prompt(f, "4");
	run_until(f, "turn_end");
	expect_log(f, DELAYED("3", "2") "started sh 1 1 s1\nturn_end end_turn -\n");
	/* An answered prompt ends the count. */
	prompt(f, "5");
	run_until(f, "stopped");
	expect_log(f, "stopped exit exit status 7\n");
	prompt(f, "6");
	run_until(f, "turn_end");
	expect_log(f, "started sh 1 1 s1\nturn_end end_turn -\n");
}

static void test_cancel_before_a_delayed_start(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.restart_delay_ms = 1000000;
	create_agent(f, "auth", config);
	prompt(f, "1");
	run_until(f, "stopped");
	buffer_clear(&f->log);
	prompt(f, "2");
	run_until(f, "stopped");
	assert_non_null(
		strstr(buffer_cstr(&f->log), "2 times in a row, the next start waits 30 s"));
	buffer_clear(&f->log);
	prompt(f, "3");
	run_until(f, "x-acp-start_delayed");
	acp_agent_cancel(f->agent);
	run_until(f, "turn_end");
	prompt(f, "4");
	acp_agent_cancel(f->agent);
	buffer_clear(&f->log);
	run_until(f, "turn_end");
	expect_log(f, "turn_end cancelled -\n");
}

static void test_idle(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.idle_ms = 5;
	create_agent(f, "turn", config);
	prompt(f, "go");
	run_until(f, "stopped");
	assert_non_null(strstr(buffer_cstr(&f->log),
		"turn_end max_tokens -\nstopped idle there was nothing to do\n"));
	assert_false(acp_agent_is_running(f->agent));
	buffer_clear(&f->log);
	prompt(f, "again");
	run_until(f, "stopped idle");
	assert_null(strstr(buffer_cstr(&f->log), "delayed"));
}

static void test_idle_after_a_cancelled_start(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.idle_ms = 5;
	create_agent(f, "turn", config);
	prompt(f, "go");
	acp_agent_cancel(f->agent);
	run_until(f, "turn_end cancelled");
	run_until(f, "stopped idle");
}

/** Of those that are not stopped for idleness, those are that can go on with their session. */
static void test_idle_and_resumable(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.resumable_idle_ms = 5;
	create_agent(f, "turn", config);
	prompt(f, "go");
	run_until(f, "turn_end");
	uint64_t until = uv_now(&f->loop) + 100;
	while (uv_now(&f->loop) < until) {
		uv_run(&f->loop, UV_RUN_NOWAIT);
	}
	assert_true(acp_agent_is_running(f->agent));
	destroy_agent(f);
	f->freed = false;
	f->earlier = "s1";
	create_agent(f, "resume", config);
	prompt(f, "go");
	run_until(f, "stopped idle");
	while (!acp_agent_is_as_new(f->agent)) {
		uv_run(&f->loop, UV_RUN_ONCE);
	}
}

static void test_not_idle(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.idle_ms = 5;
	create_agent(f, "terminal", config);
	write_requests(f,
		"{'id':7,'method':'terminal/create','params':{'command':'read x <fifo; echo $x'}}\n");
	char fifo[PATH_MAX + 8];
	snprintf(fifo, sizeof(fifo), "%s/fifo", f->cwd);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	prompt(f, "go");
	run_until(f, "turn_end");
	/* Its command runs; the time that it is given is many times over then. */
	uint64_t until = uv_now(&f->loop) + 100;
	while (uv_now(&f->loop) < until) {
		uv_run(&f->loop, UV_RUN_ONCE);
	}
	assert_true(acp_agent_is_running(f->agent));
	assert_null(strstr(buffer_cstr(&f->log), "stopped"));
}

static void test_long_lines(void **state)
{
	struct fixture *f = *state;
#define TOO_LONG                                                                                \
	"the agent sent a line of more than 4096 bytes (the limit agent_line_size), which was " \
	"skipped"
	start(f, "long_lines");
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n"
		"x-acp-line_too_long {\"message\":\"" TOO_LONG
		"\",\"method\":\"fs/write_text_file\"}\n"
		"text {'jsonrpc':'2.0','id':0,'error':{'code':-32600,'message':'" TOO_LONG "'}}\n"
		"x-acp-line_too_long {\"message\":\"" TOO_LONG "\"}\n"
		"turn_end error " TOO_LONG "\n");
	prompt(f, "again");
	run_until(f, "turn_end end_turn");
}

static void test_session_state(void **state)
{
	struct fixture *f = *state;
	start(f, "session_state");
	run_until(f, "turn_end");
	expect_log(f,
		"started sh - 1 s1\n"
		"x-acp-modes {\"available_modes\":[{\"id\":\"a\",\"name\":\"A\"}],"
		"\"current_mode_id\":\"a\"}\n"
		"x-acp-models {\"available_models\":[{\"model_id\":\"m\"}],"
		"\"current_model_id\":\"m\"}\n"
		"x-acp-config_option_update {\"config_options\":[{\"current_value\":\"v\",\"id\":"
		"\"o\"}]}\n"
		"x-acp-available_commands_update {\"available_commands\":[]}\n"
		"x-acp-available_commands_update {\"available_commands\":[{\"name\":\"c\"}]}\n"
		"x-acp-available_commands_update {\"available_commands\":[]}\n"
		"turn_end end_turn -\n");
	/* Another session has a state of its own. */
	prompt(f, "exit");
	run_until(f, "stopped");
	buffer_clear(&f->log);
	prompt(f, "again");
	run_until(f, "turn_end");
	assert_non_null(strstr(buffer_cstr(&f->log), "config_option"));
	assert_non_null(strstr(buffer_cstr(&f->log), "x-acp-modes"));
}

static int set_mode(struct fixture *f, const char *mode_id)
{
	return acp_agent_set(f->agent,
		&(struct acp_setting){.kind = ACP_SET_MODE, .id = mode_id, .by = "me", .sub = ""});
}

static int set_option(struct fixture *f, const char *config_id, json_t *value)
{
	int r = acp_agent_set(f->agent, &(struct acp_setting){.kind = ACP_SET_OPTION,
						.id = config_id,
						.value = value,
						.by = "me",
						.sub = ""});
	json_decref(value);
	return r;
}

#define SENT(id, method, params)                                      \
	"text {'jsonrpc':'2.0','id':" id ",'method':'session/" method \
	"','params':{'sessionId':'s1'," params "}}\n"

static void test_settings(void **state)
{
	struct fixture *f = *state;
	create_agent(f, "settings", default_config(f));
	assert_int_equal(set_mode(f, "ask"), 0);
	assert_int_equal(set_mode(f, "code"), 0); /* of two that wait the newer one */
	assert_false(acp_agent_is_running(f->agent));
	prompt(f, "go");
	run_until(f, "x-acp-current_mode_update");
	assert_int_equal(set_option(f, "model", json_string("large")), 0);
	assert_int_equal(set_mode(f, "plan"), 0);
	assert_int_equal(set_option(f, "fast", json_true()), 0);
	run_until(f, "turn_end");
	expect_log(f,
		"started - - 1 s1\n"
		"x-acp-modes {\"available_modes\":[],\"current_mode_id\":\"ask\"}\n" SENT(
			"3", "set_mode", "'modeId':'code'") SENT("4", "prompt",
			"'prompt':[{'type':'text','text':'go'}]") "x-acp-current_mode_update {\"current_mode_id\":\"code\"}"
								  "\n" SENT("5",
									  "set_config_option",
									  "'configId':'model','"
									  "value':'large'")
									  SENT("6", "set_mode", "'modeId':'plan'") "x-acp-current_mode_update {\"current_mode_id\":\"plan\"}\n" SENT(
										  "7",
										  "set_config_"
										  "option",
										  "'configId':'"
										  "fast','value':"
										  "true,'type':'"
										  "boolean'") "x-"
											      "acp-"
											      "conf"
											      "ig_"
											      "opti"
											      "on_"
											      "upda"
											      "te {\"c"
											      "onfi"
											      "g_"
											      "opti"
											      "ons"
											      "\":["
											      "{\"c"
											      "urre"
											      "nt_"
											      "valu"
											      "e\":"
											      "\"la"
											      "rge"
											      "\","
											      "\"id"
											      "\":"
											      "\"mo"
											      "del"
											      "\"}]"
											      "}\n"
											      "refu"
											      "sed me fast"
											      ": Inva"
											      "lid para"
											      "ms: no such"
											      " opt"
											      "ion"
											      "\n"
											      "turn"
											      "_end"
											      " end"
											      "_tur"
											      "n -"
											      "\n");
	/* What was told is not told again, and the prompt still has its own answer. */
	buffer_clear(&f->log);
	assert_int_equal(set_mode(f, "plan"), 0);
	prompt(f, "again");
	run_until(f, "turn_end");
	expect_log(f, "turn_end end_turn -\n");
	buffer_clear(&f->log);
	assert_int_equal(set_mode(f, "never"), 0);
	run_until(f, "stopped");
	expect_log(f, "refused me never: the agent stopped before it had answered\n"
		      "stopped exit exit status 0\n");
}

static void test_too_many_settings(void **state)
{
	struct fixture *f = *state;
	create_agent(f, "settings", default_config(f));
	char name[16];
	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "o%d", i);
		assert_int_equal(set_option(f, name, json_false()), 0);
	}
	assert_int_equal(set_option(f, "more", json_false()), -ENOBUFS);
	assert_int_equal(set_option(f, "o3", json_true()), 0);
}

static void test_metas(void **state)
{
	struct fixture *f = *state;
	start(f, "metas");
	run_until(f, "turn_end");
	expect_log(f,
		"started sh 1 1 s1\n"
		"text one \ntext two\n"
		"x-acp-meta {\"_meta\":{\"a\":1},\"message_id\":\"m\",\"of\":\"agent_message_chunk\"}\n"
		"x-acp-meta {\"_meta\":{\"a\":2},\"of\":\"agent_message_chunk\"}\n"
		"tool_call {\"title\":\"T\",\"tool_call_id\":\"c\"}\n"
		"usage {\"_meta\":{\"b\":3},\"mode\":\"cumulative\",\"size\":2,\"used\":1}\n"
		"x-acp-meta {\"_meta\":{\"quota\":5},\"of\":\"session/prompt\"}\n"
		"turn_end end_turn -\n");
}

/** As many as are kept; one more that says the same as the newest drops none of them. */
static void test_many_metas(void **state)
{
	struct fixture *f = *state;
	struct buffer expected = {0};
	start(f, "many_metas");
	run_until(f, "turn_end");
	buffer_append_str(&expected, "started sh 1 1 s1\n");
	for (int i = 1; i <= 32; i++) {
		buffer_printf(&expected,
			"x-acp-meta {\"_meta\":{\"n\":%d},\"of\":\"agent_message_chunk\"}\n", i);
	}
	buffer_append_str(&expected, "turn_end end_turn -\n");
	expect_log(f, buffer_cstr(&expected));
	buffer_finish(&expected);
}

static void test_no_terminals_offered(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.terminals_max = 0;
	create_agent(f, "requests", config);
	prompt(f, "go");
	run_until(f, "turn_end");
	assert_non_null(strstr(buffer_cstr(&f->log), "'terminal':false,"));
}

static void test_late_words(void **state)
{
	struct fixture *f = *state;
	struct acp_agent_config config = default_config(f);
	config.quiet_ms =
		200; /* a busy machine must not make one between the text and the question */
	create_agent(f, "late", config);
	prompt(f, "go");
	run_until(f, "question");
	/* While it waits for an answer there is no quiet. */
	uint64_t until = uv_now(&f->loop) + 500;
	while (uv_now(&f->loop) < until) {
		uv_run(&f->loop, UV_RUN_ONCE);
	}
	expect_log(
		f, "started sh 1 1 s1\nturn_end end_turn -\ntext late\nquestion 1 of 2 options\n");
	assert_int_equal(acp_agent_answer(f->agent, f->request_id, "yes"), 0);
	run_until(f, "quiet");
	expect_log(f, "text answered\nquiet\n");
	prompt(f, "again");
	run_until(f, "turn_end");
	expect_log(f, "turn_end end_turn -\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(test_failing_again_and_again),
		AGENT_TEST(test_cancel_before_a_delayed_start),
		AGENT_TEST(test_idle),
		AGENT_TEST(test_idle_after_a_cancelled_start),
		AGENT_TEST(test_idle_and_resumable),
		AGENT_TEST(test_not_idle),
		AGENT_TEST(test_long_lines),
		AGENT_TEST(test_session_state),
		AGENT_TEST(test_metas),
		AGENT_TEST(test_many_metas),
		AGENT_TEST(test_settings),
		AGENT_TEST(test_too_many_settings),
		AGENT_TEST(test_late_words),
		AGENT_TEST(test_no_terminals_offered),
	};
	signal(SIGPIPE, SIG_IGN);
	diag_set_level(DIAG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
