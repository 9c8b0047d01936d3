/* Data directories for the store's bench, and a server on one of them. */
#ifndef BENCH_STORE_DATA_H
#define BENCH_STORE_DATA_H

#include <stdint.h>
#include <sys/types.h>

/**
 * Makes `sessions` sessions named s0, s1, … in a data directory, of `events` events each: a turn
 * with its prompt first, then messages of about 130 bytes. In a process of its own, which has ended
 * when this returns, so that the memory of this one tells nothing of it.
 */
void data_fill(const char *dir, uint64_t sessions, uint64_t events);
/** Writes everything below a directory to disk and asks the kernel to forget it. */
void data_make_cold(const char *dir);
void data_remove(const char *dir);

struct server {
	pid_t pid;
	unsigned port;
	uint64_t start_ns; /* from fork() until it listens */
	int err; /* what it writes; kept open */
};

/** Starts a server, and waits until it listens. `limit` is NAME=VALUE or NULL. */
void server_start(struct server *server, const char *program, const char *dir, const char *limit);
/** Tells it to end, and waits. Returns how long that took. */
uint64_t server_stop(struct server *server);

#endif
