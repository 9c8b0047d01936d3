/*
 * Uploads and openings of blobs, and their limits. The work is done on the thread pool; the engine
 * stores the bytes.
 */
#include "store_internal.h"

#include "holdfast/diag.h"
#include "holdfast/hide.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * New sessions get their folder a moment later. A blob waits for it, and checks at intervals (ms).
 */
#define FOLDER_MS 10
/* The number of these attempts; then the upload fails. */
#define FOLDER_TRIES 1000

/** The bytes that a session's blobs are charged. */
struct blob_room {
	uint64_t used;
	uint64_t reserved;
	size_t uploads; /* in progress */
	bool is_gone; /* the session was deleted: this is in no table any more */
	char id[];
};

struct blob_upload {
	uv_work_t work;
	struct store *store;
	struct blob_room *room;
	char *id;
	struct blob_place place;
	unsigned hide;
	blob_written *written;
	void *arg;
	uint64_t number;
	uint64_t reserved;
	EVP_MD_CTX *digest;
	struct buffer head;
	struct buffer bytes; /* of the write in progress */
	bool is_first; /* no write has been done yet */
	bool is_last;
	bool is_working;
	bool is_kept; /* the upload has become a blob */
	bool is_new; /* the session did not have that blob */
	bool is_over; /* blob_upload_end() was called */
	unsigned tries;
	uv_timer_t *timer; /* for retries; NULL until needed */
	int status;
	struct blob result;
};

bool blob_name_is_valid(const char *text)
{
	return strlen(text) == BLOB_NAME_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == BLOB_NAME_SIZE - 1;
}

/** Sets the file's name. At most one bit of `hide` is set. */
static void name_file(struct blob_place *place, const char *name, unsigned hide)
{
	snprintf(place->file, sizeof(place->file), "%s%s", name,
		hide & HIDE_TOOLS      ? ".tools"
		: hide & HIDE_THOUGHTS ? ".thoughts"
				       : "");
}

/* --- room --- */

void blobs_init(struct blobs *blobs)
{
	blobs->rooms = hash_create();
	uv_mutex_init(&blobs->names);
	blobs->seen = blob_seen_create();
}

static void free_room(void *value, void *arg)
{
	free(value);
}

void blobs_finish(struct blobs *blobs)
{
	hash_each(blobs->rooms, free_room, NULL);
	hash_destroy(blobs->rooms);
	uv_mutex_destroy(&blobs->names);
	free(blobs->seen);
}

uint64_t blob_room_for(uint64_t size)
{
	return (size + BLOB_BLOCK - 1) / BLOB_BLOCK * BLOB_BLOCK;
}

static struct blob_room *room_of(struct store *store, const char *id)
{
	size_t len = strlen(id);
	struct blob_room *room = hash_get(store->blobs.rooms, id, len);
	if (!room) {
		room = xcalloc(1, sizeof(*room) + len + 1);
		memcpy(room->id, id, len);
		hash_put(store->blobs.rooms, id, len, room);
	}
	return room;
}

static void drop_if_empty(struct store *store, struct blob_room *room)
{
	if (room->uploads || (room->used && !room->is_gone)) {
		return;
	}
	if (!room->is_gone) {
		hash_remove(store->blobs.rooms, room->id, strlen(room->id));
	}
	free(room);
}

void blobs_add(struct store *store, const char *id, int64_t bytes)
{
	if (store_get_session(store, id, strlen(id))) {
		struct blob_room *room = room_of(store, id);
		uint64_t less = bytes < 0 ? (uint64_t)-bytes : 0;
		less = less < room->used ? less : room->used;
		room->used = bytes < 0 ? room->used - less : room->used + (uint64_t)bytes;
		store->blobs.used =
			bytes < 0 ? store->blobs.used - less : store->blobs.used + (uint64_t)bytes;
		drop_if_empty(store, room);
	}
}

void blobs_forget(struct store *store, const char *id)
{
	struct blob_room *room = hash_remove(store->blobs.rooms, id, strlen(id));
	if (room) {
		store->blobs.used -= room->used;
		room->is_gone = true;
		drop_if_empty(store, room);
	}
}

static void reserve(struct blob_upload *upload, uint64_t size)
{
	upload->room->reserved += size - upload->reserved;
	upload->store->blobs.reserved += size - upload->reserved;
	upload->reserved = size;
}

static enum limit find_limit(const struct blob_upload *upload, uint64_t size)
{
	const struct store *store = upload->store;
	const struct limits *limits = store->limits;
	uint64_t more = blob_room_for(size) - upload->reserved;
	if (size > limits->blob_size) {
		return LIMIT_blob_size;
	}
	if (upload->room->used + upload->room->reserved + more > limits->session_blobs) {
		return LIMIT_session_blobs;
	}
	if (store->blobs.used + store->blobs.reserved + more > limits->blobs) {
		return LIMIT_blobs;
	}
	return store_is_full(store) ? LIMIT_max_disk : LIMIT_NONE;
}

