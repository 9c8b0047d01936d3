/* The addresses that the server tells when it has started. */
#ifndef HOLDFAST_RELAY_URLS_H
#define HOLDFAST_RELAY_URLS_H

#include "holdfast/buffer.h"
#include "holdfast/config.h"
#include "holdfast/server.h"

/** The link has a secret in it: it is for a person who looks, and for no log. */
void relay_announce_login(const char *data_dir, const char *url);
/**
 * Where people and where commands find the server; `people` stays empty if it has no address. Appends to `lines` what is
 * said of each address.
 */
void relay_choose_urls(const struct config *config, const struct server *server,
	struct buffer *people, struct buffer *commands, struct buffer *lines);

#endif
