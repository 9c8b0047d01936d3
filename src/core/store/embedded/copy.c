/* Copies sessions and their journal, beside a running server (store_copy.h). */
#include "copy.h"

#include "embedded.h"

#include "holdfast/beneath.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_SIZE ((size_t)1 << 20)
/* Most attempts at a session that keeps changing, and at the whole copy. */
#define SESSION_ATTEMPTS 5
#define ATTEMPTS         20

int copy_fail(struct copying *c, int error, const char *path)
{
	free(*c->ret_why);
	*c->ret_why =
		xprintf("%s cannot be copied: %s", c->file[0] ? c->file : path, file_error(-error));
	return error;
}

/**
 * Goes on behind the hole at *at, if there is one, in both files. Returns false if only a hole is
 * left, which ends at *at.
 */
static bool skip_hole(int from, int to, uint64_t most, uint64_t *at)
{
	struct stat st;
	off_t next = lseek(from, (off_t)*at, SEEK_DATA);
	bool is_rest = next < 0 && errno == ENXIO;
	if (is_rest && fstat(from, &st) == 0) {
		next = st.st_size;
	}
	uint64_t end = next < 0 || (uint64_t)next > most ? most : (uint64_t)next;
	if (next > (off_t)*at && lseek(to, (off_t)end, SEEK_SET) >= 0) {
		*at = end;
	}
	return !is_rest;
}

static bool is_zero(const char *bytes, size_t len)
{
	return !len || (!bytes[0] && memcmp(bytes, bytes + 1, len - 1) == 0);
}

/** Does what copy_opened() says. Pieces that are all zeros become holes. */
static int copy_bytes(struct copying *c, int from, int to, uint64_t most)
{
	uint64_t at = 0;
	ssize_t n = 1;
	while (at < most && n > 0 && skip_hole(from, to, most, &at) && at < most) {
		size_t want = most - at < PIECE_SIZE ? (size_t)(most - at) : PIECE_SIZE;
		n = disk->pread(from, c->bytes, want, (off_t)at);
		if (n < 0 && errno == EINTR) {
			n = 1;
			continue;
		}
		if (n <= 0) {
			break;
		}
		bool is_blank = is_zero(c->bytes, (size_t)n);
		int r = is_blank ? lseek(to, (off_t)n, SEEK_CUR) < 0 ? -errno : 0
				 : disk_write_all(to, c->bytes, (size_t)n);
		if (r < 0) {
			return r;
		}
		at += (uint64_t)n;
		c->copy->bytes += is_blank ? 0 : (uint64_t)n;
		c->copy->progress(c->copy->owner, (uint64_t)n);
		if (c->between) {
			c->between(c->between_arg);
		}
	}
	if (n < 0) {
		return -errno;
	}
	if (disk->ftruncate(to, (off_t)at) < 0) {
		return -errno;
	}
	return at < most && most != UINT64_MAX ? -EBADMSG : 0;
}

