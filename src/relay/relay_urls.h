/* The addresses that the server tells when it has started. */
#ifndef HOLDFAST_RELAY_URLS_H
#define HOLDFAST_RELAY_URLS_H

#include "holdfast/buffer.h"

/** Nobody connects to "any address": a URL with that gets the loopback address in its place. */
void relay_replace_wildcard(struct buffer *url);
/** How good an address is for a command on this machine. */
int relay_rank_url(const char *url);
/** The link has a secret in it: it is for a person who looks, and for no log. */
void relay_announce_login(const char *data_dir, const char *url);

#endif
