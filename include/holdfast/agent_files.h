/*
 * The process that reads and writes files for an agent: this program, started again as `holdfast
 * agent-files`. A file system may never answer (FUSE, or NFS whose server is down), and a process
 * that waits for it hangs in the kernel, where even SIGKILL may not reach it. A separate process
 * makes sure that neither the server nor one of its threads hangs.
 *
 * Requests come in over stdin and answers go out over stdout, one at a time, in the format that
 * file_worker.c describes. The process ends when stdin is closed.
 */
#ifndef HOLDFAST_AGENT_FILES_H
#define HOLDFAST_AGENT_FILES_H

#define AGENT_FILES_COMMAND "agent-files"

/** Runs `holdfast agent-files`; returns the exit code. The arguments are ignored. */
int agent_files_run(int argc, char **argv);

#endif
