/* The option --store, which keeps sessions in a database instead of the data directory. */
#include "config_internal.h"

#include "holdfast/diag.h"
#include "holdfast/store_kind.h"

#include <errno.h>
#include <stdlib.h>

static int refuse_beside(int option, const char *why)
{
	diag(DIAG_ERROR, "%s cannot be used with --store: %s", config_options[option].flag, why);
	return -EINVAL;
}

int config_take_store(struct config *config, const char *values[])
{
	char *why = NULL;
	config->store = values[STORE] && *values[STORE] ? values[STORE] : NULL;
	if (!config->store) {
		return 0;
	}
	const struct store_kind *kind;
	if (store_kind_find(config->store, &kind, &why) < 0 || !kind->check(config->store, &why)) {
		diag(DIAG_ERROR, "--store: %s", why);
		free(why);
		return -EINVAL;
	}
	config->engine = kind->engine;
	if (config->durability != DURABILITY_FSYNC) {
		return refuse_beside(DURABILITY, "the database decides when a commit is on disk");
	}
	if (values[MAX_DISK]) {
		return refuse_beside(MAX_DISK, "the database manages its own disk space");
	}
	return 0;
}
