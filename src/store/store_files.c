#include "holdfast/store_files.h"

#include "store_internal.h"

#include "holdfast/requests.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SIZE ((size_t)1 << 18)
/* The largest event that can be allowed is 64 MiB, and JSON may make six bytes of one. */
#define LINE_MAX_SIZE ((size_t)512 << 20)

static int open_dir(int dir_fd, const char *name)
{
	return disk->openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

int store_files_open(const char *dir, struct store_files *files, char **ret_why)
{
	*files = (struct store_files){-1, -1, -1, -1, false};
	*ret_why = NULL;
	files->dir_fd = open_dir(AT_FDCWD, dir);
	const char *hint = "";
	if (files->dir_fd >= 0) {
		files->sessions_fd = open_dir(files->dir_fd, "sessions");
		files->journal_fd =
			files->sessions_fd < 0 ? -1 : open_dir(files->dir_fd, "journal");
		hint = "it has no sessions/ and journal/ as a data directory of holdfast has: ";
	}
	if (files->journal_fd >= 0) {
		return 0;
	}
	int r = -errno;
	if (asprintf(ret_why, "cannot read the data directory %s: %s%s", dir, hint, strerror(-r)) <
		0) {
		*ret_why = NULL;
	}
	return r;
}

/** A copy may come without the lock file; then nobody is at work in it. */
void store_files_hold(struct store_files *files)
{
	files->lock_fd = disk->openat(files->dir_fd, "lock", O_RDONLY | O_CLOEXEC, 0);
	files->in_use = files->lock_fd >= 0 && flock(files->lock_fd, LOCK_SH | LOCK_NB) < 0 &&
			errno == EWOULDBLOCK;
}

static void close_fd(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}

void store_files_close(struct store_files *files)
{
	close_fd(files->journal_fd);
	close_fd(files->sessions_fd);
	close_fd(files->lock_fd);
	close_fd(files->dir_fd);
}

/* --- what there is --- */

/** A path below sessions/; false if no session can have that id. */
static bool session_path(const char *id, const char *file, char path[192])
{
	snprintf(path, 192, "%s/%s", id, file);
	return session_id_is_valid(id, strlen(id));
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int store_files_list_sessions(const struct store_files *files, char ***ret_ids, size_t *ret_count)
{
	DIR *dir = disk_open_dir(files->sessions_fd, ".");
	if (!dir) {
		return -errno;
	}
	char **ids = NULL;
	size_t count = 0;
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (session_id_is_valid(entry->d_name, strlen(entry->d_name))) {
			ids = xrealloc(ids, (count + 1) * sizeof(*ids));
			ids[count++] = xstrdup(entry->d_name);
		}
	}
	closedir(dir);
	if (count) {
		qsort(ids, count, sizeof(*ids), compare_texts);
	}
	*ret_ids = ids;
	*ret_count = count;
	return 0;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

int store_files_list_segments(
	const struct store_files *files, uint64_t **ret_segments, size_t *ret_count)
{
	DIR *dir = disk_open_dir(files->journal_fd, ".");
	if (!dir) {
		return -errno;
	}
	uint64_t *segments = NULL;
	size_t count = 0;
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		char *end;
		uint64_t number = strtoull(entry->d_name, &end, 16);
		if (end == entry->d_name + 16 && strcmp(end, ".journal") == 0) {
			segments = xrealloc(segments, (count + 1) * sizeof(*segments));
			segments[count++] = number;
		}
	}
	closedir(dir);
	if (count) {
		qsort(segments, count, sizeof(*segments), compare_numbers);
	}
	*ret_segments = segments;
	*ret_count = count;
	return 0;
}

uint64_t store_files_size(int dir_fd, const char *path)
{
	struct stat st;
	return fstatat(dir_fd, path, &st, 0) < 0 ? 0 : (uint64_t)st.st_size;
}

/* --- metadata.json --- */

int store_files_read_metadata(const struct store_files *files, const char *id,
	struct store_metadata *ret, const char **ret_why)
{
	struct metadata meta;
	*ret = (struct store_metadata){0};
	*ret_why = "no session can have this name";
	int r = session_id_is_valid(id, strlen(id))
			? metadata_read(files->sessions_fd, id, &meta, ret_why)
			: -ENOENT;
	if (r == 0) {
		*ret = (struct store_metadata){.epoch = meta.epoch,
			.first_seq = meta.first_seq,
			.first_at = meta.first_at,
			.base_seq = meta.base_seq,
			.max_seq = meta.max_seq,
			.log_size = meta.log_size,
			.keys_size = meta.keys_size,
			.title = xstrdup(meta.title)};
		metadata_finish(&meta);
	}
	return r;
}

void store_metadata_finish(struct store_metadata *metadata)
{
	free(metadata->title);
	metadata->title = NULL;
}

/* --- lines --- */

int log_lines_open(const struct store_files *files, const char *id, struct log_lines *lines)
{
	return log_lines_open_file(files, id, "events.jsonl", lines);
}

int log_lines_open_file(
	const struct store_files *files, const char *id, const char *file, struct log_lines *lines)
{
	char path[192];
	*lines = (struct log_lines){.fd = -1};
	if (!session_path(id, file, path)) {
		return -ENOENT;
	}
	lines->fd = disk->openat(files->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (lines->fd < 0) {
		return -errno;
	}
	buffer_reserve(&lines->bytes, READ_SIZE);
	return 0;
}

void log_lines_close(struct log_lines *lines)
{
	close_fd(lines->fd);
	buffer_finish(&lines->bytes);
}

/** Reads more behind what there is. Returns how much, 0 at the end of the file. */
static ssize_t read_more(struct log_lines *lines)
{
	struct buffer *bytes = &lines->bytes;
	buffer_consume(bytes, lines->at);
	lines->at = 0;
	if (bytes->len > LINE_MAX_SIZE) {
		return -EMSGSIZE;
	}
	buffer_reserve(bytes, READ_SIZE);
	ssize_t n;
	do {
		n = disk->read(lines->fd, bytes->data + bytes->len, READ_SIZE);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		bytes->len += (size_t)n;
	}
	return n < 0 ? -errno : n;
}

int log_lines_next(struct log_lines *lines, const char **ret_line, size_t *ret_len)
{
	struct buffer *bytes = &lines->bytes;
	size_t searched = 0; /* bytes of the line that have no newline in them */
	for (;;) {
		const char *line = bytes->data + lines->at;
		size_t have = bytes->len - lines->at;
		const char *newline =
			have > searched ? memchr(line + searched, '\n', have - searched) : NULL;
		if (newline) {
			*ret_line = line;
			*ret_len = (size_t)(newline - line);
			lines->at += *ret_len + 1;
			lines->offset += *ret_len + 1;
			lines->number++;
			return 1;
		}
		searched = have;
		ssize_t n = read_more(lines);
		if (n <= 0) {
			return (int)n;
		}
	}
}

size_t log_lines_rest(const struct log_lines *lines)
{
	return lines->bytes.len - lines->at;
}