/* --- writing --- */

struct blob_upload *blob_upload_begin(
	struct session_log *log, unsigned hide, blob_written *written, void *arg)
{
	struct store *store = log->store;
	struct blob_upload *upload = xcalloc(1, sizeof(*upload));
	upload->work.data = upload;
	upload->store = store;
	upload->room = room_of(store, log->id);
	upload->room->uploads++;
	upload->id = xstrdup(log->id);
	upload->place = (struct blob_place){.id = upload->id, .epoch = log->epoch};
	upload->hide = hide;
	upload->written = written;
	upload->arg = arg;
	upload->number = ++store->blobs.uploads;
	upload->is_first = true;
	upload->digest = EVP_MD_CTX_new();
	EVP_DigestInit_ex(upload->digest, EVP_sha256(), NULL);
	return upload;
}

static void free_upload(struct blob_upload *upload)
{
	reserve(upload, 0);
	upload->room->uploads--;
	drop_if_empty(upload->store, upload->room);
	if (upload->timer) {
		loop_close(upload->timer);
	}
	EVP_MD_CTX_free(upload->digest);
	buffer_finish(&upload->head);
	buffer_finish(&upload->bytes);
	free(upload->id);
	free(upload);
}

/* --- writing, on the thread pool --- */

static void take_name(struct blob_upload *upload)
{
	blob_name_of(upload->digest, upload->result.name);
	upload->result.mime_type = blob_type(upload->head.data, upload->head.len);
	name_file(&upload->place, upload->result.name, upload->hide);
}

static int write_bytes(struct blob_upload *upload)
{
	struct store *store = upload->store;
	const struct buffer *bytes = &upload->bytes;
	size_t head = BLOB_HEAD_SIZE - upload->head.len;
	buffer_append(&upload->head, bytes->data, bytes->len < head ? bytes->len : head);
	EVP_DigestUpdate(upload->digest, bytes->data, bytes->len);
	upload->result.size += bytes->len;
	int r = store->engine->blobs->write(
		store, upload->number, bytes->data, bytes->len, upload->is_first);
	upload->is_first = false;
	buffer_finish(&upload->bytes);
	return r;
}

static void work(uv_work_t *work)
{
	struct blob_upload *upload = work->data;
	struct store *store = upload->store;
	int r = upload->bytes.len ? write_bytes(upload) : 0;
	if (r == 0 && upload->is_last) {
		if (!upload->result.name[0]) {
			take_name(upload);
		}
		r = store->engine->blobs->keep(
			store, upload->number, &upload->place, &upload->is_new);
		upload->is_kept = r == 0;
	}
	upload->status = r;
}

/* --- writing, on the loop --- */

static void start(struct blob_upload *upload);

static void handle_timer(uv_timer_t *timer)
{
	start(timer->data);
}

/** If the session exists but its folder does not yet, schedules a retry and returns true. */
static bool waits_for_folder(struct blob_upload *upload)
{
	struct store *store = upload->store;
	if (upload->status != -ENOENT || !upload->is_last || upload->is_over ||
		!server_may(store->life, MAY_KEEP_UP) || ++upload->tries > FOLDER_TRIES ||
		!session_log_of(store, upload->id, upload->place.epoch)) {
		return false;
	}
	if (!upload->timer) {
		upload->timer = loop_timer(store->loop, upload);
	}
	uv_timer_start(upload->timer, handle_timer, FOLDER_MS, 0);
	return true;
}

static void drop_work(uv_work_t *work)
{
	struct blob_upload *upload = work->data;
	upload->store->engine->blobs->drop(upload->store, upload->number);
}

static void drop_done(uv_work_t *work, int status)
{
	struct blob_upload *upload = work->data;
	upload->store->jobs--;
	free_upload(upload);
}

static void end(struct blob_upload *upload)
{
	if (upload->is_first || upload->is_kept) {
		free_upload(upload);
		return;
	}
	upload->store->jobs++;
	uv_queue_work(upload->store->loop, &upload->work, drop_work, drop_done);
}

static void take_room(struct blob_upload *upload)
{
	uint64_t size = blob_room_for(upload->result.size);
	reserve(upload, 0);
	if (upload->is_new && !upload->room->is_gone) {
		upload->room->used += size;
		upload->store->blobs.used += size;
		upload->store->blobs.kept += size;
	}
}

