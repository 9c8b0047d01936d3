/*
 * The disk space that the data directory uses, for the limit max_disk. It is measured on the thread
 * pool, which takes long if there are many sessions. Between two measurements, the bytes written
 * since the last one are added as an estimate.
 */
#include "store_internal.h"

#include "holdfast/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often to check whether a measurement is due (ms). */
#define LOOK_MS 250
/* Measuring takes at most 1/DUTY of the time. */
#define DUTY 20
/* Bytes on disk for a byte of a group, about: with the log and the files beside it. */
#define BYTES_ON_DISK 4
/* DIR/sessions/ID/blobs/FILE */
#define DEPTH_MAX 4

struct store_room {
	struct store *store;
	uv_timer_t *timer;
	uv_work_t work;
	bool is_measuring;
	/* The last measurement. */
	uint64_t written; /* bytes of groups, as counted when it began */
	uint64_t kept; /* the same for added blobs and what others have written */
	uint64_t used; /* the result: bytes used then */
	/* The measurement in progress. */
	uint64_t found;
	uint64_t found_written;
	uint64_t found_kept;
	uint64_t took_ns;
	uint64_t next_ms; /* the next one begins no earlier, on the loop's clock */
};

/** The size of a directory's contents; closes `fd`. Ignores files deleted meanwhile. */
static uint64_t measure(int fd, int depth)
{
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	uint64_t sum = 0;
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		struct stat st;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			continue;
		}
		sum += (uint64_t)st.st_blocks * 512;
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
			sum += measure(disk_open_dir(dirfd(dir), entry->d_name), depth + 1);
		}
	}
	if (dir) {
		closedir(dir);
	} else if (fd >= 0) {
		close(fd);
	}
	return sum;
}

static void work(uv_work_t *work)
{
	struct store_room *room = work->data;
	uint64_t begun = uv_hrtime();
	room->found = measure(disk_open_dir(room->store->dir_fd, "."), 1);
	room->took_ns = uv_hrtime() - begun;
}

static void done(uv_work_t *work, int status)
{
	struct store_room *room = work->data;
	room->store->jobs--;
	room->is_measuring = false;
	room->used = room->found;
	room->written = room->found_written;
	room->kept = room->found_kept;
	room->next_ms = uv_now(room->store->loop) + LOOK_MS + room->took_ns / 1000000 * DUTY;
}

static void begin(struct store_room *room)
{
	room->is_measuring = true;
	room->found_written = room->store->use.written;
	room->found_kept = room->store->blobs.kept + room->store->use.others;
	room->work.data = room;
	room->store->jobs++;
	uv_queue_work(room->store->loop, &room->work, work, done);
}

/** An estimate of the bytes added since the last measurement, rather too high. */
static uint64_t grown(const struct store_room *room)
{
	return (room->store->use.written - room->written) * BYTES_ON_DISK +
	       room->store->blobs.kept + room->store->use.others - room->kept;
}

/** Whether to measure: a quarter of what was left may be used up, or space may be free again. */
static bool is_due(const struct store_room *room)
{
	uint64_t most = room->store->limits->max_disk;
	return room->used >= most || grown(room) >= (most - room->used) / 4;
}

static void handle_timer(uv_timer_t *timer)
{
	struct store_room *room = timer->data;
	if (!room->is_measuring && server_may(room->store->life, MAY_KEEP_UP) && is_due(room) &&
		uv_now(room->store->loop) >= room->next_ms) {
		begin(room);
	}
}

void store_room_begin(struct store *store)
{
	if (!store->limits->max_disk) {
		return;
	}
	struct store_room *room = xcalloc(1, sizeof(*room));
	store->use.room = room;
	room->store = store;
	room->timer = loop_timer(store->loop, room);
	uv_timer_start(room->timer, handle_timer, LOOK_MS, LOOK_MS);
	room->used = measure(disk_open_dir(store->dir_fd, "."), 1);
	room->written = store->use.written;
}

void store_room_finish(struct store *store)
{
	if (store->use.room) {
		loop_close(store->use.room->timer);
		free(store->use.room);
	}
}

void store_note_others(struct store *store, uint64_t bytes)
{
	store->use.others += bytes;
}

bool store_is_full(const struct store *store)
{
	const struct store_room *room = store->use.room;
	return room && room->used + grown(room) >= store->limits->max_disk;
}
