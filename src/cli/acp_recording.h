/*
 * Writes the file that holdfast acp-record makes and holdfast-replay-agent plays. Each line is a
 * JSON object: {"t": ms, "dir": "c2a" | "a2c", "proc": n, "line": the raw line}, or with "dir":
 * "ctl" an "event": "spawn", or "exit" with "code" or "signal". Several processes can append to the
 * same file; each has a number of its own.
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
	bool failed; /* a write has failed, and that has been reported */
};

/**
 * Opens the file, or acp-TIME-PID.jsonl if `path` is NULL. Returns 0, or a negative errno after
 * reporting the error.
 */
int acp_recording_open(struct acp_recording *recording, const char *path);
void acp_recording_close(struct acp_recording *recording);
/** Takes the next process number in the file, and records the start of the agent. */
void acp_recording_spawn(struct acp_recording *recording);
/** Records the end of the agent; `status` is that of waitpid(). */
void acp_recording_exit(struct acp_recording *recording, int status);
/** Records a line, which comes without its newline. Invalid UTF-8 in it becomes U+FFFD. */
void acp_recording_line(
	struct acp_recording *recording, const char *dir, const char *line, size_t len);

#endif
