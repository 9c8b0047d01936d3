/* What the kernel knows of a peer. (linux/tcp.h and netinet/tcp.h do not go together.) */
#ifndef HOLDFAST_PEER_H
#define HOLDFAST_PEER_H

#include "holdfast/address.h"

#include <stdint.h>

/**
 * How many bytes the peer's system has taken so far; of a unix socket how many its peer has not
 * read. It changes as long as the peer takes what was sent. 0 if that is not known.
 */
uint64_t peer_bytes_taken(int fd);

/** For how long (ms) the peer's system has not answered, while something is on its way to it; -1: nothing is. */
int64_t peer_silent_ms(int fd);

/** The address of the peer; all zero if it has none. */
struct address peer_address(int fd);

#endif
