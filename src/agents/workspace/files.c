#include "workspace_internal.h"

#include "holdfast/beneath.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* How much of a diff is reported to observers. */
#define DIFF_MAX ((size_t)64 * 1024)

static int job_fail(struct file_job *job, int code, const char *why)
{
	job->code = code;
	buffer_clear(&job->text);
	buffer_printf(&job->text, "%s: %s", why, job->path);
	return -1;
}

static int job_fail_errno(struct file_job *job, int err)
{
	if (err == EXDEV) {
		return job_fail(job, JSON_RPC_INVALID_PARAMS,
			"the path leads out of the session's directory");
	}
	if (err == EISDIR) {
		return job_fail(job, JSON_RPC_INVALID_PARAMS, "not the name of a file");
	}
	char why[128];
	snprintf(why, sizeof(why), "%s", strerror(err));
	return job_fail(job, err == ENOENT ? JSON_RPC_NOT_FOUND : JSON_RPC_INTERNAL_ERROR, why);
}

/** Returns the part of `path` below `root`; NULL if the path is not below it. */
static const char *below(const char *path, const char *root)
{
	size_t len = strlen(root);
	while (len > 0 && root[len - 1] == '/') {
		len--;
	}
	if (strncmp(path, root, len) != 0 || path[len] != '/') {
		return NULL;
	}
	path += len;
	return path + strspn(path, "/");
}

/** Opens the root; no link in it is followed if it has none of its own. */
static int open_directory(const struct file_job *job)
{
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	if (!job->root_is_real) {
		return open(job->root, flags);
	}
	int top = open("/", flags);
	int root = top < 0 ? -1 : open_by_steps(top, job->root, flags);
	int err = errno;
	if (top >= 0) {
		close(top);
	}
	errno = err;
	return root;
}

/**
 * Opens the root and finds the path relative to it. Agents use the root as it was given to them, or
 * its real path.
 */
static int open_root(struct file_job *job)
{
	char *real = realpath(job->root, NULL);
	const char *relative = below(job->path, job->root);
	if (!relative && real) {
		relative = below(job->path, real);
	}
	free(real);
	if (!relative || !*relative) {
		return job_fail(job, JSON_RPC_INVALID_PARAMS,
			"only absolute paths below the session's directory may be used");
	}
	job->relative = xstrdup(relative);
	int root = open_directory(job);
	if (root < 0 && job->root_is_real && (errno == ENOTDIR || errno == ELOOP)) {
		return job_fail(job, JSON_RPC_INTERNAL_ERROR,
			"a link or a file is in the place of the session's directory");
	}
	return root < 0 ? job_fail_errno(job, errno) : root;
}

/** Finds where the requested lines begin and end in the text. */
static void select_lines(
	const struct file_job *job, const struct buffer *text, size_t *ret_from, size_t *ret_to)
{
	size_t from = 0;
	for (json_int_t line = 1; line < job->line && from < text->len; line++) {
		const char *end = memchr(text->data + from, '\n', text->len - from);
		from = end ? (size_t)(end + 1 - text->data) : text->len;
	}
	size_t to = job->limit > 0 ? from : text->len;
	for (json_int_t n = 0; n < job->limit && to < text->len; n++) {
		const char *end = memchr(text->data + to, '\n', text->len - to);
		to = end ? (size_t)(end + 1 - text->data) : text->len;
	}
	*ret_from = from;
	*ret_to = to;
}

static int check_stat(struct file_job *job, const struct stat *st)
{
	if (!S_ISREG(st->st_mode)) {
		return job_fail(job, JSON_RPC_INVALID_PARAMS, "not a regular file");
	}
	if (st->st_nlink > job->names_max) {
		return job_fail(job, JSON_RPC_INVALID_PARAMS,
			"the file has other names (hard links), which may be outside of the session's directory; the server's limit agent_file_names allows more");
	}
	return 0;
}

static int check_file(struct file_job *job, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return job_fail_errno(job, errno);
	}
	if (check_stat(job, &st) < 0) {
		return -1;
	}
	if ((uint64_t)st.st_size > job->file_max) {
		return job_fail(job, JSON_RPC_INVALID_PARAMS, "the file is too large");
	}
	return 0;
}

