#include "fault_disk.h"

#include "holdfast/buffer.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One at a time: the calls of struct disk_ops have no room for an argument. */
static struct {
	pthread_mutex_t lock;
	const struct disk_ops *below;
	struct fault fault;
	bool is_armed;
	bool fails_next; /* the rest of a call that was cut short */
	size_t counts[CALL_COUNT];
	size_t hits;
	struct buffer kinds; /* one byte a call */
	pthread_rwlock_t
		still; /* held by each call that changes something, and by who wants none of them */
} now = {.lock = PTHREAD_MUTEX_INITIALIZER, .still = PTHREAD_RWLOCK_INITIALIZER};

enum verdict { PASS, FAIL, SHORT, TORN };

static bool can_be_short(enum disk_call kind)
{
	return kind == CALL_READ || kind == CALL_PREAD || kind == CALL_WRITE;
}

static size_t count_of(enum disk_call kind)
{
	return kind == CALL_ANY ? now.kinds.len : now.counts[kind];
}

/** Decides on an armed fault, for the call that is the `nth` of those it counts. */
static enum verdict decide(enum disk_call kind, size_t nth)
{
	const struct fault *fault = &now.fault;
	if (now.fails_next && kind == CALL_WRITE) {
		now.fails_next = fault->lasts;
		return FAIL;
	}
	if (nth < fault->nth || (nth > fault->nth && !fault->lasts)) {
		return PASS;
	}
	if (fault->is_short && can_be_short(kind)) {
		now.fails_next = fault->error != 0;
		return SHORT;
	}
	return !fault->error ? PASS : fault->tears && kind == CALL_WRITE ? TORN : FAIL;
}

static enum verdict enter(enum disk_call kind)
{
	enum verdict verdict = PASS;
	pthread_mutex_lock(&now.lock);
	if (now.is_armed && (now.fault.kind == CALL_ANY || now.fault.kind == kind)) {
		verdict = decide(kind, count_of(now.fault.kind));
	}
	now.counts[kind]++;
	buffer_append_char(&now.kinds, (char)kind);
	now.hits += verdict != PASS;
	errno = now.fault.error;
	pthread_mutex_unlock(&now.lock);
	return verdict;
}

/** Decides on a call that changes something, and goes on with it until leave(). */
static enum verdict enter_change(enum disk_call kind)
{
	pthread_rwlock_rdlock(&now.still);
	return enter(kind);
}

static ssize_t leave(ssize_t result)
{
	pthread_rwlock_unlock(&now.still); /* leaves errno alone */
	return result;
}

/** How many bytes a call that is cut short moves: one at least, as only the end of a file is 0. */
static size_t cut(enum verdict verdict, size_t len)
{
	return verdict == SHORT && len > 1 ? len / 2 : len;
}

static int fault_openat(int dir_fd, const char *path, int flags, mode_t mode)
{
	bool fails = enter_change(CALL_OPENAT) == FAIL;
	return (int)leave(fails ? -1 : now.below->openat(dir_fd, path, flags, mode));
}

static int fault_dup(int fd)
{
	return enter(CALL_DUP) == FAIL ? -1 : now.below->dup(fd);
}

static ssize_t fault_read(int fd, void *bytes, size_t len)
{
	enum verdict verdict = enter(CALL_READ);
	return verdict == FAIL ? -1 : now.below->read(fd, bytes, cut(verdict, len));
}

static ssize_t fault_pread(int fd, void *bytes, size_t len, off_t offset)
{
	enum verdict verdict = enter(CALL_PREAD);
	return verdict == FAIL ? -1 : now.below->pread(fd, bytes, cut(verdict, len), offset);
}

