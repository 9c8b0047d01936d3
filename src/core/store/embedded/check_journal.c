/* Checks the journal: the chain of segments, their batches, and the sessions of their records. */
#include "check_internal.h"

#include "embedded.h"

#include "holdfast/beneath.h"
#include "holdfast/pack.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** A segment, and what the header of the next one says of it. */
struct link {
	uint64_t number;
	size_t end; /* number of bytes that count; SIZE_MAX: all */
	bool is_newest;
};

struct walk {
	struct check *check;
	struct link link;
	struct journal_reader reader;
	char file[48];
	size_t batch; /* offset of the batch being read */
	size_t record; /* offset of its next record */
	size_t damaged_batch; /* the last one reported */
};

static void place_at(const struct walk *walk, size_t byte, char place[96])
{
	snprintf(place, 96, "%s: byte %zu", walk->file, byte);
}

/* --- records --- */

static struct life *meet(struct walk *walk, const struct record *record)
{
	struct check *check = walk->check;
	struct life *life = check_life(check, record->id, record->id_len, record->epoch);
	if (!life) {
		struct buffer key = {0};
		buffer_append(&key, &record->epoch, sizeof(record->epoch));
		buffer_append(&key, record->id, record->id_len);
		life = xcalloc(1, sizeof(*life) + record->id_len + 1);
		life->epoch = record->epoch;
		memcpy(life->id, record->id, record->id_len);
		hash_put(check->lives, key.data, key.len, life);
		buffer_finish(&key);
	}
	return life;
}

/**
 * Each segment is complete by itself: the first record of a session in it must give the whole
 * state.
 */
static bool may_be_first(enum record_kind kind)
{
	return kind == RECORD_CREATE || kind == RECORD_DELETE || kind == RECORD_SNAPSHOT;
}

static void check_record(struct walk *walk, const struct record *record)
{
	char place[96];
	place_at(walk, walk->record, place);
	if (record_may_be_left_out(record)) {
		return; /* of a later program; older ones may ignore it */
	}
	struct buffer what = {0};
	if (versions_tell_record(walk->check->ops->is_foreign, record, &what)) {
		check_problem(walk->check, place, "%s", buffer_cstr(&what));
	}
	buffer_finish(&what);
	if (!session_id_is_valid(record->id, record->id_len)) {
		check_problem(walk->check, place, "a record has an invalid session id");
		return;
	}
	struct life *life = meet(walk, record);
	if (life->segment != walk->link.number) {
		life->segment = walk->link.number;
		memcpy(life->place, place, sizeof(place));
		if (!may_be_first(record->kind)) {
			check_problem(walk->check, place,
				"the first record of session %s in this segment is not a snapshot",
				life->id);
		}
	}
	life->created = life->created || record->kind == RECORD_CREATE;
	life->deleted = life->deleted || record->kind == RECORD_DELETE;
}

/** Looks for a session by its hash among those of the journal. */
struct seeking {
	uint64_t session;
	const char *id; /* NULL: not found yet */
};

static void compare_life(void *value, void *arg)
{
	const struct life *life = value;
	struct seeking *seeking = arg;
	if (journal_session_hash(life->id, strlen(life->id), life->epoch) == seeking->session) {
		seeking->id = life->id;
	}
}

/**
 * Finds the session of an unreadable record by its hash in the batch's trailer. NULL: no session
 * has it.
 */
static const char *find_owner(const struct check *check, uint64_t session)
{
	for (size_t i = 0; i < check->id_count; i++) {
		struct store_metadata meta;
		const char *why;
		const char *id = check->ids[i];
		if (store_files_read_metadata(check->files, id, NULL, &meta, &why) < 0) {
			continue;
		}
		uint64_t hash = journal_session_hash(id, strlen(id), meta.epoch);
		store_metadata_finish(&meta);
		if (hash == session) {
			return id;
		}
	}
	struct seeking seeking = {.session = session}; /* its folder may not be on disk yet */
	hash_each(check->lives, compare_life, &seeking);
	return seeking.id;
}

static void tell_damaged_record(struct walk *walk, uint64_t session)
{
	char place[96];
	const char *owner = find_owner(walk->check, session);
	place_at(walk, walk->record, place);
	check_problem(walk->check, place,
		owner ? "the checksum of a record of session %s is wrong; the server will set that session aside"
		      : "the checksum of a record is wrong; %s",
		owner ? owner : RECORD_UNKNOWN);
}

/* --- batches --- */

/** Notes the place of the next record, before it is read. */
static void note_place(struct walk *walk)
{
	const struct journal_reader *reader = &walk->reader;
	if (!reader->left) {
		walk->batch = reader->valid;
	}
	walk->record = reader->left ? reader->at : reader->valid + BATCH_HEADER_SIZE;
}

