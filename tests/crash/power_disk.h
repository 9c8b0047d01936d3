/*
 * A disk that remembers what is safe on it. While it is in place of `disk` every change below a
 * directory goes to the kernel and into a trace. From the trace it then tells, for a power cut
 * after any of these changes, what a disk may hold: what was synced, and of what was not any part.
 *
 * What a disk owes (and it owes no more than POSIX has it): a file's bytes after its fdatasync() or
 * fsync(), a directory's entries after its own fsync(), a rename within one directory whole or not
 * at all. Of the rest any subset may survive, in any order; of a write, any of its sectors, with
 * zeros or what stood there before in place of the others.
 */
#ifndef HOLDFAST_TESTS_POWER_DISK_H
#define HOLDFAST_TESTS_POWER_DISK_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct power_disk;

/** What of the changes that were not synced is on the disk. */
enum survival {
	SURVIVE_NONE,
	SURVIVE_ALL,
	SURVIVE_TORN, /* all, but of the newest write only so many bytes */
	SURVIVE_SECTORS, /* all, but of the newest write only some sectors */
	SURVIVE_NAMES, /* every name, none of the bytes: files are as long as they were synced */
	SURVIVE_SIZES, /* every name, every file as long as it was, with zeros for its bytes */
	SURVIVE_NEWEST, /* nothing but the newest change */
	SURVIVE_OLDEST, /* nothing but the oldest one that was not synced */
	SURVIVE_RANDOM, /* of each change by itself: nothing, all, some bytes, some sectors */
	SURVIVE_COUNT,
};

/** Begins to trace `dir`, which is there; what is in it counts as synced. One at a time. */
struct power_disk *power_disk_begin(const char *dir);
/** What was `disk` before is it again; the trace stays. */
void power_disk_end(struct power_disk *power);
void power_disk_destroy(struct power_disk *power);

/** Changes so far: a cut at `n` comes after the first `n` of them. */
size_t power_disk_count(const struct power_disk *power);
/** The n-th change in words, `write 120 bytes at 32 of journal/…`. */
void power_disk_tell(const struct power_disk *power, size_t nth, struct buffer *out);
/**
 * While it is held, every change and every sync fails and is not made: a server that is closed then
 * leaves the disk as it does when it is killed. What it had not synced, still is not.
 */
void power_disk_hold(bool held);
/**
 * A failed fdatasync(): what was not synced of this file is lost with the power whatever comes
 * after, as the kernel takes it for written.
 */
void power_disk_lose(int fd);

/** Goes on to the moment after the first `n` changes; only forward. */
void power_disk_seek(struct power_disk *power, size_t n);
/**
 * What the disk may hold then, as one run of bytes that is the same for the same contents. `seed`
 * chooses where `survival` leaves a choice.
 */
void power_disk_image(
	const struct power_disk *power, enum survival survival, uint64_t seed, struct buffer *out);
/** Writes an image into a directory, which is made. */
void power_disk_write_image(const struct buffer *image, const char *dir);

const char *power_disk_survival_name(enum survival survival);

#endif
