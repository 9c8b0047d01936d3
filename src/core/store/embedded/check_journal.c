/* Checks the journal: the chain of segments, their batches, and the sessions of their records. */
#include "check.h"

#include "embedded.h"

#include "holdfast/beneath.h"
#include "holdfast/pack.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void name_file(uint64_t number, char file[48])
{
	snprintf(file, 48, "journal/%016llx.journal", (unsigned long long)number);
}

static void name_byte(uint64_t number, size_t byte, char place[96])
{
	snprintf(place, 96, "journal/%016llx.journal: byte %zu", (unsigned long long)number, byte);
}

static void name_place(const struct journal_place *at, char place[96])
{
	name_byte(at->segment->number, at->at, place);
}

/* --- records --- */

/**
 * Each segment is complete by itself: the first record of a session in it must give the whole
 * state.
 */
static bool may_be_first(enum record_kind kind)
{
	return kind == RECORD_CREATE || kind == RECORD_DELETE || kind == RECORD_SNAPSHOT;
}

static int check_record(void *arg, const struct record *record, const struct journal_place *at)
{
	struct check *check = arg;
	char place[96];
	struct buffer what = {0};
	check->counts->records++;
	if (record_may_be_left_out(record)) {
		return 0; /* of a later program; older ones may ignore it */
	}
	name_place(at, place);
	if (versions_tell_record(check->ops->is_foreign, record, &what)) {
		check_problem(check, place, "%s", buffer_cstr(&what));
	}
	buffer_finish(&what);
	const struct journal_life *life = journal_view_note(check->journal, record, at);
	if (!life) {
		check_problem(check, place, "a record has an invalid session id");
	} else if (life->segment == at->segment->number && life->first == at->at &&
		   !may_be_first(record->kind)) {
		check_problem(check, place,
			"the first record of session %s in this segment is not a snapshot",
			life->id);
	}
	return 0;
}

/** Looks for a session by its hash among those of the journal. */
struct seeking {
	uint64_t session;
	const char *id; /* NULL: not found yet */
};

static void compare_life(void *value, void *arg)
{
	const struct journal_life *life = value;
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
	hash_each(check->journal->lives, compare_life, &seeking);
	return seeking.id;
}

static void tell_damaged_record(struct check *check, const struct journal_place *at)
{
	char place[96];
	const char *owner = find_owner(check, at->session);
	name_place(at, place);
	check_problem(check, place,
		owner ? "the checksum of a record of session %s is wrong; the server will set that session aside"
		      : "the checksum of a record is wrong; %s",
		owner ? owner : RECORD_UNKNOWN);
}

/* --- batches --- */

/**
 * Reports a bad last batch of the newest segment. Ordinarily the server was stopped while writing
 * it, and it ends too early; that is only a note.
 */
static void tell_torn(struct check *check, const struct journal_place *at)
{
	const struct journal_reader *reader = at->reader;
	struct unpack in = {
		.bytes = reader->bytes.data + reader->valid, .len = reader->end - reader->valid};
	char place[96];
	name_place(at, place);
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
		if (!check->files->in_use) {
			check_note(check, place,
				"an incomplete batch: nothing in it was acknowledged; the next start of the server cuts it off");
		}
		return;
	}
	check_problem(check, place,
		"the last batch is damaged. If power was lost while it was being written, it was never acknowledged; otherwise inputs are lost. The next start of the server cuts it off");
}

/* --- segments --- */

/**
 * Cuts reader->end to the part that a second read confirms. A running server writes into
 * preallocated space while this reads, so one read can see space that is still unused and, behind
 * it, bytes written later. Up to the first difference between the two reads nothing was written in
 * between.
 */
