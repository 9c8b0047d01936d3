/* The options of serve for trust: host names, origins and proxies. */
#ifndef HOLDFAST_CONFIG_TRUST_H
#define HOLDFAST_CONFIG_TRUST_H

#include "holdfast/option_rows.h"
#include "holdfast/server.h"

/* For option_row.apply; `place` is a struct server_trust. */
const char *trust_add_origin(const struct option_row *row, void *place, const char *text);
const char *trust_add_host(const struct option_row *row, void *place, const char *text);
const char *trust_add_proxy(const struct option_row *row, void *place, const char *text);
void trust_finish(struct server_trust *trust);
/** Appends a copy of `text` to a NULL-terminated list; an empty list may be NULL. */
void list_add_text(char ***list, const char *text);
void list_free_texts(char **list);

#endif
