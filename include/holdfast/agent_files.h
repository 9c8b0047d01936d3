/*
 * The process that reads and writes files for an agent: this program, started again as
 * `holdfast agent-files`. A file system may never answer (FUSE, NFS of a dead server); whoever
 * waits for it hangs in the kernel, where not even SIGKILL may reach. That is this process and not
 * the server, nor its threads.
 *
 * Requests come over stdin and answers go over stdout, one after the other, packed as file_worker.c
 * says. It ends when stdin is closed.
 */
#ifndef HOLDFAST_AGENT_FILES_H
#define HOLDFAST_AGENT_FILES_H

#define AGENT_FILES_COMMAND "agent-files"

int agent_files_run(int argc, char **argv);

#endif