static void leave_out_unsettled(
	const struct check *check, uint64_t number, struct journal_reader *reader)
{
	char name[32];
	struct journal_reader again;
	journal_segment_name(number, name);
	journal_reader_open(&again, check->files->journal_fd, name);
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

static void begin_segment(void *arg, const struct journal_place *at)
{
	struct check *check = arg;
	struct journal_reader *reader = at->reader;
	uint64_t number = at->segment->number;
	char file[48];
	check_tell(check);
	check->ops->progress(check->owner, reader->bytes.len);
	check->counts->segments++;
	name_file(number, file);
	if (reader->before_segment != JOURNAL_BEFORE_UNKNOWN && header_number(reader) != number) {
		check_problem(check, file, "its header has the number %016llx",
			(unsigned long long)header_number(reader));
	}
	if (at->segment->is_newest && check->files->in_use) {
		leave_out_unsettled(check, number, reader);
	}
}

static void tell_unbegun(struct check *check, const struct journal_place *at)
{
	char file[48];
	name_file(at->segment->number, file);
	if (!journal_reader_is_blank(at->reader, JOURNAL_HEADER_SIZE)) {
		check_problem(check, file,
			"the segment has no good header; the next start of the server moves it to set-aside/");
	} else if (!check->files->in_use) {
		check_note(check, file,
			"an incomplete new segment; the next start of the server removes it");
	}
}

static void tell_unreadable(struct check *check, const struct journal_place *at)
{
	char file[48];
	struct buffer what = {0};
	name_file(at->segment->number, file);
	if (at->error == -ENOTSUP) {
		versions_tell_segment(at->reader, &what);
		check_problem(check, file, "%s", buffer_cstr(&what));
		buffer_finish(&what);
	} else if (at->error != -ENOENT || !check->files->in_use) {
		check_problem(check, file, "%s", file_error(-at->error));
	}
}

static int tell_damage(void *arg, enum journal_damage damage, const struct journal_place *at)
{
	struct check *check = arg;
	char file[48];
	char place[96];
	name_file(at->segment->number, file);
	name_place(at, place);
	switch (damage) {
	case JOURNAL_UNBEGUN:
		tell_unbegun(check, at);
		break;
	case JOURNAL_NEWEST_HEADLESS:
	case JOURNAL_LACKS_HEADER:
		check_problem(
			check, file, "the segment " JOURNAL_HEADLESS "; the server will not start");
		break;
	case JOURNAL_UNREADABLE:
		tell_unreadable(check, at);
		break;
	case JOURNAL_HEADER_DAMAGED:
		check_problem(check, file, "its header is damaged");
		break;
	case JOURNAL_BATCH_DAMAGED:
		check_problem(check, place,
			"the checksum of a batch's header or trailer is wrong; its records are good");
		break;
	case JOURNAL_RECORD_DAMAGED:
		tell_damaged_record(check, at);
		break;
	case JOURNAL_TORN:
		tell_torn(check, at);
		break;
	case JOURNAL_REST_DAMAGED:
		check_problem(check, place,
			"damage, and the sessions concerned are unknown; the server will not start");
		break;
	case JOURNAL_CUT:
		check_problem(check, place,
			"the segment ends here, but the next one says that it has %zu bytes; the server will not start",
			at->segment->end);
		break;
	}
	return 0;
}

/** Notes the segments older than the newest that do not count. */
static void tell_left_over(struct check *check)
{
	const struct journal_view *view = check->journal;
	uint64_t newest = view->chain_count ? view->chain[view->chain_count - 1].number : 0;
	for (size_t i = view->number_count; i-- > 0 && !check->files->in_use;) {
		uint64_t number = view->numbers[i];
		char file[48];
		if (number < newest && !journal_view_counts(view, number)) {
			name_file(number, file);
			check_note(check, file,
				"not checked: no later segment refers to this one, so its records were refused or are in the logs");
		}
	}
}

/** If a running server deletes older segments meanwhile, they are not there to be checked. */
int check_journal(struct check *check)
{
	const struct journal_visitor visitor = {.record = check_record,
		.damage = tell_damage,
		.opened = begin_segment,
		.arg = check};
	int r = journal_view_list(check->journal);
	r = r < 0 ? r : journal_view_find(check->journal, &visitor);
	tell_left_over(check);
	check_tell(check);
	return r < 0 ? r : journal_view_walk(check->journal, &visitor);
}

/* --- sessions of the journal --- */

/** Whether a start removes the folder that bears the id, and makes that of this session. */
static bool is_made_anew(struct check *check, const struct journal_life *life, uint64_t epoch)
{
	return journal_view_newest(check->journal, life->id) == life &&
	       journal_view_folder(check->journal, life->id, &epoch) == FOLDER_IS_DELETED;
}

/**
 * Compares a session in the journal with its metadata.json. An interrupted change of the epoch is
 * only a note: it writes the session's state under the new epoch to the journal before
 * metadata.json has that epoch, so the journal has both.
 */
static void check_one_life(void *value, void *arg)
{
	const struct journal_life *life = value;
	struct check *check = arg;
	struct store_metadata meta;
	const char *why;
	char place[96];
	int r = store_files_read_metadata(check->files, life->id, NULL, &meta, &why);
	store_metadata_finish(&meta);
	if (life->is_deleted || (r == 0 && meta.epoch == life->epoch) || r == -EBADMSG) {
		return;
	}
	name_byte(life->segment, life->first, place);
	if (r == 0 && !life->is_created &&
		journal_view_life(check->journal, life->id, strlen(life->id), meta.epoch)) {
		check_note(check, place,
			"the record is of epoch %016llx of session %s, which has another: holdfast new-epoch was interrupted; the next start of the server removes the record",
			(unsigned long long)life->epoch, life->id);
	} else if (r == 0 && !is_made_anew(check, life, meta.epoch)) {
		check_problem(check, place,
			"the record is of epoch %016llx of session %s, whose metadata.json says %016llx",
			(unsigned long long)life->epoch, life->id, (unsigned long long)meta.epoch);
	} else if (life->is_created) {
		check_note(check, place,
			"session %s has no folder; the next start of the server makes it from the journal",
			life->id);
	} else {
		check_problem(check, place, "the record is of session %s, which does not exist",
			life->id);
	}
}

void check_lives(struct check *check)
{
	hash_each(check->journal->lives, check_one_life, check);
}
