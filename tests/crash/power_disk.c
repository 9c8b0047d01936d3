/* The tracing half: calls go to the kernel, one at a time, and are written down in that order. */
#include "power_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the ones above first. */
#include <cmocka.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct power_disk *traced;

/* --- nodes --- */

static struct node *add_node(struct power_disk *power, ino_t ino, bool is_dir, const char *name)
{
	struct node *node = xcalloc(1, sizeof(*node));
	node->ino = ino;
	node->is_dir = is_dir;
	node->told_name = xstrdup(name);
	power->nodes = xrealloc(power->nodes, (power->node_count + 1) * sizeof(node));
	power->nodes[power->node_count++] = node;
	return node;
}

/** The newest node with this inode number: an older one's is free and was given again. */
static struct node *node_of_stat(const struct stat *st)
{
	for (size_t i = traced->node_count; i-- > 0;) {
		if (traced->nodes[i]->ino == st->st_ino) {
			return traced->nodes[i];
		}
	}
	return NULL;
}

static struct node *node_of_fd(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 ? node_of_stat(&st) : NULL;
}

static struct node *node_at(int dir_fd, const char *path)
{
	struct stat st;
	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? node_of_stat(&st) : NULL;
}

/** The directory that a path's last part stands in, and that part. */
static struct node *parent_of(int dir_fd, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	*ret_name = slash ? slash + 1 : path;
	if (!slash) {
		return node_of_fd(dir_fd);
	}
	char *parent = xstrndup(path, (size_t)(slash - path));
	struct node *node = node_at(dir_fd, parent);
	free(parent);
	return node;
}

static void read_bytes(int dir_fd, const char *name, struct buffer *out)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t n;
	do {
		buffer_reserve(out, 1 << 14);
		n = read(fd, out->data + out->len, 1 << 14);
		assert_true(n >= 0);
		out->len += (size_t)n;
	} while (n > 0);
	close(fd);
}

/** Takes in what is there before the trace begins. */
static struct node *scan(struct power_disk *power, int dir_fd, const char *told_name)
{
	struct stat st;
	assert_int_equal(fstat(dir_fd, &st), 0);
	struct node *node = add_node(power, st.st_ino, true, told_name);
	DIR *dir = fdopendir(dup(dir_fd));
	assert_non_null(dir);
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
			continue;
		}
		assert_int_equal(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
		struct node *child;
		if (S_ISDIR(st.st_mode)) {
			int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			child = scan(power, fd, name);
			close(fd);
		} else {
			child = add_node(power, st.st_ino, false, name);
			read_bytes(dir_fd, name, &child->bytes);
		}
		entries_put(&node->entries, name, child);
	}
	closedir(dir);
	return node;
}

/* --- changes --- */

static struct change *add_change(enum change_kind kind, struct node *node, const char *name)
{
	struct power_disk *power = traced;
	power->changes =
		xrealloc(power->changes, (power->change_count + 1) * sizeof(*power->changes));
	struct change *change = &power->changes[power->change_count++];
	*change = (struct change){.kind = kind, .node = node, .name = name ? xstrdup(name) : NULL};
	return change;
}

