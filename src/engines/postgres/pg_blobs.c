/*
 * Blobs (images and files of sessions) in the database, one row each. An upload is collected in a
 * memfd until it is complete. A blob that is read is copied to a memfd, because readers expect a
 * file descriptor.
 */
#include "pg.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/** An upload under way, in pg.uploads. */
struct pg_upload {
	struct list link;
	uint64_t number;
	int fd;
};

/** Removes the upload with this number from the list, and returns it; NULL if it is not there. */
static struct pg_upload *take_upload(struct pg *pg, uint64_t number)
{
	struct pg_upload *found = NULL;
	pthread_mutex_lock(&pg->lock);
	list_for_each_safe(link, tmp, &pg->uploads) {
		struct pg_upload *upload = list_entry(link, struct pg_upload, link);
		if (upload->number == number) {
			list_remove(&upload->link);
			found = upload;
			break;
		}
	}
	pthread_mutex_unlock(&pg->lock);
	return found;
}

static void put_upload(struct pg *pg, struct pg_upload *upload)
{
	pthread_mutex_lock(&pg->lock);
	list_append(&pg->uploads, &upload->link);
	pthread_mutex_unlock(&pg->lock);
}

static void end_upload(struct pg_upload *upload)
{
	if (upload) {
		close(upload->fd);
		free(upload);
	}
}

int pg_blob_write(
	struct store *store, uint64_t number, const char *bytes, size_t len, bool is_first)
{
	struct pg *pg = pg_of(store);
	struct pg_upload *upload = take_upload(pg, number);
	if (!upload && is_first) {
		upload = xcalloc(1, sizeof(*upload));
		upload->number = number;
		upload->fd = memfd_create("holdfast-upload", MFD_CLOEXEC);
	}
	if (!upload || upload->fd < 0) {
		int r = upload ? -errno : -EIO;
		free(upload);
		return r;
	}
	int r = disk_write_all(upload->fd, bytes, len);
	put_upload(pg, upload);
	return r;
}

void pg_blob_drop(struct store *store, uint64_t number)
{
	end_upload(take_upload(pg_of(store), number));
}

static int keep(struct pg *pg, const struct blob_place *place, const void *bytes, size_t len,
	bool *ret_is_new)
{
	struct pg_params params = {0};
	pg_add_text(&params, place->id, strlen(place->id));
	pg_add_bigint(&params, (int64_t)place->epoch);
	pg_add_text(&params, place->file, strlen(place->file));
	pg_add_bytea(&params, bytes, len);
	PGresult *rows = pg_query(pg,
		"WITH s AS (SELECT sid FROM holdfast_session WHERE id = $1 AND epoch = $2),"
		" kept AS (INSERT INTO holdfast_blob (sid, name, bytes) SELECT sid, $3, $4 FROM s"
		" ON CONFLICT (sid, name) DO UPDATE SET at = excluded.at,"
		/* What is there stays as it is, unless it is damaged. */
		" bytes = CASE WHEN holdfast_blob.bytes = excluded.bytes"
		" THEN holdfast_blob.bytes ELSE excluded.bytes END RETURNING xmax = 0 AS is_new)"
		" SELECT sid, (SELECT count(*) FROM kept WHERE is_new) FROM s",
		&params);
	pg_params_finish(&params);
	int r = !rows ? -EIO : PQntuples(rows) ? 0 : -ENOENT;
	*ret_is_new = r == 0 && pg_get_bigint(rows, 0, 1) > 0;
	PQclear(rows);
	return r;
}

int pg_blob_keep(
	struct store *store, uint64_t number, const struct blob_place *place, bool *ret_is_new)
{
	struct pg *pg = pg_of(store);
	struct stat st;
	struct pg_upload *upload = take_upload(pg, number);
	if (!upload || fstat(upload->fd, &st) < 0) {
		end_upload(upload);
		return -EIO;
	}
	size_t len = (size_t)st.st_size;
	void *bytes = len ? mmap(NULL, len, PROT_READ, MAP_SHARED, upload->fd, 0) : NULL;
	int r = bytes == MAP_FAILED ? -errno : keep(pg, place, bytes, len, ret_is_new);
	if (bytes && bytes != MAP_FAILED) {
		munmap(bytes, len);
	}
	if (r == -ENOENT) {
		put_upload(pg, upload); /* for another try: the session may not be committed yet */
		return r;
	}
	end_upload(upload);
	return r;
}

