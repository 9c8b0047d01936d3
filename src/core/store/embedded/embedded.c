/*
 * The embedded engine: opens and closes a data directory, and has the engine's table of functions.
 */
#include "repair.h"

#include "holdfast/beneath.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"
#include "holdfast/store_copy.h"
#include "holdfast/store_migrate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_subdir(int dir_fd, const char *name)
{
	if (disk->mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = disk->openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/** Makes the entry of a new directory in its parent durable. */
static int sync_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *parent = !slash          ? xstrdup(".")
		       : slash == path ? xstrdup("/")
				       : xstrndup(path, (size_t)(slash - path));
	int r = disk_sync(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY);
	free(parent);
	return r;
}

static int make_dir(const char *path)
{
	if (mkdir(path, 0700) < 0) {
		return errno == EEXIST ? 0 : -errno;
	}
	return sync_parent(path);
}

/** Makes a directory with its parents, durably. */
static int make_dirs(const char *path)
{
	char *copy = xstrdup(path);
	for (char *at = copy + 1; *at; at++) {
		if (*at == '/') {
			*at = '\0';
			(void)!make_dir(copy); /* an error shows with the last one */
			*at = '/';
		}
	}
	int r = make_dir(copy);
	free(copy);
	return r;
}

static int take_lock(struct store *store, const char *dir, char **ret_why)
{
	struct embedded_store *emb = embedded_of(store);
	emb->lock_fd = disk->openat(store->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (emb->lock_fd < 0) {
		int r = -errno;
		*ret_why = xprintf("cannot open %s/lock: %s", dir, file_error(-r));
		return r;
	}
	if (flock(emb->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		char pid[16] = "";
		ssize_t n = disk->pread(emb->lock_fd, pid, sizeof(pid) - 1, 0);
		pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
		*ret_why = xprintf(
			"the data directory %s is in use by another holdfast (process %s); stop that one, or give this one another --data directory",
			dir, pid[0] ? pid : "unknown");
		return -EBUSY;
	}
	return 0;
}

/** Writes our process id to the lock file, for messages. */
static void sign_lock(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	char pid[16];
	int len = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (disk->ftruncate(emb->lock_fd, 0) < 0 || pwrite(emb->lock_fd, pid, (size_t)len, 0) < 0) {
		diag(DIAG_DEBUG, "cannot note the process in the lock file: %s", strerror(errno));
	}
}

static int open_dirs(struct store *store, const char *dir, char **ret_why)
{
	struct embedded_store *emb = embedded_of(store);
	int r = make_dirs(dir);
	store->dir_fd = r < 0 ? -1 : open_named(dir, O_RDONLY | O_DIRECTORY, 0);
	if (store->dir_fd < 0) {
		r = r < 0 ? r : -errno;
		*ret_why = xprintf("cannot open the data directory %s: %s", dir, strerror(-r));
		return r;
	}
	if (faccessat(store->dir_fd, STORE_BACKUP_MARK, F_OK, 0) == 0) {
		*ret_why = xprintf(
			"%s is a backup, which shares files with others; make a data directory of it with holdfast restore",
			dir);
		return -EINVAL;
	}
	if (faccessat(store->dir_fd, STORE_MIGRATION_MARK, F_OK, 0) == 0) {
		*ret_why =
			xprintf("%s is an unfinished migration; run holdfast migrate again", dir);
		return -EINVAL;
	}
	r = take_lock(store, dir, ret_why);
	if (r < 0) {
		return r;
	}
	emb->sessions_fd = open_subdir(store->dir_fd, "sessions");
	emb->journal.dir_fd = open_subdir(store->dir_fd, "journal");
	r = emb->sessions_fd < 0 ? emb->sessions_fd : emb->journal.dir_fd;
	if (r < 0) {
		*ret_why = xprintf("cannot make the folders of %s: %s", dir, file_error(-r));
		return -EIO;
	}
	return 0;
}

int store_settle(struct store *store, char **ret_why)
{
	if ((disk->mkdirat(store->dir_fd, "trash", 0700) < 0 && errno != EEXIST) ||
		(disk->mkdirat(store->dir_fd, "set-aside", 0700) < 0 && errno != EEXIST)) {
		*ret_why = xprintf(
			"cannot make the folders of the data directory: %s", strerror(errno));
		return -EIO;
	}
	sign_lock(store);
	return disk->fsync(store->dir_fd) < 0 ? -errno : 0;
}

/** Begins a new segment with snapshots; once the logs are synced, the old segments are deleted. */
static void begin_anew(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	store_recovered(store);
	uint64_t fresh = emb->journal.segment;
	bool good = journal_sync_now(&emb->journal) == 0;
	if (good && checkpoint_now(store) == 0 && !store_keeps_segments(store)) {
		journal_dropped(&emb->journal, journal_drop(emb->journal.dir_fd,
						       emb->journal.oldest_segment, fresh, true));
	}
	store_clock_write(store);
	store->opening = false;
	emb->journal.wants_run = true;
	left_out_try_later(store);
	if (!good) {
		journal_revive_later(&emb->journal);
	}
	store_room_begin(store);
	blob_files_begin(store);
	set_aside_note_all(store);
	list_for_each(link, &store->logs) {
		log_keys_tell_missing(list_entry(link, struct session_log, link));
	}
}

/** Gives the log the engine's part. */
static void begin_log(struct session_log *log)
{
	struct embedded_log *own = pool_take(&embedded_of(log->store)->logs);
	own->log = log;
	own->fd = -1;
	list_init(&own->fd_link);
	list_init(&own->wanted_link);
	list_init(&own->html.link);
	list_init(&own->waiting);
	log->engine_data = own;
}

struct session_log *embedded_log_new(
	struct store *store, const char *id, uint64_t epoch, int64_t created_at, void *facts)
{
	struct session_log *log = session_log_new(store, id, epoch, created_at, facts);
	begin_log(log);
	return log;
}

void embedded_begin(struct embedded_store *emb, struct store *store)
{
	*emb = (struct embedded_store){
		.sessions_fd = -1, .lock_fd = -1, .leftovers = hash_create()};
	pool_init(&emb->logs, sizeof(struct embedded_log));
	list_init(&emb->open_logs);
	list_init(&emb->wanted);
	list_init(&emb->reads_due);
	store->engine_state = emb;
}

void embedded_finish(struct embedded_store *emb)
{
	hash_destroy(emb->leftovers);
	pool_finish(&emb->logs);
}

static int embedded_open(struct store *store, const struct store_place *place, char **ret_why)
{
	struct embedded_store *emb = xmalloc(sizeof(*emb));
	embedded_begin(emb, store);
	store->dir_fd = -1;
	emb->repair = place->repair;
	journal_init(&emb->journal, store, place->durability);
	prune_init(store);
	emb->html = html_follower_create(store);
	left_out_init(store);
	int r = open_dirs(store, place->dir, ret_why);
	if (r == 0) {
		store_clock_begin(store);
		r = recover(store, ret_why);
	}
	if (r == 0) {
		begin_anew(store);
	} else if (!*ret_why) {
		*ret_why =
			xprintf("cannot read the data directory %s: %s", place->dir, strerror(-r));
	}
	return r;
}

static void embedded_free(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	journal_finish(&emb->journal);
	prune_finish(store);
	html_follower_destroy(emb->html);
	left_out_finish(store);
	store_room_finish(store);
	close(emb->sessions_fd);
	close(emb->lock_fd);
	close(store->dir_fd);
	embedded_finish(emb);
	free(emb);
}

static bool has_no_jobs(void *arg)
{
	return !((struct store *)arg)->jobs;
}

/** Deletes the segments that the repair has read, if every damaged session is repaired. */
static void drop_repaired(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	bool is_done = !emb->repair->only;
	list_for_each(link, &store->logs) {
		struct store_repaired damage;
		const struct session_log *log = list_entry(link, struct session_log, link);
		is_done = is_done && (!session_log_get_repair(log, &damage) || damage.is_done);
	}
	emb->repair = NULL;
	if (is_done && !store_keeps_segments(store)) {
		journal_drop(emb->journal.dir_fd, emb->journal.oldest_segment,
			emb->found_segment + 1, true);
	}
}

static bool embedded_close(struct store *store)
{
	struct embedded_store *emb = embedded_of(store);
	journal_sync_now(&emb->journal);
	/* Work on the thread pool must end before its files are closed. */
	bool is_idle = loop_run_until(store->loop, has_no_jobs, store, store->limits->stop_wait_ms);
	if (is_idle) {
		bool good = checkpoint_now(store) == 0;
		store_clock_write(store);
		if (good && emb->repair) {
			drop_repaired(store);
		}
	}
	journal_give_room_back(&emb->journal);
	/*
	 * Whoever finds the lock held from now on (holdfast verify takes it, too) must not name us.
	 */
	(void)!disk->ftruncate(emb->lock_fd, 0);
	return is_idle;
}

static int embedded_sync(struct store *store)
{
	return journal_sync_now(&embedded_of(store)->journal);
}

static int64_t embedded_append(struct session_log *log, const struct record *record)
{
	/* The lock ensures that a data directory has one server: no fence is ever outdated. */
	const struct store *store = log->store;
	if (record->kind == RECORD_CREATE &&
		store_absence(store, record->id, record->id_len) != STORE_PRESENT) {
		return -EEXIST; /* its folder exists and is kept */
	}
	int64_t lsn = journal_append(&embedded_of(log->store)->journal, record);
	if (record->kind == RECORD_CREATE && lsn > 0) {
		begin_log(log);
		log->dirty = embedded_log_of(log)->is_unconfirmed = true;
		log_write_wants_folder(log);
		log_write_create(log);
	}
	return lsn;
}

static const struct engine_blobs_ops blobs = {
	.write = blob_file_write,
	.keep = blob_file_keep,
	.drop = blob_file_drop,
	.open = blob_file_open,
};

const struct store_engine store_embedded = {
	.open = embedded_open,
	.close = embedded_close,
	.free = embedded_free,
	.append = embedded_append,
	.replayed = log_write_replayed,
	.again = repair_take_event,
	.part = log_write_part,
	.launch = journal_launch,
	.sync = embedded_sync,
	.backlog = journal_backlog,
	.rewind = look_back_rewind,
	.read = cold_read_start,
	.load_names = keys_file_load,
	.save = checkpoint_log,
	.rest = log_write_rest,
	.remove = log_write_remove,
	.drop = log_write_drop,
	.change_epoch = checkpoint_epoch,
	.now = store_clock_now,
	.prune = prune_look,
	.is_left_out = left_out_has,
	.delete_aside = set_aside_delete,
	.blobs = &blobs,
};
