/*
 * Sets damaged streams aside (holdfast repair), so that their names are free and the rest is whole:
 * one by one, or all of them if the journal has no whole beginning.
 */
#include "raw_internal.h"

#include "core/store/embedded/store_set_aside.h"

#include "holdfast/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Moves a file to streams/set-aside/NAME, or NAME.N if that is taken. */
static int move(const struct raw_dirs *dirs, int aside, int from_fd, const char *name)
{
	char to[RAW_ASIDE_NAME_SIZE];
	raw_aside_name(aside, name, to);
	return disk->renameat(from_fd, name, aside, to) < 0 && errno != ENOENT ? -errno : 0;
}

static int move_all(const struct raw_dirs *dirs, int aside, const char *folder, int from_fd,
	bool (*is_wanted)(const char *name))
{
	char **names;
	size_t count;
	int r = disk_list(dirs->dir_fd, folder, is_wanted, &names, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = move(dirs, aside, from_fd, names[i]);
	}
	disk_list_free(names, count);
	return r == 0 && disk->fsync(from_fd) < 0 ? -errno : r;
}

/** The files first: what is left of an interrupted move is as damaged as before. */
static int set_all_aside(const struct raw_dirs *dirs, int aside, const struct setting_aside *to)
{
	int r = move_all(dirs, aside, "journal", dirs->journal_fd, raw_is_segment);
	r = r < 0 ? r : move_all(dirs, aside, "data", dirs->data_fd, raw_is_data);
	if (r == 0) {
		to->moved(to->owner, "the journal of the raw streams, and so each of them,",
			"streams/set-aside");
	}
	return r;
}

static bool is_written(void *arg)
{
	struct raw_store *store = arg;
	raw_end_tick(store);
	return raw_backlog(store) == 0 || store->is_failing;
}

static int set_one_aside(struct raw_store *store, int aside, struct raw_stream *stream,
	const struct setting_aside *to)
{
	char name[RAW_FILE_NAME_SIZE];
	struct buffer what = {0};
	raw_data_name(name, stream->id);
	int r = move(&store->journal.dirs, aside, store->journal.dirs.data_fd, name);
	if (r == 0) {
		buffer_printf(&what, "the stream %s", stream->name);
		raw_remove(store, stream);
		to->moved(to->owner, buffer_cstr(&what), "streams/set-aside");
		buffer_finish(&what);
	}
	return r;
}

/** A damaged stream; a fork has bytes of its sources, which are deleted once it is. NULL: none. */
static struct raw_stream *next_damaged(const struct raw_store *store)
{
	list_for_each(link, &store->state->streams) {
		struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		const struct raw_stream *at = stream;
		while (at && !at->is_hurt && !at->is_damaged) {
			at = at->source;
		}
		if (at && !stream->is_deleted) {
			return stream;
		}
	}
	return NULL;
}

static int set_each_aside(const char *dir, int aside, const struct setting_aside *to)
{
	uv_loop_t loop;
	struct clock clock;
	int r = 0;
	clock_init(&clock);
	uv_loop_init(&loop);
	struct raw_store *store = raw_open(&(struct raw_config){.loop = &loop,
		.limits = limits_default(),
		.clock = &clock,
		.dir = dir,
		.forgets_lost = true});
	struct raw_stream *stream;
	while (r == 0 && (stream = next_damaged(store))) {
		r = set_one_aside(store, aside, stream, to);
	}
	loop_run_until(&loop, is_written, store, limits_default()->stop_wait_ms);
	r = r == 0 && store->is_failing ? -EIO : r;
	raw_close(store);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	return r;
}

int raw_set_aside(const char *dir, const struct setting_aside *to)
{
	struct raw_dirs dirs;
	struct raw_found found = {0};
	struct raw_sizes sizes = {0};
	int r = raw_dirs_open(dir, &dirs);
	int aside = r < 0 ? -1 : raw_open_aside(&dirs);
	r = r < 0 ? r : aside < 0 ? aside : 0;
	if (r == 0) {
		raw_sizes_read(dirs.data_fd, raw_is_data, &sizes);
		r = raw_inspect(&dirs, &sizes, &found);
		bool is_incomplete = r == 0 && found.state->is_incomplete;
		raw_state_destroy(found.state);
		free(found.why);
		free(sizes.sizes);
		r = r == -EBADMSG ? set_all_aside(&dirs, aside, to)
		    : r == 0      ? set_each_aside(dir, aside, to)
				  : r;
		if (r == 0 && is_incomplete) {
			to->moved(to->owner, "the list of raw streams", "streams/set-aside");
		}
	}
	if (aside >= 0) {
		close(aside);
		disk->unlinkat(dirs.dir_fd, "set-aside", AT_REMOVEDIR); /* if nothing is there */
	}
	raw_dirs_close(&dirs);
	return r;
}