static int refuse_private(struct file_job *job)
{
	return job_fail(
		job, JSON_RPC_INVALID_PARAMS, "the server's data directory is not for agents");
}

/** Refuses an open file in the server's data directory, whatever links led there. */
static int check_place(struct file_job *job, int fd)
{
	char link[40];
	char path[PATH_MAX];
	if (!job->private_dir || !*job->private_dir) {
		return 0;
	}
	char *dir = realpath(job->private_dir, NULL);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	bool is_refused = !dir || len <= 0 || path_is_private(path, dir);
	free(dir);
	return is_refused ? refuse_private(job) : 0;
}

static int read_all(struct file_job *job, int fd, struct buffer *text)
{
	for (;;) {
		buffer_reserve(text, 64 * 1024);
		ssize_t n = read(fd, text->data + text->len, 64 * 1024);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return job_fail_errno(job, errno);
		}
		if (n == 0) {
			return 0;
		}
		text->len += (size_t)n;
		if (text->len > job->file_max) {
			return job_fail(job, JSON_RPC_INVALID_PARAMS, "the file is too large");
		}
	}
}

static int read_text(struct file_job *job, int fd, struct buffer *text)
{
	if (check_file(job, fd) < 0 || read_all(job, fd, text) < 0) {
		return -1;
	}
	/* With replaced characters the agent would write a damaged file back. */
	if (!utf8_is_valid(text->data, text->len)) {
		return job_fail(job, JSON_RPC_INTERNAL_ERROR, "the file is not UTF-8 text");
	}
	size_t from;
	size_t to;
	select_lines(job, text, &from, &to);
	job->size = to - from;
	/* Encode it here, so that a large file does not block the loop. */
	buffer_append_json(&job->text, text->data + from, job->size);
	return 0;
}

/**
 * Opens a file for reading. It is checked first through O_PATH, because opening a device can have
 * effects, and again afterwards, because it may have been replaced.
 */
static int open_to_read(struct file_job *job, int root)
{
	int fd = open_beneath(root, job->relative, O_PATH);
	if (fd < 0) {
		return job_fail_errno(job, errno);
	}
	int err = check_place(job, fd) < 0 ? -1 : check_file(job, fd);
	close(fd);
	if (err < 0) {
		return -1;
	}
	/* O_NONBLOCK, because opening a FIFO without a writer blocks. */
	fd = open_beneath(root, job->relative, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		return job_fail_errno(job, errno);
	}
	if (check_place(job, fd) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void job_read(struct file_job *job, int root)
{
	int fd = open_to_read(job, root);
	if (fd < 0) {
		return;
	}
	struct buffer text = {0};
	read_text(job, fd, &text);
	buffer_finish(&text);
	close(fd);
}

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		bytes += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return fdatasync(fd) < 0 ? -errno : 0;
}

/** Gives the new file the owner and permissions of the old one, as far as permitted. */
static int copy_rights(int fd, const struct stat *old)
{
	if (fchown(fd, old->st_uid, old->st_gid) < 0 && errno != EPERM) {
		return -errno;
	}
	return fchmod(fd, old->st_mode & 0777) < 0 ? -errno : 0;
}

/**
 * Writes a temporary file and renames it to `name`: readers see either the old or the new contents,
 * and whatever is at `name` by then is replaced, not followed.
 */
static int replace_file(int dir, const char *name, const struct stat *old, const json_t *content)
{
	uint64_t random = 0;
	char temp[64];
	if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
		return -EIO;
	}
	snprintf(temp, sizeof(temp), ".holdfast-%016llx.tmp", (unsigned long long)random);
	int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0) {
		return -errno;
	}
	int err = write_all(fd, json_string_value(content), json_string_length(content));
	if (err == 0 && old) {
		err = copy_rights(fd, old);
	}
	close(fd);
	if (err == 0 && renameat(dir, temp, dir, name) < 0) {
		err = -errno;
	}
	if (err < 0) {
		unlinkat(dir, temp, 0);
	}
	return err;
}

/**
 * Reads the file that will be replaced, for the diff; returns false if it is not text or too large.
 */
