/*
 * What the seccomp filters of the server (server_filter.h) and of agents have in common. They are
 * made with libseccomp. A filter sees the numbers of a system call and its arguments, not what
 * these point to. SECURITY.md has the table of all calls that were decided on.
 *
 * The kernel takes an argument that is an int without its upper half, and a filter compares all of
 * it: what must not have a value is compared through a mask (CALL_IS()), what must have one without.
 */
#ifndef HOLDFAST_CALL_FILTER_H
#define HOLDFAST_CALL_FILTER_H

#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A filter that is being made. `err`: the first negative errno; what follows it does nothing. */
struct call_filter {
	scmp_filter_ctx ctx;
	int err;
};

/* The argument `n`, an int or flags, has these bits of `mask`; is `value`; is not `value`. */
#define CALL_HAS(n, mask, bits) SCMP_CMP((n), SCMP_CMP_MASKED_EQ, (mask), (bits))
#define CALL_IS(n, value)       CALL_HAS(n, 0xffffffffU, (value))
#define CALL_IS_NOT(n, value)   SCMP_CMP((n), SCMP_CMP_NE, (value), 0)

/**
 * Begins a filter that answers what it does not name with `error`, or allows it (0). The system
 * calls of other machines (i386, x32) fail with ENOSYS.
 */
struct call_filter call_filter_begin(int error);
/** Allows a call. */
void call_filter_allow(struct call_filter *filter, int call);
/** Lets a call fail with `error`; all `count` comparisons must hold. */
void call_filter_refuse_if(struct call_filter *filter, int call, int error, unsigned count,
	const struct scmp_arg_cmp *comparisons);
/** Lets calls fail with `error`, whatever their arguments are. Calls that this machine lacks are skipped. */
void call_filter_refuse(struct call_filter *filter, const int *calls, size_t count, int error);
/**
 * Refuses what neither the server nor agents need: reaching into other processes, what has no place
 * among the files (System V IPC, message queues, the keyring), mounting, and the whole system.
 */
void call_filter_refuse_common(struct call_filter *filter);
/**
 * Installs the filter for this thread, or for all threads of the process, irrevocably, and frees
 * it. New privileges are given up. Returns 0 or a negative errno.
 */
int call_filter_end(struct call_filter *filter, bool all_threads);

#endif
