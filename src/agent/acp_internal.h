/*
 * Private to src/agent: the parts an acp_agent is made of. From the outside in: the child process
 * and its pipes (acp_process), lines and JSON-RPC (acp_rpc), what the agent tells (acp_updates),
 * what it asks for (acp_requests, acp_files), and what is only for our diagnostics (acp_diag).
 */
#ifndef HOLDFAST_ACP_INTERNAL_H
#define HOLDFAST_ACP_INTERNAL_H

#include "holdfast/acp_agent.h"
#include "holdfast/buffer.h"
#include "holdfast/list.h"

#include <stdint.h>

/* acp_rpc.c: lines */

/*
 * Cuts a stream of bytes into lines. Holds at most line_max bytes of an unfinished line and what
 * one push brought; the rest of a longer line is thrown away as it comes.
 */
struct acp_lines {
	struct buffer bytes;
	size_t start; /* of the first line not yet given out */
	size_t scanned; /* there is no newline between start and here */
	size_t line_max;
	bool skipping; /* inside a line that was too long */
};

enum acp_line {
	ACP_LINE_NONE, /* push more */
	ACP_LINE_READY,
	ACP_LINE_TOO_LONG, /* told once for each such line */
};

void acp_lines_init(struct acp_lines *l, size_t line_max);
void acp_lines_finish(struct acp_lines *l);
void acp_lines_push(struct acp_lines *l, const char *bytes, size_t len);
/** The next line without its end (LF or CRLF); lent, and may be written to, until the next push. */
enum acp_line acp_lines_next(struct acp_lines *l, char **ret_line, size_t *ret_len);

/* acp_rpc.c: JSON-RPC 2.0 */

enum {
	ACP_ERROR_INVALID_PARAMS = -32602,
	ACP_ERROR_METHOD_NOT_FOUND = -32601,
	ACP_ERROR_INTERNAL = -32603,
	ACP_ERROR_NOT_FOUND = -32002,
};

enum acp_message {
	ACP_MESSAGE_INVALID,
	ACP_MESSAGE_REQUEST,
	ACP_MESSAGE_NOTIFICATION,
	ACP_MESSAGE_RESPONSE,
};

/** The length of the UTF-8 sequence at `text` (1 to 4), or 0 if there is no valid one. */
size_t acp_utf8_length(const char *text, size_t len);
/** The longest prefix of valid UTF-8 that is no longer than `max` and cuts no character. */
size_t acp_utf8_prefix(const char *text, size_t len, size_t max);
/**
 * Parses a line, which may be changed by it. What C strings or jansson cannot hold is replaced
 * rather than losing the message: the escape of NUL and of a lone surrogate and invalid UTF-8 by
 * U+FFFD, integers over 64 bits by reals, reals out of range by null. NULL if it is no JSON object
 * or array, with the reason in ret_error.
 */
json_t *acp_rpc_parse(char *line, size_t len, json_error_t *ret_error);
enum acp_message acp_rpc_classify(const json_t *message);
/** Append a whole message with its newline; `params` and `result` are taken, `id` is borrowed. */
void acp_rpc_request(struct buffer *out, json_int_t id, const char *method, json_t *params);
void acp_rpc_notification(struct buffer *out, const char *method, json_t *params);
void acp_rpc_result(struct buffer *out, const json_t *id, json_t *result);
void acp_rpc_error(struct buffer *out, const json_t *id, int code, const char *message);
/** Appends a value as JSON, all of it in ASCII. */
void acp_rpc_encode(struct buffer *out, const json_t *value);
/** Appends what an error object says, in words, bounded. */
void acp_rpc_describe_error(struct buffer *out, const json_t *error);

/* acp_updates.c: pure translation to Holdfast's names */

/**
 * Reports one update (params.update of session/update) through ops->text or ops->event. Returns 0,
 * or 1 if there was nothing to report (an empty chunk, the echo of a prompt), or -EINVAL with the
 * reason in *ret_why.
 */
