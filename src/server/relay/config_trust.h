/* The options of serve for trust: host names, origins and proxies. */
#ifndef HOLDFAST_CONFIG_TRUST_H
#define HOLDFAST_CONFIG_TRUST_H

#include "holdfast/server.h"

/* Each adds one value, and returns NULL, or what is wrong with it (static text). */
const char *trust_take_origin(struct server_trust *trust, const char *text);
const char *trust_take_host(struct server_trust *trust, const char *text);
const char *trust_take_proxy(struct server_trust *trust, const char *text);
void trust_finish(struct server_trust *trust);
/** Appends a copy of `text` to a NULL-terminated list; an empty list may be NULL. */
void list_add_text(char ***list, const char *text);
void list_free_texts(char **list);

#endif
