#include "agent_command.h"

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLANKS " \t\r\n"
/* The shell interprets these, so a word with one of them cannot be judged. */
#define SHELL_SIGNS "'\"`$\\;&|<>()*?[]{}#~=!"

/** Whether the word is a keyword or builtin of the shell. */
static bool is_of_shell(const char *word)
{
	static const char *const words[] = {".", ":", "alias", "case", "cd", "command", "eval",
		"exec", "export", "for", "if", "set", "shift", "time", "trap", "ulimit", "umask",
		"unset", "until", "wait", "while"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], word) == 0) {
			return true;
		}
	}
	return false;
}

static bool is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static const char *find_variable(char *const *env, const char *name)
{
	size_t len = strlen(name);
	for (; env && *env; env++) {
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=') {
			return *env + len + 1;
		}
	}
	return NULL;
}

static bool is_in_path(const char *word, const char *cwd, const char *path)
{
	bool found = false;
	for (const char *at = path; at && !found;) {
		size_t len = strcspn(at, ":");
		char *file = len == 0 || *at != '/' ? xprintf("%s/%.*s/%s", cwd, (int)len, at, word)
						    : xprintf("%.*s/%s", (int)len, at, word);
		found = is_program(file);
		free(file);
		at = at[len] ? at + len + 1 : NULL;
	}
	return found;
}

char *agent_command_fault(const char *command, const char *cwd, char *const *env)
{
	command += strspn(command, BLANKS);
	char *word = xstrndup(command, strcspn(command, BLANKS));
	const char *path = find_variable(env, "PATH");
	char *why = NULL;
	if (!*word || strpbrk(word, SHELL_SIGNS) || is_of_shell(word)) {
		/* it cannot be told */
	} else if (strchr(word, '/')) {
		char *file =
			xprintf("%s%s%s", *word == '/' ? "" : cwd, *word == '/' ? "" : "/", word);
		why = is_program(file)
			      ? NULL
			      : xprintf("%s is not an executable program: install it, or correct its path",
					word);
		free(file);
	} else if (path && !is_in_path(word, cwd, path)) {
		why = xprintf(
			"the program \"%s\" is not in the server's PATH: install it, or give its full path",
			word);
	}
	free(word);
	return why;
}
