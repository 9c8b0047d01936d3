/*
 * Checks the index of a session. An index that is missing or does not match is rebuilt from the
 * log, so that is only a note. An index that claims to be good and has wrong entries is a problem:
 * reads would notice them, but they show that the disk does not keep what was written.
 */
#include "check.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void close_fd(struct index_check *index)
{
	if (index->fd >= 0) {
		close(index->fd);
	}
	index->fd = -1;
}

static void file_place(const struct index_check *index, char place[256])
{
	snprintf(place, 256, "sessions/%s/events.index", index->id);
}

/** Reports an index that the server will rebuild. */
static void tell_useless(struct index_check *index, const char *what)
{
	char place[256];
	file_place(index, place);
	if (!index->check->files->in_use) {
		check_note(index->check, place, "%s; it is rebuilt from the log when needed", what);
	}
	close_fd(index);
}

static void tell_unreadable(struct index_check *index, int error)
{
	char place[256];
	file_place(index, place);
	if (error == -ESTALE) {
		tell_useless(index, "it is shorter than metadata.json says");
		return;
	}
	check_problem(index->check, place, "%s",
		error == -EBADMSG ? "its header is damaged" : file_error(-error));
	close_fd(index);
}

/** Checks that the index is as long as metadata.json says, and belongs to this log. */
static void check_header(struct index_check *index)
{
	const struct store_metadata *meta = index->meta;
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t last;
	int r = log_index_read(index->fd, meta->base_seq, meta->max_seq, &last, 1);
	if (r == 0) {
		r = log_index_read_header(index->fd, &epoch, &first_seq);
	}
	if (r < 0) {
		tell_unreadable(index, r);
	} else if (epoch != meta->epoch) {
		tell_useless(index, "it has another epoch, as after holdfast new-epoch");
	} else if (first_seq != meta->base_seq) {
		tell_useless(index, "it begins with another seq than the log");
	}
}

void check_index_begin(struct index_check *index, struct check *check, const char *id,
	const struct store_metadata *meta)
{
	char path[192];
	*index = (struct index_check){.check = check, .id = id, .meta = meta, .fd = -1};
	if (!meta || meta->max_seq < meta->base_seq) {
		return;
	}
	snprintf(path, sizeof(path), "%s/events.index", id);
	index->fd = disk->openat(check->files->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (index->fd >= 0) {
		check_header(index);
	} else if (errno == ENOENT) {
		tell_useless(index, "it is missing");
	} else {
		tell_unreadable(index, -errno);
	}
}

/** Makes sure that the window has the entry of `seq`. Returns false if it cannot be read. */
static bool read_entries(struct index_check *index, uint64_t seq)
{
	const struct store_metadata *meta = index->meta;
	uint64_t left = meta->max_seq - seq + 1;
	size_t most = sizeof(index->offsets) / sizeof(index->offsets[0]);
	if (seq >= index->from && seq - index->from < index->count) {
		return true;
	}
	index->from = seq;
	index->count = left < most ? (size_t)left : most;
	int r = log_index_read(index->fd, meta->base_seq, seq, index->offsets, index->count);
	if (r < 0) {
		tell_unreadable(index, r);
	}
	return r == 0;
}

void check_index_event(struct index_check *index, uint64_t seq, uint64_t offset)
{
	if (index->fd < 0 || seq < index->meta->base_seq || seq > index->meta->max_seq ||
		!read_entries(index, seq)) {
		return;
	}
	uint64_t entry = index->offsets[seq - index->from];
	if (entry != offset && !index->wrong++) {
		index->wrong_seq = seq;
		index->wrong_offset = entry;
		index->right_offset = offset;
	}
}

void check_index_end(struct index_check *index, bool log_is_good)
{
	char place[256];
	char more[64] = "";
	close_fd(index);
	if (!index->wrong || !log_is_good) {
		return;
	}
	file_place(index, place);
	if (index->wrong > 1) {
		snprintf(more, sizeof(more), "; wrong entries in total: %llu",
			(unsigned long long)index->wrong);
	}
	check_problem(index->check, place,
		"the entry of seq %llu says that its line starts at byte %llu, but it starts at byte %llu%s",
		(unsigned long long)index->wrong_seq, (unsigned long long)index->wrong_offset,
		(unsigned long long)index->right_offset, more);
}
