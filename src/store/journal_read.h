/* The journal's read side: which segments there are, and what is in them. */
#ifndef HOLDFAST_JOURNAL_READ_H
#define HOLDFAST_JOURNAL_READ_H

#include "holdfast/buffer.h"
#include "holdfast/store.h"

void journal_segment_name(uint64_t segment, char name[32]);
/** The numbers of the segments in the journal's directory, ascending; the caller frees them. */
int journal_list(int dir_fd, uint64_t **ret_segments, size_t *ret_count);
struct journal_reader {
	struct buffer bytes; /* the whole segment */
	uint64_t before_segment; /* what its header tells of the one before it; 0: none; or */
#define JOURNAL_BEFORE_UNKNOWN UINT64_MAX /* the header is damaged */
	size_t before_len;
	unsigned format; /* as the magic says; 0: not known */
	uint64_t flags;
	size_t end; /* bytes that belong to it */
	bool may_be_torn; /* the newest: its last batch may be incomplete */
	bool is_end_told; /* by the next segment: zeros are no end, but damage */
	size_t valid; /* up to where batches are good */
	size_t last_batch; /* where the last of them begins; 0: none */
	uint64_t batch_number; /* the next one's */
	size_t damaged_batch; /* the last one that had to do without its header or trailer; 0: none
			       */
	/* The batch being read. */
	size_t at; /* its next record */
	const char *entry; /* of that record */
	uint32_t left; /* records */
};
/** What journal_reader_next() found. */
enum journal_found {
	JOURNAL_END, /* no more; what is between `valid` and `end` is torn */
	JOURNAL_RECORD,
	JOURNAL_DAMAGED, /* a record of a session cannot be read */
	JOURNAL_LOST, /* damage so large that it does not tell which sessions it concerns */
};
/**
 * Reads a segment. -EBADMSG if it has no good header; -ENOTSUP if that is good, and of a format or
 * with flags that we do not know. The reader is to be closed in any case.
 */
int journal_reader_open(struct journal_reader *reader, int dir_fd, const char *name);
/** Reads the header alone: whether that is good, and not ours to read. Closed in any case, too. */
bool journal_header_is_foreign(struct journal_reader *reader, int dir_fd, const char *name);
void journal_reader_close(struct journal_reader *reader);
/** *ret_session is journal_session_hash() of the session that a damaged record is of. */
enum journal_found journal_reader_next(
	struct journal_reader *reader, struct record *ret_record, uint64_t *ret_session);
/** Whether there are only zeros from a place on: room that was taken and not used. */
bool journal_reader_is_blank(const struct journal_reader *reader, size_t from);
/** The XXH3_64 that guards what is in a segment. */
uint64_t journal_checksum(const char *bytes, size_t len);

#endif
