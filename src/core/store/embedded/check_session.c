/* Checks a session: metadata.json, the log, and that its files agree with each other. */
#include "check.h"

#include "embedded.h"

#include "holdfast/beneath.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most attempts at a session that the server changes during the check. */
#define ATTEMPTS 5

struct session_check {
	struct check *check;
	const char *id;
	bool has_metadata;
	struct store_metadata meta;
	enum journal_folder folder;
	/* The log. */
	uint64_t events;
	uint64_t gaps; /* events that a repair put in place of lost ones */
	uint64_t next_seq;
	uint64_t certain_end; /* offset where the line of meta.max_seq ends; 0: not seen */
	uint64_t first_at; /* offset where the line of meta.first_seq starts */
	bool is_shortened; /* pruned lines are gone, but not yet in metadata.json */
	bool is_damaged; /* a line is damaged; consequences of that are not reported */
	/* Compared with the log. */
	struct index_check index;
	struct keys_check keys;
};

static void log_place(const struct session_check *sc, char place[256])
{
	snprintf(place, 256, "sessions/%s/events.jsonl", sc->id);
}

/* --- metadata.json --- */

static void check_metadata(struct session_check *sc)
{
	char place[256];
	char path[192];
	const char *why;
	snprintf(place, sizeof(place), "sessions/%s/metadata.json", sc->id);
	snprintf(path, sizeof(path), "%s/events.jsonl", sc->id);
	int r = store_files_read_metadata(
		sc->check->files, sc->id, sc->check->ops->facts, &sc->meta, &why);
	sc->has_metadata = r == 0;
	bool is_unread =
		r < 0 && r != -ENOENT && r != -EBADMSG; /* the server cannot read it either */
	sc->folder = is_unread ? FOLDER_IS_UNKNOWN
			       : journal_view_folder(sc->check->journal, sc->id,
					 sc->has_metadata ? &sc->meta.epoch : NULL);
	if (r == 0 || sc->folder == FOLDER_IS_DELETED) {
		return;
	}
	bool is_empty = !store_files_size(sc->check->files->sessions_fd, path);
	bool is_made_again = sc->folder == FOLDER_IS_CREATED;
	if (is_unread || (!is_made_again && (r != -ENOENT || !is_empty))) {
		check_problem(sc->check, place, "%s", why);
	} else if (sc->check->files->in_use) {
		return; /* the server is creating it */
	} else if (is_made_again) {
		check_note(sc->check, place,
			"%s; the next start of the server rewrites it from the journal", why);
	} else {
		check_note(sc->check, place,
			"an incomplete session that was never acknowledged; the next start of the server removes it");
	}
}

/* --- events.jsonl --- */

/** Reports a problem of the line just read. */
__attribute__((format(printf, 4, 5))) static void tell_line(
	struct session_check *sc, const struct log_lines *lines, size_t len, const char *fmt, ...)
{
	char file[256];
	char place[320];
	char what[256];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	log_place(sc, file);
	snprintf(place, sizeof(place), "%s: line %llu, byte %llu", file,
		(unsigned long long)lines->number, (unsigned long long)(lines->offset - len - 1));
	check_problem(sc->check, place, "%s", what);
	sc->is_damaged = true;
}

/**
 * Checks a line. Those behind the certain part are checked as strictly; only an incomplete end is
 * harmless.
 */
static void check_line(
	struct session_check *sc, const struct log_lines *lines, const char *line, size_t len)
{
	struct event_view view;
	if (event_parse_line(line, len, &view) < 0) {
		tell_line(sc, lines, len,
			"the checksum is wrong, or it is not an event; expected seq %llu",
			(unsigned long long)sc->next_seq);
		sc->next_seq++;
		return;
	}
	if (lines->number == 1 && view.seq == sc->meta.first_seq && view.seq > sc->next_seq) {
		sc->is_shortened = true;
		sc->next_seq = view.seq;
	}
	if (view.type == EVENT_UNKNOWN) {
		tell_line(sc, lines, len, "seq %llu has an unknown type",
			(unsigned long long)view.seq);
	}
	if (view.seq != sc->next_seq) {
		tell_line(sc, lines, len, "expected seq %llu, found %llu",
			(unsigned long long)sc->next_seq, (unsigned long long)view.seq);
	}
	sc->events++;
	sc->gaps += event_is_gap(&view);
	sc->next_seq = view.seq + 1;
	if (sc->has_metadata && view.seq == sc->meta.first_seq) {
		sc->first_at = lines->offset - len - 1;
	}
	check_index_event(&sc->index, view.seq, lines->offset - len - 1);
	check_keys_event(&sc->keys, &view);
	if (sc->has_metadata && view.seq == sc->meta.max_seq) {
		sc->certain_end = lines->offset;
	}
}

