/*
 * Private to src/agent: the parts an acp_agent is made of. From the outside in: the child process
 * and its pipes (acp_process), lines and JSON-RPC (acp_rpc), what the agent tells (acp_updates),
 * what it asks for (acp_requests, acp_files with acp_paths and acp_diff, acp_terminals with
 * acp_output), and what is only for our diagnostics (acp_diag).
 */
#ifndef HOLDFAST_ACP_INTERNAL_H
#define HOLDFAST_ACP_INTERNAL_H

#include "holdfast/acp_agent.h"
#include "holdfast/buffer.h"
#include "holdfast/json_text.h"
#include "holdfast/list.h"

#include <stdint.h>

/* acp_lines.c */

/*
 * Cuts a stream of bytes into lines. Holds at most line_max bytes of an unfinished line and what
 * one push brought; of a longer line only the two ends are kept, which tell what it was.
 */
struct acp_lines {
	struct buffer bytes;
	size_t start; /* of the first line not yet given out */
	size_t scanned; /* there is no newline between start and here */
	size_t line_max;
	bool skipping; /* inside a line that was too long */
	bool skipped; /* it has ended, and that was not told yet */
	bool too_deep; /* it was not too long, but JSON that nests too deep */
	struct buffer head; /* of that line */
	struct buffer tail;
};

enum acp_line {
	ACP_LINE_NONE, /* push more */
	ACP_LINE_READY,
	/* Told once for each such line, before it has ended; also of JSON that nests too deep. */
	ACP_LINE_TOO_LONG,
	ACP_LINE_SKIPPED, /* it has ended: acp_lines_peek() */
};

void acp_lines_init(struct acp_lines *l, size_t line_max);
void acp_lines_finish(struct acp_lines *l);
void acp_lines_push(struct acp_lines *l, const char *bytes, size_t len);
/** The next line without its end (LF or CRLF); lent, and may be written to, until the next push. */
enum acp_line acp_lines_next(struct acp_lines *l, char **ret_line, size_t *ret_len);
/**
 * What can be seen of the skipped line: an object with its "id" and its "method" as far as they
 * stand where messages have them; new reference.
 */
json_t *acp_lines_peek(const struct acp_lines *l);

/* acp_rpc.c: JSON-RPC 2.0 */

enum {
	ACP_ERROR_REQUEST_CANCELLED = -32800,
	ACP_ERROR_AUTH_REQUIRED = -32000,
	ACP_ERROR_INVALID_REQUEST = -32600,
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
 * Parses a line, which may be changed by it. What C strings cannot hold is replaced rather than
 * losing the message: the escape of NUL and of a lone surrogate and invalid UTF-8 by U+FFFD.
 * `numbers` as in json_read(). NULL if it is no JSON object or array, with the reason in ret_error.
 */
json_t *acp_rpc_parse(
	char *line, size_t len, struct json_numbers *numbers, json_error_t *ret_error);
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
/** A copy with our names; shares what needs no renaming. New reference. */
json_t *acp_update_rename(const json_t *value);
/** The data of a permission_request, a new reference; NULL with the reason in *ret_why. */
json_t *acp_update_permission(const json_t *params, const char *request_id, const char **ret_why);
/**
 * The data of a usage event from a prompt's result, a new reference; NULL if it holds no number.
 */
json_t *acp_update_usage(const json_t *usage);
/**
 * The data of usage events, for each model one, that gemini's quota in the _meta of a prompt's
 * result makes: an array, empty if there is none. New reference.
 */
json_t *acp_update_quota(const json_t *result);

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
	const char *command; /* run by /bin/sh -c */
	char **args; /* or, if not NULL: the program and its arguments, ended by NULL */
	char **env; /* NULL: ours */
	/* It reads nothing, and its stderr comes with its stdout, in order. */
	bool one_output;
	const char *cwd;
	int stop_grace_ms;
	const char *guard; /* the program of agent_guard.h; NULL: none */
	size_t descriptors_kept; /* it is not started if it would leave fewer: -EMFILE */
};

int acp_process_spawn(uv_loop_t *loop, const struct acp_process_config *config,
	const struct acp_process_ops *ops, void *owner, struct acp_process **ret_process);
/**
 * Queues bytes for its stdin and takes them. -ENOBUFS if it has left too much unread; a child that
 * is gone swallows them.
 */
int acp_process_write(struct acp_process *p, struct buffer *bytes);
void acp_process_pause(struct acp_process *p, bool paused);
/** Ends the group as acp_process_end() does, but what it still says is heard, and finished(). */
void acp_process_terminate(struct acp_process *p);
/**
 * Ends the group: stdin closed, SIGTERM, SIGKILL after the grace. Only errors() and closed()
 * follow.
 */
