/*
 * Private to src/agents/workspace, the parts of a workspace: files.c executes one file request (paths.c
 * finds the file, diff.c describes the change) in the helper process that file_worker.c manages;
 * terminals.c runs commands, whose output is kept by output.c.
 */
#ifndef HOLDFAST_WORKSPACE_INTERNAL_H
#define HOLDFAST_WORKSPACE_INTERNAL_H

#include "holdfast/json_rpc.h"
#include "holdfast/list.h"
#include "workspace.h"

#include <stdint.h>

struct workspace {
	uv_loop_t *loop;
	struct workspace_config config;
	const struct workspace_ops *ops;
	void *owner;
	bool paused;
	bool closing;
	unsigned open_timers;

	/* The current file request, and the helper process that executes it: see file_worker.c. */
	struct file_job *job;
	struct child *file_process;
	bool file_process_open; /* this process or an earlier one is not gone yet */
	bool file_process_hangs; /* the one that is not gone did not answer in time */
	struct buffer file_reply;
	uv_timer_t file_timer;

	/* Terminals that are not released, and those whose command is not gone yet. */
	struct list terminals;
	size_t terminal_count;
	size_t terminals_open;
	size_t terminals_ending; /* released, but their commands are not gone yet */
	unsigned long terminals_made; /* terminals ever created, for their names */
	/* since 1970; part of their names, because the log outlives this process */
	uint64_t made_ms;
	uv_timer_t tell; /* reports their output */
};

/* workspace.c */

void workspace_answer(struct workspace *ws, const json_t *id, json_t *result);
void workspace_refuse(struct workspace *ws, const json_t *id, int code, const char *why);
/** Frees the workspace if it is being closed and nothing is left open. */
void workspace_free_if_done(struct workspace *ws);

/* paths.c: opens what an agent names so that it cannot lead out of its directory */

/**
 * Opens the directory that contains, or will contain, the file `path` below `root`, and sets
 * *ret_name to the file's name in it (caller frees). Missing directories are created. A symlink
 * that stays below root is followed. Returns a descriptor, or -1 with errno: EXDEV if the path
 * leads out of root, EISDIR if `path` cannot be the name of a file.
 */
int open_parent(int root, const char *path, char **ret_name);

/* diff.c */

/**
 * Appends the hunks of a unified diff, at most about `max` bytes. Returns false if that is not the
 * whole diff: then the last hunk is cut, or there are no hunks.
 */
bool diff_append(
	struct buffer *out, const struct buffer *old, const struct buffer *new, size_t max);

/* files.c */

/* One fs/read_text_file or fs/write_text_file. */
struct file_job {
	bool write;
	char *root;
	bool root_is_real; /* it contains no links */
	/* the server's data directory: only its `workspace` can be accessed; "": none */
	char *private_dir;
	char *path; /* as given by the agent */
	json_int_t line; /* read: first line, from 1 */
	json_int_t limit; /* read: number of lines; 0: all */
	size_t file_max;
	size_t names_max; /* files with more hard links are refused: one may be outside of root */
	json_t *id; /* of the request; NULL: the agent is gone */
	json_t *content; /* write: a string */
	/* The result: */
	int code; /* 0, or a JSON-RPC error code */
	/* the reason if `code` is not 0, else (read) the content as a JSON string */
	struct buffer text;
	char *relative; /* the path below root */
	size_t size; /* bytes read or written */
	bool created; /* write: the file did not exist */
	bool has_diff; /* write: `diff` has the change, or the first part of it */
	bool diff_cut;
	struct buffer diff;
};

/**
 * Creates the job for a request. Returns NULL with the reason in *ret_why if the parameters are
 * invalid.
 */
struct file_job *file_job_create(bool write, const json_t *params, const char **ret_why);
/** Accepts NULL. */
void file_job_destroy(struct file_job *job);
/** Executes the job; can block forever, so it runs in the process of agent_files.h. */
void file_job_work(struct file_job *job);

/* file_worker.c: passes jobs to the helper process */

#define FILE_FRAME_HEAD 8

/** The length of a frame, not counting its head. */
size_t file_frame_len(const char head[FILE_FRAME_HEAD]);
/** Unpacks a job from a frame without its head; NULL if it is invalid. */
struct file_job *file_job_unpack(const char *bytes, size_t len);
/** Appends a frame with the result of the job. */
void file_job_pack_outcome(struct file_job *job, struct buffer *out);

/**
 * Executes a job in the helper process; takes it over. workspace_file_done() follows, possibly
 * before this returns.
 */
void workspace_do_file(struct workspace *ws, struct file_job *job);
/** The job is done: sends the answer, reports the event, and frees the job. */
void workspace_file_done(struct workspace *ws);
/** Ends the helper process, after the job that it is executing. */
void workspace_stop_files(struct workspace *ws);

/* output.c: the output of a terminal's command */

struct output {
	size_t kept_max;
	struct buffer kept; /* the newest bytes, up to three times kept_max */
	bool truncated; /* something was dropped from `kept` */
	struct buffer untold;
	size_t told; /* bytes */
	uint64_t total; /* bytes */
};

/**
 * Appends bytes as text that an event can contain: NUL and invalid UTF-8 become U+FFFD. An
 * incomplete character at the end is left out unless `last` is set. Returns the number of bytes
 * used.
 */
size_t output_fit(struct buffer *out, const char *bytes, size_t len, bool last);
void output_init(struct output *o, size_t kept_max);
void output_finish(struct output *o);
void output_push(struct output *o, const char *bytes, size_t len);
/** The newest kept_max bytes as a string; new reference. */
json_t *output_kept(struct output *o);
/**
 * The output to be reported next, as a string, and its offset in *ret_offset; new reference. NULL
 * if there is none, or if the limit on reported output has been reached.
 */
json_t *output_tell(struct output *o, bool last, uint64_t *ret_offset);
/**
 * When the command has ended and more was put out than could be reported: the end of the output.
 * NULL if all of it was reported.
 */
json_t *output_tail(struct output *o, uint64_t *ret_offset);

/* terminals.c */

/** Handles a terminal/… request; returns false if it is another method. */
bool workspace_handle_terminal(
	struct workspace *ws, const char *method, const json_t *id, const json_t *params);
/** The agent is gone: ends all commands; nothing more is reported about them. */
void workspace_release_terminals(struct workspace *ws);
void workspace_pause_terminals(struct workspace *ws, bool paused);

#endif
