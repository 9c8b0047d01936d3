/* Network addresses, IPv4 and IPv6 alike. Pure. */
#ifndef HOLDFAST_ADDRESS_H
#define HOLDFAST_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

/** An IPv6 address, or an IPv4 one as ::ffff:a.b.c.d. All zero: none, such as of a unix socket. */
struct address {
	unsigned char bytes[16];
};

/** All addresses whose first bits are the same. */
struct address_range {
	struct address address;
	unsigned bits;
};

/** Reads an IPv4 or IPv6 address, also as HOST:PORT or [HOST]:PORT, as proxies write it. */
bool address_parse(const char *text, size_t len, struct address *ret);
/** Reads ADDRESS or ADDRESS/BITS. */
bool address_range_parse(const char *text, struct address_range *ret);
bool address_is_in(const struct address *address, const struct address_range *range);
/** What one person has: an IPv4 address, or the /64 of an IPv6 one. */
struct address address_household(const struct address *address);

#endif
