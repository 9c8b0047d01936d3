/* The options of serve that name the agents: --agent and --agents. */
#include "config_internal.h"

#include "holdfast/beneath.h"
#include "holdfast/buffer.h"
#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)1024 * 1024)

/** Reads the file of --agents. Returns 0, or a negative errno after reporting the error. */
static int read_file(const char *path, struct buffer *ret)
{
	struct stat st;
	int fd = open_named(path, O_RDONLY | O_NONBLOCK, 0);
	int err = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
	const char *fault = err < 0                         ? strerror(-err)
			    : !S_ISREG(st.st_mode)          ? "it is not a regular file"
			    : (size_t)st.st_size > FILE_MAX ? "it is larger than 1 MiB"
							    : NULL;
	ssize_t n = 1;
	while (!fault && n > 0 && ret->len <= FILE_MAX) {
		buffer_reserve(ret, 65536);
		n = read(fd, ret->data + ret->len, 65536);
		ret->len += n > 0 ? (size_t)n : 0;
		fault = n < 0 ? strerror(errno) : NULL;
	}
	if (fd >= 0) {
		close(fd);
	}
	return fault ? options_refuse(&config_options[AGENTS], path, fault) : 0;
}

static int take_file(struct config *config, const char *path)
{
	struct buffer text = {0};
	char *why = NULL;
	int r = read_file(path, &text);
	if (r == 0 && agent_list_read(&config->agents, buffer_cstr(&text), text.len, config->cwd,
			      &why) < 0) {
		r = options_refuse(&config_options[AGENTS], path, why);
	}
	free(why);
	buffer_finish(&text);
	return r;
}

int config_take_agents(struct config *config, const char *command, const char *file)
{
	if (command && !command[strspn(command, " \t\r\n")]) {
		return options_refuse(&config_options[AGENT], command,
			"give a command, or leave the option out; then sessions take no prompts");
	}
	if (command && file) {
		return options_refuse(&config_options[AGENTS], file,
			"--agent and --agents exclude each other: put the command into the file");
	}
	if (command) {
		agent_list_make(&config->agents, command, config->cwd);
	}
	return file ? take_file(config, file) : 0;
}