/** Whether the fault is of another file. */
static bool is_spared(int fd)
{
	char path[64];
	char name[4096];
	if (!now.fault.file) {
		return false;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(path, name, sizeof(name) - 1);
	name[len < 0 ? 0 : len] = '\0';
	const char *base = strrchr(name, '/');
	return !base || strcmp(base + 1, now.fault.file) != 0;
}

static ssize_t fault_write(int fd, const void *bytes, size_t len)
{
	if (is_spared(fd)) {
		return now.below->write(fd, bytes, len);
	}
	enum verdict verdict = enter_change(CALL_WRITE);
	if (verdict == TORN) {
		int error = errno;
		(void)!now.below->write(fd, bytes, cut(SHORT, len));
		errno = error;
		return leave(-1);
	}
	return leave(verdict == FAIL ? -1 : now.below->write(fd, bytes, cut(verdict, len)));
}

static int fault_fdatasync(int fd)
{
	if (enter(CALL_FDATASYNC) != FAIL) {
		return now.below->fdatasync(fd);
	}
	if (now.fault.sync_failed) {
		now.fault.sync_failed(fd);
	}
	errno = now.fault.error;
	return -1;
}

static int fault_fsync(int fd)
{
	return enter(CALL_FSYNC) == FAIL ? -1 : now.below->fsync(fd);
}

static int fault_ftruncate(int fd, off_t len)
{
	bool fails = enter_change(CALL_FTRUNCATE) == FAIL;
	return (int)leave(fails ? -1 : now.below->ftruncate(fd, len));
}

static int fault_fallocate(int fd, int mode, off_t offset, off_t len)
{
	bool fails = enter_change(CALL_FALLOCATE) == FAIL;
	return (int)leave(fails ? -1 : now.below->fallocate(fd, mode, offset, len));
}

static int fault_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	bool fails = enter_change(CALL_RENAMEAT) == FAIL;
	return (int)leave(fails ? -1 : now.below->renameat(from_fd, from, to_fd, to));
}

static int fault_unlinkat(int dir_fd, const char *path, int flags)
{
	bool fails = enter_change(CALL_UNLINKAT) == FAIL;
	return (int)leave(fails ? -1 : now.below->unlinkat(dir_fd, path, flags));
}

static int fault_mkdirat(int dir_fd, const char *path, mode_t mode)
{
	bool fails = enter_change(CALL_MKDIRAT) == FAIL;
	return (int)leave(fails ? -1 : now.below->mkdirat(dir_fd, path, mode));
}

void fault_disk_put(const struct fault *fault)
{
	static const struct disk_ops ops = {
		.openat = fault_openat,
		.dup = fault_dup,
		.read = fault_read,
		.pread = fault_pread,
		.write = fault_write,
		.fdatasync = fault_fdatasync,
		.fsync = fault_fsync,
		.ftruncate = fault_ftruncate,
		.fallocate = fault_fallocate,
		.renameat = fault_renameat,
		.unlinkat = fault_unlinkat,
		.mkdirat = fault_mkdirat,
	};
	pthread_mutex_lock(&now.lock);
	now.below = disk;
	now.fault = fault ? *fault : (struct fault){0};
	now.is_armed = fault != NULL;
	now.fails_next = false;
	now.hits = 0;
	buffer_clear(&now.kinds);
	for (enum disk_call kind = 0; kind < CALL_COUNT; kind++) {
		now.counts[kind] = 0;
	}
	disk = &ops;
	pthread_mutex_unlock(&now.lock);
}

void fault_disk_mend(void)
{
	pthread_mutex_lock(&now.lock);
	now.is_armed = false;
	pthread_mutex_unlock(&now.lock);
}

void fault_disk_pause(void)
{
	pthread_rwlock_wrlock(&now.still);
}

void fault_disk_go_on(void)
{
	pthread_rwlock_unlock(&now.still);
}

void fault_disk_take_away(void)
{
	disk = now.below;
	buffer_finish(&now.kinds);
}

size_t fault_disk_count(enum disk_call kind)
{
	pthread_mutex_lock(&now.lock);
	size_t count = count_of(kind);
	pthread_mutex_unlock(&now.lock);
	return count;
}

size_t fault_disk_hits(void)
{
	pthread_mutex_lock(&now.lock);
	size_t hits = now.hits;
	pthread_mutex_unlock(&now.lock);
	return hits;
}

const char *fault_disk_name(enum disk_call kind)
{
	static const char *const names[] = {"openat", "dup", "read", "pread", "write", "fdatasync",
		"fsync", "ftruncate", "fallocate", "renameat", "unlinkat", "mkdirat", "any"};
	return names[kind];
}