void acp_process_end(struct acp_process *p);
/** The same with SIGKILL at once. */
void acp_process_kill(struct acp_process *p);

/* acp_paths.c: what an agent names, opened so that it cannot lead out of its directory */

/**
 * Opens the directory that holds, or shall hold, the file `path` below root (directories are made
 * where they are missing), with the file's name there (caller frees). A symlink that stays below
 * root is followed. -1 and errno; EXDEV as above, EISDIR if `path` can be no file's.
 */
int acp_open_parent(int root, const char *path, char **ret_name);

/* acp_diff.c */

/**
 * Appends hunks of a unified diff, of at most about `max` bytes. False if that is not all of it:
 * the last hunk is cut then, or there is none.
 */
bool acp_diff(struct buffer *out, const struct buffer *old, const struct buffer *new, size_t max);

/* acp_files.c */

/* One fs/read_text_file or fs/write_text_file. */
struct acp_file_job {
	bool write;
	char *root;
	char *path; /* as the agent named it */
	json_int_t line; /* read: first line, from 1 */
	json_int_t limit; /* read: number of lines; 0: all */
	size_t file_max;
	size_t names_max; /* a file with more hard links is refused: one may be outside of root */
	json_t *id; /* of the request */
	unsigned long start_id; /* which child asked */
	json_t *content; /* write: a string */
	/* The outcome: */
	int code; /* 0, or a JSON-RPC error code */
	struct buffer text; /* why it was refused, or (read) the content as a JSON string */
	char *relative; /* the path below root */
	size_t size; /* bytes read or written */
	bool created; /* write: there was no such file */
	bool has_diff; /* write: `diff` says what has changed, or the first part of it */
	bool diff_cut;
	struct buffer diff;
	void (*done)(struct acp_file_job *job);
	void *owner;
};

/** Makes the job for a request; NULL with the reason in *ret_why if the parameters do not fit. */
struct acp_file_job *acp_file_job_create(bool write, const json_t *params, const char **ret_why);
/** Accepts NULL. */
void acp_file_job_destroy(struct acp_file_job *job);
/** Does the work, however long that takes: in the process of agent_files.h. */
void acp_file_job_work(struct acp_file_job *job);

/* acp_worker.c: has it done there */

#define ACP_FILE_FRAME_HEAD 8

/** The length of the frame behind its head. */
size_t acp_file_frame_len(const char head[ACP_FILE_FRAME_HEAD]);
/** The job of a frame without its head; NULL if it is none. */
struct acp_file_job *acp_file_job_unpack(const char *bytes, size_t len);
/** Appends a frame with the outcome. */
void acp_file_job_pack_outcome(const struct acp_file_job *job, struct buffer *out);

/* acp_output.c: what a terminal's command has put out */

struct acp_output {
	size_t kept_max;
	struct buffer kept; /* the newest bytes, up to three times kept_max */
	bool truncated; /* something was dropped from `kept` */
	struct buffer untold;
	size_t told; /* bytes */
	uint64_t total; /* bytes */
};

/**
 * Appends bytes as text that an event can hold: what is no UTF-8, and NUL, becomes U+FFFD. A
 * character that is not whole yet is left, unless these are the last bytes. Returns how many bytes
 * were used.
 */
size_t acp_text_fit(struct buffer *out, const char *bytes, size_t len, bool last);
void acp_output_init(struct acp_output *o, size_t kept_max);
void acp_output_finish(struct acp_output *o);
void acp_output_push(struct acp_output *o, const char *bytes, size_t len);
/** The newest kept_max bytes; new reference. */
json_t *acp_output_kept(struct acp_output *o);
/**
 * What is to be told next, from *ret_offset on; new reference. NULL if there is nothing, or if
 * enough was told.
 */
json_t *acp_output_tell(struct acp_output *o, bool last, uint64_t *ret_offset);
/** The last words of more than could be told, in the end; NULL if all was told. */
json_t *acp_output_tail(struct acp_output *o, uint64_t *ret_offset);

#define ACP_STATE_COUNT 6 /* kinds of state, see acp_state.c */

/* acp_agent.c (its life), acp_session.c (what is said), acp_requests.c (what it asks for) */

