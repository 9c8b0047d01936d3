/*
 * The seccomp filter of the server itself. Once the server has started, the kernel refuses it the
 * system calls that start programs and processes, inspect or signal other processes, mount file
 * systems, or change identity or the system. Threads, files and sockets keep working. Agents are
 * not under this filter: the spawner (spawner.h), which was forked earlier, starts them.
 * docs/sandbox.md says what this protects.
 */
#ifndef HOLDFAST_SERVER_FILTER_H
#define HOLDFAST_SERVER_FILTER_H

/**
 * Why this build has no filter: its sanitizers need the refused system calls. Returns NULL if it
 * can have one.
 */
const char *server_filter_lack(void);
/**
 * Installs the filter for all threads of the process, present and future, irrevocably. Returns 0,
 * or a negative errno if the kernel has no such filters.
 */
int server_filter(void);

#endif
