/* The journal's read side: lists segments and reads their records. */
#ifndef HOLDFAST_JOURNAL_READ_H
#define HOLDFAST_JOURNAL_READ_H

#include "core/store/checksum.h"

#include "holdfast/buffer.h"
#include "holdfast/store.h"

/** Makes the file name of a segment. */
void journal_segment_name(uint64_t segment, char name[32]);
/**
 * Lists the numbers of the segments in a directory, ascending. The caller frees them, even on
 * failure.
 */
int journal_list(int dir_fd, uint64_t **ret_segments, size_t *ret_count);
struct journal_reader {
	struct buffer bytes; /* the whole segment */
	uint64_t before_segment; /* the previous segment, by the header; 0: none; or */
#define JOURNAL_BEFORE_UNKNOWN UINT64_MAX /* the header is damaged */
	size_t before_len; /* valid bytes of that segment */
	unsigned format; /* by the magic; 0: unknown */
	uint64_t flags;
	size_t end; /* bytes that belong to the segment */
	bool may_be_torn; /* the newest segment: its last batch may be incomplete */
	bool is_end_told; /* the next segment's header gave `end`: zeros before it are damage */
	size_t valid; /* end of the good batches read so far */
	size_t last_batch; /* offset of the last good batch; 0: none */
	uint64_t batch_number; /* of the next batch */
	size_t damaged_batch; /* offset of the last batch with a bad header or trailer; 0: none */
	/* The batch being read. */
	size_t at; /* offset of its next record */
	const char *entry; /* trailer entry of that record; NULL: the trailer is damaged */
	uint32_t left; /* records left to read */
};
/** Result of journal_reader_next(). */
enum journal_found {
	JOURNAL_END, /* no more records; bytes from `valid` to `end` are a torn batch */
	JOURNAL_RECORD,
	JOURNAL_DAMAGED, /* the record cannot be read, but its session is known */
	JOURNAL_LOST, /* damage that hides which sessions it concerns */
};
/**
 * Reads a segment into memory. Returns 0 or a negative errno: -EBADMSG if it has no good header;
 * -ENOTSUP if the header is good but has an unknown format or unknown flags. The caller closes the
 * reader in any case.
 */
int journal_reader_open(struct journal_reader *reader, int dir_fd, const char *name);
/** The same, but reads only the header: no batch is looked for if that is damaged. */
int journal_reader_open_header(struct journal_reader *reader, int dir_fd, const char *name);
void journal_reader_close(struct journal_reader *reader);
/**
 * Reads the next record, which is valid until the reader is closed. For JOURNAL_DAMAGED
 * *ret_session is the journal_session_hash() of its session.
 */
enum journal_found journal_reader_next(
	struct journal_reader *reader, struct record *ret_record, uint64_t *ret_session);
/** Returns whether only zeros, unused preallocated space, follow `from`. */
bool journal_reader_is_blank(const struct journal_reader *reader, size_t from);
/**
 * Whether a segment without a good header has a batch all the same. The header was synced with the
 * first batch, so that no crash leaves that if batches are synced.
 */
bool journal_reader_has_batch(const struct journal_reader *reader);

#endif