enum acp_stage {
	ACP_IDLE,
	ACP_INITIALIZING,
	ACP_RESUMING, /* session/resume was sent */
	ACP_RECALLING, /* the owner reads what the log has */
	ACP_LOADING, /* session/load was sent */
	ACP_SETTLING, /* and answered, but some tell more of the history behind that */
	ACP_NEW_SESSION,
	ACP_READY,
};

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
	size_t file_names_max;
	char **env; /* borrowed; NULL: ours */
	size_t descriptors_kept;
	char *guard;
	int stop_grace_ms;
	int cancel_grace_ms;
	int start_timeout_ms;
	int restart_delay_ms;
	int idle_ms;
	int resumable_idle_ms;
	int lull_ms;
	struct json_numbers *numbers; /* the owner's; may be NULL */
	const struct acp_agent_ops *ops;
	void *owner;

	/* The child that is spoken with, if any. */
	enum acp_stage stage;
	struct acp_process *process;
	struct acp_lines lines;
	struct acp_stderr errors;
	struct acp_rate noise; /* reports of lines that could not be used */
	json_int_t last_id; /* of our requests */
	json_int_t awaited_id; /* of the one for the stage or the prompt */
	json_t *info; /* what started() will say */
	char *agent_session_id;
	json_t *early; /* params of updates that came before session/new was answered */
	size_t early_bytes;
	json_t *auth_methods; /* of initialize */
	bool can_resume;
	bool can_load;
	struct acp_firewall *firewall; /* while it tells its history */
	json_t *loaded; /* the answer to session/load */
	uint64_t loaded_at; /* ms of the loop */
	uint64_t replayed_at; /* the newest update of the history */
	json_t *metas; /* of chunks, to be told behind the text that they came with */
	uint64_t told_states[ACP_STATE_COUNT]; /* what the newest of each kind hashes to */
	struct list wishes; /* see acp_settings.c */
	size_t wish_count;
	struct list questions;
	size_t question_count;
	size_t questions_max;
	unsigned long start_id; /* counts the children */
	uint64_t start_ms; /* since 1970 */
	bool exited; /* and all its output was pushed into `lines` */
	int64_t exit_status;
	int term_signal;

	/* The prompt. */
	bool prompting;
	json_t *prompt; /* its text while it is not sent */
	bool cancelling; /* session/cancel was sent */
	bool late; /* something was said outside of a prompt */

	/* Terminals: those that are not released yet, and all whose command is not gone yet. */
	struct list terminals;
	size_t terminal_count;
	size_t terminals_open;
	size_t terminals_max;
	unsigned long terminals_made; /* ever, for their names */
	uv_timer_t tell; /* what they have put out */

	unsigned processes; /* that are not closed yet, the one above among them */
	unsigned long asked; /* questions ever, for their names */
	/* Its file request, and the process that does it: see acp_worker.c. */
	struct acp_file_job *job;
	char *files_program; /* NULL: none can be done */
	int file_ms;
	struct acp_process *file_process;
	bool file_process_open; /* that one, or one before it, is not gone yet */
	struct buffer file_reply;
	uv_timer_t file_timer;
	bool paused;
	bool draining;
	/* Starts, and how they went. */
	unsigned failures; /* in a row, without a turn that was answered */
	bool rested; /* the delay before the next start is over */
	bool delay_untold;
	unsigned resume_failures; /* in a row: children that did not survive going on */
	uv_timer_t rest; /* before a start; or, with nothing to do, until the child is stopped */
	/* Found out where no op may be called; told by the wake timer. */
	int spawn_error;
	bool overflowed;
	bool cancelled_unsent;
	uv_timer_t wake;
	uv_timer_t deadline; /* of the start, of a cancelled turn, or of a lull */

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
/** The deadline is in so many ms: of the start, of a cancelled turn, of history, or of a lull. */
void acp_agent_await(struct acp_agent *agent, int ms);
/** There is nothing to do now: after a while the child is stopped, if it is to be. */
void acp_agent_await_idle(struct acp_agent *agent);
/** Something was reported: outside of a prompt, its end is looked out for. */
void acp_agent_note_late(struct acp_agent *agent);
/** Ends the child and with it the prompt, and tells. */
void acp_agent_stop_child(struct acp_agent *agent, const char *reason, const char *detail);
/** Frees the agent if it is being destroyed and nothing is left open. */
void acp_agent_free_if_done(struct acp_agent *agent);

void acp_agent_send_initialize(struct acp_agent *agent);
void acp_agent_send_new_session(struct acp_agent *agent);
/** For the stage or the prompt; takes over `params`. */
void acp_agent_send_request(struct acp_agent *agent, const char *method, json_t *params);
/** The child has a session: takes the name, and tells. `result` is what it answered. */
void acp_agent_begin(struct acp_agent *agent, const char *agent_session_id, const json_t *result);
/** After that: what came early is told, and the prompt that waits is sent. */
void acp_agent_begun(struct acp_agent *agent);
void acp_agent_send_prompt(struct acp_agent *agent);
void acp_agent_send_cancel(struct acp_agent *agent);
void acp_agent_handle_line(struct acp_agent *agent, char *line, size_t len);
/** Reports something the agent said that could not be used; rate-limited. */
void acp_agent_report_noise(
	struct acp_agent *agent, const char *what, const char *text, size_t len);

