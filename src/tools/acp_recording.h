/*
 * The file that holdfast acp-record writes and holdfast-replay-agent plays, a JSON object a line:
 * {"t": ms, "dir": "c2a" | "a2c", "proc": n, "line": the raw line}, and with "dir": "ctl" an
 * "event": "spawn", or "exit" with its "code" or its "signal". Several processes may write to it at
 * once; each has its own number.
 */
#ifndef HOLDFAST_ACP_RECORDING_H
#define HOLDFAST_ACP_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct acp_recording {
	int fd;
	char *path;
	unsigned long proc;
	int64_t begin_us;
	bool failed; /* and that was said */
};

/** Opens the file, or one of the default name if `path` is NULL; says what is wrong. */
int acp_recording_open(struct acp_recording *recording, const char *path);
void acp_recording_close(struct acp_recording *recording);
void acp_recording_spawn(struct acp_recording *recording);
/** `status` is as waitpid() has it. */
void acp_recording_exit(struct acp_recording *recording, int status);
/** One line without its newline. What is no UTF-8 in it is written as U+FFFD. */
void acp_recording_line(
	struct acp_recording *recording, const char *dir, const char *line, size_t len);

#endif