static void tell_damaged_batch(struct walk *walk)
{
	char place[96];
	if (walk->reader.damaged_batch == walk->damaged_batch) {
		return;
	}
	walk->damaged_batch = walk->reader.damaged_batch;
	place_at(walk, walk->damaged_batch, place);
	check_problem(walk->check, place,
		"the checksum of a batch's header or trailer is wrong; its records are good");
}

/**
 * Reports a bad last batch of the newest segment. Ordinarily the server was stopped while writing
 * it, and it ends too early; that is only a note.
 */
static void tell_torn(struct walk *walk)
{
	const struct journal_reader *reader = &walk->reader;
	struct unpack in = {
		.bytes = reader->bytes.data + reader->valid, .len = reader->end - reader->valid};
	char place[96];
	place_at(walk, reader->valid, place);
	bool has_magic = in.len < 4 || unpack_le(&in, 4) == BATCH_MAGIC ||
			 journal_reader_is_blank(reader, reader->valid + 3);
	uint64_t count = unpack_le(&in, 4);
	uint64_t length = unpack_le(&in, 8);
	unpack_le(&in, 8); /* number */
	unpack_le(&in, 8); /* checksum */
	/* It ends with a checksum: zeros in its place mean that the end was not written. */
	uint64_t left = BATCH_TRAILER_SIZE + count * BATCH_ENTRY_SIZE + length;
	bool ends_early = in.failed || in.len < left ||
			  journal_reader_is_blank(
				  reader, reader->valid + BATCH_HEADER_SIZE + (size_t)left - 8);
	if (has_magic && ends_early) {
		if (!walk->check->files->in_use) {
			check_note(walk->check, place,
				"an incomplete batch: nothing in it was acknowledged; the next start of the server cuts it off");
		}
		return;
	}
	check_problem(walk->check, place,
		"the last batch is damaged. If power was lost while it was being written, it was never acknowledged; otherwise inputs are lost. The next start of the server cuts it off");
}

static void tell_end(struct walk *walk, enum journal_found found)
{
	const struct journal_reader *reader = &walk->reader;
	char place[96];
	place_at(walk, reader->valid, place);
	if (found == JOURNAL_LOST) {
		check_problem(walk->check, place,
			"damage, and the sessions concerned are unknown; the server will not start");
	} else if (reader->valid < reader->end) {
		tell_torn(walk);
	} else if (walk->link.end != SIZE_MAX && walk->link.end > reader->end) {
		check_problem(walk->check, place,
			"the segment ends here, but the next one says that it has %zu bytes; the server will not start",
			walk->link.end);
	}
}

static void walk_records(struct walk *walk)
{
	enum journal_found found = JOURNAL_RECORD;
	while (found != JOURNAL_END && found != JOURNAL_LOST) {
		struct record record;
		uint64_t session = 0;
		note_place(walk);
		found = journal_reader_next(&walk->reader, &record, &session);
		tell_damaged_batch(walk);
		if (found == JOURNAL_RECORD) {
			check_record(walk, &record);
			walk->check->counts->records++;
		} else if (found == JOURNAL_DAMAGED) {
			tell_damaged_record(walk, session);
		}
	}
	tell_end(walk, found);
}

/* --- segments --- */

/**
 * Cuts reader->end to the part that a second read confirms. A running server writes into
 * preallocated space while this reads, so one read can see space that is still unused and, behind
 * it, bytes written later. Up to the first difference between the two reads nothing was written in
 * between.
 */
static void leave_out_unsettled(struct walk *walk)
{
	struct journal_reader *reader = &walk->reader;
	struct journal_reader again;
	journal_reader_open(
		&again, walk->check->files->journal_fd, walk->file + strlen("journal/"));
	size_t end = reader->end < again.bytes.len ? reader->end : again.bytes.len;
	size_t at = 0;
	while (at < end && reader->bytes.data[at] == again.bytes.data[at]) {
		at++;
	}
	reader->end = at > reader->valid ? at : reader->valid;
	journal_reader_close(&again);
}

/** Returns the segment number in the header, which must match the file's name. */
static uint64_t header_number(const struct journal_reader *reader)
{
	struct unpack in = {.bytes = reader->bytes.data + 8, .len = 8};
	return unpack_le(&in, 8);
}

static void tell_headless(struct walk *walk)
{
	if (!walk->link.is_newest || journal_reader_has_batch(&walk->reader)) {
		check_problem(walk->check, walk->file,
			"the segment " JOURNAL_HEADLESS "; the server will not start");
	} else if (!journal_reader_is_blank(&walk->reader, JOURNAL_HEADER_SIZE)) {
		check_problem(walk->check, walk->file,
			"the segment has no good header; the next start of the server moves it to set-aside/");
	} else if (!walk->check->files->in_use) {
		check_note(walk->check, walk->file,
			"an incomplete new segment; the next start of the server removes it");
	}
}

