/*
 * What the server does without, once it has started: with seccomp the kernel refuses it the system
 * calls that start programs and processes, look into others or send them signals, mount, change
 * identity and the system. Threads, files and sockets go on. Agents are not under it: the spawner
 * (spawner.h), which was there before, starts them. docs/sandbox.md says what this protects.
 */
#ifndef HOLDFAST_SERVER_FILTER_H
#define HOLDFAST_SERVER_FILTER_H

/** Why this build goes without: its sanitizers need what is refused. NULL: it need not. */
const char *server_filter_lack(void);
/**
 * Puts all threads of the process under it, and those to come, for good. 0 or a negative errno: the
 * kernel has no such filters.
 */
int server_filter(void);

#endif
