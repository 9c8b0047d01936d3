/*
 * A disk whose calls fail. It stands in front of whatever `disk` was when it was put there: the
 * n-th call, of all or of one kind, fails, is cut short, or does so from then on. Calls may come
 * from any thread.
 */
#ifndef HOLDFAST_TESTS_FAULT_DISK_H
#define HOLDFAST_TESTS_FAULT_DISK_H

#include "core/store/disk.h"

#include <stdbool.h>
#include <stddef.h>

enum disk_call {
	CALL_OPENAT,
	CALL_DUP,
	CALL_READ,
	CALL_PREAD,
	CALL_WRITE,
	CALL_FDATASYNC,
	CALL_FSYNC,
	CALL_FTRUNCATE,
	CALL_FALLOCATE,
	CALL_RENAMEAT,
	CALL_UNLINKAT,
	CALL_MKDIRAT,
	CALL_COUNT,
	CALL_ANY = CALL_COUNT,
};

struct fault {
	enum disk_call kind; /* which calls are counted, CALL_ANY: all of them */
	const char *file; /* of CALL_WRITE: only those to files of this name; NULL: to any */
	size_t nth; /* from 0; those before it pass */
	int error; /* errno; 0: none, the call is only cut short */
	bool is_short; /* a read or write: half of its bytes, and what follows fails with `error` */
	bool tears; /* a write that fails: half of its bytes are there all the same */
	bool lasts; /* until fault_disk_mend(), else once */
	void (*sync_failed)(int fd); /* told of every fdatasync() that fails; may be NULL */
};

/** Begins to count; `fault` (NULL: none) is copied. */
void fault_disk_put(const struct fault *fault);
/**
 * No thread changes anything on the disk from here on until fault_disk_go_on(), in the same thread: what is
 * copied in between is one moment of it.
 */
void fault_disk_pause(void);
void fault_disk_go_on(void);
/** The fault is over; what comes is still counted. */
void fault_disk_mend(void);
/** What was `disk` before is it again. */
void fault_disk_take_away(void);

/** Calls so far, of all kinds with CALL_ANY; those that failed count, too. */
size_t fault_disk_count(enum disk_call kind);
/** How many calls have been failed or cut short. */
size_t fault_disk_hits(void);
const char *fault_disk_name(enum disk_call kind);

#endif