/** Checks that the log has what metadata.json says is certain. */
static void check_certain(struct session_check *sc)
{
	const struct store_metadata *meta = &sc->meta;
	char place[256];
	log_place(sc, place);
	if (!sc->has_metadata || sc->is_damaged) {
		return;
	}
	uint64_t gone = sc->is_shortened ? meta->first_at : 0;
	if (!sc->events && meta->first_seq > meta->max_seq) {
		return; /* all are pruned, and the file is shortened */
	}
	if (sc->is_shortened) {
		check_note(sc->check, place,
			"its pruned lines are gone, but metadata.json does not say so yet; the next start of the server updates it");
	}
	if (sc->next_seq <= meta->max_seq) {
		check_problem(sc->check, place,
			"it ends with seq %llu; metadata.json says that %llu is certain",
			(unsigned long long)sc->next_seq - 1, (unsigned long long)meta->max_seq);
	} else if (sc->certain_end != meta->log_size - gone) {
		check_problem(sc->check, place,
			"seq %llu ends at byte %llu; metadata.json says %llu",
			(unsigned long long)meta->max_seq, (unsigned long long)sc->certain_end,
			(unsigned long long)(meta->log_size - gone));
	} else if (meta->first_seq <= meta->max_seq && sc->first_at != meta->first_at - gone) {
		check_problem(sc->check, place,
			"seq %llu starts at byte %llu; metadata.json says %llu",
			(unsigned long long)meta->first_seq, (unsigned long long)sc->first_at,
			(unsigned long long)(meta->first_at - gone));
	}
}

static void check_end(struct session_check *sc, const struct log_lines *lines, int r)
{
	char place[256];
	log_place(sc, place);
	size_t rest = log_lines_rest(lines);
	if (r < 0) {
		check_problem(sc->check, place, "byte %llu: %s", (unsigned long long)lines->offset,
			r == -EMSGSIZE ? "a line longer than any event" : file_error(-r));
		sc->is_damaged = true;
	} else if (rest && !sc->check->files->in_use) {
		check_note(sc->check, place,
			"the last line is incomplete; the next start of the server cuts off these %zu bytes",
			rest);
	}
	if (sc->gaps) {
		check_note(sc->check, place,
			"%llu events are lost: holdfast repair has put gaps in their place",
			(unsigned long long)sc->gaps);
	}
	check_certain(sc);
}

static void check_log(struct session_check *sc)
{
	struct log_lines lines;
	const char *line;
	size_t len;
	int r = log_lines_open(sc->check->files, sc->id, &lines);
	if (r == -ENOENT) {
		r = 0; /* a log without events; check_certain() reports missing ones */
	}
	sc->next_seq = sc->has_metadata ? sc->meta.base_seq : 1;
	uint64_t told = 0;
	while (r == 0 && lines.fd >= 0) {
		int found = log_lines_next(&lines, &line, &len);
		if (found <= 0) {
			r = found;
			break;
		}
		check_line(sc, &lines, line, len);
		if (lines.offset - told > (1 << 20)) {
			sc->check->ops->progress(sc->check->owner, lines.offset - told);
			told = lines.offset;
		}
	}
	sc->check->ops->progress(sc->check->owner, lines.offset - told);
	check_end(sc, &lines, r);
	log_lines_close(&lines);
}

/* --- session --- */

/** Checks the log, and with it the entries of the other files for its events. */
static void check_events(struct session_check *sc)
{
	const struct store_metadata *meta = sc->has_metadata ? &sc->meta : NULL;
	check_index_begin(&sc->index, sc->check, sc->id, meta);
	check_keys_begin(&sc->keys, sc->check, sc->id, meta);
	check_log(sc);
	bool log_is_good = !sc->is_damaged && sc->next_seq > sc->meta.max_seq;
	check_index_end(&sc->index, log_is_good);
	check_keys_end(&sc->keys, log_is_good);
}

/** Returns whether the server has meanwhile replaced metadata.json or deleted the session. */
static bool has_changed(const struct session_check *sc)
{
	struct store_metadata now;
	const char *why;
	bool had = sc->has_metadata;
	bool has = store_files_read_metadata(sc->check->files, sc->id, NULL, &now, &why) == 0;
	bool same = had == has &&
		    (!has || (now.epoch == sc->meta.epoch && now.first_seq == sc->meta.first_seq &&
				     now.base_seq == sc->meta.base_seq &&
				     now.max_seq == sc->meta.max_seq));
	store_metadata_finish(&now);
	return !same;
}

/** The server was stopped before the folder was gone, or a power cut has brought it back. */
static void tell_deleted(struct check *check, const char *id)
{
	char place[256];
	snprintf(place, sizeof(place), "sessions/%s", id);
	if (!check->files->in_use) {
		check_note(check, place,
			"the folder of a deleted session; the next start of the server removes it");
	}
}

/**
 * Reads metadata.json first and then the other files, which only grow: so they have what it says,
 * even while the server writes. If there are findings and the server has changed the session
 * meanwhile, the session is checked again.
 */
void check_session(struct check *check, const char *id)
{
	struct session_check sc;
	for (int attempt = 1;; attempt++) {
		sc = (struct session_check){.check = check, .id = id};
		check_metadata(&sc);
		if (sc.folder == FOLDER_IS_DELETED) {
			store_metadata_finish(&sc.meta);
			tell_deleted(check, id);
			return;
		}
		check_events(&sc);
		bool again = check->found.texts.len && check->files->in_use && has_changed(&sc);
		store_metadata_finish(&sc.meta);
		if (!again || attempt == ATTEMPTS) {
			break;
		}
		check_forget(check);
	}
	check_tell(check); /* findings of blobs are counted separately */
	check_blobs(check, id);
	check->counts->sessions += sc.has_metadata;
	check->counts->events += sc.events;
}