int acp_update_report(
	const json_t *update, const struct acp_agent_ops *ops, void *owner, const char **ret_why);
/** The data of a permission_request, a new reference; NULL with the reason in *ret_why. */
json_t *acp_update_permission(const json_t *params, const char *request_id, const char **ret_why);
/**
 * The data of a usage event from a prompt's result, a new reference; NULL if it holds no number.
 */
json_t *acp_update_usage(const json_t *usage);

/* acp_diag.c: the agent's words in our diagnostics */

/* How many lines of one kind were let through in the current minute. */
struct acp_rate {
	uint64_t window_ms;
	unsigned count;
	unsigned dropped;
};

struct acp_stderr {
	struct buffer line;
	struct acp_rate rate;
};

/** Whether one more line may go out; *ret_dropped is how many were dropped in the minute before. */
bool acp_rate_take(struct acp_rate *r, unsigned per_minute, uint64_t now_ms, unsigned *ret_dropped);
/**
 * Appends text made fit for a terminal: no escape sequences, no control characters, valid UTF-8.
 */
void acp_diag_clean(struct buffer *out, const char *text, size_t len);
/** Prints what the agent wrote to its stderr, line by line. */
void acp_stderr_push(struct acp_stderr *e, const char *session_id, const char *bytes, size_t len,
	uint64_t now_ms);
/** Prints an unfinished last line and how many lines were dropped, and forgets all. */
void acp_stderr_finish(struct acp_stderr *e, const char *session_id);

/* acp_process.c */

/*
 * A child with three pipes in a process group of its own. It frees itself after closed(), which
 * comes exactly once for each acp_process_spawn(), also for one that failed. The program must
 * ignore SIGPIPE.
 */
struct acp_process;

struct acp_process_ops {
	void (*output)(void *owner, const char *bytes, size_t len);
	void (*errors)(void *owner, const char *bytes, size_t len);
	/**
	 * It has exited and all its output was given. The owner calls acp_process_end() some time.
	 */
	void (*finished)(void *owner, int64_t exit_status, int term_signal);
	void (*closed)(void *owner);
};

struct acp_process_config {
	const char *command;
	const char *cwd;
	int stop_grace_ms;
};

int acp_process_spawn(uv_loop_t *loop, const struct acp_process_config *config,
	const struct acp_process_ops *ops, void *owner, struct acp_process **ret_process);
/**
 * Queues bytes for its stdin and takes them. -ENOBUFS if it has left too much unread; a child that
 * is gone swallows them.
 */
int acp_process_write(struct acp_process *p, struct buffer *bytes);
void acp_process_pause(struct acp_process *p, bool paused);
/**
 * Ends the group: stdin closed, SIGTERM, SIGKILL after the grace. Only errors() and closed()
 * follow.
 */
void acp_process_end(struct acp_process *p);

/* acp_files.c */

/* One fs/read_text_file or fs/write_text_file, done on the thread pool. */
struct acp_file_job {
	uv_work_t work;
	bool write;
	char *root;
	char *path; /* as the agent named it */
	json_int_t line; /* read: first line, from 1 */
	json_int_t limit; /* read: number of lines; 0: all */
	size_t file_max;
	json_t *id; /* of the request */
	unsigned long start_id; /* which child asked */
	json_t *content; /* write: a string; only its bytes are touched off the loop */
	/* The outcome: */
	int code; /* 0, or a JSON-RPC error code */
	struct buffer text; /* why it was refused, or (read) the content as a JSON string */
	char *relative; /* the path below root */
	size_t size; /* bytes read or written */
	void (*done)(struct acp_file_job *job);
	void *owner;
};

