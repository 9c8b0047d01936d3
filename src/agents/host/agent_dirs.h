/*
 * Checks and lists the directories that sessions can have, and completes paths of files in them
 * while a person types (agent_host.h). All of it runs on a thread of its own, one job at a time, so
 * that a file system that hangs delays only those who ask for directories and files.
 */
#ifndef HOLDFAST_AGENT_DIRS_H
#define HOLDFAST_AGENT_DIRS_H

#include "holdfast/agent_host.h"

#include <uv.h>

struct agent_dirs;

/**
 * The thread is started by the first job. `private_dir`: the server's data directory, none of whose
 * files are found; NULL: none; it must outlive the jobs.
 */
struct agent_dirs *agent_dirs_create(uv_loop_t *loop, const char *private_dir);
/**
 * Accepts no more jobs. Those that wait are still done unless they are cancelled; then the thread
 * ends.
 */
void agent_dirs_close(struct agent_dirs *dirs);
/** Call it after agent_dirs_close(), when the loop has ended. Accepts NULL. */
void agent_dirs_free(struct agent_dirs *dirs);
/** agent_host_ops.query_dirs; NULL: too many jobs wait, or it is closed. */
struct agent_dirs_job *agent_dirs_query(struct agent_dirs *dirs,
	const struct agent_dirs_query *query, agent_dirs_done *done, void *arg);
/** agent_host_ops.cancel_dirs */
void agent_dirs_cancel(struct agent_dirs_job *job);

#endif
