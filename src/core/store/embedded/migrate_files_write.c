/*
 * A data directory as the new side of a migration. It is written under a temporary name. The folder
 * of a session is written as `coming`, and renamed into `sessions` once it is complete and synced.
 */
#include "migrate_files.h"

#include "embedded.h"

#include "holdfast/store_migrate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define COMING   "coming"
#define OUT_SIZE ((size_t)1 << 20)

struct moving_made {
	const char *dir; /* the final name */
	char *path; /* the temporary name */
	int dir_fd;
	int mark_fd; /* locked against another migration */
	int sessions_fd;
	int journal_fd;
	const struct store_facts *facts;
	struct moving_side read; /* the same directory, while it is open for reading back */
	/* The session that is being written. */
	int coming_fd;
	int events_fd;
	int keys_fd;
	struct buffer events;
	struct metadata meta; /* without facts */
	struct buffer metadata; /* its text */
	struct journal *journal; /* while records are written */
};

static void close_fd(int *fd)
{
	if (*fd >= 0) {
		close(*fd);
	}
	*fd = -1;
}

/* --- reading back --- */

static void close_reading(struct moving_made *made)
{
	if (made->read.side) {
		made->read.close(made->read.side);
	}
	made->read = (struct moving_side){0};
}

/** Opens the directory for reading, like one on the old side. */
static int look(struct moving_made *made)
{
	char *why = NULL;
	int r = made->read.side ? 0 : moving_files_open(made->path, made->facts, &made->read, &why);
	free(why);
	if (r < 0) {
		close_reading(made); /* what is half open is not read */
	}
	return r;
}

static int list(void *side, char ***ret_ids, size_t *ret_count)
{
	const struct moving_made *made = side;
	return store_list_ids(made->sessions_fd, ret_ids, ret_count);
}

static int read_session(void *side, const char *id, const struct moving_sink *sink)
{
	struct moving_made *made = side;
	int r = look(made);
	return r < 0 ? r : made->read.read(made->read.side, id, sink);
}

static int read_records(void *side, const char *id, const struct moving_sink *sink)
{
	struct moving_made *made = side;
	int r = look(made);
	return r < 0 ? r : made->read.read_records(made->read.side, id, sink);
}

/* --- a session --- */

static int remove_session(void *side, const char *id)
{
	const struct moving_made *made = side;
	return remove_folder(made->sessions_fd, id) ? 0 : -errno;
}

