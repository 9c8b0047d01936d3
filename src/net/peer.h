/* What the kernel knows of a TCP peer. (linux/tcp.h and netinet/tcp.h do not go together.) */
#ifndef HOLDFAST_PEER_H
#define HOLDFAST_PEER_H

#include <stdint.h>

/** How many bytes the peer's system has taken so far; 0 if that is not known. */
uint64_t peer_bytes_taken(int fd);

#endif
