/*
 * Copies raw streams: their files first, and then the journal, with every segment since before the
 * first file was copied. These segments are held open, since checkpoints delete them. So the copied
 * journal has every change to a stream since its file was copied, including its deletion, and
 * recovery of the copy brings the files in line with it.
 */
#include "core/store/embedded/copy.h"

#include "raw_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most attempts while the server deletes segments before they are held. */
#define ATTEMPTS 20

struct held {
	uint64_t number;
	int fd;
};

struct stream_copy {
	struct copying *c;
	int from_fd; /* DIR/streams */
	int to_fd;
	int before_fd; /* streams/data of an earlier copy; -1: none */
	struct held *held; /* open segments, by ascending number */
	size_t count;
	int result; /* of holding segments that began during the copy */
};

static void release(struct stream_copy *s)
{
	while (s->count) {
		close(s->held[--s->count].fd);
	}
	free(s->held);
	s->held = NULL;
}

/* --- journal --- */

/**
 * Opens a segment and keeps it open. `is_first`: the first pass, before any file is copied; oldest
 * segments that disappear then are not needed. Returns -EAGAIN if a needed segment is gone.
 */
static int hold(struct stream_copy *s, uint64_t number, bool is_first)
{
	char path[8 + RAW_FILE_NAME_SIZE] = "journal/";
	uint64_t last = s->count ? s->held[s->count - 1].number : 0;
	if (number <= last) {
		return 0;
	}
	if (!is_first && last && number != last + 1) {
		return -EAGAIN;
	}
	raw_segment_name(path + 8, number);
	int fd = disk->openat(s->from_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return errno != ENOENT ? -errno : is_first && !s->count ? 0 : -EAGAIN;
	}
	s->held = xrealloc(s->held, (s->count + 1) * sizeof(*s->held));
	s->held[s->count++] = (struct held){.number = number, .fd = fd};
	return 0;
}

static int hold_segments(struct stream_copy *s, bool is_first)
{
	char **names;
	size_t count;
	uint64_t number;
	int r = disk_list(s->from_fd, "journal", raw_is_segment, &names, &count);
	r = r == -ENOENT ? 0 : r;
	for (size_t i = 0; r == 0 && i < count; i++) {
		raw_read_name(names[i], ".raw", &number);
		r = hold(s, number, is_first);
	}
	disk_list_free(names, count);
	return r;
}

static void handle_piece(void *arg)
{
	struct stream_copy *s = arg;
	s->result = s->result < 0 ? s->result : hold_segments(s, false);
}

static int copy_segments(struct stream_copy *s)
{
	int to_fd = copy_make_dir(s->to_fd, "journal");
	int r = to_fd < 0 ? to_fd : hold_segments(s, false);
	for (size_t i = 0; r == 0 && i < s->count; i++) {
		char name[RAW_FILE_NAME_SIZE];
		raw_segment_name(name, s->held[i].number);
		r = copy_opened(s->c, s->held[i].fd, to_fd, name, UINT64_MAX);
	}
	if (to_fd >= 0) {
		close(to_fd);
	}
	return r;
}

/* --- files --- */

static bool is_same(int dir_fd, const char *name, const struct stat *st)
{
	struct stat other;
	return dir_fd >= 0 && fstatat(dir_fd, name, &other, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(other.st_mode) && other.st_size == st->st_size &&
	       other.st_mtim.tv_sec == st->st_mtim.tv_sec &&
	       other.st_mtim.tv_nsec == st->st_mtim.tv_nsec;
}

/**
 * Copies or links the file of a stream. The copy gets its mtime, by which the next copy recognizes
 * an unchanged file. A file that is gone is skipped: the journal has the deletion.
 */
static int copy_data(struct stream_copy *s, int from_fd, int to_fd, const char *name)
{
	struct stat st;
	if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	if (is_same(to_fd, name, &st)) {
		return 0;
	}
	if (is_same(s->before_fd, name, &st) &&
		(disk->unlinkat(to_fd, name, 0) == 0 || errno == ENOENT) &&
		linkat(s->before_fd, name, to_fd, name, 0) == 0) {
		return 0;
	}
	int r = copy_file(s->c, from_fd, to_fd, name, UINT64_MAX);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	struct timespec times[2] = {st.st_mtim, st.st_mtim};
	return utimensat(to_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_all_data(struct stream_copy *s)
{
	char **names;
	size_t count;
	int r = disk_list(s->from_fd, "data", raw_is_data, &names, &count);
	if (r == -ENOENT) {
		return 0;
	}
	int from_fd = disk->openat(s->from_fd, "data", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int to_fd = copy_make_dir(s->to_fd, "data");
	r = r < 0 ? r : from_fd < 0 ? -ENOENT : to_fd < 0 ? to_fd : 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = copy_data(s, from_fd, to_fd, names[i]);
		r = r < 0 ? r : s->result;
	}
	disk_list_free(names, count);
	if (from_fd >= 0) {
		close(from_fd);
	}
	if (to_fd >= 0) {
		close(to_fd);
	}
	return r;
}

int copy_streams(struct copying *c)
{
	struct stream_copy s = {.c = c, .before_fd = -1};
	s.from_fd =
		disk->openat(c->files->dir_fd, "streams", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (s.from_fd < 0) {
		return errno == ENOENT ? 0 : copy_fail(c, -errno, "streams");
	}
	s.to_fd = copy_make_dir(c->copy->to_fd, "streams");
	if (c->copy->before_fd >= 0) {
		s.before_fd = disk->openat(
			c->copy->before_fd, "streams/data", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	}
	int r = s.to_fd < 0 ? s.to_fd : -EAGAIN;
	for (int attempt = 0; r == -EAGAIN && attempt < ATTEMPTS; attempt++) {
		release(&s);
		s.result = 0;
		r = hold_segments(&s, true);
		c->between = handle_piece;
		c->between_arg = &s;
		r = r < 0 ? r : copy_all_data(&s);
		c->between = NULL;
		r = r < 0 ? r : copy_segments(&s);
	}
	release(&s);
	close(s.from_fd);
	if (s.to_fd >= 0) {
		close(s.to_fd);
	}
	if (s.before_fd >= 0) {
		close(s.before_fd);
	}
	return r < 0 ? copy_fail(c, r, "streams") : 0;
}