/** Makes the job for a request; NULL with the reason in *ret_why if the parameters do not fit. */
struct acp_file_job *acp_file_job_create(bool write, const json_t *params, const char **ret_why);
/** Accepts NULL. */
void acp_file_job_destroy(struct acp_file_job *job);
/** Does the work; done() is called on the loop, even if it could not be queued (then from here). */
void acp_file_job_run(struct acp_file_job *job, uv_loop_t *loop);

/* acp_agent.c (its life), acp_session.c (what is said), acp_requests.c (what it asks for) */

enum acp_stage { ACP_IDLE, ACP_INITIALIZING, ACP_NEW_SESSION, ACP_READY };

/* A question (session/request_permission) that was not answered yet. */
struct acp_question {
	struct list link;
	char *request_id;
	json_t *id;
};

struct acp_agent {
	uv_loop_t *loop;
	char *command;
	char *cwd;
	char *session_id;
	size_t file_max;
	int stop_grace_ms;
	int cancel_grace_ms;
	int start_timeout_ms;
	const struct acp_agent_ops *ops;
	void *owner;

	/* The child that is spoken with, if any. */
	enum acp_stage stage;
	struct acp_process *process;
	struct acp_lines lines;
	struct acp_stderr errors;
	struct acp_rate noise; /* reports of lines that could not be used */
	json_int_t last_id; /* of our requests; the awaited answer has this one */
	json_t *info; /* what started() will say */
	char *agent_session_id;
	json_t *last_usage; /* data of the last usage event of a prompt's result */
	json_t *early; /* params of updates that came before session/new was answered */
	size_t early_bytes;
	struct list questions;
	size_t question_count;
	unsigned long start_id; /* counts the children */
	uint64_t start_ms; /* since 1970 */
	bool exited; /* and all its output was pushed into `lines` */
	int64_t exit_status;
	int term_signal;

	/* The prompt. */
	bool prompting;
	json_t *prompt; /* its text while it is not sent */
	bool cancelling; /* session/cancel was sent */

	unsigned processes; /* that are not closed yet, the one above among them */
	unsigned long asked; /* questions ever, for their names */
	struct acp_file_job *job;
	bool paused;
	bool draining;
	/* Found out where no op may be called; told by the wake timer. */
	int spawn_error;
	bool overflowed;
	bool cancelled_unsent;
	uv_timer_t wake;
	uv_timer_t deadline; /* of the start or of a cancelled turn */

	bool destroying;
	unsigned open_timers;
	void (*freed)(void *arg);
	void *freed_arg;
};

/**
 * Sends and empties `message`; an agent that does not read is stopped at the next turn of the loop.
 */
void acp_agent_send(struct acp_agent *agent, struct buffer *message);
/** Lets the loop call again soon, outside of the owner's calls, to say what is left to say. */
void acp_agent_wake(struct acp_agent *agent);
void acp_agent_end_turn(struct acp_agent *agent, const char *stop_reason, const char *message);
/** Ends the child and with it the prompt, and tells. */
void acp_agent_stop_child(struct acp_agent *agent, const char *reason, const char *detail);
/** Frees the agent if it is being destroyed and nothing is left open. */
void acp_agent_free_if_done(struct acp_agent *agent);

void acp_agent_send_initialize(struct acp_agent *agent);
void acp_agent_send_prompt(struct acp_agent *agent);
void acp_agent_send_cancel(struct acp_agent *agent);
void acp_agent_handle_line(struct acp_agent *agent, char *line, size_t len);
/** Reports something the agent said that could not be used; rate-limited. */
void acp_agent_report_noise(
	struct acp_agent *agent, const char *what, const char *text, size_t len);

void acp_agent_handle_request(
	struct acp_agent *agent, const char *method, const json_t *id, const json_t *params);
/** $/cancel_request */
void acp_agent_handle_withdrawal(struct acp_agent *agent, const json_t *params);
/** Answers all open questions with `cancelled` if the child can still hear, and forgets them. */
void acp_agent_cancel_questions(struct acp_agent *agent);
void acp_agent_forget_questions(struct acp_agent *agent);

#endif