static void add_child(int dir_fd, const char *path, bool is_dir)
{
	struct stat st;
	const char *name;
	struct node *parent = parent_of(dir_fd, path, &name);
	assert_non_null(parent);
	assert_int_equal(fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	struct node *child = add_node(traced, st.st_ino, is_dir, name);
	add_change(CHANGE_LINK, parent, name)->target = child;
}

/** Whether nothing may be changed any more; gives the lock back then. */
static bool is_held(void)
{
	bool held = traced->is_held;
	if (held) {
		pthread_mutex_unlock(&lock);
		errno = EIO;
	}
	return held;
}

static int power_openat(int dir_fd, const char *path, int flags, mode_t mode)
{
	struct stat st;
	pthread_mutex_lock(&lock);
	if ((flags & (O_CREAT | O_TRUNC)) && is_held()) {
		return -1;
	}
	bool was_there = fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
	int fd = traced->below->openat(dir_fd, path, flags, mode);
	int error = errno;
	if (fd >= 0 && (flags & O_CREAT) && !was_there) {
		add_child(dir_fd, path, false);
	} else if (fd >= 0 && (flags & O_TRUNC) && st.st_size) {
		add_change(CHANGE_TRUNCATE, node_of_fd(fd), NULL);
	}
	errno = error;
	pthread_mutex_unlock(&lock);
	return fd;
}

static ssize_t power_read(int fd, void *bytes, size_t len)
{
	return traced->below->read(fd, bytes, len);
}

static ssize_t power_pread(int fd, void *bytes, size_t len, off_t offset)
{
	return traced->below->pread(fd, bytes, len, offset);
}

static ssize_t power_write(int fd, const void *bytes, size_t len)
{
	pthread_mutex_lock(&lock);
	if (is_held()) {
		return -1;
	}
	ssize_t n = traced->below->write(fd, bytes, len);
	int error = errno;
	struct node *node = n > 0 ? node_of_fd(fd) : NULL;
	if (node) {
		struct change *change = add_change(CHANGE_WRITE, node, NULL);
		change->offset = (size_t)(lseek(fd, 0, SEEK_CUR) - n);
		buffer_append(&change->bytes, bytes, (size_t)n);
	}
	errno = error;
	pthread_mutex_unlock(&lock);
	return n;
}

static int note_sync(int fd, int r)
{
	int error = errno;
	struct node *node = r == 0 ? node_of_fd(fd) : NULL;
	if (node) {
		add_change(CHANGE_SYNC, node, NULL);
	}
	errno = error;
	pthread_mutex_unlock(&lock);
	return r;
}

static int power_fdatasync(int fd)
{
	pthread_mutex_lock(&lock);
	if (is_held()) {
		return -1;
	}
	return note_sync(fd, traced->below->fdatasync(fd));
}

static int power_fsync(int fd)
{
	pthread_mutex_lock(&lock);
	if (is_held()) {
		return -1;
	}
	return note_sync(fd, traced->below->fsync(fd));
}

static int power_ftruncate(int fd, off_t len)
{
	pthread_mutex_lock(&lock);
	if (is_held()) {
		return -1;
	}
	int r = traced->below->ftruncate(fd, len);
	int error = errno;
	struct node *node = r == 0 ? node_of_fd(fd) : NULL;
	if (node) {
		add_change(CHANGE_TRUNCATE, node, NULL)->offset = (size_t)len;
	}
	errno = error;
	pthread_mutex_unlock(&lock);
	return r;
}

/** Only as it is used: what it makes longer are zeros, and it never makes a file shorter. */
static int power_fallocate(int fd, int mode, off_t offset, off_t len)
{
	struct stat st;
	pthread_mutex_lock(&lock);
	if (is_held()) {
		return -1;
	}
	assert_int_equal(mode, 0);
	assert_int_equal(fstat(fd, &st), 0);
	int r = traced->below->fallocate(fd, mode, offset, len);
	int error = errno;
	struct node *node = r == 0 && offset + len > st.st_size ? node_of_fd(fd) : NULL;
	if (node) {
		add_change(CHANGE_TRUNCATE, node, NULL)->offset = (size_t)(offset + len);
	}
	errno = error;
	pthread_mutex_unlock(&lock);
	return r;
}

static int power_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	const char *from_name;
	const char *to_name;
	pthread_mutex_lock(&lock);
	if (is_held()) {
		return -1;
	}
	struct node *node = node_at(from_fd, from);
	struct node *from_dir = parent_of(from_fd, from, &from_name);
	struct node *to_dir = parent_of(to_fd, to, &to_name);
	int r = traced->below->renameat(from_fd, from, to_fd, to);
	int error = errno;
	if (r == 0 && from_dir == to_dir) {
		struct change *change = add_change(CHANGE_RENAME, to_dir, to_name);
		change->from = xstrdup(from_name);
		change->target = node;
	} else if (r == 0) {
		/* Two directories: one may be written without the other. */
		add_change(CHANGE_LINK, to_dir, to_name)->target = node;
		add_change(CHANGE_UNLINK, from_dir, from_name);
	}
	errno = error;
	pthread_mutex_unlock(&lock);
	return r;
}

