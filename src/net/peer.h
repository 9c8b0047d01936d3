/* What the kernel knows of a peer. (linux/tcp.h and netinet/tcp.h do not go together.) */
#ifndef HOLDFAST_PEER_H
#define HOLDFAST_PEER_H

#include <stddef.h>
#include <stdint.h>

/**
 * How many bytes the peer's system has taken so far; of a unix socket how many its peer has not
 * read. It changes as long as the peer takes what was sent. 0 if that is not known.
 */
uint64_t peer_bytes_taken(int fd);

#define PEER_ADDRESS_MAX 9
/**
 * What names the peer where one of many is to be told from others: an IPv4 address, the /64 of an
 * IPv6 one, or that it is of this machine. Returns the length.
 */
size_t peer_address(int fd, unsigned char address[PEER_ADDRESS_MAX]);

#endif
