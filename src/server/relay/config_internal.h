/* Shared by the files that read the options of serve. */
#ifndef HOLDFAST_CONFIG_INTERNAL_H
#define HOLDFAST_CONFIG_INTERNAL_H

#include "config_table.h"

#include "holdfast/config.h"

/* config_options.c */
/** Checks what the values of all options are together. Returns 0, or a negative errno after reporting the error. */
int config_check_groups(struct config *config);
void config_finish_groups(struct config *config);

/* Groups whose state is struct config. */
extern const struct option_group agent_options; /* config_agents.c */
extern const struct option_group database_options; /* config_store.c */

/* config_listen.c */
/** Parses HOST:PORT or [HOST]:PORT. Returns whether it is valid. The caller frees *ret_host. */
bool config_read_host_port(const char *text, char **ret_host, int *ret_port);
/** Appends a copy of an address; its host is then owned by `config`. */
void config_append_listen(struct config *config, const struct listen_address *address);

/* For option_row.apply. */

/* config_listen.c; `place` is the struct config */
const char *config_add_listen(const struct option_row *row, void *place, const char *value);
const char *config_add_metrics_listen(const struct option_row *row, void *place, const char *value);

/* config_log.c; both also set it for diag() */
const char *config_set_log_level(const struct option_row *row, void *place, const char *value);
const char *config_set_log_format(const struct option_row *row, void *place, const char *value);

/* config_paths.c */
/** Adds a path, which must exist, to a list. */
const char *config_add_path(const struct option_row *row, void *place, const char *value);
/** Sets a directory, which must exist. */
const char *config_set_dir(const struct option_row *row, void *place, const char *value);
/** The same, but an empty text and a default that does not exist are none. */
const char *config_set_highlight(const struct option_row *row, void *place, const char *value);
/** The same, but an empty text is none, and the default is the page installed with this program. */
const char *config_set_page(const struct option_row *row, void *place, const char *value);

#endif
