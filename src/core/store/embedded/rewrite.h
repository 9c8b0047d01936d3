/* Writes what a failed sync may have dropped again, in place (rewrite.c). Everything here blocks. */
#ifndef HOLDFAST_REWRITE_H
#define HOLDFAST_REWRITE_H

#include <stdint.h>

/**
 * Writes the lines of a log between two offsets again, in place, so that the next sync writes them.
 * -EBADMSG if the file does not have valid lines there. For the thread pool.
 */
int log_rewrite(int dir_fd, uint64_t from, uint64_t to);
/** The same for some bytes of a journal segment, which have been checked. */
int journal_rewrite(int dir_fd, const char *name, uint64_t from, uint64_t to);
/** The same for keys.jsonl and events.index. */
int log_keys_rewrite(int dir_fd, uint64_t from, uint64_t to);
int log_index_rewrite(int dir_fd, uint64_t from, uint64_t to);

#endif