/* acp_state.c: what is told beside the conversation itself */

/** Whether an update of this kind tells the state of the session: the newest one stands. */
bool acp_agent_is_state(const char *kind);
/**
 * Whether the newest state of the type (x-acp-…) was told just so, by this child or one before it;
 * remembers it if not.
 */
bool acp_agent_is_known_state(struct acp_agent *agent, const char *type, const json_t *data);
/** Tells an update if it is of that kind and not known; false if it is of another kind. */
bool acp_agent_tell_state(struct acp_agent *agent, const json_t *update);
/** The modes, models and options that the answer to session/new has. */
void acp_agent_tell_session(struct acp_agent *agent, const json_t *result);
/** The options that an answer has, if they are not known. */
void acp_agent_tell_options(struct acp_agent *agent, const json_t *result);
/** Keeps the _meta of a chunk or of a prompt's result, if it has one. */
void acp_agent_keep_meta(struct acp_agent *agent, const char *of, const json_t *from);
void acp_agent_tell_metas(struct acp_agent *agent);
/** Appends what can be done about an error, if it is known. */
void acp_agent_advise(struct acp_agent *agent, struct buffer *words, const json_t *error);
/** A line that was too long has ended: who waits for it hears why nothing comes. */
void acp_agent_handle_skipped(struct acp_agent *agent);

/* acp_settings.c: what clients wish to be set */

/** The session has begun: what waited for it is asked for. */
void acp_agent_send_wishes(struct acp_agent *agent);
/** The child is gone: what it was asked for is refused; of a destroyed agent all is forgotten. */
void acp_agent_drop_wishes(struct acp_agent *agent);
/** Whether this answers one of them. */
bool acp_agent_handle_set(struct acp_agent *agent, const json_t *message);

/* acp_resume.c: going on with the session that a child before had */

/** What initialize says of that. */
void acp_resume_read(struct acp_agent *agent, const json_t *result);
/** Goes on with an earlier session, or begins a new one. */
void acp_resume_begin(struct acp_agent *agent);
/** Whether an update was of the history, and is taken. */
bool acp_resume_take(
	struct acp_agent *agent, const json_t *update, const json_t *params, size_t line_len);
/** The answer to session/resume or session/load; `error` NULL: it is `result`. */
void acp_resume_handle_answer(struct acp_agent *agent, const json_t *result, const json_t *error);
/** The deadline has come, while history may still be told. */
void acp_resume_settle(struct acp_agent *agent);
/** Forgets all of it. */
void acp_resume_finish(struct acp_agent *agent);

/** Some send updates before the answer that names the session: they are told after started(). */
void acp_agent_keep_early(struct acp_agent *agent, const json_t *params, size_t line_len);
/** The answer to our request, with an error instead of what it brought. */
void acp_agent_handle_response(struct acp_agent *agent, const json_t *message);
/** Has a job done, which is the agent's until its done() is called, some time or from in here. */
void acp_agent_do_file(struct acp_agent *agent, struct acp_file_job *job);
/** Lets go of the process; it finishes the job that it has. */
void acp_agent_stop_files(struct acp_agent *agent);
void acp_agent_handle_request(
	struct acp_agent *agent, const char *method, const json_t *id, const json_t *params);
/** $/cancel_request */
void acp_agent_handle_withdrawal(struct acp_agent *agent, const json_t *params);
/**
 * Answers all open questions with `cancelled` if the child can still hear, and forgets them; but
 * those that have their answer, which acp_agent_answer() is about to give.
 */
void acp_agent_cancel_questions(struct acp_agent *agent);
void acp_agent_forget_questions(struct acp_agent *agent);
void acp_agent_send_error(struct acp_agent *agent, const json_t *id, int code, const char *why);

/** terminal/…; false if it is no method of that name. */
bool acp_agent_handle_terminal(
	struct acp_agent *agent, const char *method, const json_t *id, const json_t *params);
/** Answers a request for a command's end that the agent has withdrawn; false if there is none. */
bool acp_agent_withdraw_wait(struct acp_agent *agent, const json_t *id);
void acp_agent_pause_terminals(struct acp_agent *agent, bool paused);
/** The child is gone: its commands are ended, and nobody is told what they say. */
void acp_agent_release_terminals(struct acp_agent *agent);

#endif
