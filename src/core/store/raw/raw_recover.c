/*
 * Recovery of raw streams: reads the journal from its oldest segment on. That segment begins with a
 * snapshot of all streams, and the file of a stream has all bytes up to then. Whatever the file has
 * beyond is cut off and appended again from the journal, so it does not matter what a crash left
 * there.
 */
#include "raw_internal.h"

#include "core/store/embedded/journal_read.h"

#include "holdfast/diag.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- directories --- */

static int make_dir(int dir_fd, const char *name)
{
	if (disk->mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST) {
		return -errno;
	}
	int fd = disk_open_dir(dir_fd, name);
	if (fd >= 0 && disk->fsync(dir_fd) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd < 0 ? -errno : fd;
}

int raw_dirs_open(const char *dir, struct raw_dirs *ret)
{
	*ret = (struct raw_dirs){-1, -1, -1};
	int top = disk->openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (top < 0) {
		return -errno;
	}
	ret->dir_fd = make_dir(top, "streams");
	close(top);
	ret->journal_fd = ret->dir_fd < 0 ? ret->dir_fd : make_dir(ret->dir_fd, "journal");
	ret->data_fd = ret->journal_fd < 0 ? ret->journal_fd : make_dir(ret->dir_fd, "data");
	return ret->data_fd < 0 ? ret->data_fd : 0;
}

static void close_fd(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}

void raw_dirs_close(struct raw_dirs *dirs)
{
	close_fd(dirs->dir_fd);
	close_fd(dirs->journal_fd);
	close_fd(dirs->data_fd);
	*dirs = (struct raw_dirs){-1, -1, -1};
}

/* --- batches --- */

struct recovery {
	const struct raw_dirs *dirs;
	struct raw_found *found;
	bool is_first; /* no snapshot has been read yet */
	bool is_skipping; /* inside a snapshot that repeats the known state */
	bool had_reset; /* the segment begins with a snapshot */
	bool is_relaxed; /* its batches were not synced one by one */
	char *torn; /* what is damaged if it was not the newest segment when the power failed */
	int file; /* of the stream that was written last; -1: none */
	uint64_t file_id;
	const struct raw_sizes *sizes; /* of all files, for raw_inspect(); NULL: raw_recover() */
};

static void forget_file(struct recovery *recovery)
{
	close_fd(recovery->file);
	recovery->file = -1;
}

/** Opens the file of a stream as recovery->file, and cuts it to the length known so far. */
static int open_file(struct recovery *recovery, struct raw_stream *stream)
{
	char name[RAW_FILE_NAME_SIZE];
	if (recovery->file >= 0 && recovery->file_id == stream->id) {
		return 0;
	}
	forget_file(recovery);
	raw_data_name(name, stream->id);
	recovery->file = disk->openat(recovery->dirs->data_fd, name,
		O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	recovery->file_id = stream->id;
	if (recovery->file < 0) {
		return -errno;
	}
	struct stat st;
	uint64_t size = stream->length - stream->start;
	if (stream->is_cut) {
		return 0;
	}
	if (fstat(recovery->file, &st) < 0) {
		return -errno;
	}
	stream->is_cut = true;
	stream->is_damaged = (uint64_t)st.st_size < size;
	return (uint64_t)st.st_size > size && disk->ftruncate(recovery->file, (off_t)size) < 0
		       ? -errno
		       : 0;
}

/** Like open_file(), but only compares sizes: the file must have all bytes up to here. */
static void look_at_file(struct recovery *recovery, struct raw_stream *stream)
{
	if (!stream->is_cut) {
		stream->is_cut = true;
		stream->is_damaged =
			raw_size_of(recovery->sizes, stream->id) < stream->length - stream->start;
	}
}

static int append(struct recovery *recovery, const struct raw_record *record)
{
	struct raw_stream *stream = raw_state_by_id(recovery->found->state, record->id);
	int r = 0;
	if (!stream) {
		return recovery->found->is_hurt ? 0 : -EBADMSG;
	}
	if (record->len && recovery->sizes) {
		look_at_file(recovery, stream);
	} else if (record->len) {
		r = open_file(recovery, stream);
		if (r == 0 && !stream->is_damaged) {
			r = disk_write_all(recovery->file, record->bytes, record->len);
		}
		stream->is_dirty = true;
	}
	raw_state_append(stream, record);
	return r;
}

static void drop(void *arg, struct raw_stream *stream)
{
	raw_stream_free(stream);
}

static int apply(struct recovery *recovery, const struct raw_record *record)
{
	struct raw_state *state = recovery->found->state;
	struct raw_stream *stream;
	switch (record->kind) {
	case RAW_STREAM:
		stream = raw_record_stream(state, record);
		if (!stream) {
			return recovery->found->is_hurt ? 0 : -EBADMSG;
		}
		raw_state_add(state, stream);
		return 0;
	case RAW_APPEND:
		return append(recovery, record);
	case RAW_DELETE:
	case RAW_TOUCH:
		stream = raw_state_by_id(state, record->id);
		if (!stream) {
			return recovery->found->is_hurt ? 0 : -EBADMSG;
		}
		if (record->kind == RAW_TOUCH) {
			stream->used_ms = stream->noted_ms = record->now_ms;
			return 0;
		}
		raw_state_delete(state, stream, drop, NULL);
		return 0;
	default:
		return 0;
	}
}

/**
 * Begins a snapshot. It replaces the state if it is the first one, or if batches before it are
 * missing.
 */
static void reset(struct recovery *recovery, struct raw_record *record, uint64_t number)
{
	struct raw_found *found = recovery->found;
	recovery->had_reset = true;
	recovery->is_skipping = !recovery->is_first && number == found->batch + 1;
	uint64_t next_id = unpack_le(&record->rest, 8);
	/* Earlier programs wrote no flags. */
	unsigned flags = record->rest.len ? (unsigned)unpack_le(&record->rest, 1) : 0;
	recovery->is_relaxed = flags & RAW_SEGMENT_RELAXED;
	if (!recovery->is_skipping) {
		raw_state_destroy(found->state);
		found->state = raw_state_create();
		found->state->next_id = next_id;
		found->state->is_incomplete = flags & RAW_SEGMENT_INCOMPLETE;
	}
	recovery->is_first = false;
}

static int apply_batch(
	struct recovery *recovery, const char *bytes, size_t len, uint64_t number, bool begins)
{
	struct unpack in = {.bytes = bytes, .len = len};
	struct raw_record record;
	int r = 0;
	while (r == 0 && raw_record_next(&in, &record)) {
		if (record.kind == RAW_RESET) {
			reset(recovery, &record, number);
		} else if (record.kind == RAW_BEGIN) {
			recovery->is_skipping = false;
		} else if (!recovery->is_skipping) {
			r = apply(recovery, &record);
		}
	}
	if (begins && !recovery->had_reset) {
		r = -EBADMSG;
	}
	recovery->found->batch = number;
	return in.failed ? -EBADMSG : r;
}

/* --- segments --- */

/**
 * Judges a batch at `at` that is not whole, but is followed by a whole one at `next`. If batches
 * were not synced one by one, a power failure may have taken any of the newest segment: it ends
 * there (returns 1), and the segment that recovery then began continues the numbers. Otherwise it is
 * damage. Without the state that a first batch has, nothing can be said of any stream.
 */
static int go_over(struct recovery *recovery, const char *name, const struct buffer *bytes,
	size_t at, size_t next, bool begins)
{
	struct raw_found *found = recovery->found;
	uint64_t number = 0;
	char *why = xprintf(
		"streams/journal/%s is damaged at byte %zu, but whole batches follow", name, at);
	if (recovery->had_reset && recovery->is_relaxed) {
		recovery->torn = why;
		return 1;
	}
	free(found->why);
	found->why = why;
	if (raw_batch_is_good(bytes->data + at, next - at, found->batch + 1, &number)) {
		found->is_hurt = true; /* nothing is lost; sizes are compared all the same */
		return apply_batch(recovery, bytes->data + at + RAW_BATCH_HEADER_SIZE,
			next - at - RAW_BATCH_HEADER_SIZE, number, begins);
	}
	if (begins && recovery->is_first) {
		return -EBADMSG;
	}
	if (begins) {
		recovery->had_reset = true; /* it repeats what is known */
		found->is_hurt = true;
	} else {
		raw_batch_lost(found, bytes->data + at, next - at);
	}
	found->batch++;
	return 0;
}

/** Checks, at the first batch behind such a place, that none is missing in between. */
static int check_torn(struct recovery *recovery, uint64_t number)
{
	char *why = recovery->torn;
	recovery->torn = NULL;
	if (why && number != recovery->found->batch + 1) {
		recovery->found->why = why;
		return -EBADMSG;
	}
	free(why);
	return 0;
}

/** A batch that is whole, and is not the next one: a doubled one, or some are missing before it. */
static bool is_double(struct recovery *recovery, const char *name, size_t at, uint64_t number)
{
	struct raw_found *found = recovery->found;
	if (recovery->is_first || number == found->batch + 1 || recovery->torn) {
		return false;
	}
	free(found->why);
	found->why = xprintf("streams/journal/%s: the batch at byte %zu has number %" PRIu64
			     " and not %" PRIu64,
		name, at, number, found->batch + 1);
	if (number > found->batch) {
		raw_batch_lost(found, "", 0);
	}
	found->is_hurt = true;
	return number <= found->batch;
}

/** Reads one whole batch. */
static int read_batch(struct recovery *recovery, const char *name, const struct buffer *bytes,
	size_t at, size_t len, uint64_t number)
{
	bool begins = at == RAW_SEGMENT_MAGIC_SIZE;
	if (check_torn(recovery, number) < 0) {
		return -EBADMSG;
	}
	/* A first batch has all that there is: those that are missing before it do not matter. */
	if ((!begins || number <= recovery->found->batch) &&
		is_double(recovery, name, at, number)) {
		recovery->had_reset = recovery->had_reset || begins;
		return 0;
	}
	int r = apply_batch(recovery, bytes->data + at + RAW_BATCH_HEADER_SIZE,
		len - RAW_BATCH_HEADER_SIZE, number, begins);
	if (r < 0) {
		free(recovery->found->why);
		recovery->found->why = xprintf("streams/journal/%s: batch at byte %zu: %s", name,
			at, r == -EBADMSG ? "its records are inconsistent" : file_error(-r));
	}
	return r;
}

/** Reads the batches from *at on, up to an incomplete one that none follows. */
static int read_batches(struct recovery *recovery, const char *name, const struct buffer *bytes,
	size_t *at, size_t *ret_last)
{
	uint64_t number;
	size_t next;
	int r = 0;
	while (r == 0) {
		size_t len = raw_batch_len(bytes, *at, &number);
		if (len) {
			r = read_batch(recovery, name, bytes, *at, len, number);
			*ret_last = *at;
			*at += len;
		} else if (raw_later_batch(bytes, *at, recovery->found->batch + 1, &next)) {
			r = go_over(
				recovery, name, bytes, *at, next, *at == RAW_SEGMENT_MAGIC_SIZE);
			*at = r == 0 ? next : *at;
		} else {
			break;
		}
	}
	return r < 0 ? r : 0;
}

static int read_segment(struct recovery *recovery, const char *name, const struct buffer *bytes)
{
	size_t at = RAW_SEGMENT_MAGIC_SIZE;
	bool is_ours = bytes->len >= at && memcmp(bytes->data, RAW_SEGMENT_MAGIC, at) == 0;
	if (!is_ours && bytes->len >= at && memcmp(bytes->data, "HFRAW", 5) == 0) {
		recovery->found->why = xprintf(
			"streams/journal/%s has a format that this program does not know; it reads version 1",
			name);
		return -ENOTSUP;
	}
	recovery->had_reset = false;
	size_t last = at; /* the last whole batch */
	int r = is_ours ? read_batches(recovery, name, bytes, &at, &last) : 0;
	if (r < 0) {
		return r;
	}
	at = is_ours ? at : 0;
	recovery->found->unsure_to = at;
	/* The first batch was synced with what is in front of it. */
	bool is_all = recovery->is_relaxed || last == RAW_SEGMENT_MAGIC_SIZE;
	recovery->found->unsure_from = is_all ? 0 : last;
	recovery->found->loose = bytes->len - at;
	size_t next;
	if (!is_ours && raw_later_batch(bytes, at, 0, &next)) {
		recovery->found->why =
			xprintf("streams/journal/%s: its first bytes are damaged", name);
		return -EBADMSG;
	}
	return 0;
}

static int read_segments(struct recovery *recovery, char **names, size_t count)
{
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		struct buffer bytes = {0};
		r = disk_read_whole(recovery->dirs->journal_fd, names[i], SEGMENT_FILE_MAX, &bytes);
		if (r < 0) {
			recovery->found->why = xprintf(
				"cannot read streams/journal/%s: %s", names[i], file_error(-r));
		} else {
			r = read_segment(recovery, names[i], &bytes);
		}
		raw_read_name(names[i], ".raw", &recovery->found->newest);
		recovery->found->oldest = i ? recovery->found->oldest : recovery->found->newest;
		buffer_finish(&bytes);
	}
	forget_file(recovery);
	free(recovery->torn);
	return r;
}

/* --- files --- */

/** Checks that the file of a stream has all its bytes, and cuts off excess ones. */
static int check_file(struct recovery *recovery, struct raw_stream *stream)
{
	char name[RAW_FILE_NAME_SIZE];
	struct stat st;
	if (stream->is_cut) {
		return 0;
	}
	raw_data_name(name, stream->id);
	bool is_there = fstatat(recovery->dirs->data_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	uint64_t size = stream->length - stream->start;
	if ((uint64_t)(is_there ? st.st_size : 0) < size) {
		stream->is_damaged = true;
	} else if (is_there && !stream->is_hurt && (uint64_t)st.st_size > size) {
		int r = open_file(recovery, stream);
		forget_file(recovery);
		return r;
	}
	return 0;
}

static int check_files(struct recovery *recovery)
{
	int r = 0;
	list_for_each(link, &recovery->found->state->streams) {
		struct raw_stream *stream = list_entry(link, struct raw_stream, link);
		r = r < 0 ? r : check_file(recovery, stream);
		if (stream->is_damaged) {
			diag(DIAG_ERROR,
				"stream %s: streams/data/%016" PRIx64
				" is too short; the stream can only be deleted",
				stream->name, stream->id);
		}
	}
	return r;
}

/** Deletes files of streams that no longer exist or never became durable. */
static int remove_files(struct recovery *recovery)
{
	char **names;
	size_t count;
	uint64_t id;
	int r = disk_list(recovery->dirs->dir_fd, "data", raw_is_data, &names, &count);
	for (size_t i = 0; i < count && r == 0; i++) {
		raw_read_name(names[i], "", &id);
		if (!raw_state_by_id(recovery->found->state, id)) {
			disk->unlinkat(recovery->dirs->data_fd, names[i], 0);
		}
	}
	disk_list_free(names, count);
	return r;
}

/**
 * Without the beginning of any segment nothing is known of the streams. Files of streams are
 * written only after such a beginning has been synced, so it was damaged, not torn.
 */
static int check_beginning(struct recovery *recovery, int result)
{
	char **names;
	size_t count;
	int r = disk_list(recovery->dirs->dir_fd, "data", raw_is_data, &names, &count);
	r = result < 0 ? result : r;
	recovery->found->files = count;
	if (r == 0 && count) {
		recovery->found->why = xstrdup(
			"streams/journal is damaged: no segment has a whole beginning, but there are files of streams");
		r = -EBADMSG;
	}
	disk_list_free(names, count);
	return r;
}

static int read_journal(struct recovery *recovery)
{
	char **names;
	size_t count;
	*recovery->found = (struct raw_found){.state = raw_state_create()};
	int r = disk_list(recovery->dirs->dir_fd, "journal", raw_is_segment, &names, &count);
	if (r == 0) {
		r = read_segments(recovery, names, count);
	}
	if (r == -EBADMSG || (r == 0 && recovery->is_first)) {
		r = check_beginning(recovery, r);
	}
	disk_list_free(names, count);
	return r;
}

int raw_inspect(const struct raw_dirs *dirs, const struct raw_sizes *sizes, struct raw_found *ret)
{
	struct recovery recovery = {
		.dirs = dirs, .found = ret, .is_first = true, .file = -1, .sizes = sizes};
	int r = read_journal(&recovery);
	list_for_each(link, &ret->state->streams) {
		look_at_file(&recovery, list_entry(link, struct raw_stream, link));
	}
	if (ret->is_hurt) {
		raw_compare_sizes(ret, sizes);
	}
	return r;
}

static int recover_whole(const struct raw_dirs *dirs, struct raw_found *ret)
{
	struct recovery recovery = {.dirs = dirs, .found = ret, .is_first = true, .file = -1};
	int r = read_journal(&recovery);
	r = r < 0 ? r : check_files(&recovery);
	return r < 0 ? r : remove_files(&recovery);
}

int raw_recover(const struct raw_dirs *dirs, struct raw_found *ret)
{
	struct raw_sizes sizes;
	raw_sizes_read(dirs->data_fd, raw_is_data, &sizes);
	int r = raw_inspect(dirs, &sizes, ret);
	free(sizes.sizes);
	if (r == 0 && ret->is_hurt) {
		/* No file is changed: what it has is what is known of the batches that are lost. */
		r = raw_keep_damaged(dirs, ret);
	} else if (r == 0) {
		raw_state_destroy(ret->state);
		free(ret->why);
		r = recover_whole(dirs, ret);
	}
	if (r < 0) {
		raw_state_destroy(ret->state);
		ret->state = NULL;
		ret->why = ret->why ? ret->why : xprintf("streams: %s", file_error(-r));
	}
	return r;
}