/**
 * Checks one segment. Returns 1 and in *ret_before what its header says of the previous one; 0 if
 * it has no good header; a negative errno if it cannot be read.
 */
static int check_segment(struct check *check, struct link link, struct link *ret_before)
{
	struct walk walk = {.check = check, .link = link};
	snprintf(walk.file, sizeof(walk.file), "journal/%016llx.journal",
		(unsigned long long)link.number);
	int r = journal_reader_open(
		&walk.reader, check->files->journal_fd, walk.file + strlen("journal/"));
	struct journal_reader *reader = &walk.reader;
	check->ops->progress(check->owner, reader->bytes.len);
	if (r == 0 && reader->before_segment == JOURNAL_BEFORE_UNKNOWN) {
		check_problem(check, walk.file, "its header is damaged");
		reader->before_segment = 0;
	} else if (r == 0 && header_number(reader) != link.number) {
		check_problem(check, walk.file, "its header has the number %016llx",
			(unsigned long long)header_number(reader));
	}
	if (r == 0) {
		reader->may_be_torn = link.is_newest;
		reader->is_end_told = link.end != SIZE_MAX;
		reader->end = link.end < reader->end ? link.end : reader->end;
		if (link.is_newest && check->files->in_use) {
			leave_out_unsettled(&walk);
		}
		walk_records(&walk);
		check->counts->segments++;
		*ret_before = (struct link){reader->before_segment, reader->before_len, false};
	} else if (r == -EBADMSG) {
		tell_headless(&walk);
	} else if (r == -ENOTSUP) {
		struct buffer what = {0};
		versions_tell_segment(reader, &what);
		check_problem(check, walk.file, "%s", buffer_cstr(&what));
		buffer_finish(&what);
	} else if (r != -ENOENT || !check->files->in_use) {
		check_problem(check, walk.file, "%s", file_error(-r));
	}
	journal_reader_close(reader);
	check_tell(check);
	return r == 0 ? 1 : r == -EBADMSG ? 0 : r;
}

static void note_left_over(struct check *check, uint64_t number)
{
	char place[96];
	if (check->files->in_use) {
		return;
	}
	snprintf(place, sizeof(place), "journal/%016llx.journal", (unsigned long long)number);
	check_note(check, place,
		"not checked: no later segment refers to this one, so its records were refused or are in the logs");
}

/**
 * Goes from the newest segment back, as the headers lead. If a running server deletes older
 * segments meanwhile, the chain ends earlier.
 */
int check_journal(struct check *check)
{
	uint64_t *segments = NULL;
	size_t count = 0;
	int r = store_files_list_segments(check->files, &segments, &count);
	struct link next = {.end = SIZE_MAX, .is_newest = true};
	for (size_t i = count; r == 0 && i-- > 0;) {
		if (!next.is_newest && segments[i] != next.number) {
			note_left_over(check, segments[i]);
			continue;
		}
		struct link before = {0};
		next.number = segments[i];
		int found = check_segment(check, next, &before);
		if (found != 0 || !next.is_newest) {
			next = before;
		}
	}
	free(segments);
	return r;
}

/* --- sessions of the journal --- */

/**
 * Compares a session in the journal with its metadata.json. An interrupted change of the epoch is
 * only a note: it writes the session's state under the new epoch to the journal before
 * metadata.json has that epoch, so the journal has both.
 */
static void check_one_life(void *value, void *arg)
{
	const struct life *life = value;
	struct check *check = arg;
	struct store_metadata meta;
	const char *why;
	int r = store_files_read_metadata(check->files, life->id, NULL, &meta, &why);
	store_metadata_finish(&meta);
	if (life->deleted || (r == 0 && meta.epoch == life->epoch) || r == -EBADMSG) {
		return;
	}
	if (r == 0 && !life->created && check_life(check, life->id, strlen(life->id), meta.epoch)) {
		check_note(check, life->place,
			"the record is of epoch %016llx of session %s, which has another: holdfast new-epoch was interrupted; the next start of the server removes the record",
			(unsigned long long)life->epoch, life->id);
	} else if (r == 0) {
		check_problem(check, life->place,
			"the record is of epoch %016llx of session %s, whose metadata.json says %016llx",
			(unsigned long long)life->epoch, life->id, (unsigned long long)meta.epoch);
	} else if (life->created) {
		check_note(check, life->place,
			"session %s has no folder; the next start of the server makes it from the journal",
			life->id);
	} else {
		check_problem(check, life->place,
			"the record is of session %s, which does not exist", life->id);
	}
}

void check_lives(struct check *check)
{
	hash_each(check->lives, check_one_life, check);
}
