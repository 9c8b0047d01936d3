/* Checks raw streams: does what recovery would do, without changing anything. */
#include "core/store/embedded/check.h"

#include "raw_internal.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most attempts while a server keeps deleting the oldest segment. */
#define ATTEMPTS 20

static uint64_t oldest_segment(const struct raw_dirs *dirs)
{
	char **names = NULL;
	size_t count = 0;
	uint64_t number = 0;
	disk_list(dirs->journal_fd, ".", raw_is_segment, &names, &count);
	if (count) {
		raw_read_name(names[0], ".raw", &number);
	}
	disk_list_free(names, count);
	return number;
}

/**
 * Reads the sizes of files first, and then the journal. The journal has everything that a running
 * server did meanwhile, provided that its oldest segment is still the same afterwards.
 */
static int inspect(const struct raw_dirs *dirs, struct raw_found *ret)
{
	int r = -EAGAIN;
	*ret = (struct raw_found){0};
	for (int attempt = 0; r == -EAGAIN && attempt < ATTEMPTS; attempt++) {
		struct raw_sizes sizes;
		raw_state_destroy(ret->state);
		free(ret->why);
		uint64_t oldest = oldest_segment(dirs);
		raw_sizes_read(dirs->data_fd, raw_is_data, &sizes);
		r = raw_inspect(dirs, &sizes, ret);
		r = oldest_segment(dirs) != oldest ? -EAGAIN : r;
		free(sizes.sizes);
	}
	return r;
}

static void tell(struct check *check, const struct raw_found *found, int result)
{
	char place[64];
	if (result == -EAGAIN) {
		check_note(check, "streams",
			"not checked: the server wrote faster than they could be read");
		return;
	}
	if (result < 0 || found->is_hurt) {
		check_problem(
			check, "streams", "%s", found->why ? found->why : file_error(-result));
	} else if (found->state->is_incomplete) {
		check_problem(check, "streams",
			"a stream may be lost with a batch of the journal: names that are not known are refused until holdfast repair");
	}
	check_tell(check);
	list_for_each(link, &found->state->streams) {
		const struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		check->counts->streams += !stream->is_deleted;
		if (stream->is_hurt) {
			snprintf(place, sizeof(place), "streams/data/%016" PRIx64, stream->id);
			check_problem(check, place,
				"stream %s may lack what was lost with a batch of the journal",
				stream->name);
			check_tell(check);
		} else if (stream->is_damaged) {
			snprintf(place, sizeof(place), "streams/data/%016" PRIx64, stream->id);
			check_problem(check, place,
				"it is too short; bytes of stream %s are missing", stream->name);
			check_tell(check);
		}
	}
	if (result == 0 && found->loose && !check->files->in_use) {
		snprintf(place, sizeof(place), "streams/journal/%016" PRIx64 ".raw", found->newest);
		check_note(check, place,
			"%zu bytes behind the last batch do not count: that batch is incomplete",
			found->loose);
	}
}

static void open_dirs(const struct store_files *files, struct raw_dirs *ret)
{
	ret->dir_fd = disk_open_dir(files->dir_fd, "streams");
	ret->journal_fd = disk_open_dir(ret->dir_fd, "journal");
	ret->data_fd = disk_open_dir(ret->dir_fd, "data");
}

void check_streams(struct check *check)
{
	struct raw_dirs dirs;
	struct raw_found found;
	open_dirs(check->files, &dirs);
	if (dirs.journal_fd >= 0 && dirs.data_fd >= 0) {
		int r = inspect(&dirs, &found);
		tell(check, &found, r);
		raw_state_destroy(found.state);
		free(found.why);
		check->ops->progress(check->owner, check_streams_size(check->files));
	}
	raw_dirs_close(&dirs);
}

uint64_t check_streams_size(const struct store_files *files)
{
	struct raw_dirs dirs;
	struct raw_sizes sizes;
	uint64_t sum = 0;
	open_dirs(files, &dirs);
	if (dirs.journal_fd >= 0 && dirs.data_fd >= 0) {
		sum = raw_sizes_read(dirs.journal_fd, raw_is_segment, &sizes);
		free(sizes.sizes);
		sum += raw_sizes_read(dirs.data_fd, raw_is_data, &sizes);
		free(sizes.sizes);
	}
	raw_dirs_close(&dirs);
	return sum;
}
