/* Sums of what the store writes, by XXH3_64. Below everything else of the store. */
#ifndef HOLDFAST_CHECKSUM_H
#define HOLDFAST_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/** The checksum of everything in a segment of the journal, and of headers of other files. */
uint64_t journal_checksum(const char *bytes, size_t len);
/** Identifies a session within a journal: the sum of its id, seeded with its epoch. */
uint64_t journal_session_hash(const char *id, size_t id_len, uint64_t epoch);

#endif
