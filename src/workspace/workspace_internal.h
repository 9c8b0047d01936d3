/*
 * Private to src/workspace: the parts a workspace is made of. files.c does one file request
 * (paths.c finds the file, diff.c says what has changed) in the process that file_worker.c keeps
 * for it; terminals.c runs commands, whose words output.c holds.
 */
#ifndef HOLDFAST_WORKSPACE_INTERNAL_H
#define HOLDFAST_WORKSPACE_INTERNAL_H

#include "holdfast/json_rpc.h"
#include "holdfast/list.h"
#include "holdfast/workspace.h"

#include <stdint.h>

struct workspace {
	uv_loop_t *loop;
	struct workspace_config config;
	const struct workspace_ops *ops;
	void *owner;
	bool paused;
	bool closing;
	unsigned open_timers;

	/* The file request, and the process that does it: see file_worker.c. */
	struct file_job *job;
	struct child *file_process;
	bool file_process_open; /* that one, or one before it, is not gone yet */
	struct buffer file_reply;
	uv_timer_t file_timer;

	/* Terminals: those that are not released yet, and all whose command is not gone yet. */
	struct list terminals;
	size_t terminal_count;
	size_t terminals_open;
	unsigned long terminals_made; /* ever, for their names */
	uint64_t made_ms; /* since 1970; in their names because the log outlives this process */
	uv_timer_t tell; /* what they have put out */
};

/* workspace.c */

void workspace_answer(struct workspace *ws, const json_t *id, json_t *result);
void workspace_refuse(struct workspace *ws, const json_t *id, int code, const char *why);
/** Frees the workspace if it is being closed and nothing is left open. */
void workspace_free_if_done(struct workspace *ws);

/* paths.c: what an agent names, opened so that it cannot lead out of its directory */

/**
 * Opens the directory that holds, or shall hold, the file `path` below root (directories are made
 * where they are missing), with the file's name there (caller frees). A symlink that stays below
 * root is followed. -1 and errno; EXDEV as above, EISDIR if `path` can be no file's.
 */
int open_parent(int root, const char *path, char **ret_name);

/* diff.c */

/**
 * Appends hunks of a unified diff, of at most about `max` bytes. False if that is not all of it:
 * the last hunk is cut then, or there is none.
 */
bool diff_append(
	struct buffer *out, const struct buffer *old, const struct buffer *new, size_t max);

/* files.c */

/* One fs/read_text_file or fs/write_text_file. */
struct file_job {
	bool write;
	char *root;
	char *private_dir; /* of the server: nothing in it but its `workspace`; "": none */
	char *path; /* as the agent named it */
	json_int_t line; /* read: first line, from 1 */
	json_int_t limit; /* read: number of lines; 0: all */
	size_t file_max;
	size_t names_max; /* a file with more hard links is refused: one may be outside of root */
	json_t *id; /* of the request; NULL: who asked is gone */
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
};

/** Makes the job for a request; NULL with the reason in *ret_why if the parameters do not fit. */
struct file_job *file_job_create(bool write, const json_t *params, const char **ret_why);
/** Accepts NULL. */
void file_job_destroy(struct file_job *job);
/** Does the work, however long that takes: in the process of agent_files.h. */
void file_job_work(struct file_job *job);

/* file_worker.c: has it done there */

#define FILE_FRAME_HEAD 8

/** The length of the frame behind its head. */
size_t file_frame_len(const char head[FILE_FRAME_HEAD]);
/** The job of a frame without its head; NULL if it is none. */
struct file_job *file_job_unpack(const char *bytes, size_t len);
/** Appends a frame with the outcome. */
void file_job_pack_outcome(struct file_job *job, struct buffer *out);

/**
 * Has a job done, which is the workspace's until workspace_file_done(), some time or from in here.
 */
void workspace_do_file(struct workspace *ws, struct file_job *job);
/** The workspace's job is done: answers, tells, and forgets it. */
void workspace_file_done(struct workspace *ws);
/** Releases the process; it finishes the job that it has. */
void workspace_stop_files(struct workspace *ws);

/* output.c: what a terminal's command has put out */

struct output {
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
size_t output_fit(struct buffer *out, const char *bytes, size_t len, bool last);
void output_init(struct output *o, size_t kept_max);
void output_finish(struct output *o);
void output_push(struct output *o, const char *bytes, size_t len);
/** The newest kept_max bytes; new reference. */
json_t *output_kept(struct output *o);
/**
 * What is to be told next, from *ret_offset on; new reference. NULL if there is nothing, or if
 * enough was told.
 */
json_t *output_tell(struct output *o, bool last, uint64_t *ret_offset);
/** The last words of more than could be told, in the end; NULL if all was told. */
json_t *output_tail(struct output *o, uint64_t *ret_offset);

/* terminals.c */

/** terminal/…; false if it is no method of that name. */
bool workspace_handle_terminal(
	struct workspace *ws, const char *method, const json_t *id, const json_t *params);
/** Who asked is gone: the commands are ended, and nobody is told what they say. */
void workspace_release_terminals(struct workspace *ws);
void workspace_pause_terminals(struct workspace *ws, bool paused);

#endif