int copy_opened(struct copying *c, int from, int to_fd, const char *path, uint64_t most)
{
	/* Never overwrite in place: an earlier copy may share the file by a link. */
	disk->unlinkat(to_fd, path, 0);
	int to = disk->openat(to_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = to < 0 ? -errno : copy_bytes(c, from, to, most);
	if (to >= 0) {
		close(to);
	}
	return r;
}

int copy_file(struct copying *c, int from_fd, int to_fd, const char *path, uint64_t most)
{
	int from = disk->openat(from_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (from < 0) {
		int r = -errno;
		snprintf(c->file, sizeof(c->file), "%s", file_is_foreign(-r) ? path : "");
		return r;
	}
	int r = copy_opened(c, from, to_fd, path, most);
	close(from);
	return r;
}

static int make_dir(int dir_fd, const char *path)
{
	return disk->mkdirat(dir_fd, path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* --- blobs --- */

/** Whether the earlier copy has the blob, and its bytes are still those of its name. */
static bool was_copied(const struct copying *c, const char *path)
{
	int fd = c->before_sessions_fd < 0
			 ? -1
			 : disk->openat(c->before_sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	bool is_good = fd >= 0 && blob_check_file(fd, strrchr(path, '/') + 1) == 0;
	if (fd >= 0) {
		close(fd);
	}
	return is_good;
}

static int copy_blob(struct copying *c, const char *path)
{
	struct stat st;
	if (fstatat(c->to_sessions_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		return 0; /* the name is the hash of the contents */
	}
	if (was_copied(c, path) &&
		linkat(c->before_sessions_fd, path, c->to_sessions_fd, path, 0) == 0) {
		return 0;
	}
	int r = copy_file(c, c->files->sessions_fd, c->to_sessions_fd, path, UINT64_MAX);
	if (file_is_foreign(-r)) {
		/* Nobody gets it, so the copy does without. */
		diag(DIAG_WARN, "sessions/%s is left out of the copy: %s", path, file_error(-r));
		c->copy->left_out++;
		c->file[0] = '\0';
		return 0;
	}
	return r == -ENOENT ? 0 : r;
}

static int copy_blobs(struct copying *c, const char *id)
{
	char path[320];
	char **names;
	size_t count;
	snprintf(path, sizeof(path), "%s/blobs", id);
	int r = disk_list(c->files->sessions_fd, path, NULL, &names, &count);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	r = make_dir(c->to_sessions_fd, path);
	for (size_t i = 0; r == 0 && i < count; i++) {
		snprintf(path, sizeof(path), "%s/blobs/%s", id, names[i]);
		r = copy_blob(c, path);
	}
	disk_list_free(names, count);
	return r;
}

/* --- sessions --- */

static int read_metadata(int sessions_fd, const char *id, struct buffer *out)
{
	char path[192];
	snprintf(path, sizeof(path), "%s/metadata.json", id);
	buffer_clear(out);
	return sessions_fd < 0 ? -ENOENT : disk_read_file(sessions_fd, path, METADATA_MAX, out);
}

static bool has_same(int sessions_fd, const char *id, const struct buffer *meta)
{
	struct buffer bytes = {0};
	bool same = read_metadata(sessions_fd, id, &bytes) == 0 && bytes.len == meta->len &&
		    memcmp(bytes.data, meta->data, meta->len) == 0;
	buffer_finish(&bytes);
	return same;
}

static bool link_session(struct copying *c, const char *id)
{
	static const char *const files[] = {"events.jsonl", "keys.jsonl", "metadata.json"};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[192];
		struct stat st;
		snprintf(path, sizeof(path), "%s/%s", id, files[i]);
		if (fstatat(c->before_sessions_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			!S_ISREG(st.st_mode)) {
			return false;
		}
		if (linkat(c->before_sessions_fd, path, c->to_sessions_fd, path, 0) < 0 &&
			errno != ENOENT) {
			return false;
		}
	}
	return true;
}

/** Returns 0 if the copied log ends as metadata.json says, or a negative errno. */
static int check_copy(struct copying *c, const char *path, const struct store_metadata *meta)
{
	if (!meta->log_size) {
		return 0;
	}
	int fd = disk->openat(c->to_sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	int r = fd < 0 ? -errno : log_check_last(fd, meta->log_size, meta->max_seq);
	if (fd >= 0) {
		close(fd);
	}
	return r;
}

/**
 * Copies the files up to what metadata.json (`bytes`) says. Returns -EBADMSG if they do not match
 * it (any more).
 */
static int copy_files(struct copying *c, const char *id, const struct buffer *bytes)
{
	char path[192];
	const char *why;
	struct store_metadata meta;
	int from = c->files->sessions_fd;
	int r = store_files_read_metadata(c->files, id, NULL, &meta, &why);
	store_metadata_finish(&meta);
	if (r < 0 || !has_same(from, id, bytes)) {
		return r < 0 ? r : -EBADMSG;
	}
	snprintf(path, sizeof(path), "%s/keys.jsonl", id);
	r = meta.keys_size ? copy_file(c, from, c->to_sessions_fd, path, meta.keys_size) : 0;
	snprintf(path, sizeof(path), "%s/events.jsonl", id);
	if (r == 0 && meta.log_size) {
		r = copy_file(c, from, c->to_sessions_fd, path, meta.log_size);
	}
	r = r < 0 ? r : check_copy(c, path, &meta);
	if (r < 0) {
		return r == -ENOENT ? -EBADMSG : r;
	}
	snprintf(path, sizeof(path), "%s/metadata.json.new", id);
	disk->unlinkat(c->to_sessions_fd, path, 0);
	int dir_fd = disk->openat(c->to_sessions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	r = dir_fd < 0 ? -errno : disk_replace(dir_fd, "metadata.json", bytes, false);
	if (dir_fd >= 0) {
		close(dir_fd);
	}
	return r;
}

/** Copies a damaged session as it is: verify reports the damage in the copy as in the original. */
static int copy_damaged(struct copying *c, const char *id)
{
	static const char *const files[] = {"metadata.json", "keys.jsonl", "events.jsonl"};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		char path[192];
		snprintf(path, sizeof(path), "%s/%s", id, files[i]);
		r = copy_file(c, c->files->sessions_fd, c->to_sessions_fd, path, UINT64_MAX);
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

/** Copies or links metadata.json, names and log. */
static int copy_lines(struct copying *c, const char *id, struct buffer *meta)
{
	int r = -EBADMSG;
	for (int attempt = 0; r == -EBADMSG && attempt < SESSION_ATTEMPTS; attempt++) {
		r = read_metadata(c->files->sessions_fd, id, meta);
		if (r < 0 || has_same(c->to_sessions_fd, id, meta)) {
			return r;
		}
		if (has_same(c->before_sessions_fd, id, meta) && link_session(c, id)) {
			c->copy->linked++;
			return 0;
		}
		r = copy_files(c, id, meta);
	}
	return r == -EBADMSG ? copy_damaged(c, id) : r;
}

static int copy_session(struct copying *c, const char *id, struct buffer *meta)
{
	int r = read_metadata(c->files->sessions_fd, id, meta);
	if (r == -ENOENT) {
		return 0; /* it is being created, and the journal has it; or it was just deleted */
	}
	r = r < 0 ? r : make_dir(c->to_sessions_fd, id);
	r = r < 0 ? r : copy_lines(c, id, meta);
	r = r < 0 ? r : copy_blobs(c, id);
	if (r == -ENOENT) {
		remove_folder(c->to_sessions_fd, id);
		return 0;
	}
	return r < 0 ? copy_fail(c, r, id) : 0;
}

/** Removes sessions from the copy that have been deleted meanwhile, and counts the others. */
static void drop_deleted(struct copying *c)
{
	char **ids;
	size_t count;
	if (store_list_ids(c->to_sessions_fd, &ids, &count) < 0) {
		return;
	}
	c->copy->sessions = 0;
	for (size_t i = 0; i < count; i++) {
		if (faccessat(c->files->sessions_fd, ids[i], F_OK, 0) < 0 && errno == ENOENT) {
			remove_folder(c->to_sessions_fd, ids[i]);
		} else {
			c->copy->sessions++;
		}
	}
	disk_list_free(ids, count);
}

static int copy_sessions(struct copying *c)
{
	char **ids;
	size_t count;
	struct buffer meta = {0};
	int r = store_list_ids(c->files->sessions_fd, &ids, &count);
	if (r < 0) {
		return copy_fail(c, r, "sessions");
	}
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = copy_session(c, ids[i], &meta);
	}
	disk_list_free(ids, count);
	buffer_finish(&meta);
	drop_deleted(c);
	return r;
}

/* --- journal --- */

static int oldest_segment(const struct copying *c, uint64_t *ret)
{
	uint64_t *segments;
	size_t count;
	int r = store_files_list_segments(c->files, &segments, &count);
	*ret = r == 0 && count ? segments[0] : 0;
	free(segments);
	return r;
}

static int copy_segments(struct copying *c, int to_fd)
{
	uint64_t *segments;
	size_t count;
	int r = journal_list(to_fd, &segments, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		char name[32];
		journal_segment_name(segments[i], name);
		disk->unlinkat(to_fd, name, 0); /* copied by an attempt that was too slow */
	}
	free(segments);
	if (r < 0) {
		return r;
	}
	r = store_files_list_segments(c->files, &segments, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		char name[32];
		journal_segment_name(segments[i], name);
		r = copy_file(c, c->files->journal_fd, to_fd, name, UINT64_MAX);
	}
	free(segments);
	return r == -ENOENT ? -EAGAIN : r;
}

int copy_make_dir(int dir_fd, const char *name)
{
	int r = make_dir(dir_fd, name);
	int fd = r < 0 ? r : disk->openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return r == 0 && fd < 0 ? -errno : fd;
}

/**
 * Copies the sessions first, then the journal. If the oldest segment is still the same afterwards,
 * the journal has everything that the copied logs lack. Otherwise another round copies what has
 * changed, which is less.
 */
static int copy_all(struct copying *c)
{
	uint64_t before;
	uint64_t after;
	int journal_fd = copy_make_dir(c->copy->to_fd, "journal");
	int r = journal_fd < 0 ? journal_fd : -EAGAIN;
	for (int attempt = 0; r == -EAGAIN && attempt < ATTEMPTS; attempt++) {
		r = oldest_segment(c, &before);
		r = r < 0 ? r : copy_sessions(c);
		if (r == 0) {
			r = copy_segments(c, journal_fd);
		}
		if (r == 0) {
			r = oldest_segment(c, &after);
		}
		r = r == 0 && before != after ? -EAGAIN : r;
	}
	if (journal_fd >= 0) {
		close(journal_fd);
	}
	return r < 0 && !*c->ret_why ? copy_fail(c, r, "journal") : r;
}

int store_copy(const struct store_files *files, struct store_copy *copy, char **ret_why)
{
	struct copying c = {
		.files = files, .copy = copy, .before_sessions_fd = -1, .ret_why = ret_why};
	*ret_why = NULL;
	c.to_sessions_fd = copy_make_dir(copy->to_fd, "sessions");
	if (c.to_sessions_fd < 0) {
		return copy_fail(&c, c.to_sessions_fd, "sessions");
	}
	if (copy->before_fd >= 0) {
		c.before_sessions_fd = disk->openat(
			copy->before_fd, "sessions", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	}
	c.bytes = xmalloc(PIECE_SIZE);
	int r = copy_all(&c);
	r = r < 0 ? r : copy_streams(&c);
	if (r == 0) {
		r = copy_file(&c, files->dir_fd, copy->to_fd, "clock.json", UINT64_MAX);
		r = r == -ENOENT ? 0 : r < 0 ? copy_fail(&c, r, "clock.json") : 0;
	}
	free(c.bytes);
	close(c.to_sessions_fd);
	if (c.before_sessions_fd >= 0) {
		close(c.before_sessions_fd);
	}
	return r;
}