static int make_file(const struct moving_made *made, const char *name)
{
	int fd = disk->openat(made->coming_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static int begin(void *side, const char *id)
{
	struct moving_made *made = side;
	int r = remove_session(made, id);
	if (r == 0 && !remove_folder(made->dir_fd, COMING)) {
		r = -errno;
	}
	if (r == 0 && disk->mkdirat(made->dir_fd, COMING, 0700) < 0) {
		r = -errno;
	}
	made->coming_fd =
		r < 0 ? -1
		      : disk->openat(made->dir_fd, COMING, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return r < 0 ? r : made->coming_fd < 0 ? -errno : 0;
}

static int put_metadata(void *arg, const char *id, const struct metadata *meta)
{
	struct moving_made *made = arg;
	made->meta = *meta;
	made->meta.facts = NULL;
	made->meta.facts_text = (struct buffer){0};
	buffer_clear(&made->metadata);
	metadata_append(id, meta, &made->metadata);
	return 0;
}

static int put_names(void *arg, uint64_t at, const char *lines, size_t len)
{
	struct moving_made *made = arg;
	made->keys_fd = made->keys_fd < 0 ? make_file(made, "keys.jsonl") : made->keys_fd;
	return made->keys_fd < 0 ? made->keys_fd : disk_write_all(made->keys_fd, lines, len);
}

static int flush_events(struct moving_made *made)
{
	int r = made->events.len
			? disk_write_all(made->events_fd, made->events.data, made->events.len)
			: 0;
	buffer_clear(&made->events);
	return r;
}

static int put_event(void *arg, const struct event_view *view, const char *line, size_t len)
{
	struct moving_made *made = arg;
	made->events_fd = made->events_fd < 0 ? make_file(made, "events.jsonl") : made->events_fd;
	if (made->events_fd < 0) {
		return made->events_fd;
	}
	buffer_append(&made->events, line, len);
	buffer_append_char(&made->events, '\n');
	return made->events.len < OUT_SIZE ? 0 : flush_events(made);
}

static int put_blob(void *arg, const char *name, const void *bytes, size_t len)
{
	struct moving_made *made = arg;
	char path[128];
	if (disk->mkdirat(made->coming_fd, "blobs", 0700) < 0 && errno != EEXIST) {
		return -errno;
	}
	snprintf(path, sizeof(path), "blobs/%.100s", name);
	int fd = make_file(made, path);
	int r = fd < 0 ? fd : disk_write_all(fd, bytes, len);
	r = r == 0 && disk->fdatasync(fd) < 0 ? -errno : r;
	if (fd >= 0) {
		close(fd);
	}
	return r == 0 ? disk_sync(made->coming_fd, "blobs", O_RDONLY | O_DIRECTORY) : r;
}

static int sync_file(int fd)
{
	return fd >= 0 && disk->fdatasync(fd) < 0 ? -errno : 0;
}

static int make_index(const struct moving_made *made)
{
	struct index_damage damage;
	const struct index_source source = {.epoch = made->meta.epoch,
		.first_seq = made->meta.first_seq,
		.last_seq = made->meta.max_seq,
		.end = made->meta.log_size,
		.fd = made->events_fd,
		.dir_fd = made->coming_fd};
	bool has_events = made->meta.first_seq <= made->meta.max_seq;
	return has_events ? log_index_make(&source, &damage) : 0;
}

static int end(void *side, const char *id)
{
	struct moving_made *made = side;
	if (made->events_fd < 0) {
		made->events_fd = make_file(made, "events.jsonl"); /* even if there are no events */
	}
	int r = made->events_fd < 0 ? made->events_fd : flush_events(made);
	r = r < 0 ? r : sync_file(made->events_fd);
	r = r < 0 ? r : sync_file(made->keys_fd);
	r = r < 0 ? r : make_index(made);
	r = r < 0 ? r : disk_replace(made->coming_fd, "metadata.json", &made->metadata, true);
	close_fd(&made->events_fd);
	close_fd(&made->keys_fd);
	close_fd(&made->coming_fd);
	if (r == 0 && disk->renameat(made->dir_fd, COMING, made->sessions_fd, id) < 0) {
		r = -errno;
	}
	return r < 0 ? r : disk->fsync(made->sessions_fd) < 0 ? -errno : 0;
}

/* --- records --- */

static int begin_records(void *side)
{
	struct moving_made *made = side;
	close_reading(made);
	made->journal = journal_make();
	return 0;
}

static int put_record(void *arg, const struct record *record)
{
	struct moving_made *made = arg;
	journal_append(made->journal, record);
	return 0;
}

static int end_records(void *side)
{
	struct moving_made *made = side;
	struct journal *journal = made->journal;
	made->journal = NULL;
	close_reading(made);
	return journal_make_end(journal, made->journal_fd);
}

/* --- opening and ending --- */

static int make_dir(int dir_fd, const char *name)
{
	if (disk->mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = disk->openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/** Creates or finds the mark of a migration, and locks it. -EEXIST: the directory is not ours. */
static int take_mark(struct moving_made *made, char **ret_why)
{
	char **names = NULL;
	size_t count = 0;
	int flags = O_RDWR | O_CLOEXEC;
	made->mark_fd = disk->openat(made->dir_fd, STORE_MIGRATION_MARK, flags, 0);
	if (made->mark_fd < 0 && disk_list(made->dir_fd, ".", NULL, &names, &count) == 0) {
		disk_list_free(names, count);
		made->mark_fd = count ? -1
				      : disk->openat(made->dir_fd, STORE_MIGRATION_MARK,
						flags | O_CREAT, 0600);
	}
	if (made->mark_fd < 0) {
		*ret_why = xprintf("%s exists, and was not made by a migration", made->path);
		return -EEXIST;
	}
	if (flock(made->mark_fd, LOCK_EX | LOCK_NB) < 0) {
		*ret_why = xprintf("another migration is running in %s", made->path);
		return -EBUSY;
	}
	return 0;
}

/** Removes the journal of an earlier try; a new one is written. */
static void drop_journal(const struct moving_made *made)
{
	uint64_t *numbers = NULL;
	size_t count = 0;
	if (made->journal_fd < 0 || journal_list(made->journal_fd, &numbers, &count) < 0) {
		return;
	}
	for (size_t i = 0; i < count; i++) {
		char name[32];
		journal_segment_name(numbers[i], name);
		disk->unlinkat(made->journal_fd, name, 0);
	}
	free(numbers);
}

static int open_dirs(struct moving_made *made, char **ret_why)
{
	made->dir_fd = make_dir(AT_FDCWD, made->path);
	if (made->dir_fd < 0) {
		int r = made->dir_fd;
		*ret_why = xprintf("%s cannot be created: %s", made->path, strerror(-r));
		return r;
	}
	int r = take_mark(made, ret_why);
	if (r < 0) {
		return r;
	}
	made->sessions_fd = make_dir(made->dir_fd, "sessions");
	made->journal_fd = make_dir(made->dir_fd, "journal");
	drop_journal(made);
	int lock_fd = disk->openat(made->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (made->sessions_fd < 0 || made->journal_fd < 0 || lock_fd < 0) {
		*ret_why = xprintf("the folders in %s cannot be created", made->path);
		return -EIO;
	}
	close(lock_fd);
	return 0;
}

/** Undoes the rename of an earlier try that died before it removed the mark. */
static void take_back(const struct moving_made *made, const char *dir)
{
	char *mark = xprintf("%s/" STORE_MIGRATION_MARK, dir);
	if (access(mark, F_OK) == 0) {
		(void)!rename(dir, made->path); /* if it fails, the next steps report it */
	}
	free(mark);
}

static int complete(void *side)
{
	struct moving_made *made = side;
	close_reading(made);
	if (!remove_folder(made->dir_fd, COMING) || disk->fsync(made->dir_fd) < 0 ||
		rename(made->path, made->dir) < 0) {
		return -errno;
	}
	/* The mark goes once the rename is durable: no later try accepts made->path without it. */
	char *parent = xprintf("%s/..", made->dir);
	int r = disk_sync(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY);
	free(parent);
	if (r == 0 && (disk->unlinkat(made->dir_fd, STORE_MIGRATION_MARK, 0) < 0 ||
			      disk->fsync(made->dir_fd) < 0)) {
		r = -errno;
	}
	return r;
}

static void close_made(void *side)
{
	struct moving_made *made = side;
	close_reading(made);
	close_fd(&made->events_fd);
	close_fd(&made->keys_fd);
	close_fd(&made->coming_fd);
	close_fd(&made->sessions_fd);
	close_fd(&made->journal_fd);
	close_fd(&made->mark_fd);
	close_fd(&made->dir_fd);
	buffer_finish(&made->events);
	buffer_finish(&made->metadata);
	free(made->path);
	free(made);
}

int moving_made_open(const char *dir, const struct store_facts *facts, struct moving_side *ret_side,
	char **ret_why)
{
	size_t len = strlen(dir);
	while (len > 1 && dir[len - 1] == '/') {
		len--;
	}
	struct moving_made *made = xcalloc(1, sizeof(*made));
	*made = (struct moving_made){.dir = dir,
		.path = xprintf("%.*s" STORE_MIGRATION_SUFFIX, (int)len, dir),
		.facts = facts,
		.dir_fd = -1,
		.mark_fd = -1,
		.sessions_fd = -1,
		.journal_fd = -1,
		.coming_fd = -1,
		.events_fd = -1,
		.keys_fd = -1};
	*ret_side = (struct moving_side){.side = made,
		.dir = made->path,
		.close = close_made,
		.list = list,
		.read = read_session,
		.read_records = read_records,
		.begin = begin,
		.sink = {.metadata = put_metadata,
			.names = put_names,
			.event = put_event,
			.blob = put_blob,
			.record = put_record,
			.arg = made},
		.end = end,
		.remove = remove_session,
		.begin_records = begin_records,
		.end_records = end_records,
		.complete = complete};
	take_back(made, dir);
	if (rmdir(dir) < 0 && errno != ENOENT) {
		*ret_why = xprintf("%s is not empty; migrate creates a new directory", dir);
		return -EEXIST;
	}
	return open_dirs(made, ret_why);
}
