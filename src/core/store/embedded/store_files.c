#include "holdfast/store_files.h"

#include "embedded.h"

#include "holdfast/requests.h"
#include "holdfast/store_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int store_files_open(const char *dir, struct store_files *files, char **ret_why)
{
	*files = (struct store_files){-1, -1, -1, -1, false};
	*ret_why = NULL;
	files->dir_fd = disk_open_dir(AT_FDCWD, dir);
	const char *hint = "";
	if (files->dir_fd >= 0) {
		files->sessions_fd = disk_open_dir(files->dir_fd, "sessions");
		files->journal_fd =
			files->sessions_fd < 0 ? -1 : disk_open_dir(files->dir_fd, "journal");
		hint = "it has no sessions/ and journal/ as a data directory of holdfast has: ";
	}
	if (files->journal_fd >= 0) {
		return 0;
	}
	int r = -errno;
	/* The address is not repeated: it may have a password. */
	*ret_why =
		r == -ENOENT && store_kind_of(dir)
			? xstrdup("this is the address of a database, and the command is for data directories; docs/postgresql.md says what a database has instead")
			: xprintf("cannot read the data directory %s: %s%s", dir, hint,
				  strerror(-r));
	return r;
}

/** A copy may lack the lock file; then no server can be using it. */
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

/* --- listing --- */

/** Makes the path of a session's file below sessions/; false if the id is invalid. */
static bool session_path(const char *id, const char *file, char path[192])
{
	snprintf(path, 192, "%s/%s", id, file);
	return session_id_is_valid(id, strlen(id));
}

static bool is_id(const char *name)
{
	return session_id_is_valid(name, strlen(name));
}

int store_list_ids(int sessions_fd, char ***ret_ids, size_t *ret_count)
{
	return disk_list(sessions_fd, ".", is_id, ret_ids, ret_count);
}

int store_files_list_sessions(const struct store_files *files, char ***ret_ids, size_t *ret_count)
{
	return store_list_ids(files->sessions_fd, ret_ids, ret_count);
}

int store_files_list_segments(
	const struct store_files *files, uint64_t **ret_segments, size_t *ret_count)
{
	return journal_list(files->journal_fd, ret_segments, ret_count);
}

uint64_t store_files_size(int dir_fd, const char *path)
{
	struct stat st;
	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : (uint64_t)st.st_size;
}

/* --- metadata.json --- */

int store_files_read_metadata(const struct store_files *files, const char *id,
	const struct store_facts *facts, struct store_metadata *ret, const char **ret_why)
{
	struct metadata meta;
	*ret = (struct store_metadata){0};
	*ret_why = "no session can have this name";
	int r = session_id_is_valid(id, strlen(id))
			? metadata_read(files->sessions_fd, id, facts, &meta, ret_why)
			: -ENOENT;
	if (r == 0) {
		metadata_give(&meta, ret);
		metadata_finish(&meta);
	}
	return r;
}

void store_metadata_finish(struct store_metadata *metadata)
{
	if (metadata->facts) {
		metadata->facts_ops->destroy(metadata->facts);
	}
	metadata->facts = NULL;
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
	int fd = disk->openat(files->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	log_lines_begin(lines, fd, 0, UINT64_MAX);
	return 0;
}

void log_lines_close(struct log_lines *lines)
{
	close_fd(lines->fd);
	buffer_finish(&lines->bytes);
}
