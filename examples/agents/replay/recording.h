/*
 * A recording of an ACP agent: what was said over its stdin and stdout, and when. A line of the
 * file is {"t": ms, "dir": "c2a" | "a2c" | "ctl", "proc": n, "line": the raw line}; `ctl` lines
 * have an "event" instead, of which only "exit" matters. One recorded process is loaded, as a list
 * of steps in order. Lines of the file that are not such an object (a recorder that was killed
 * leaves an incomplete one) are counted and skipped; a raw line that is not a message is a step
 * like any other.
 */
#ifndef HOLDFAST_REPLAY_AGENT_RECORDING_H
#define HOLDFAST_REPLAY_AGENT_RECORDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum replay_step_kind {
	REPLAY_CLIENT_REQUEST,
	REPLAY_CLIENT_ANSWER, /* response to a request of the agent */
	REPLAY_CLIENT_OTHER, /* a notification, or not a message */
	REPLAY_AGENT_REQUEST,
	REPLAY_AGENT_ANSWER, /* response to a request of the client */
	REPLAY_AGENT_OTHER,
	REPLAY_EXIT,
};

struct replay_step {
	enum replay_step_kind kind;
	json_int_t proc;
	double at_ms;
	char *line; /* without its newline */
	size_t len;
	size_t json; /* where its message begins: behind noise, see json_lines.h */
	size_t json_len;
	json_t *id; /* as recorded; NULL: none */
	char *method; /* NULL: none */
	char *session; /* its sessionId, from the params or the result of session/new; NULL: none */
	/* the answer to a request, or the request of an answer; NULL: none */
	struct replay_step *peer;
	int exit_code;
	int exit_signal; /* 0: it exited with exit_code */
	/* Set while it is played. */
	json_t *client_id; /* of a client's request: the id that this client used */
	bool is_open; /* the request, or the cancel, has been sent */
	bool is_answered;
	bool is_dropped; /* left out: its turn was cancelled, or it is about a command */
};

struct replay_recording {
	struct replay_step *steps;
	size_t count;
	size_t capacity;
	size_t bad_lines; /* of the file */
};

/**
 * Loads process `proc` of the file, or, if that is 0, the first one with a prompt (or else the
 * first one). Returns 0, -ENODATA if there is no such process, -EFBIG if the file is larger than 1
 * GiB, or the error of reading it.
 */
int replay_recording_load(struct replay_recording *recording, const char *path, long proc);
/** Leaves out the recorded agent's requests about terminals. */
void replay_recording_drop_commands(struct replay_recording *recording);
void replay_recording_finish(struct replay_recording *recording);

/** Whether the step is a request of the client with this method. */
bool replay_step_is(const struct replay_step *step, const char *method);
/** Whether the step belongs to the session, or to none. */
bool replay_step_is_of(const struct replay_step *step, const char *session);

#endif
