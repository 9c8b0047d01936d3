#include "acp_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The agent names paths, and may have put symlinks into its directory: the kernel is asked to
 * refuse whatever leads out of it (openat2), so that there is no moment between a check and its
 * use.
 */

static int job_fail(struct acp_file_job *job, int code, const char *why)
{
	job->code = code;
	buffer_clear(&job->text);
	buffer_printf(&job->text, "%s: %s", why, job->path);
	return -1;
}

static int job_fail_errno(struct acp_file_job *job, int err)
{
	if (err == EXDEV) {
		return job_fail(job, ACP_ERROR_INVALID_PARAMS,
			"the path leads out of the session's directory");
	}
	char why[128];
	snprintf(why, sizeof(why), "%s", strerror(err));
	return job_fail(job, err == ENOENT ? ACP_ERROR_NOT_FOUND : ACP_ERROR_INTERNAL, why);
}

static int open_beneath(int root, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/** What follows `root` in `path`, or NULL if the path is not below it. */
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

/**
 * Opens the root and finds the path below it. Agents name the root as it was given to them or as it
 * really is.
 */
static int open_root(struct acp_file_job *job)
{
	char *real = realpath(job->root, NULL);
	const char *relative = below(job->path, job->root);
	if (!relative && real) {
		relative = below(job->path, real);
	}
	free(real);
	if (!relative || !*relative) {
		return job_fail(job, ACP_ERROR_INVALID_PARAMS,
			"only absolute paths below the session's directory may be used");
	}
	job->relative = xstrdup(relative);
	int root = open(job->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? job_fail_errno(job, errno) : root;
}

/** Where the lines that were asked for begin and end in the text. */
static void select_lines(
	const struct acp_file_job *job, const struct buffer *text, size_t *ret_from, size_t *ret_to)
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

static int check_file(struct acp_file_job *job, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return job_fail_errno(job, errno);
	}
	if (!S_ISREG(st.st_mode)) {
		return job_fail(job, ACP_ERROR_INVALID_PARAMS, "not a regular file");
	}
	if ((uint64_t)st.st_size > job->file_max) {
		return job_fail(job, ACP_ERROR_INVALID_PARAMS, "the file is too large");
	}
	return 0;
}

static int read_all(struct acp_file_job *job, int fd, struct buffer *text)
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
			return job_fail(job, ACP_ERROR_INVALID_PARAMS, "the file is too large");
		}
	}
}

static int read_text(struct acp_file_job *job, int fd, struct buffer *text)
{
	if (check_file(job, fd) < 0 || read_all(job, fd, text) < 0) {
		return -1;
	}
	/* With replaced characters the agent would write a damaged file back. */
	if (acp_utf8_prefix(text->data, text->len, text->len) != text->len) {
		return job_fail(job, ACP_ERROR_INTERNAL, "the file is not UTF-8 text");
	}
	size_t from;
	size_t to;
	select_lines(job, text, &from, &to);
	job->size = to - from;
	/* Encoded here, so that a large file does not hold up the loop. */
	buffer_append_json(&job->text, text->data + from, job->size);
	return 0;
}

static void job_read(struct acp_file_job *job, int root)
{
	/* O_NONBLOCK, because a FIFO without a writer would not even open. */
	int fd = open_beneath(root, job->relative, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		job_fail_errno(job, errno);
		return;
	}
	struct buffer text = {0};
	read_text(job, fd, &text);
	buffer_finish(&text);
	close(fd);
}

/** Opens the directory `path` below root; it and those above it are made where they are missing. */
static int open_directory(int root, const char *path)
{
	int dir = open_beneath(root, *path ? path : ".", O_PATH | O_DIRECTORY);
	if (dir >= 0 || errno != ENOENT) {
		return dir;
	}
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char *above = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	int parent = open_directory(root, above);
	free(above);
	if (parent < 0) {
		return -1;
	}
	int made = *name ? mkdirat(parent, name, 0777) : 0;
	int err = errno;
	close(parent);
	if (made < 0 && err != EEXIST) {
		errno = err;
		return -1;
	}
	return open_beneath(root, path, O_PATH | O_DIRECTORY);
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

/**
 * Fills a new file and puts it in the place of `name`. A symlink there is replaced, not followed.
 */
static int replace_file(int dir, const char *name, mode_t mode, const json_t *content)
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
	if (err == 0 && mode != 0 && fchmod(fd, mode & 0777) < 0) {
		err = -errno;
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

static int write_in(struct acp_file_job *job, int dir, const char *name)
{
	struct stat st = {0};
	bool exists = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (exists && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
		return job_fail(job, ACP_ERROR_INVALID_PARAMS, "not a regular file");
	}
	mode_t mode = exists && S_ISREG(st.st_mode) ? st.st_mode : 0;
	int err = replace_file(dir, name, mode, job->content);
	if (err < 0) {
		return job_fail_errno(job, -err);
	}
	job->size = json_string_length(job->content);
	return 0;
}

static void job_write(struct acp_file_job *job, int root)
{
	const char *slash = strrchr(job->relative, '/');
	const char *name = slash ? slash + 1 : job->relative;
	if (!*name || !strcmp(name, ".") || !strcmp(name, "..")) {
		job_fail(job, ACP_ERROR_INVALID_PARAMS, "not the name of a file");
		return;
	}
	char *parent = xstrndup(job->relative, slash ? (size_t)(slash - job->relative) : 0);
	int dir = open_directory(root, parent);
	free(parent);
	if (dir < 0) {
		job_fail_errno(job, errno);
		return;
	}
	write_in(job, dir, name);
	close(dir);
}

static void job_work(uv_work_t *work)
{
	struct acp_file_job *job = work->data;
	if (job->write && json_string_length(job->content) > job->file_max) {
		job_fail(job, ACP_ERROR_INVALID_PARAMS, "the content is too large");
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

static void handle_worked(uv_work_t *work, int status)
{
	struct acp_file_job *job = work->data;
	job->done(job);
}

void acp_file_job_run(struct acp_file_job *job, uv_loop_t *loop)
{
	job->work.data = job;
	if (uv_queue_work(loop, &job->work, job_work, handle_worked) < 0) {
		job_fail(job, ACP_ERROR_INTERNAL, "out of resources");
		job->done(job);
	}
}

/** Takes an optional line number; false if it is something else. */
static bool take_count(const json_t *params, const char *key, json_int_t *ret_count)
{
	const json_t *value = json_object_get(params, key);
	*ret_count = json_integer_value(value);
	return !value || json_is_null(value) || (json_is_integer(value) && *ret_count >= 0);
}

struct acp_file_job *acp_file_job_create(bool write, const json_t *params, const char **ret_why)
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
	struct acp_file_job *job = xcalloc(1, sizeof(*job));
	job->write = write;
	job->path = xstrdup(json_string_value(path));
	job->line = line;
	job->limit = limit;
	job->content = json_incref(content);
	return job;
}

void acp_file_job_destroy(struct acp_file_job *job)
{
	if (!job) {
		return;
	}
	free(job->root);
	free(job->path);
	free(job->relative);
	json_decref(job->id);
	json_decref(job->content);
	buffer_finish(&job->text);
	free(job);
}
