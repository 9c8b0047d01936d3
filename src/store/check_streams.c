/* Checks raw streams: does what recovery would do, without changing anything. */
#include "check_internal.h"

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

/**
 * Reads the sizes of the wanted files in a directory. Returns their sum; the caller frees
 * ret->sizes.
 */
static uint64_t read_sizes(int dir_fd, bool (*is_wanted)(const char *name), struct raw_sizes *ret)
{
	char **names = NULL;
	size_t count = 0;
	uint64_t sum = 0;
	struct stat st;
	disk_list(dir_fd, ".", is_wanted, &names, &count);
	ret->sizes = xcalloc(count + 1, sizeof(*ret->sizes));
	ret->count = 0;
	for (size_t i = 0; i < count; i++) {
		if (fstatat(dir_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0) {
			ret->sizes[ret->count++] = (struct raw_size){
				.id = strtoull(names[i], NULL, 16), .bytes = (uint64_t)st.st_size};
			sum += (uint64_t)st.st_size;
		}
	}
	disk_list_free(names, count);
	return sum;
}

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
		read_sizes(dirs->data_fd, raw_is_data, &sizes);
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
	if (result < 0) {
		check_problem(
			check, "streams", "%s", found->why ? found->why : file_error(-result));
	}
	check_tell(check);
	list_for_each(link, &found->state->streams) {
		const struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		check->counts->streams += !stream->is_deleted;
		if (stream->is_damaged) {
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
		sum = read_sizes(dirs.journal_fd, raw_is_segment, &sizes);
		free(sizes.sizes);
		sum += read_sizes(dirs.data_fd, raw_is_data, &sizes);
		free(sizes.sizes);
	}
	raw_dirs_close(&dirs);
	return sum;
}
