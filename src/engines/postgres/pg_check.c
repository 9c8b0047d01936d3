/* Checks the sessions in a database: that each row is valid, and that the rows fit together. */
#include "pg_database.h"

#include "holdfast/requests.h"
#include "holdfast/store_checking.h"
#include "holdfast/store_versions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pg_session_check {
	struct pg_database *database;
	struct check *check;
	const char *id;
	struct pg_row row;
	bool has_meta;
	struct store_metadata meta;
	/* Events. */
	uint64_t events;
	uint64_t gaps; /* how many of them stand for lost events */
	uint64_t next_seq; /* expected next */
	uint64_t bytes; /* of lines up to the metadata's max_seq */
	uint64_t told; /* bytes not reported as progress yet */
	bool is_damaged;
	struct keys_check keys;
	/* Names, collected in a memfd. */
	int names_fd;
	uint64_t names_end;
	/* Records. */
	uint64_t last_n;
};

__attribute__((format(printf, 3, 4))) static void tell(
	struct pg_session_check *sc, const char *part, const char *fmt, ...)
{
	char place[256];
	char what[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	snprintf(place, sizeof(place), "session %s, %s", sc->id, part);
	check_problem(sc->check, place, "%s", what);
}

/* --- metadata --- */

static void check_row(struct pg_session_check *sc)
{
	struct metadata meta = {0};
	const char *why = NULL;
	if (!session_id_is_valid(sc->id, strlen(sc->id))) {
		tell(sc, "name", "no session can have this name");
	}
	int r = pg_row_parse(&sc->row, sc->id, sc->check->ops->facts, &meta, &why);
	sc->has_meta = r == 0;
	if (r < 0) {
		tell(sc, "metadata", "%s", why);
	}
	sc->meta = (struct store_metadata){.epoch = sc->row.epoch,
		.first_seq = meta.first_seq,
		.base_seq = meta.base_seq,
		.max_seq = meta.max_seq,
		.log_size = meta.log_size - meta.first_at,
		.keys_size = meta.keys_size,
		.input_names = meta.input_names};
	metadata_finish(&meta);
}

/* --- names --- */

static int take_names(void *arg, uint64_t at, const char *lines, size_t len)
{
	struct pg_session_check *sc = arg;
	if (at != sc->names_end) {
		return 1;
	}
	sc->names_end += len;
	return disk_write_all(sc->names_fd, lines, len);
}

/** Copies the names to a memfd: the check, shared with data directories, reads a file. */
static int begin_names(struct pg_session_check *sc)
{
	sc->names_fd = memfd_create("holdfast-names", MFD_CLOEXEC);
	int r = sc->names_fd < 0 ? -errno
				 : pg_each_names(&sc->database->conn, sc->row.sid, take_names, sc);
	if (r < 0) {
		close(sc->names_fd);
		return r;
	}
	if (sc->names_end < sc->meta.keys_size) {
		tell(sc, "names", "there are %llu bytes; the metadata says that %llu are certain",
			(unsigned long long)sc->names_end, (unsigned long long)sc->meta.keys_size);
		sc->meta.keys_size = 0;
	}
	check_keys_begin_fd(&sc->keys, sc->check, sc->id, &sc->meta, sc->names_fd);
	return 0;
}

/* --- events --- */

static void tell_event(struct pg_session_check *sc, uint64_t seq, const char *what)
{
	char part[64];
	snprintf(part, sizeof(part), "event %llu", (unsigned long long)seq);
	tell(sc, part, "%s", what);
	sc->is_damaged = true;
}

static void note_progress(struct pg_session_check *sc, size_t len)
{
	sc->told += len;
	if (sc->told > 1 << 20) {
		sc->check->ops->progress(sc->check->owner, sc->told);
		sc->told = 0;
	}
}

static int see_line(void *arg, uint64_t seq, const char *line, size_t len)
{
	struct pg_session_check *sc = arg;
	struct event_view view;
	note_progress(sc, len + 1);
	if (seq != sc->next_seq) {
		char what[96];
		snprintf(what, sizeof(what), "expected seq %llu, found %llu",
			(unsigned long long)sc->next_seq, (unsigned long long)seq);
		tell_event(sc, seq, what);
	}
	sc->next_seq = seq + 1;
	sc->bytes += seq <= sc->meta.max_seq ? len + 1 : 0;
	if (event_parse_line(line, len, &view) < 0) {
		tell_event(sc, seq, "the checksum is wrong, or it is not an event");
		return 0;
	}
	if (view.seq != seq) {
		tell_event(sc, seq, "its line is that of another event");
	} else if (view.type == EVENT_UNKNOWN) {
		tell_event(sc, seq, "its type is unknown");
	}
	sc->events++;
	sc->gaps += event_is_gap(&view);
	check_keys_event(&sc->keys, &view);
	return 0;
}

static int check_events(struct pg_session_check *sc)
{
	sc->next_seq = sc->meta.first_seq; /* metadata and pruned rows change in one transaction */
	int r = pg_each_line(&sc->database->conn, sc->row.sid, 0, see_line, sc);
	sc->check->ops->progress(sc->check->owner, sc->told);
	bool is_whole = sc->next_seq > sc->meta.max_seq;
	if (r == 0 && !is_whole && !sc->is_damaged) {
		tell(sc, "events", "they end with seq %llu; the metadata says that %llu is certain",
			(unsigned long long)sc->next_seq - 1, (unsigned long long)sc->meta.max_seq);
	} else if (r == 0 && !sc->is_damaged && sc->bytes != sc->meta.log_size) {
		tell(sc, "events", "there are %llu bytes up to seq %llu; the metadata says %llu",
			(unsigned long long)sc->bytes, (unsigned long long)sc->meta.max_seq,
			(unsigned long long)sc->meta.log_size);
	}
	if (sc->gaps) {
		char place[256];
		snprintf(place, sizeof(place), "session %s, events", sc->id);
		check_note(sc->check, place,
			"%llu events are lost: holdfast repair has put gaps there",
			(unsigned long long)sc->gaps);
	}
	check_keys_end(&sc->keys, r == 0 && is_whole && !sc->is_damaged);
	return r;
}

/* --- records --- */

static int see_record(void *arg, uint64_t n, const struct record *record)
{
	struct pg_session_check *sc = arg;
	char part[64];
	struct buffer what = {0};
	snprintf(part, sizeof(part), "record %llu", (unsigned long long)n);
	if (versions_tell_record(sc->check->ops->is_foreign, record, &what)) {
		tell(sc, part, "%s", buffer_cstr(&what));
	} else if (!sc->last_n && record->kind != RECORD_SNAPSHOT) {
		tell(sc, part, "the session's first record is not a snapshot");
	} else if (sc->last_n && n != sc->last_n + 1) {
		tell(sc, part, "expected record %llu", (unsigned long long)sc->last_n + 1);
	}
	buffer_finish(&what);
	sc->last_n = n;
	sc->check->counts->records++;
	return 0;
}

static int check_records(struct pg_session_check *sc)
{
	int r = pg_each_record(&sc->database->conn, sc->id, &sc->row, see_record, sc);
	if (r == 0 && sc->last_n && sc->last_n != sc->row.last_record) {
		tell(sc, "records", "they end with record %llu; its row says %llu",
			(unsigned long long)sc->last_n, (unsigned long long)sc->row.last_record);
	}
	return r;
}

/** What the rows above are made of may still be wrong: a snapshot has no checksum. */
static int check_start(struct pg_session_check *sc)
{
	const char *why = NULL;
	if (sc->check->found.problems) {
		return 0;
	}
	int r = pg_rehearse(sc->database, sc->row.sid, &why);
	if (why) {
		tell(sc, "records", "a server that takes the session over finds damage: %s", why);
	}
	return why ? 0 : r;
}

static int see_blob(void *arg, const char *name, const void *bytes, size_t len)
{
	struct pg_session_check *sc = arg;
	char place[320];
	snprintf(place, sizeof(place), "session %s, blob %.80s", sc->id, name);
	check_blob_bytes(sc->check, place, name, bytes, len);
	return 0;
}

/* --- sessions --- */

static int check_one(struct pg_database *database, struct check *check, const char *id)
{
	struct pg_session_check sc = {.database = database, .check = check, .id = id};
	struct pg_conn *conn = &database->conn;
	int r = pg_row_read(conn, id, &sc.row);
	if (r == 0) {
		check_row(&sc);
		r = sc.has_meta ? begin_names(&sc) : 0;
		r = r < 0 || !sc.has_meta ? r : check_events(&sc);
		r = r < 0 ? r : check_records(&sc);
		r = r < 0 || !sc.has_meta ? r : check_start(&sc);
		r = r < 0 ? r : pg_each_blob(conn, sc.row.sid, see_blob, &sc);
		check->counts->sessions += sc.has_meta;
		check->counts->events += sc.events;
	}
	pg_row_finish(&sc.row);
	check_tell(check);
	return r;
}

static int check_each(struct pg_database *database, struct check *check)
{
	PGresult *ids = pg_list_ids(&database->conn);
	int r = ids ? 0 : -EIO;
	for (int row = 0; r == 0 && row < PQntuples(ids); row++) {
		r = check_one(database, check, PQgetvalue(ids, row, 0));
	}
	PQclear(ids);
	return r;
}

int pg_check(struct store_database *base, const char *session, const struct store_check_ops *ops,
	void *owner, struct store_check_counts *counts)
{
	struct pg_database *database = (struct pg_database *)base;
	struct check check = {.ops = ops, .owner = owner, .counts = counts};
	*counts = (struct store_check_counts){0};
	int r = session ? check_one(database, &check, session) : check_each(database, &check);
	buffer_finish(&check.found.texts);
	return r;
}
