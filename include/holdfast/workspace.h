/*
 * The workspace room: the directory that an agent works in, as we serve it: files that the agent
 * has us read and write (fs/…), commands that it has us run (terminal/…). Requests come in as
 * JSON-RPC; answers, and events for those who watch, go out through one table of functions. It
 * knows nothing of sessions, prompts or of the process that asks.
 *
 * What an agent asks for is hostile: nothing outside of the directory is read or written, and
 * nothing of it is done on the loop, where a file system that does not answer would stop everyone.
 */
#ifndef HOLDFAST_WORKSPACE_H
#define HOLDFAST_WORKSPACE_H

#include "holdfast/buffer.h"
#include "holdfast/child.h"

#include <jansson.h>
#include <stdbool.h>

struct workspace;

/* The strings are borrowed until freed(). */
struct workspace_config {
	const char *cwd; /* absolute; where commands run, and the root of file requests */
	/*
	 * Absolute; of the server: files below it are refused, but for those below its `workspace`.
	 * NULL: none.
	 */
	const char *private_dir;
	const char *session_id; /* names the session in diagnostics */
	size_t file_max; /* bytes; requests for a larger file are refused */
	size_t file_names_max; /* hard links; a file with more is refused */
	int file_ms; /* for one file request */
	size_t terminals_max; /* at once; 0: there are none */
	struct child_config
		commands; /* how they run: spawner, env, stop_grace_ms, box, descriptors_kept */
};

/* None may call workspace_close(). */
struct workspace_ops {
	/** Sends a message to who asked; takes it. */
	void (*send)(void *owner, struct buffer *message);
	/** file_read, file_write or x-acp-terminal (proto/protocol.md); `data` is borrowed. */
	void (*event)(void *owner, const char *type, const json_t *data);
	/** The file request is done: the next one may come. */
	void (*file_done)(void *owner);
	/** All of it has ended, and it is freed; once, after workspace_close(). */
	void (*freed)(void *owner);
};

struct workspace *workspace_create(uv_loop_t *loop, const struct workspace_config *config,
	const struct workspace_ops *ops, void *owner);
/** Ends what runs, and frees the workspace later. Of the ops only freed() is called any more. */
void workspace_close(struct workspace *ws);

/**
 * A request; false if it is for something else. While workspace_is_at_file() the next request of a
 * file may not come.
 */
bool workspace_handle(
	struct workspace *ws, const char *method, const json_t *id, const json_t *params);
/** Answers a request for a command's end that was withdrawn; false if there is none. */
bool workspace_withdraw(struct workspace *ws, const json_t *id);
/** Who asked is gone: its commands are ended, and its requests are answered to nobody. */
void workspace_abandon(struct workspace *ws);
/** Back-pressure: while paused commands are not read from, and nothing is told of them. */
void workspace_pause(struct workspace *ws, bool paused);

bool workspace_is_at_file(const struct workspace *ws);
/** Whether there are terminals that were not released. */
bool workspace_has_terminals(const struct workspace *ws);
/** Whether nothing is being done or on its way out. */
bool workspace_is_empty(const struct workspace *ws);

#endif
