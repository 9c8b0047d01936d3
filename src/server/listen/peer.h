/*
 * What the kernel knows about a peer. In a file of its own because linux/tcp.h and netinet/tcp.h
 * cannot be included together.
 */
#ifndef HOLDFAST_PEER_H
#define HOLDFAST_PEER_H

#include "holdfast/address.h"

#include <stdint.h>

/**
 * Bytes that the peer's system has acknowledged so far; for a unix socket, those that its peer has
 * not read. The number changes while the peer takes what was sent. 0 if unknown.
 */
uint64_t peer_bytes_taken(int fd);

/**
 * Time (ms) since the peer's last acknowledgement, while data is unacknowledged or unsent; else -1.
 */
int64_t peer_silent_ms(int fd);

/** The peer's address, IPv4 mapped to IPv6; all zero if it has none. */
struct address peer_address(int fd);

#endif