/** Returns a descriptor at the beginning of a file with these bytes. */
static int make_file(const char *bytes, size_t len)
{
	int fd = memfd_create("holdfast-blob", MFD_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	int r = disk_write_all(fd, bytes, len);
	if (r < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		r = r < 0 ? r : -errno;
		close(fd);
		return r;
	}
	return fd;
}

int pg_blob_open(struct store *store, const struct blob_place *place)
{
	struct pg_params params = {0};
	pg_add_text(&params, place->id, strlen(place->id));
	pg_add_bigint(&params, (int64_t)place->epoch);
	pg_add_text(&params, place->file, strlen(place->file));
	PGresult *rows = pg_query(pg_of(store),
		"SELECT b.bytes FROM holdfast_blob AS b JOIN holdfast_session AS s USING (sid)"
		" WHERE s.id = $1 AND s.epoch = $2 AND b.name = $3",
		&params);
	pg_params_finish(&params);
	int r = !rows ? -EIO : PQntuples(rows) ? 0 : -ENOENT;
	if (r == 0) {
		size_t len = (size_t)PQgetlength(rows, 0, 0);
		r = blob_check_bytes(place->file, PQgetvalue(rows, 0, 0), len);
		r = r < 0 ? r : make_file(PQgetvalue(rows, 0, 0), len);
	}
	PQclear(rows);
	return r;
}

void pg_blobs_finish(struct pg *pg)
{
	list_for_each_safe(link, tmp, &pg->uploads) {
		end_upload(list_entry(link, struct pg_upload, link));
	}
}

void pg_blobs_count(struct store *store, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		char *id = xstrndup(PQgetvalue(rows, row, 0), (size_t)PQgetlength(rows, row, 0));
		blobs_add(store, id, (int64_t)blob_room_for((uint64_t)pg_get_bigint(rows, row, 1)));
		free(id);
	}
}

/* --- retention --- */

/* Younger blobs stay: they may be for a prompt that somebody is still writing. */
#define YOUNG_MS ((int64_t)86400000)
/* Any text that looks like a blob's name counts as a reference to that blob. */
#define NAME          "[0-9a-f]{64}"
#define SHORT_NAME    "left(b.name, 64)"
#define IS_OLD_ENOUGH "b.at < to_timestamp($3::bigint / 1000.0)"
static_assert(BLOB_NAME_SIZE - 1 == 64, "the statement below knows how long names are");

static const char blobs_sweep_sql[] =
	"WITH old AS MATERIALIZED ("
	"SELECT b.sid, b.name FROM holdfast_blob AS b JOIN holdfast_session AS s USING (sid)"
	" WHERE s.sid = $1 AND s.fence = $2 AND " IS_OLD_ENOUGH "), told AS MATERIALIZED ("
	"SELECT DISTINCT m.names[1] AS name FROM holdfast_event AS e,"
	" regexp_matches(e.line, '" NAME "', 'g') AS m(names)"
	" WHERE e.sid = $1 AND EXISTS (SELECT FROM old))"
	" DELETE FROM holdfast_blob AS b USING old WHERE b.sid = old.sid AND b.name = old.name"
	" AND " IS_OLD_ENOUGH " AND NOT EXISTS (SELECT FROM told AS t WHERE t.name = " SHORT_NAME
	")"
	" AND position(" SHORT_NAME " IN $4) = 0"
	" AND NOT EXISTS (SELECT FROM holdfast_record AS r WHERE r.sid = b.sid"
	" AND position(convert_to(" SHORT_NAME ", 'UTF8') IN r.data) > 0)"
	" RETURNING octet_length(b.bytes)::bigint";

struct pg_blob_sweep {
	uv_work_t work;
	struct store *store;
	char *id;
	uint64_t epoch;
	struct pg_params params;
	uint64_t freed;
};

static void sweep_work(uv_work_t *work)
{
	struct pg_blob_sweep *sweep = work->data;
	PGresult *gone = pg_query(pg_of(sweep->store), blobs_sweep_sql, &sweep->params);
	for (int row = 0; row < PQntuples(gone); row++) {
		sweep->freed += blob_room_for((uint64_t)pg_get_bigint(gone, row, 0));
	}
	PQclear(gone);
}

static void sweep_done(uv_work_t *work, int status)
{
	struct pg_blob_sweep *sweep = work->data;
	sweep->store->jobs--;
	if (sweep->freed && session_log_of(sweep->store, sweep->id, sweep->epoch)) {
		blobs_add(sweep->store, sweep->id, -(int64_t)sweep->freed);
	}
	pg_params_finish(&sweep->params);
	free(sweep->id);
	free(sweep);
}

void pg_blobs_sweep(struct session_log *log)
{
	struct store *store = log->store;
	if (!hash_get(store->blobs.rooms, log->id, strlen(log->id)) ||
		!server_may(store->life, MAY_KEEP_UP)) {
		return;
	}
	struct pg_blob_sweep *sweep = xcalloc(1, sizeof(*sweep));
	struct buffer waiting = {0};
	int64_t before = clock_now_ms(store->ops->clock(store->owner)) - YOUNG_MS;
	before = log->first_ts && log->first_ts < before ? log->first_ts : before;
	if (log->owner) {
		store->ops->append_waiting(log->owner, &waiting);
	}
	*sweep =
		(struct pg_blob_sweep){.store = store, .id = xstrdup(log->id), .epoch = log->epoch};
	pg_add_bigint(&sweep->params, pg_log_of(log)->sid);
	pg_add_bigint(&sweep->params, (int64_t)log->fence);
	pg_add_bigint(&sweep->params, before);
	pg_add_text(&sweep->params, waiting.data, waiting.len);
	buffer_finish(&waiting);
	sweep->work.data = sweep;
	store->jobs++;
	uv_queue_work(store->loop, &sweep->work, sweep_work, sweep_done);
}
