/* holdfast doctor: checks what a database guarantees that has the sessions, or is to have them. */
#include "holdfast/command.h"

#include "holdfast/buffer.h"
#include "holdfast/diag.h"
#include "holdfast/store_doctor.h"

#include <stdio.h>
#include <stdlib.h>

enum { STORE, OPTION_COUNT };

static const struct option options[] = {
	[STORE] = {"--store", "ADDRESS", "HOLDFAST_STORE", NULL,
		"the database, as for serve: postgresql://USER@HOST/NAME"},
	{0},
};

static const struct command command = {
	.usage = "doctor --store ADDRESS",
	.help = "Checks what a PostgreSQL database guarantees: whether an acknowledged commit is on its disk and on a standby,\n"
		"how far its clock is off, and how long a commit takes. It changes nothing there.\n\n"
		"Exit codes: 0 all is well, 1 there are warnings, 2 something is bad, or the database could not be queried.\n",
	.options = options,
};

static void tell(void *arg, enum store_finding finding, const char *text)
{
	static const char *const names[] = {
		[FINDING_GOOD] = "ok", [FINDING_WARNING] = "warning", [FINDING_BAD] = "bad"};
	diag_print("%-8s %s", names[finding], text);
}

int tool_doctor(int argc, char **argv)
{
	const char *values[OPTION_COUNT] = {0};
	struct store_facts_of_database facts;
	char *why = NULL;
	int r = options_parse(&command, argc, argv, NULL, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	if (!values[STORE]) {
		diag(DIAG_ERROR, "--store is missing; see holdfast doctor --help");
		return TOOL_FAILED;
	}
	int code = TOOL_FAILED;
	if (store_doctor_ask(values[STORE], &facts, &why) < 0) {
		diag(DIAG_ERROR, "the database cannot be queried: %s",
			why ? why : "it does not answer");
	} else {
		code = (int)store_doctor_judge(&facts, tell, NULL); /* 0 to 2, as the exit codes */
	}
	store_doctor_finish(&facts);
	free(why);
	return code;
}
