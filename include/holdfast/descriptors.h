/*
 * The budget of file descriptors. Connections and agents leave some for the store, and the store
 * keeps few files open when few are left.
 */
#ifndef HOLDFAST_DESCRIPTORS_H
#define HOLDFAST_DESCRIPTORS_H

#include <signal.h>
#include <stddef.h>

/*
 * Descriptors that agents and their commands must leave free; a quarter of the limit if that is
 * less.
 */
#define DESCRIPTORS_FOR_STORE ((size_t)128)
/*
 * Descriptors that must stay free when the store keeps a log open merely to reuse it; capped
 * likewise.
 */
#define DESCRIPTORS_FOR_WORK ((size_t)64)

/**
 * Returns 0 if a descriptor can be opened and `kept` more would remain (or a quarter of the limit,
 * if that is less), else -EMFILE or another negative errno.
 */
int descriptors_check(size_t kept);
/**
 * For a command with one child: blocks SIGCHLD, SIGTERM, SIGINT and SIGHUP and returns a signalfd
 * for them, which the caller closes; a negative number with errno set on failure. *ret_mask
 * receives the previous signal mask.
 */
int descriptors_of_signals(sigset_t *ret_mask);

#endif
