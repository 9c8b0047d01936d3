#include "holdfast/agent_env.h"

#include "holdfast/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define LIST(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static void expect_env(char *const *from, char *const *entries, const char *expected)
{
	struct buffer found = {0};
	char **env = agent_env_make(from, entries);
	for (char **variable = env; *variable; variable++) {
		buffer_printf(&found, "%s\n", *variable);
	}
	assert_string_equal(buffer_cstr(&found), expected);
	buffer_finish(&found);
	agent_env_free(env);
}

static void only_what_is_needed_is_given(void **state)
{
	expect_env(
		LIST("PATH=/bin", "API_KEY=secret", "LC_ALL=C", "LC=x", "LANG=", "PATHS=no",
			"PAT=h", "HOLDFAST_TOKEN=t", "NOTIFY_SOCKET=/run/x", "TMPDIR=/tmp", "odd"),
		NULL, "PATH=/bin\nLC_ALL=C\nLANG=\nTMPDIR=/tmp\n");
}

static void more_is_given_by_name(void **state)
{
	char *const *from = LIST("PATH=/bin", "A=1", "B=2", "HOME=/h");
	expect_env(from, LIST("B", "NONE", "HOME=/other", "C=a=b,*"),
		"PATH=/bin\nHOME=/other\nB=2\nC=a=b,*\n");
	expect_env(from, LIST("A", "A=9"), "PATH=/bin\nHOME=/h\nA=9\n");
	expect_env(from, LIST("A=9", "A"), "PATH=/bin\nHOME=/h\nA=1\n");
	expect_env(from, LIST("PATH="), "PATH=\nHOME=/h\n");
	expect_env(LIST("PATH=/bin", "G_A=1", "G_B=2", "GA=3", "G_=4", "HOLDFAST_A=5"),
		LIST("G_*", "G_B=9", "H*"), "PATH=/bin\nG_A=1\nG_B=9\nG_=4\n");
}

static void all_but_the_servers_own_is_given(void **state)
{
	expect_env(LIST("A=1", "HOLDFAST_DATA=d", "LISTEN_FDS=1", "LISTEN_PID=2", "WATCHDOG_USEC=3",
			   "NOTIFY_SOCKET=n", "PATH=p"),
		LIST("*"), "PATH=p\nA=1\n");
}

static void what_is_no_name_is_refused(void **state)
{
	static const char *const good[] = {
		"A", "_a9", "A=", "A=b c=d", "*", "A*", "A_*", "HOLDFAST", "LISTENER"};
	static const char *const bad[] = {"", "=x", "1A", "A-B", "A B=c", "**", "* ", "A**", "*A",
		"A*B", "A*=x", "1*", "HOLDFAST_*", "HOLDFAST_DATA", "HOLDFAST_=x", "LISTEN_FDS=3",
		"NOTIFY_SOCKET", "WATCHDOG_PID=1"};
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_null(agent_env_fault(good[i]));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_non_null(agent_env_fault(bad[i]));
	}
}

static void secrets_are_hidden(void **state)
{
	static const struct {
		const char *said, *shown;
	} cases[] = {
		{"key sk-secret-1!", "key ***!"},
		{"sk-secret-12 sk-secret-1", "*** ***"}, /* the longest value counts */
		{"cut: sk-secr\nsk-secr more", "cut: ***\nsk-secr more"},
		{"ends sk-sec", "ends ***"},
		{"ask /usr/bin sk-s", "ask /usr/bin sk-s"},
		{"", ""},
	};
	char *const *env =
		LIST("PATH=/usr/bin", "KEY=sk-secret-1", "KEY2=sk-secret-12", "MODE=ask");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buffer out = {0};
		agent_env_hide(env, cases[i].said, strlen(cases[i].said), &out);
		assert_string_equal(buffer_cstr(&out), cases[i].shown);
		buffer_finish(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_needed_is_given),
		cmocka_unit_test(more_is_given_by_name),
		cmocka_unit_test(all_but_the_servers_own_is_given),
		cmocka_unit_test(what_is_no_name_is_refused),
		cmocka_unit_test(secrets_are_hidden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
