/* Network addresses, IPv4 and IPv6 alike. Pure. */
#ifndef HOLDFAST_ADDRESS_H
#define HOLDFAST_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

/**
 * An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d. All zeros: no address, as for a unix
 * socket.
 */
struct address {
	unsigned char bytes[16];
};

/** The addresses whose first `bits` bits are those of `address`. */
struct address_range {
	struct address address;
	unsigned bits;
};

/**
 * Parses an IPv4 or IPv6 address, also in the forms HOST:PORT and [HOST]:PORT that proxies write.
 * Returns false if it is neither.
 */
bool address_parse(const char *text, size_t len, struct address *ret);
/** Parses ADDRESS or ADDRESS/BITS. Returns false if it is neither. */
bool address_range_parse(const char *text, struct address_range *ret);
/** Whether the address is in the range. */
bool address_is_in(const struct address *address, const struct address_range *range);
/**
 * The range that one subscriber is assumed to have: an IPv4 address, or the /64 of an IPv6 address
 * (its other bits are zeroed).
 */
struct address address_household(const struct address *address);

#endif
