/*
 * A recording of an agent that speaks ACP: what was said over its stdin and stdout, and when. A
 * line of the file is {"t": ms, "dir": "c2a" | "a2c" | "ctl", "proc": n, "line": the raw line};
 * `ctl` has an "event" instead, of which "exit" matters. One process of it is loaded, as a list of
 * steps in their order. Lines of the file that are no such object (a recorder that was killed
 * leaves half of one) are counted and left out; a raw line that is no message is a step like any
 * other.
 */
#ifndef HOLDFAST_REPLAY_AGENT_RECORDING_H
#define HOLDFAST_REPLAY_AGENT_RECORDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum replay_step_kind {
	REPLAY_CLIENT_REQUEST,
	REPLAY_CLIENT_ANSWER, /* to a request of the agent */
	REPLAY_CLIENT_OTHER, /* a notification, or no message */
	REPLAY_AGENT_REQUEST,
	REPLAY_AGENT_ANSWER, /* to a request of the client */
	REPLAY_AGENT_OTHER,
	REPLAY_EXIT,
};

struct replay_step {
	enum replay_step_kind kind;
	json_int_t proc;
	double at_ms;
	char *line; /* without its newline */
	size_t len;
	json_t *id; /* as recorded, or NULL */
	char *method; /* or NULL */
	char *session; /* whom it is about: from the params, or session/new's result; or NULL */
	struct replay_step *peer; /* of a request its answer, of an answer its request; or NULL */
	int exit_code;
	int exit_signal; /* 0 if it was a code */
	/* While it is played. */
	json_t *client_id; /* of a client's request: the id of the one that takes its place */
	bool is_open; /* a request, or a cancel, that has been made */
	bool is_answered;
	bool is_dropped; /* not said: its turn was cancelled, or it is about a command */
};

struct replay_recording {
	struct replay_step *steps;
	size_t count;
	size_t capacity;
	size_t bad_lines; /* of the file */
};

/**
 * Loads process `proc` of the file, or, if that is 0, the first one that has a prompt (else
 * the first one). Returns 0;
 * -ENODATA if there is no such process, -EFBIG if the file is larger than anyone has use for, or
 * the error of reading it.
 */
int replay_recording_load(struct replay_recording *recording, const char *path, long proc);
/** The recorded agent's requests about terminals will not be made. */
void replay_recording_drop_commands(struct replay_recording *recording);
void replay_recording_finish(struct replay_recording *recording);

/** Whether the step is a request of this method. */
bool replay_step_is(const struct replay_step *step, const char *method);
/** Whether the step is of the session, or of none. */
bool replay_step_is_of(const struct replay_step *step, const char *session);

#endif
