/*
 * The workspace room: the directory that an agent works in, as the server offers it to the agent:
 * files that the agent has the server read and write (fs/…), and commands that it has the server
 * run (terminal/…). Requests come in as JSON-RPC; answers, and events for observers, go out through
 * one table of functions. This room knows nothing of sessions, prompts or the process that asks.
 *
 * Requests are hostile: nothing outside of the directory is read or written, and no file is touched
 * on the loop's thread, where a file system that does not answer would stop everyone.
 */
#ifndef HOLDFAST_WORKSPACE_H
#define HOLDFAST_WORKSPACE_H

#include "holdfast/buffer.h"
#include "agents/process/child.h"
#include "holdfast/json_rpc.h"

#include <jansson.h>
#include <stdbool.h>

struct workspace;

/* The strings are borrowed until freed() is called. */
struct workspace_config {
	/* absolute; the working directory of commands, and the root of file requests */
	const char *cwd;
	/* cwd contains no links: one that is there now was put there by an agent, and is refused */
	bool cwd_is_real;
	/*
	 * The server's data directory, absolute: files below it are refused, except those below its
	 * `workspace`. NULL: none.
	 */
	const char *private_dir;
	const char *session_id; /* names the session in diagnostics */
	size_t file_max; /* bytes; requests for larger files are refused */
	size_t file_names_max; /* hard links; requests for files with more are refused */
	int file_ms; /* timeout of one file request */
	size_t terminals_max; /* open at once; 0: terminals are not offered */
	/* how commands run: spawner, env, stop_grace_ms, box, descriptors_kept */
	struct child_config commands;
};

/* None of these may call workspace_close(). */
struct workspace_ops {
	/** Sends a message to the agent; takes it over. */
	void (*send)(void *owner, struct buffer *message);
	/** file_read, file_write or x-acp-terminal (proto/protocol.md); `data` is borrowed. */
	void (*event)(void *owner, const char *type, const json_t *data);
	/** The file request is done: the next one can be handled. */
	void (*file_done)(void *owner);
	/**
	 * Everything has ended and the workspace has been freed; called once, after
	 * workspace_close().
	 */
	void (*freed)(void *owner);
};

/** Creates a workspace. `ops` and `owner` must outlive it. */
struct workspace *workspace_create(uv_loop_t *loop, const struct workspace_config *config,
	const struct workspace_ops *ops, void *owner);
/**
 * Ends all commands and frees the workspace later. Of the ops, only freed() is called from then on.
 */
void workspace_close(struct workspace *ws);

/**
 * Handles a request; returns false if its method is not one of fs/… and terminal/…. Must not be
 * called with a file request while workspace_is_at_file().
 */
bool workspace_handle(
	struct workspace *ws, const char *method, const json_t *id, const json_t *params);
/**
 * The agent has withdrawn a request: if it is a pending terminal/wait_for_exit, answers it as
 * cancelled and returns true.
 */
bool workspace_withdraw(struct workspace *ws, const json_t *id, enum json_rpc_likeness likeness);
/** Whether a terminal/wait_for_exit is pending. */
bool workspace_is_waited_for(const struct workspace *ws);
/** The agent is gone: ends its commands; pending requests are not answered. */
void workspace_abandon(struct workspace *ws);
/**
 * Back-pressure: while paused, commands' output is not read and no events about them are reported.
 */
void workspace_pause(struct workspace *ws, bool paused);

/** Whether a file request is being done. */
bool workspace_is_at_file(const struct workspace *ws);
/** Whether the agent has terminals that it has not released. */
bool workspace_has_terminals(const struct workspace *ws);
/** Whether no file request is being done and no terminal is left, released ones included. */
bool workspace_is_empty(const struct workspace *ws);

#endif
