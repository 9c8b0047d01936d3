/* The program's commands: finds the one that the arguments name, and runs it. */
#include "holdfast/agent_files.h"
#include "holdfast/agent_guard.h"
#include "holdfast/config.h"
#include "holdfast/diag.h"
#include "holdfast/options.h"
#include "holdfast/parts.h"
#include "holdfast/relay.h"
#include "holdfast/spawner.h"
#include "holdfast/store_postgres.h"
#include "holdfast/tools.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !HOLDFAST_HAS_POSTGRES
static bool is_address_of_postgres(const char *place)
{
	return strncmp(place, "postgresql://", strlen("postgresql://")) == 0 ||
	       strncmp(place, "postgres://", strlen("postgres://")) == 0;
}

const struct store_kind store_postgres = {
	.name = "PostgreSQL",
	.left_out_by = "-Dpostgres=true",
	.is_address = is_address_of_postgres,
};
#endif

static const struct store_kind *const store_kinds[] = {&store_postgres, NULL};

static int serve(int argc, char **argv)
{
	struct config config;
	int r = config_parse(&config, argc, argv);
	if (r != 0) {
		return r > 0 ? 0 : 2;
	}
	int code = relay_run(&config);
	config_finish(&config);
	return code;
}

static int print_limits(int argc, char **argv)
{
	static const struct command command = {
		.usage = "limits",
		.help = "Lists the limits that serve --limit sets: name, default, range, and error code.\n",
	};
	int r = options_parse(&command, argc, argv, NULL, NULL, NULL);
	if (r == 0) {
		limits_print(limits_default());
	}
	return r < 0 ? 2 : 0;
}

static const struct {
	const char *name;
	const char *help; /* NULL: internal, not listed */
	/** Called with the arguments after its name; returns the exit code. */
	int (*run)(int argc, char **argv);
} commands[] = {
	{"serve", "run the relay", serve},
	{"check-config", "print the options that serve would run with, and their sources",
		config_check},
	{"verify", "check a data directory for damage", tool_verify},
	{"export", "write the events of a session to stdout", tool_export},
	{"new-epoch", "give restored sessions a new epoch, so that clients reload them",
		tool_new_epoch},
	{"backup", "copy a data directory, even while its server runs", tool_backup},
	{"restore", "make a data directory from a backup", tool_restore},
	{"repair", "restore what can be read of damaged sessions", tool_repair},
	{"upgrade", "bring a data directory to the newest formats", tool_upgrade},
#if HOLDFAST_HAS_POSTGRES
	{"migrate", "move all sessions to a database, or back to a data directory", tool_migrate},
	{"doctor", "check what the database of --store guarantees", tool_doctor},
#endif
	{"replay", "play a recorded session into a running server", tool_replay},
	{"sessions", "list the sessions of a server", tool_sessions},
	{"watch", "show a session live", tool_watch},
	{"prompt", "send a prompt, and show its turn", tool_prompt},
	{"tail", "print a session's newest events, and follow it", tool_tail},
	{"append", "append events from stdin", tool_append},
	{"attach", "make the server an agent for an editor that speaks ACP", tool_attach},
	{"url", "print the link that logs a browser in", tool_url},
	{"token", "issue, list and revoke tokens", tool_token},
	{"acp-record", "run an agent and record its conversation with the client", tool_acp_record},
	{"limits", "list the limits that serve --limit sets", print_limits},
#if HOLDFAST_HAS_AGENTS
	{AGENT_GUARD_COMMAND, NULL, agent_guard_run},
	{SPAWNER_COMMAND, NULL, spawner_run},
	{AGENT_FILES_COMMAND, NULL, agent_files_run},
#endif
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/** Returns the exit code of a command, which has failed if its output could not be written. */
static int check_output(int code)
{
	int r = diag_flush();
	if (r == 0 || code == 2) {
		return code;
	}
	diag(DIAG_ERROR, "stdout cannot be written: %s", strerror(-r));
	return 2;
}

/** Returns the exit code. */
static int print_help(void)
{
	diag_print_text("holdfast " HOLDFAST_VERSION
			": a WebSocket relay with reconnect sync for AI agents\n\n"
			"Usage: holdfast COMMAND [ARGUMENTS]\n\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (commands[i].help) {
			diag_print_text("  %-12s  %s\n", commands[i].name, commands[i].help);
		}
	}
	diag_print_text(
		"\nholdfast COMMAND --help says more; holdfast --version prints the version.\n");
	return check_output(0);
}

/** The first line is the version; a second one names the parts that are left out, if any is. */
static int print_version(void)
{
	const char *before = "without: ";
	diag_print_text("holdfast " HOLDFAST_VERSION "\n");
	for (const struct part *part = build_parts; part->name; part++) {
		if (!part->is_in) {
			diag_print_text("%s%s (%s)", before, part->name, part->build_option);
			before = ", ";
		}
	}
	diag_print_text("%s", *before == ',' ? "\n" : "");
	return check_output(0);
}

/** Returns the exit code. */
static int refuse_name(const char *name)
{
	struct options_guess guess = {.wanted = name};
	const struct part *part = parts_lack_command(name);
	if (part) {
		char *why = part_refusal(part, name);
		diag(DIAG_ERROR, "%s", why);
		free(why);
		return 2;
	}
	options_try_name(&guess, "--help");
	options_try_name(&guess, "--version");
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (commands[i].help) {
			options_try_name(&guess, commands[i].name);
		}
	}
	diag(DIAG_ERROR, "unknown %s %s%s%s%s; see holdfast --help",
		*name == '-' ? "option" : "command", name, guess.name ? " (did you mean " : "",
		guess.name ? guess.name : "", guess.name ? "?)" : "");
	return 2;
}

static int run(int argc, char **argv)
{
	const char *name = argv[0];
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(name, commands[i].name) == 0) {
			return check_output(commands[i].run(argc - 1, argv + 1));
		}
	}
	return refuse_name(name);
}

/** `holdfast help`, or `holdfast help COMMAND`. */
static int help(int argc, char **argv)
{
	if (argc == 1 || strcmp(argv[1], "help") == 0) {
		return print_help();
	}
	char flag[] = "--help";
	return run(2, (char *[]){argv[1], flag, NULL});
}

static bool is_one_of(const char *text, const char *a, const char *b)
{
	return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

int main(int argc, char **argv)
{
	/* A write beyond a limit of file sizes (RLIMIT_FSIZE) fails, as on a full disk. */
	signal(SIGXFSZ, SIG_IGN);
	store_kinds_set(store_kinds);
	if (argc < 2) {
		diag(DIAG_ERROR, "a command is missing; see holdfast --help");
		return 2;
	}
	if (is_one_of(argv[1], "--version", "-V")) {
		return print_version();
	}
	if (is_one_of(argv[1], "--help", "-h")) {
		return print_help();
	}
	return strcmp(argv[1], "help") == 0 ? help(argc - 1, argv + 1) : run(argc - 1, argv + 1);
}