static void work_done(uv_work_t *work, int status)
{
	struct blob_upload *upload = work->data;
	upload->store->jobs--;
	if (waits_for_folder(upload)) {
		return; /* is_working stays set */
	}
	upload->is_working = false;
	if (upload->is_kept) {
		take_room(upload);
	}
	if (upload->is_over) {
		end(upload);
	} else {
		upload->written(upload->arg, upload->status);
	}
}

static void start(struct blob_upload *upload)
{
	upload->is_working = true;
	upload->store->jobs++;
	uv_queue_work(upload->store->loop, &upload->work, work, work_done);
}

enum limit blob_upload_write(struct blob_upload *upload, struct buffer *bytes, bool is_last)
{
	uint64_t size = upload->result.size + bytes->len;
	enum limit limit = find_limit(upload, size);
	if (limit == LIMIT_NONE) {
		reserve(upload, blob_room_for(size));
		upload->bytes = *bytes;
		*bytes = (struct buffer){0};
		upload->is_last = is_last;
		start(upload);
	}
	return limit;
}

const struct blob *blob_upload_result(const struct blob_upload *upload)
{
	return &upload->result;
}

void blob_upload_end(struct blob_upload *upload)
{
	if (!upload) {
		return;
	}
	upload->is_over = true;
	if (upload->timer && uv_is_active((uv_handle_t *)upload->timer)) {
		uv_timer_stop(upload->timer);
		upload->is_working = false;
	}
	if (!upload->is_working) {
		end(upload);
	}
}

/* --- reading --- */

struct blob_opening {
	uv_work_t work;
	struct store *store;
	char *id;
	struct blob_place place;
	unsigned hide;
	blob_opened *opened; /* NULL once cancelled */
	void *arg;
	int fd;
	struct blob blob;
};

/** Finds out the blob's size and type. */
static int look(struct blob_opening *opening)
{
	char head[BLOB_HEAD_SIZE];
	struct stat st;
	if (fstat(opening->fd, &st) < 0) {
		return -errno;
	}
	opening->blob.size = (uint64_t)st.st_size;
	size_t len = opening->blob.size < sizeof(head) ? (size_t)opening->blob.size : sizeof(head);
	int r = disk_read_at(opening->fd, 0, head, len);
	opening->blob.mime_type = blob_type(head, len);
	return r;
}

static void open_work(uv_work_t *work)
{
	static const unsigned kinds[] = {HIDE_NOTHING, HIDE_TOOLS, HIDE_THOUGHTS};
	struct blob_opening *opening = work->data;
	opening->fd = -ENOENT;
	/* The same bytes may be there under several names: one that is damaged may have a twin. */
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) &&
			   (opening->fd == -ENOENT || opening->fd == -EBADMSG);
		i++) {
		if (!(kinds[i] & opening->hide)) {
			name_file(&opening->place, opening->blob.name, kinds[i]);
			int r = opening->store->engine->blobs->open(
				opening->store, &opening->place);
			opening->fd = r == -ENOENT ? opening->fd : r;
		}
	}
	int r = opening->fd < 0 ? 0 : look(opening);
	if (r < 0) {
		close(opening->fd);
		opening->fd = r;
	}
}

static void tell_damaged(const struct blob_opening *opening)
{
	struct store *store = opening->store;
	metrics_add(store->metrics, METRIC_BLOBS_DAMAGED, 1);
	diag_limited(&store->blobs.warned, DIAG_ERROR,
		"session %s: the image or file %s is damaged, and nobody gets it. Send it again, or restore it from a backup; holdfast verify names all that are damaged",
		opening->id, opening->blob.name);
}

static void open_done(uv_work_t *work, int status)
{
	struct blob_opening *opening = work->data;
	opening->store->jobs--;
	if (opening->fd == -EBADMSG) {
		tell_damaged(opening);
	}
	if (opening->opened) {
		opening->opened(opening->arg, opening->fd, &opening->blob);
	} else if (opening->fd >= 0) {
		loop_close_file(opening->store->loop, opening->fd);
	}
	free(opening->id);
	free(opening);
}

struct blob_opening *blob_open(
	struct session_log *log, const char *name, unsigned hide, blob_opened *opened, void *arg)
{
	struct store *store = log->store;
	struct blob_opening *opening = xcalloc(1, sizeof(*opening));
	opening->work.data = opening;
	opening->store = store;
	opening->id = xstrdup(log->id);
	opening->place = (struct blob_place){.id = opening->id, .epoch = log->epoch};
	opening->hide = hide;
	opening->opened = opened;
	opening->arg = arg;
	memcpy(opening->blob.name, name, sizeof(opening->blob.name));
	store->jobs++;
	uv_queue_work(store->loop, &opening->work, open_work, open_done);
	return opening;
}

void blob_open_cancel(struct blob_opening *opening)
{
	opening->opened = NULL;
}
