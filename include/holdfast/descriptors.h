/*
 * File descriptors, of which a process has only so many. Connections and agents leave some to the
 * store, and the store keeps few files open when there are not many left.
 */
#ifndef HOLDFAST_DESCRIPTORS_H
#define HOLDFAST_DESCRIPTORS_H

#include <signal.h>
#include <stddef.h>

/* What agents and their commands leave of them, or a quarter of all if that is less. */
#define DESCRIPTORS_FOR_STORE ((size_t)128)
/* What the logs that the store has open only to have them at hand leave, in the same way. */
#define DESCRIPTORS_FOR_WORK ((size_t)64)

/** 0 while more than `kept`, or a quarter of all if that is less, can be opened; else -EMFILE. */
int descriptors_check(size_t kept);
/**
 * For a command that has one child: a signalfd for what ends it and for the child's end. These
 * signals are blocked; *ret_mask is what was before. To be closed; a negative number: see errno.
 */
int descriptors_of_signals(sigset_t *ret_mask);

#endif
