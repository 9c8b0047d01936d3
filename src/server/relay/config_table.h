/* All options of this program, from the groups of its parts. An option is known by its index. */
#ifndef HOLDFAST_CONFIG_TABLE_H
#define HOLDFAST_CONFIG_TABLE_H

#include "holdfast/option_rows.h"

/* Room for the options of all groups. */
#define CONFIG_OPTIONS_MAX 64

struct config_table {
	struct option options[CONFIG_OPTIONS_MAX + 1]; /* ended by one without a flag */
	const struct option_row *rows[CONFIG_OPTIONS_MAX];
	size_t states[CONFIG_OPTIONS_MAX]; /* where the state of its group is in struct config */
	size_t count;
};

void config_table_make(struct config_table *table);
/** Returns the index of an option that must be there, named without its dashes. */
size_t config_table_find(const struct config_table *table, const char *name);

#endif