static bool read_old(struct file_job *job, int dir, const char *name, struct buffer *text)
{
	int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	bool good = fd >= 0 && check_file(job, fd) == 0 && read_all(job, fd, text) == 0 &&
		    utf8_is_valid(text->data, text->len);
	if (fd >= 0) {
		close(fd);
	}
	/* That it cannot be read does not prevent writing it. */
	job->code = 0;
	buffer_clear(&job->text);
	return good;
}

static void make_diff(struct file_job *job, const struct buffer *old)
{
	struct buffer new = {0};
	buffer_append(&new, json_string_value(job->content), json_string_length(job->content));
	job->diff_cut = !diff_append(&job->diff, old, &new, DIFF_MAX);
	/* A file can contain NUL, but the text of an event cannot. */
	job->has_diff = !job->diff.len || !memchr(job->diff.data, '\0', job->diff.len);
	job->diff_cut = job->diff_cut && job->has_diff;
	buffer_finish(&new);
}

static int write_in(struct file_job *job, int dir, const char *name)
{
	struct stat st = {0};
	bool exists = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!exists && errno != ENOENT) {
		return job_fail_errno(job, errno);
	}
	if (exists && check_stat(job, &st) < 0) {
		return -1;
	}
	struct buffer old = {0};
	bool has_old = !exists || read_old(job, dir, name, &old);
	int err = replace_file(dir, name, exists ? &st : NULL, job->content);
	if (err == 0 && has_old) {
		make_diff(job, &old);
	}
	buffer_finish(&old);
	if (err < 0) {
		return job_fail_errno(job, -err);
	}
	job->created = !exists;
	job->size = json_string_length(job->content);
	return 0;
}

static void job_write(struct file_job *job, int root)
{
	char *name = NULL;
	if (job->private_dir && path_is_private(job->path, job->private_dir)) {
		refuse_private(job); /* before missing directories are created */
		return;
	}
	int dir = open_parent(root, job->relative, &name);
	if (dir < 0) {
		job_fail_errno(job, errno);
		return;
	}
	if (check_place(job, dir) == 0) {
		write_in(job, dir, name);
	}
	free(name);
	close(dir);
}

void file_job_work(struct file_job *job)
{
	if (job->write && json_string_length(job->content) > job->file_max) {
		job_fail(job, JSON_RPC_INVALID_PARAMS, "the content is too large");
		return;
	}
	int root = open_root(job);
	if (root < 0) {
		return;
	}
	if (job->write) {
		job_write(job, root);
	} else {
		job_read(job, root);
	}
	close(root);
}

/** Reads an optional line number; returns false if it is invalid. */
static bool take_count(const json_t *params, const char *key, json_int_t *ret_count)
{
	const json_t *value = json_object_get(params, key);
	*ret_count = 0;
	return !value || json_is_null(value) || (json_whole(value, ret_count) && *ret_count >= 0);
}

struct file_job *file_job_create(bool write, const json_t *params, const char **ret_why)
{
	const json_t *path = json_object_get(params, "path");
	json_t *content = write ? json_object_get(params, "content") : NULL;
	json_int_t line = 0;
	json_int_t limit = 0;
	if (!json_is_string(path) || json_string_length(path) >= 4096) {
		*ret_why = "path must be a string of fewer than 4096 bytes";
		return NULL;
	}
	if (write && !json_is_string(content)) {
		*ret_why = "content must be a string";
		return NULL;
	}
	if (!write &&
		(!take_count(params, "line", &line) || !take_count(params, "limit", &limit))) {
		*ret_why = "line and limit must be numbers from 0";
		return NULL;
	}
	struct file_job *job = xcalloc(1, sizeof(*job));
	job->write = write;
	job->path = xstrdup(json_string_value(path));
	job->line = line;
	job->limit = limit;
	job->content = json_incref(content);
	return job;
}

void file_job_destroy(struct file_job *job)
{
	if (!job) {
		return;
	}
	free(job->root);
	free(job->private_dir);
	free(job->path);
	free(job->relative);
	json_decref(job->id);
	json_decref(job->content);
	buffer_finish(&job->text);
	buffer_finish(&job->diff);
	free(job);
}
