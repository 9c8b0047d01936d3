/* Finds files of earlier formats in a data directory, and rewrites metadata.json in the newest. */
#include "holdfast/store_upgrade.h"

#include "journal_read.h"
#include "embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct look {
	const struct store_files *files;
	snapshot_is_foreign *is_foreign;
	store_outdated_fn *see;
	void *owner;
};

static void tell(
	const struct look *look, const char *place, const char *what, uint64_t has, uint64_t newest)
{
	look->see(look->owner, &(struct store_outdated){
				       .place = place, .what = what, .has = has, .newest = newest});
}

/** Reports only the first snapshot of a segment that does not have the newest version. */
static void tell_snapshot(const struct look *look, const char *place, struct journal_reader *reader)
{
	struct record record;
	uint64_t session;
	enum journal_found found;
	while ((found = journal_reader_next(reader, &record, &session)) != JOURNAL_END &&
		found != JOURNAL_LOST) {
		unsigned has;
		unsigned from;
		unsigned newest;
		if (found != JOURNAL_RECORD || record.kind != RECORD_SNAPSHOT || !record.data_len) {
			continue;
		}
		look->is_foreign(&record, &has, &from, &newest);
		if (has != newest) {
			tell(look, place, "snapshots of version", has, newest);
			return;
		}
	}
}

static void look_at_segment(const struct look *look, uint64_t segment)
{
	char name[32];
	char place[64];
	struct journal_reader reader;
	journal_segment_name(segment, name);
	snprintf(place, sizeof(place), "journal/%s", name);
	int r = journal_reader_open(&reader, look->files->journal_fd, name);
	if ((r == 0 || r == -ENOTSUP) && reader.format != JOURNAL_FORMAT) {
		tell(look, place, "format", reader.format ? reader.format : UINT64_MAX,
			JOURNAL_FORMAT);
	} else if (r == -ENOTSUP) {
		tell(look, place, "flags", reader.flags, 0);
	} else if (r == 0) {
		tell_snapshot(look, place, &reader);
	}
	journal_reader_close(&reader);
}

static void look_at_session(const struct look *look, const char *id)
{
	struct metadata meta;
	const char *why;
	char place[192];
	int r = metadata_read(look->files->sessions_fd, id, NULL, &meta, &why);
	if ((r == 0 || r == -ENOTSUP) && meta.format != FOLDER_FORMAT) {
		snprintf(place, sizeof(place), "sessions/%s", id);
		tell(look, place, "format", meta.format, FOLDER_FORMAT);
	}
	metadata_finish(&meta);
}

int store_upgrade_look(const struct store_files *files, snapshot_is_foreign *is_foreign,
	store_outdated_fn *see, void *owner)
{
	const struct look look = {files, is_foreign, see, owner};
	uint64_t *segments;
	char **ids;
	size_t count;
	int r = store_files_list_segments(files, &segments, &count);
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < count; i++) {
		look_at_segment(&look, segments[i]);
	}
	free(segments);
	r = store_files_list_sessions(files, &ids, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		look_at_session(&look, ids[i]);
		free(ids[i]);
	}
	free(r == 0 ? ids : NULL);
	return r;
}

/* --- rewriting --- */

static int rewrite(const struct store_files *files, const char *id, struct metadata *meta)
{
	struct buffer json = {0};
	int dir_fd = disk->openat(files->sessions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir_fd < 0) {
		return -errno;
	}
	meta->facts_ops->write(meta->facts, &meta->facts_text);
	metadata_append(id, meta, &json);
	int r = disk_replace(dir_fd, "metadata.json", &json, true);
	close(dir_fd);
	buffer_finish(&json);
	return r;
}

int store_upgrade_session(const struct store_files *files, const char *id,
	const struct store_facts *facts, const char **ret_why)
{
	struct metadata meta;
	int r = metadata_read(files->sessions_fd, id, facts, &meta, ret_why);
	if (r == 0 && meta.format != FOLDER_FORMAT) {
		r = rewrite(files, id, &meta);
		*ret_why = r < 0 ? strerror(-r) : NULL;
	}
	metadata_finish(&meta);
	return r;
}