static int power_unlinkat(int dir_fd, const char *path, int flags)
{
	const char *name;
	pthread_mutex_lock(&lock);
	if (is_held()) {
		return -1;
	}
	struct node *parent = parent_of(dir_fd, path, &name);
	int r = traced->below->unlinkat(dir_fd, path, flags);
	int error = errno;
	if (r == 0) {
		add_change(CHANGE_UNLINK, parent, name);
	}
	errno = error;
	pthread_mutex_unlock(&lock);
	return r;
}

static int power_mkdirat(int dir_fd, const char *path, mode_t mode)
{
	pthread_mutex_lock(&lock);
	if (is_held()) {
		return -1;
	}
	int r = traced->below->mkdirat(dir_fd, path, mode);
	int error = errno;
	if (r == 0) {
		add_child(dir_fd, path, true);
	}
	errno = error;
	pthread_mutex_unlock(&lock);
	return r;
}

void power_disk_hold(bool held)
{
	pthread_mutex_lock(&lock);
	traced->is_held = held;
	pthread_mutex_unlock(&lock);
}

void power_disk_lose(int fd)
{
	pthread_mutex_lock(&lock);
	struct node *node = node_of_fd(fd);
	if (node) {
		add_change(CHANGE_LOSE, node, NULL);
	}
	pthread_mutex_unlock(&lock);
}

/* --- life --- */

struct power_disk *power_disk_begin(const char *dir)
{
	static struct disk_ops ops = {
		.openat = power_openat,
		.read = power_read,
		.pread = power_pread,
		.write = power_write,
		.fdatasync = power_fdatasync,
		.fsync = power_fsync,
		.ftruncate = power_ftruncate,
		.fallocate = power_fallocate,
		.renameat = power_renameat,
		.unlinkat = power_unlinkat,
		.mkdirat = power_mkdirat,
	};
	struct power_disk *power = xcalloc(1, sizeof(*power));
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	scan(power, fd, ".");
	close(fd);
	power->below = disk;
	ops.dup = disk->dup;
	traced = power;
	disk = &ops;
	return power;
}

void power_disk_end(struct power_disk *power)
{
	assert_ptr_equal(power, traced);
	disk = power->below;
	traced = NULL;
}

void power_disk_destroy(struct power_disk *power)
{
	for (size_t i = 0; i < power->node_count; i++) {
		struct node *node = power->nodes[i];
		entries_finish(&node->entries);
		buffer_finish(&node->bytes);
		free(node->unsynced);
		free(node->told_name);
		free(node);
	}
	for (size_t i = 0; i < power->change_count; i++) {
		struct change *change = &power->changes[i];
		buffer_finish(&change->bytes);
		free(change->name);
		free(change->from);
	}
	free(power->nodes);
	free(power->changes);
	free(power);
}

size_t power_disk_count(const struct power_disk *power)
{
	pthread_mutex_lock(&lock);
	size_t count = power->change_count;
	pthread_mutex_unlock(&lock);
	return count;
}

void power_disk_tell(const struct power_disk *power, size_t nth, struct buffer *out)
{
	static const char *const verbs[] = {
		"write", "truncate", "link", "unlink", "rename", "sync", "lose"};
	const struct change *change = &power->changes[nth];
	buffer_printf(out, "%s %s", verbs[change->kind], change->node->told_name);
	if (change->name) {
		buffer_printf(out, " %s%s%s", change->from ? change->from : "",
			change->from ? " to " : "", change->name);
	}
	if (change->kind == CHANGE_WRITE) {
		buffer_printf(out, " %zu bytes at %zu", change->bytes.len, change->offset);
	}
}
