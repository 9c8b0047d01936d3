/*
 * Removes blobs of pruned events: when pruned lines have been removed from a log's file, blobs that
 * no remaining line mentions are deleted. The shorter log is durable before that, so a power cut
 * leaves too many blobs, never too few; the next sweep finds them.
 */
#include "embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Blobs younger than this stay: they may be for a prompt that somebody is writing. */
#define YOUNG_MS   ((int64_t)86400000)
#define NAME_LEN   (BLOB_NAME_SIZE - 1)
#define PIECE_SIZE ((size_t)1 << 18)

struct sweep {
	int dir_fd; /* of the blobs */
	int64_t before; /* files written since stay; ms since 1970 */
	char **names; /* of the files that may go; sorted */
	bool *is_kept;
	size_t count;
	char run[NAME_LEN]; /* the hex digits that were read last */
	size_t run_len; /* how many; a run longer than NAME_LEN is not a name */
};

static bool is_old(const struct sweep *sweep, const char *name, uint64_t *ret_size)
{
	struct stat st;
	if (fstatat(sweep->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) {
		return false;
	}
	*ret_size = blob_room_for((uint64_t)st.st_size);
	return (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 < sweep->before;
}

/** A text mentions this name: keeps the blob, also its file with a suffix such as ".tools". */
static void keep(struct sweep *sweep, const char *name)
{
	size_t from = 0;
	for (size_t to = sweep->count; from < to;) {
		size_t middle = (from + to) / 2;
		if (strncmp(sweep->names[middle], name, NAME_LEN) < 0) {
			from = middle + 1;
		} else {
			to = middle;
		}
	}
	while (from < sweep->count && strncmp(sweep->names[from], name, NAME_LEN) == 0) {
		sweep->is_kept[from++] = true;
	}
}

static void end_run(struct sweep *sweep)
{
	if (sweep->run_len == NAME_LEN) {
		keep(sweep, sweep->run);
	}
	sweep->run_len = 0;
}

/** Anything that looks like a name counts as one, wherever it is in the text. */
static void read_text(struct sweep *sweep, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
			end_run(sweep);
			continue;
		}
		if (sweep->run_len < NAME_LEN) {
			sweep->run[sweep->run_len] = c;
		}
		sweep->run_len += sweep->run_len <= NAME_LEN;
	}
}

static int read_log(struct sweep *sweep, int folder, uint64_t size)
{
	int fd = disk->openat(folder, "events.jsonl", O_RDONLY | O_CLOEXEC, 0);
	int r = fd < 0 ? -errno : 0;
	char *bytes = xmalloc(PIECE_SIZE);
	for (uint64_t at = 0; r == 0 && at < size;) {
		size_t len = size - at < PIECE_SIZE ? (size_t)(size - at) : PIECE_SIZE;
		r = disk_read_at(fd, at, bytes, len);
		if (r == 0) {
			read_text(sweep, bytes, len);
		}
		at += len;
	}
	end_run(sweep);
	free(bytes);
	if (fd >= 0) {
		close(fd);
	}
	return r;
}

/**
 * Deletes a blob and returns the room that it had. An upload of the same bytes may just have
 * replaced it, under the same lock: then it is young again, and stays.
 */
static uint64_t take_away(struct sweep *sweep, struct blobs *blobs, const char *name)
{
	uint64_t size = 0;
	uv_mutex_lock(&blobs->names);
	bool is_gone = is_old(sweep, name, &size) && disk->unlinkat(sweep->dir_fd, name, 0) == 0;
	uv_mutex_unlock(&blobs->names);
	return is_gone ? size : 0;
}

/** Reduces the list to the names of blobs that are old enough to go. */
static void drop_young(struct sweep *sweep)
{
	size_t count = 0;
	uint64_t size;
	for (size_t i = 0; i < sweep->count; i++) {
		char *name = sweep->names[i];
		if (strlen(name) >= NAME_LEN && is_old(sweep, name, &size)) {
			sweep->names[i] = sweep->names[count];
			sweep->names[count++] = name;
		}
	}
	for (size_t i = count; i < sweep->count; i++) {
		free(sweep->names[i]);
	}
	sweep->count = count;
}

uint64_t blob_sweep(
	struct blobs *blobs, int folder, const struct prune *prune, const struct metadata *meta)
{
	struct sweep sweep = {.before = prune->now - YOUNG_MS};
	uint64_t freed = 0;
	if (!prune->sweeps) {
		return 0;
	}
	if (meta->first_seq <= meta->max_seq && meta->first_ts < sweep.before) {
		sweep.before = meta->first_ts;
	}
	sweep.dir_fd = disk->openat(folder, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (sweep.dir_fd < 0) {
		return 0;
	}
	if (disk_list(sweep.dir_fd, ".", NULL, &sweep.names, &sweep.count) == 0) {
		size_t all = sweep.count;
		drop_young(&sweep);
		sweep.is_kept = xcalloc(all + 1, sizeof(*sweep.is_kept));
		read_text(&sweep, prune->waiting.data, prune->waiting.len);
		end_run(&sweep);
		bool is_known = sweep.count && read_log(&sweep, folder, meta->log_size) == 0;
		for (size_t i = 0; is_known && i < sweep.count; i++) {
			freed += sweep.is_kept[i] ? 0 : take_away(&sweep, blobs, sweep.names[i]);
		}
		disk_list_free(sweep.names, sweep.count);
		free(sweep.is_kept);
	}
	close(sweep.dir_fd);
	return freed;
}
