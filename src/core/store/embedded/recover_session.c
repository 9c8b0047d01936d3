/*
 * Recovers the log of one session from its folder. Of the part that metadata.json says is certain,
 * only the last line is read; everything behind it is.
 */
#include "repair.h"
#include "recover_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int take_line(void *arg, const struct event_view *view, uint64_t offset, size_t len)
{
	struct session_log *log = arg;
	if (!view || view->seq != log->last_seq + 1) {
		return 1;
	}
	log->updated_at = view->ts;
	log_index_add(log, log->size);
	session_log_count(log, view, len);
	log->written = log->size;
	return 0;
}

/** Reads the lines behind log->size, and cuts off a torn tail. */
static int take_rest(struct session_log *log, int fd, uint64_t size)
{
	int r = log_scan(fd, log->size, size, take_line, log);
	if (r < 0 || log->size == size) {
		return r < 0 ? r : 0;
	}
	diag(DIAG_WARN, "session %s: cut %llu bytes of a torn tail off its log after seq %llu",
		log->id, (unsigned long long)(size - log->size), (unsigned long long)log->last_seq);
	log->dirty = true;
	return disk->ftruncate(fd, (off_t)log->size) < 0 ? -errno : 0;
}

struct first_line {
	uint64_t seq; /* 0: unreadable */
};

static int see_first(void *arg, const struct event_view *view, uint64_t offset, size_t len)
{
	struct first_line *first = arg;
	first->seq = view ? view->seq : 0;
	return 1;
}

/**
 * If a log without the pruned events is already in place, but not yet in metadata.json, takes that
 * over.
 */
static int look_for_new_file(struct session_log *log, int fd, uint64_t size)
{
	struct embedded_log *own = embedded_log_of(log);
	struct first_line first = {0};
	int r = log_scan(fd, 0, log->size, see_first, &first);
	if (r < 0 || (first.seq != log->first_seq && size)) {
		return r < 0 ? r : 0;
	}
	log->base_seq = log->first_seq;
	log->size -= log->first_at;
	own->certain_size = log->written = log->size;
	log->first_at = 0;
	own->index.count = log->last_seq - log->base_seq + 1;
	own->index.disk.certain = log_index_size(&own->index);
	log->dirty = true;
	return 0;
}

int recover_check_log(struct session_log *log, bool is_guessed)
{
	char path[160];
	struct stat st;
	snprintf(path, sizeof(path), "%s/events.jsonl", log->id);
	int fd = disk->openat(embedded_of(log->store)->sessions_fd, path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0) {
		return errno != ENOENT ? -errno : log->size ? -EBADMSG : 0;
	}
	int r = fstat(fd, &st) < 0 ? -errno : 0;
	uint64_t size = r < 0 ? 0 : (uint64_t)st.st_size;
	if (r == 0 && log->first_at) {
		r = look_for_new_file(log, fd, size);
	}
	if (r == 0 && size < log->size) {
		r = -EBADMSG;
	}
	if (r == 0 && log->size) {
		r = log_check_last(fd, log->size, log->last_seq);
	}
	if (r == 0 && size > log->size) {
		r = take_rest(log, fd, size);
	}
	close(fd);
	return r;
}

int recover_session(struct store *store, const char *id, struct metadata *meta,
	struct session_log **ret_log, const char **ret_why)
{
	struct session_log *log =
		embedded_log_new(store, id, meta->epoch, meta->created_at, meta->facts);
	meta->facts = NULL;
	log->updated_at = meta->updated_at;
	log->first_seq = meta->first_seq;
	log->first_at = meta->first_at;
	log->first_ts = meta->first_ts;
	log->base_seq = meta->base_seq;
	log->last_seq = meta->max_seq;
	log->size = meta->log_size;
	embedded_log_of(log)->certain_size = log->written = log->size;
	embedded_log_of(log)->is_suspect = true;
	embedded_log_of(log)->index.count = log->last_seq - log->base_seq + 1;
	embedded_log_of(log)->index.disk.certain = log_index_size(&embedded_log_of(log)->index);
	log->keys.size = embedded_log_of(log)->keys.disk.certain = meta->keys_size;
	log->keys.input_names = meta->input_names;
	log->keys.known_to = meta->is_guessed ? UINT64_MAX : meta->max_seq;
	int r = recover_rules(store, id)->log(log, meta->is_guessed);
	if (r < 0) {
		*ret_why = "its log does not have what its metadata says is certain";
		session_log_free(log);
		return r;
	}
	*ret_log = log;
	return 0;
}

bool remove_folder(int dir_fd, const char *name)
{
	static const char *const files[] = {"events.jsonl", "events.jsonl.new", "events.index",
		"events.index.new", "events.html", "events.html.index", "keys.jsonl",
		"keys.jsonl.new", "metadata.json", "metadata.json.new"};
	char path[360];
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		disk->unlinkat(dir_fd, path, 0);
	}
	blob_files_remove(dir_fd, name);
	if (disk->unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		return true;
	}
	repair_remove_rest(dir_fd, name);
	return disk->unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

bool recover_log_is_empty(struct store *store, const char *id)
{
	char path[192];
	struct stat st;
	snprintf(path, sizeof(path), "%s/events.jsonl", id);
	int r = fstatat(embedded_of(store)->sessions_fd, path, &st, AT_SYMLINK_NOFOLLOW);
	return r < 0 ? errno == ENOENT : S_ISREG(st.st_mode) && st.st_size == 0;
}
